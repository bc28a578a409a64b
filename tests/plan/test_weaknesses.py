"""The weaknesses that the original has (P1 to P9), and what models do to a plan."""

import pytest

from dirge_py.plan.phases import EXPLORE_TOOLS, REVIEW_TOOLS
from dirge_py.plan.runner import resume_plan
from dirge_py.plan.state import PlanState
from dirge_py.providers.scripted import Reply
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import ForkEvent, PermissionAnswered, ToolExecutionEnd
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import Done, Failed, LimitExceeded, MaxTurns, NotVerified
from dirge_py.types.questions import PermissionAnswer
from tests.plan.workroom import CHECK, PLAN, REQUEST, Workroom, kept, verdict

NO_CYCLES = "[plan]\nmax_review_cycles = 0\n"


@pytest.fixture(autouse=True)
def _allowed(room: Workroom) -> None:
    room.person.answer = PermissionAnswer(effect="allow")


def denials(room: Workroom) -> list[PermissionAnswered]:
    told = [event.event for event in room.events if isinstance(event, ForkEvent)]
    return [e for e in told if isinstance(e, PermissionAnswered) and e.effect == "deny"]


async def test_p1_each_phase_has_its_own_model_with_its_own_tools(room: Workroom) -> None:
    other = '[providers.other]\ntype = "openai"\nmodel = "o1"\nbase_url = "http://127.0.0.1:9/v1"\n'
    room.configure(f'{other}[roles]\nexplore = "fake/gpt-4.1"\nreview = "other/o1:high"\n')
    room.will_look()
    room.will_write("yes")
    room.will_review(verdict())

    async with room.open() as talk:
        await room.plan(talk)

    mine = {tool.name for tool in room.model.seen[2].tools}
    asked = [
        (options.model, options.thinking_level, {tool.name for tool in context.tools})
        for options, context in zip(room.model.options, room.model.seen, strict=True)
    ]
    explorer, reviewer = mine & set(EXPLORE_TOOLS), mine & set(REVIEW_TOOLS)
    assert {"read", "grep", "bash"} <= explorer
    assert asked == [
        ("fake/gpt-4.1", "off", explorer),
        ("fake/gpt-4o", "off", explorer),
        ("fake/gpt-4o", "off", mine),
        ("fake/gpt-4o", "off", mine),
        ("other/o1", "high", reviewer),
        ("other/o1", "high", reviewer),
    ]


async def test_p3_nobody_nudges_a_fork_that_has_given_its_report(room: Workroom) -> None:
    room.configure("[loop.gates]\nresume = 3\ntodo = 3\n")
    room.model.will_call("read", path="missing.txt").will_say("Findings, all the same.")
    room.model.will_say("   ")

    async with room.open() as talk:
        await room.plan(talk)

        assert kept(talk).findings == "Findings, all the same."
    assert room.model.is_spent


async def test_p4_what_overflows_is_no_finding(room: Workroom) -> None:
    error = ProviderError("too long", kind="context_length")
    for _ in range(5):
        room.model.will(Reply(text="Half of it: the", error=error))

    async with room.open() as talk:
        result = await room.plan(talk)

        assert (kept(talk).findings, list(talk.messages)) == ("", [])
    assert isinstance(result.outcome, Failed)
    assert [phase for phase, _, _ in room.phases] == ["explore", "explore"]


async def test_p6_a_reviewer_that_writes_changes_nothing_here(room: Workroom) -> None:
    room.will_look()
    room.will_write("no")
    room.model.will_call_all(
        ("bash", {"command": "echo yes > answer.txt"}),
        ("bash", {"command": f"echo yes > {room.project}/answer.txt"}),
        ("bash", {"command": f"cd {room.project} && rm -f check.sh"}),
    )
    room.will_review(verdict())
    room.model.will_say(verdict("NEEDS_FIX", missing="it says no", status="not_verified"))
    room.configure(f"{NO_CYCLES}[session]\nsnapshots = true\n", sandbox="preferred")

    async with room.open() as talk:
        result = await room.plan(talk)

    assert (room.project / "answer.txt").read_text() == "no\n"
    assert (room.project / "check.sh").exists()
    assert isinstance(result.outcome, NotVerified)


async def test_p7_a_reviewer_that_says_nothing_is_asked_again(room: Workroom) -> None:
    room.will_look()
    room.will_write("yes")
    room.will_review("")
    room.model.will_say(verdict())

    async with room.open() as talk:
        assert (await room.plan(talk)).outcome == Done()


async def test_p8_a_reviewer_that_may_run_nothing_ends_the_plan_and_says_why(
    room: Workroom,
) -> None:
    room.configure('[[permission.rule]]\nop = "execute"\nmatch = "sh *"\neffect = "deny"\n')
    room.will_look()
    room.model.will_call("write", path="answer.txt", content="yes\n").will_say("Written.")
    room.will_review(verdict("NEEDS_FIX", missing="cannot run it", status="cannot_verify"))

    async with room.open() as talk:
        result = await room.plan(talk)

    assert isinstance(result.outcome, NotVerified)
    assert room.model.is_spent, "no further cycle would have shown more"
    told, _, cannot = result.report.partition("Cannot be verified here")
    assert CHECK in cannot
    assert told


async def test_p9_a_plugin_has_its_say_in_forks(room: Workroom) -> None:
    room.plugin(
        "def register(dirge):\n"
        "    @dirge.on('before_tool_call')\n"
        "    async def closed(info, call):\n"
        "        if call.name == 'read':\n"
        "            return dirge.refuse('Nothing is read here.')\n"
    )
    room.model.will_call("read", path="check.sh").will_say("I could not read it.")
    room.model.will_say("  ")

    async with room.open() as talk:
        await room.plan(talk)

    ended = [e.event for e in room.events if isinstance(e, ForkEvent)]
    [result] = [e for e in ended if isinstance(e, ToolExecutionEnd)]
    assert "Nothing is read here." in str(result.result.content)


WRITES = (
    "echo hacked > check.sh",
    "cat <<'END' > check.sh\nhacked\nEND",
    "python3 -c \"open('check.sh', 'w')\"",
    "sed -i s/yes/no/ check.sh",
    "git init . && git commit --allow-empty -m x",
)


async def test_an_explorer_that_writes_through_commands_writes_nothing(room: Workroom) -> None:
    before = (room.project / "check.sh").read_bytes()
    calls = [("bash", {"command": command}) for command in WRITES]
    room.model.will_call_all(
        *calls, ("write", {"path": "x", "content": "x"}), ("bash", {"command": "cat check.sh"})
    )
    room.model.will_say("Findings.").will_say("  ")

    async with room.open() as talk:
        talk.settings.set_mode("yolo")
        talk.settings.add_grant("execute:python3 *")
        await room.plan(talk)

    assert (room.project / "check.sh").read_bytes() == before
    assert sorted(p.name for p in room.project.iterdir()) == ["check.sh"]
    assert len(denials(room)) == len(WRITES)
    assert room.person.asked == []


@pytest.mark.parametrize(
    "words",
    [
        "DONE. Everything is DONE.",
        verdict("NEEDS_FIX", missing="x", status="not_verified") + "\n\n" + verdict(),
        verdict(missing=["one more thing"]),
    ],
    ids=["prose", "two", "missing"],
)
async def test_what_is_no_plain_done_is_not_done(room: Workroom, words: str) -> None:
    room.configure(NO_CYCLES)
    room.will_look()
    room.will_write("yes")
    room.will_review(words)
    room.model.will_say(words)

    async with room.open() as talk:
        result = await room.plan(talk)

    assert isinstance(result.outcome, NotVerified)


async def test_a_fork_that_goes_in_circles_ends_the_plan(room: Workroom) -> None:
    for _ in range(8):
        room.model.will_call("read", path="check.sh")

    async with room.open() as talk:
        result = await room.plan(talk)

    assert isinstance(result.outcome, Failed)
    assert "circles" in result.outcome.message


async def test_a_fork_that_has_used_up_its_turns_is_asked_for_its_report(room: Workroom) -> None:
    room.configure("[plan]\nmax_turns = 2\n")
    room.model.will_call("read", path="check.sh").will_call("list_dir", path=".")
    room.model.will_say("What I have: check.sh.").will_say("  ")

    async with room.open() as talk:
        await room.plan(talk)

        assert kept(talk).findings == "What I have: check.sh."
    assert room.model.seen[2].tools == ()


async def test_an_implementation_that_ended_at_a_limit_is_not_reviewed(room: Workroom) -> None:
    room.configure("[loop]\nmax_turns = 1\n")
    room.will_look()
    room.model.will_call("bash", command="echo yes > answer.txt")

    async with room.open() as talk:
        result = await room.plan(talk)

        assert (result.outcome, talk.exclusive_owner) == (MaxTurns(max=1), None)
        assert room.phases[-1] == ("implement", 1, "ended")
        assert kept(talk).is_resumable
        room.model.will_say("Written.")
        room.will_review(verdict())
        room.configure()
        assert (await resume_plan(talk, room.desk)).outcome == Done()


async def test_a_plan_that_has_cost_enough_goes_no_further(room: Workroom) -> None:
    room.configure("[limits]\ntokens = 100\n")
    room.model.will_say("Findings.", usage=Usage(input=90, output=20))

    async with room.open() as talk:
        result = await room.plan(talk)

    assert result.outcome == LimitExceeded(name="tokens", used=110, max=100)


async def test_resuming_after_a_kill_goes_on_where_it_was(room: Workroom) -> None:
    async with room.open() as talk:
        talk.session.metadata.begin("Answer")
        talk.session.metadata.put(
            "plan", PlanState(request=REQUEST, findings="What was found.").stored()
        )

    room.model.will_say(PLAN)
    room.will_write("yes")
    room.will_review(verdict())
    async with room.open("newest") as talk:
        assert any("cut off in its explore phase" in notice for notice in talk.notices)
        assert (await resume_plan(talk, room.desk)).outcome == Done()

    assert "What was found." in " ".join(room.heard(0)), "it was not explored again"


async def test_a_reviewer_that_cannot_be_asked_again_has_not_approved(room: Workroom) -> None:
    room.configure(NO_CYCLES)
    room.will_look()
    room.will_write("yes")
    room.model.will_say(verdict())  # nothing was run, and the script ends here

    async with room.open() as talk:
        result = await room.plan(talk)

    assert isinstance(result.outcome, NotVerified)
