"""A request through all phases: order, work, outcome."""

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
from tests.support.plan_project import CHECK, PLAN, REQUEST, PlanProject, stored_plan, verdict

ROUND = [
    (phase, 1, state)
    for phase in ("explore", "plan", "implement", "review")
    for state in ("started", "ended")
]


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="allow")


async def test_plan_request_goes_through_four_phases(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.will_review(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert (result.outcome, conversation.exclusive_owner) == (Done(), None)
        assert stored_plan(conversation).status == "verified"
        todo = conversation.extension(Todo)
        assert todo is not None
        assert [item.text for item in todo.list.items] == [
            "Write `yes` into answer.txt.",
            f"Verify: run `{CHECK}`.",
        ]
    assert project.phases == ROUND
    assert "answer.txt says yes" in result.report
    assert [(e.phase, e.command, e.outcome) for e in project.evidence][-1] == (
        "review",
        CHECK,
        "passed",
    )


async def test_missing_work_found_by_review_is_implemented_in_next_cycle(
    project: PlanProject,
) -> None:
    project.will_look()
    project.will_write("no")
    project.will_review(verdict("NEEDS_FIX", missing=["answer.txt says no"], status="not_verified"))
    project.will_write("yes")
    project.will_review(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)

        retries = [m.text for m in conversation.messages if isinstance(m, UserMessage)]
    assert result.outcome == Done()
    assert [p for p in project.phases if p[2] == "ended"][2:] == [
        ("implement", 1, "ended"),
        ("review", 1, "ended"),
        ("implement", 2, "ended"),
        ("review", 2, "ended"),
    ]
    assert "answer.txt says no" in retries[1]


async def test_case_123_plan_that_is_never_approved_has_three_cycles(project: PlanProject) -> None:
    project.will_look()
    for _ in range(3):
        project.will_write("no")
        project.will_review(verdict("NEEDS_FIX", missing="still no", status="not_verified"))

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert stored_plan(conversation).status == "not_verified"
    assert isinstance(result.outcome, NotVerified)
    assert [p[:2] for p in project.phases if p[2] == "started"][2:] == [
        (phase, step) for step in (1, 2, 3) for phase in ("implement", "review")
    ]
    assert project.model.is_spent


async def test_verdict_without_evidence_is_asked_again_and_then_not_verified(
    project: PlanProject,
) -> None:
    project.configure("[plan]\nmax_review_cycles = 0\n")
    project.will_look()
    project.will_write("yes")
    project.model.will_say(verdict(cited=["make test"])).will_say(verdict(cited=["make test"]))

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert isinstance(result.outcome, NotVerified)
    assert project.model.is_spent


async def test_unreadable_verdict_is_asked_for_again(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.will_review("All DONE, trust me.")
    project.model.will_say(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert result.outcome == Done()
    assert project.model.seen[-1].tools == ()


BARE = (
    '{"verdict": "DONE", "checklist": [{"requirement": "answer.txt says yes", "status": "verified",'
    f' "evidence": ["{CHECK}"], "note": ""}}], "missing": ""}}'
)


async def test_repeated_verdict_request_uses_response_schema(
    project: PlanProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.will_look()
    project.will_write("yes")
    project.will_review("All DONE, trust me.")
    project.model.will_say(BARE)
    asked = []

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        asked.append(options.response_schema)
        return answering(context, options, signal)

    answering = project.model.stream_fn
    monkeypatch.setattr(ScriptedModel, "stream_fn", property(lambda model: stream))

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert result.outcome == Done()
    *before, last = asked
    assert set(before) == {None}
    assert last is not None
    assert last.schema["properties"]["verdict"]["enum"] == ["DONE", "NEEDS_FIX"]


async def test_p5_reviewer_gets_request_and_plan_but_no_session_messages(
    project: PlanProject,
) -> None:
    project.model.will_say("Hello.")
    project.will_look()
    project.will_write("yes")
    project.will_review(verdict())

    async with project.open() as conversation:
        await conversation.send("remember the magic word xyzzy")
        await project.plan(conversation)

    [asked] = project.prompts_of_call(-2)
    assert REQUEST in asked
    assert "Answer yes" in asked
    assert "xyzzy" not in asked


async def test_planner_gets_findings_and_explorer_gets_session_messages(
    project: PlanProject,
) -> None:
    project.model.will_say("Hello.")
    project.will_look()
    project.approver.answers = [Reject()]

    async with project.open() as conversation:
        await conversation.send("remember the magic word xyzzy")
        await project.plan(conversation)

    explorer, planner = (" ".join(project.prompts_of_call(number)) for number in (1, 2))
    assert "xyzzy" in explorer
    assert "check.sh:1 wants" in planner
    assert "xyzzy" not in planner


@pytest.mark.parametrize("blank", ["", "  \n"])
@pytest.mark.parametrize("phase", ["explore", "plan"])
async def test_case_126_empty_output_of_explore_or_plan_phase_ends_plan(
    project: PlanProject, phase: str, blank: str
) -> None:
    if phase == "plan":
        project.model.will_say("Findings.")
    project.model.will_say(blank).will_say(blank)

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert (list(conversation.messages), conversation.exclusive_owner) == ([], None)
    assert isinstance(result.outcome, Failed)
    assert "produced nothing" in result.outcome.message
    assert project.model.is_spent


async def test_case_127_interrupted_exploration_stops_plan_without_next_phase(
    project: PlanProject,
) -> None:
    async with project.open() as conversation:

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.model.will_say("Findings.", hold=interrupt)
        result = await project.plan(conversation)

        assert result.outcome == Cancelled(reason="user")
        assert (list(conversation.messages), conversation.exclusive_owner) == ([], None)
        project.model.will_say("Ordinary.")
        assert isinstance(await conversation.send("an ordinary prompt"), Done)
        assert project.phases == [("explore", 1, "started"), ("explore", 1, "ended")]
        assert stored_plan(conversation).status == "stopped"


async def test_p2_interrupted_implementation_is_not_reviewed_by_other_runs(
    project: PlanProject,
) -> None:
    project.will_look()

    async with project.open() as conversation:

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.model.will_say("Working…", hold=interrupt)
        result = await project.plan(conversation)
        assert result.outcome == Cancelled(reason="user")

        project.model.will_say("Ordinary.")
        await conversation.send("an ordinary prompt")
        assert [p[0] for p in project.phases if p[2] == "started"] == [
            "explore",
            "plan",
            "implement",
        ]

        project.will_write("yes")
        project.will_review(verdict())
        assert (await resume_plan(conversation, project.approver)).outcome == Done()
    assert project.model.is_spent


async def test_send_is_refused_while_plan_is_running(project: PlanProject) -> None:
    refused: list[str] = []

    async with project.open() as conversation:

        async def intrude() -> None:
            with pytest.raises(DirgeError) as caught:
                conversation.send("me first")
            refused.append(caught.value.message)
            conversation.steer("and say please")

        project.model.will_say("Findings.", hold=intrude).will_say(PLAN)
        project.will_write("yes")
        project.will_review(verdict())
        await project.plan(conversation)

        prompts = [m.text for m in conversation.messages if isinstance(m, UserMessage)]
    assert len(refused) == 1
    assert "and say please" in prompts, "it enters the next ordinary turn"


async def test_plan_can_be_revised_edited_and_then_accepted(project: PlanProject) -> None:
    project.will_look()
    project.model.will_say(PLAN.replace("Answer yes", "Second plan"))
    project.will_write("yes")
    project.will_review(verdict())
    edited = PLAN.replace("Answer yes", "Edited plan")
    project.approver.answers = [Revise("shorter, please"), Accept(edited)]

    async with project.open() as conversation:
        result = await project.plan(conversation)
        prompt = next(m.text for m in conversation.messages if isinstance(m, UserMessage))

    assert result.outcome == Done()
    again = " ".join(project.prompts_of_call(2))
    assert "shorter, please" in again
    assert "Answer yes" in again
    assert [plan.name for plan, _ in project.approver.shown] == ["Answer yes", "Second plan"]
    assert prompt.startswith(REQUEST)
    assert "Edited plan" in prompt


async def test_plan_not_accepted_waits_until_after_restart(
    project: PlanProject,
) -> None:
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        result = await project.plan(conversation)
        assert isinstance(result.outcome, AwaitingConfirmation)
        assert (result.plan, list(conversation.messages)) == (PLAN.strip(), [])

    project.will_write("yes")
    project.will_review(verdict())
    async with project.open("newest") as conversation:
        assert any("/plan" in notice for notice in conversation.notices)
        assert (
            await resume_plan(conversation, project.approver, is_accepted=True)
        ).outcome == Done()

    assert project.model.is_spent


async def test_accepting_plan_grants_only_its_verify_commands(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="deny")
    project.will_look()
    project.model.will_call_all(
        ("write", {"path": "answer.txt", "content": "yes\n"}),
        ("bash", {"command": CHECK}),
        ("bash", {"command": "sh other.sh"}),
    )
    project.model.will_say("Written.")
    project.will_review(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)
        assert [str(grant) for grant in conversation.settings.grants] == [f"execute:{CHECK}"]

    assert project.approver.shown[0][1] == (f"execute:{CHECK}",)
    assert [(e.command, e.outcome) for e in project.evidence[:2]] == [
        (CHECK, "passed"),
        ("sh other.sh", "denied"),
    ]
    assert result.outcome == Done()


async def test_phase_forks_emit_their_events_with_phase_and_step(project: PlanProject) -> None:
    project.will_look()
    project.approver.answers = [Reject()]

    async with project.open() as conversation:
        await project.plan(conversation)

    events = [event for event in project.events if isinstance(event, ForkEvent)]
    assert {(event.phase, event.step) for event in events} == {("explore", 1), ("plan", 1)}
    assert any("check.sh:1 wants" in str(event.event) for event in events)
