"""A request on its way through the phases: what is done, in which order, and how it ends."""

from collections.abc import AsyncIterator

import pytest

from dirge_py.extensions.todo.extension import Todo
from dirge_py.plan.approval import Accept, DeferPlan, Reject, Revise
from dirge_py.plan.runner import resume_plan
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ForkEvent
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, Failed, NotVerified
from dirge_py.types.questions import PermissionAnswer
from tests.plan.workroom import CHECK, PLAN, REQUEST, Workroom, kept, verdict

ROUND = [
    (phase, 1, state)
    for phase in ("explore", "plan", "implement", "review")
    for state in ("started", "ended")
]


@pytest.fixture(autouse=True)
def _allowed(room: Workroom) -> None:
    room.person.answer = PermissionAnswer(effect="allow")


async def test_a_request_goes_through_its_four_phases(room: Workroom) -> None:
    room.will_look()
    room.will_write("yes")
    room.will_review(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)

        assert (result.outcome, talk.exclusive_owner) == (Done(), None)
        assert kept(talk).status == "verified"
        todo = talk.extension(Todo)
        assert todo is not None
        assert [item.text for item in todo.list.items] == [
            "Write `yes` into answer.txt.",
            f"Verify: run `{CHECK}`.",
        ]
    assert room.phases == ROUND
    assert "answer.txt says yes" in result.report
    assert [(e.phase, e.command, e.outcome) for e in room.evidence][-1] == (
        "review",
        CHECK,
        "passed",
    )


async def test_what_a_review_finds_missing_goes_back_to_be_done(room: Workroom) -> None:
    room.will_look()
    room.will_write("no")
    room.will_review(verdict("NEEDS_FIX", missing=["answer.txt says no"], status="not_verified"))
    room.will_write("yes")
    room.will_review(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)

        retries = [m.text for m in talk.messages if isinstance(m, UserMessage)]
    assert result.outcome == Done()
    assert [p for p in room.phases if p[2] == "ended"][2:] == [
        ("implement", 1, "ended"),
        ("review", 1, "ended"),
        ("implement", 2, "ended"),
        ("review", 2, "ended"),
    ]
    assert "answer.txt says no" in retries[1]


async def test_case_123_a_plan_that_is_never_approved_has_three_tries(room: Workroom) -> None:
    room.will_look()
    for _ in range(3):
        room.will_write("no")
        room.will_review(verdict("NEEDS_FIX", missing="still no", status="not_verified"))

    async with room.open() as talk:
        result = await room.plan(talk)

        assert kept(talk).status == "not_verified"
    assert isinstance(result.outcome, NotVerified)
    assert [p[:2] for p in room.phases if p[2] == "started"][2:] == [
        (phase, step) for step in (1, 2, 3) for phase in ("implement", "review")
    ]
    assert room.model.is_spent


async def test_a_claim_that_nothing_showed_is_asked_about_and_then_not_believed(
    room: Workroom,
) -> None:
    room.configure("[plan]\nmax_review_cycles = 0\n")
    room.will_look()
    room.will_write("yes")
    room.model.will_say(verdict(cited=["make test"])).will_say(verdict(cited=["make test"]))

    async with room.open() as talk:
        result = await room.plan(talk)

    assert isinstance(result.outcome, NotVerified)
    assert room.model.is_spent


async def test_a_verdict_that_cannot_be_read_is_asked_for_once_more(room: Workroom) -> None:
    room.will_look()
    room.will_write("yes")
    room.will_review("All DONE, trust me.")
    room.model.will_say(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)

    assert result.outcome == Done()
    assert room.model.seen[-1].tools == ()


BARE = (
    '{"verdict": "DONE", "checklist": [{"requirement": "answer.txt says yes", "status": "verified",'
    f' "evidence": ["{CHECK}"], "note": ""}}], "missing": ""}}'
)


async def test_a_service_that_can_is_asked_to_hold_the_verdict_to_its_schema(
    room: Workroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.will_look()
    room.will_write("yes")
    room.will_review("All DONE, trust me.")
    room.model.will_say(BARE)
    asked = []

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        asked.append(options.response_schema)
        return answering(context, options, signal)

    answering = room.model.stream_fn
    monkeypatch.setattr(ScriptedModel, "stream_fn", property(lambda model: stream))

    async with room.open() as talk:
        result = await room.plan(talk)

    assert result.outcome == Done()
    *before, last = asked
    assert set(before) == {None}
    assert last is not None
    assert last.schema["properties"]["verdict"]["enum"] == ["DONE", "NEEDS_FIX"]


async def test_p5_the_reviewer_is_given_the_request_and_nothing_of_the_session(
    room: Workroom,
) -> None:
    room.model.will_say("Hello.")
    room.will_look()
    room.will_write("yes")
    room.will_review(verdict())

    async with room.open() as talk:
        await talk.send("remember the magic word xyzzy")
        await room.plan(talk)

    [asked] = room.heard(-2)
    assert REQUEST in asked
    assert "Answer yes" in asked
    assert "xyzzy" not in asked


async def test_the_planner_hears_the_findings_and_the_explorer_the_session(room: Workroom) -> None:
    room.model.will_say("Hello.")
    room.will_look()
    room.desk.answers = [Reject()]

    async with room.open() as talk:
        await talk.send("remember the magic word xyzzy")
        await room.plan(talk)

    explorer, planner = (" ".join(room.heard(number)) for number in (1, 2))
    assert "xyzzy" in explorer
    assert "check.sh:1 wants" in planner
    assert "xyzzy" not in planner


@pytest.mark.parametrize("blank", ["", "  \n"])
@pytest.mark.parametrize("phase", ["explore", "plan"])
async def test_case_126_nothing_to_go_on_with_ends_the_plan(
    room: Workroom, phase: str, blank: str
) -> None:
    if phase == "plan":
        room.model.will_say("Findings.")
    room.model.will_say(blank)

    async with room.open() as talk:
        result = await room.plan(talk)

        assert (list(talk.messages), talk.exclusive_owner) == ([], None)
    assert isinstance(result.outcome, Failed)
    assert "produced nothing" in result.outcome.message
    assert room.model.is_spent


async def test_case_127_an_interrupted_exploration_is_followed_by_nothing(room: Workroom) -> None:
    async with room.open() as talk:

        async def interrupt() -> None:
            assert talk.exclusive_owner is not None
            talk.exclusive_owner.interrupt()

        room.model.will_say("Findings.", hold=interrupt)
        result = await room.plan(talk)

        assert result.outcome == Cancelled(reason="user")
        assert (list(talk.messages), talk.exclusive_owner) == ([], None)
        room.model.will_say("Ordinary.")
        assert isinstance(await talk.send("an ordinary prompt"), Done)
        assert room.phases == [("explore", 1, "started"), ("explore", 1, "ended")]
        assert kept(talk).status == "stopped"


async def test_p2_an_interrupted_implementation_is_not_reviewed_later(room: Workroom) -> None:
    room.will_look()

    async with room.open() as talk:

        async def interrupt() -> None:
            assert talk.exclusive_owner is not None
            talk.exclusive_owner.interrupt()

        room.model.will_say("Working…", hold=interrupt)
        result = await room.plan(talk)
        assert result.outcome == Cancelled(reason="user")

        room.model.will_say("Ordinary.")
        await talk.send("an ordinary prompt")
        assert [p[0] for p in room.phases if p[2] == "started"] == ["explore", "plan", "implement"]

        room.will_write("yes")
        room.will_review(verdict())
        assert (await resume_plan(talk, room.desk)).outcome == Done()
    assert room.model.is_spent


async def test_while_a_plan_goes_on_nobody_else_starts_a_run(room: Workroom) -> None:
    refused: list[str] = []

    async with room.open() as talk:

        async def intrude() -> None:
            with pytest.raises(DirgeError) as caught:
                talk.send("me first")
            refused.append(caught.value.message)
            talk.steer("and say please")

        room.model.will_say("Findings.", hold=intrude).will_say(PLAN)
        room.will_write("yes")
        room.will_review(verdict())
        await room.plan(talk)

        said = [m.text for m in talk.messages if isinstance(m, UserMessage)]
    assert len(refused) == 1
    assert "and say please" in said, "it enters the next ordinary turn"


async def test_a_plan_can_be_edited_planned_anew_and_then_accepted(room: Workroom) -> None:
    room.will_look()
    room.model.will_say(PLAN.replace("Answer yes", "Second plan"))
    room.will_write("yes")
    room.will_review(verdict())
    edited = PLAN.replace("Answer yes", "Edited plan")
    room.desk.answers = [Revise("shorter, please"), Accept(edited)]

    async with room.open() as talk:
        result = await room.plan(talk)
        prompt = next(m.text for m in talk.messages if isinstance(m, UserMessage))

    assert result.outcome == Done()
    again = " ".join(room.heard(2))
    assert "shorter, please" in again
    assert "Answer yes" in again
    assert [plan.name for plan, _ in room.desk.shown] == ["Answer yes", "Second plan"]
    assert prompt.startswith(REQUEST)
    assert "Edited plan" in prompt


async def test_a_plan_that_nobody_accepts_waits_also_for_the_next_start(room: Workroom) -> None:
    room.will_look()
    room.desk.answers = [DeferPlan()]
    async with room.open() as talk:
        result = await room.plan(talk)
        assert isinstance(result.outcome, AwaitingConfirmation)
        assert (result.plan, list(talk.messages)) == (PLAN.strip(), [])

    room.will_write("yes")
    room.will_review(verdict())
    async with room.open("newest") as talk:
        assert any("/plan" in notice for notice in talk.notices)
        assert (await resume_plan(talk, room.desk, is_accepted=True)).outcome == Done()

    assert room.model.is_spent


async def test_accepting_allows_the_verifications_and_nothing_else(room: Workroom) -> None:
    room.person.answer = PermissionAnswer(effect="deny")
    room.will_look()
    room.model.will_call_all(
        ("write", {"path": "answer.txt", "content": "yes\n"}),
        ("bash", {"command": CHECK}),
        ("bash", {"command": "sh other.sh"}),
    )
    room.model.will_say("Written.")
    room.will_review(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)
        assert [str(grant) for grant in talk.settings.grants] == [f"execute:{CHECK}"]

    assert room.desk.shown[0][1] == (f"execute:{CHECK}",)
    assert [(e.command, e.outcome) for e in room.evidence[:2]] == [
        (CHECK, "passed"),
        ("sh other.sh", "denied"),
    ]
    assert result.outcome == Done()


async def test_a_fork_reports_what_it_says_and_what_it_costs(room: Workroom) -> None:
    room.will_look()
    room.desk.answers = [Reject()]

    async with room.open() as talk:
        await room.plan(talk)

    told = [event for event in room.events if isinstance(event, ForkEvent)]
    assert {(event.phase, event.step) for event in told} == {("explore", 1), ("plan", 1)}
    assert any("check.sh:1 wants" in str(event.event) for event in told)
