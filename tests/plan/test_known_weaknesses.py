"""The known weaknesses of the reference plan mode (P1 to P9)."""

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
from tests.support.plan_project import CHECK, PLAN, REQUEST, PlanProject, stored_plan, verdict

NO_CYCLES = "[plan]\nmax_review_cycles = 0\n"


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="allow")


def denials(project: PlanProject) -> list[PermissionAnswered]:
    events = [event.event for event in project.events if isinstance(event, ForkEvent)]
    return [e for e in events if isinstance(e, PermissionAnswered) and e.effect == "deny"]


async def test_p1_each_phase_uses_its_own_model_and_tools(project: PlanProject) -> None:
    other = '[providers.other]\ntype = "openai"\nmodel = "o1"\nbase_url = "http://127.0.0.1:9/v1"\n'
    project.configure(f'{other}[roles]\nexplore = "fake/gpt-4.1"\nreview = "other/o1:high"\n')
    project.will_look()
    project.will_write("yes")
    project.will_review(verdict())

    async with project.open() as conversation:
        await project.plan(conversation)

    mine = {tool.name for tool in project.model.seen[2].tools}
    asked = [
        (options.model, options.thinking_level, {tool.name for tool in context.tools})
        for options, context in zip(project.model.options, project.model.seen, strict=True)
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


async def test_p3_fork_that_gave_its_report_is_not_nudged(project: PlanProject) -> None:
    project.configure("[loop.gates]\nresume = 3\ntodo = 3\n")
    project.model.will_call("read", path="missing.txt").will_say("Findings, all the same.")
    project.model.will_say("   ")

    async with project.open() as conversation:
        await project.plan(conversation)

        assert stored_plan(conversation).findings == "Findings, all the same."
    assert project.model.is_spent


async def test_p4_partial_answer_of_context_overflow_is_no_finding(project: PlanProject) -> None:
    error = ProviderError("too long", kind="context_length")
    for _ in range(5):
        project.model.will(Reply(text="Half of it: the", error=error))

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert (stored_plan(conversation).findings, list(conversation.messages)) == ("", [])
    assert isinstance(result.outcome, Failed)
    assert [phase for phase, _, _ in project.phases] == ["explore", "explore"]


async def test_p6_reviewer_that_writes_files_does_not_change_project(project: PlanProject) -> None:
    project.will_look()
    project.will_write("no")
    project.model.will_call_all(
        ("bash", {"command": "echo yes > answer.txt"}),
        ("bash", {"command": f"echo yes > {project.folder}/answer.txt"}),
        ("bash", {"command": f"cd {project.folder} && rm -f check.sh"}),
    )
    project.will_review(verdict())
    project.model.will_say(verdict("NEEDS_FIX", missing="it says no", status="not_verified"))
    project.configure(f"{NO_CYCLES}[session]\nsnapshots = true\n", sandbox="preferred")

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert (project.folder / "answer.txt").read_text() == "no\n"
    assert (project.folder / "check.sh").exists()
    assert isinstance(result.outcome, NotVerified)


async def test_p7_reviewer_with_empty_answer_is_asked_again(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.will_review("")
    project.model.will_say(verdict())

    async with project.open() as conversation:
        assert (await project.plan(conversation)).outcome == Done()


async def test_p8_reviewer_that_may_run_nothing_ends_plan_with_reason(
    project: PlanProject,
) -> None:
    project.configure('[[permission.rule]]\nop = "execute"\nmatch = "sh *"\neffect = "deny"\n')
    project.will_look()
    project.model.will_call("write", path="answer.txt", content="yes\n").will_say("Written.")
    project.will_review(verdict("NEEDS_FIX", missing="cannot run it", status="cannot_verify"))

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert isinstance(result.outcome, NotVerified)
    assert project.model.is_spent, "no further cycle would have shown more"
    told, _, cannot = result.report.partition("Cannot be verified here")
    assert CHECK in cannot
    assert told


async def test_p9_plugin_hooks_apply_in_forks(project: PlanProject) -> None:
    project.plugin(
        "def register(dirge):\n"
        "    @dirge.on('before_tool_call')\n"
        "    async def closed(info, call):\n"
        "        if call.name == 'read':\n"
        "            return dirge.refuse('Nothing is read here.')\n"
    )
    project.model.will_call("read", path="check.sh").will_say("I could not read it.")
    project.model.will_say("  ")

    async with project.open() as conversation:
        await project.plan(conversation)

    ended = [e.event for e in project.events if isinstance(e, ForkEvent)]
    [result] = [e for e in ended if isinstance(e, ToolExecutionEnd)]
    assert "Nothing is read here." in str(result.result.content)


WRITES = (
    "echo hacked > check.sh",
    "cat <<'END' > check.sh\nhacked\nEND",
    "python3 -c \"open('check.sh', 'w')\"",
    "sed -i s/yes/no/ check.sh",
    "git init . && git commit --allow-empty -m x",
)


async def test_explorer_commands_that_write_are_denied(
    project: PlanProject,
) -> None:
    before = (project.folder / "check.sh").read_bytes()
    calls = [("bash", {"command": command}) for command in WRITES]
    project.model.will_call_all(
        *calls, ("write", {"path": "x", "content": "x"}), ("bash", {"command": "cat check.sh"})
    )
    project.model.will_say("Findings.").will_say("  ")

    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        conversation.settings.add_grant("execute:python3 *")
        await project.plan(conversation)

    assert (project.folder / "check.sh").read_bytes() == before
    assert sorted(p.name for p in project.folder.iterdir()) == ["check.sh"]
    assert len(denials(project)) == len(WRITES)
    assert project.user.asked == []


@pytest.mark.parametrize(
    "words",
    [
        "DONE. Everything is DONE.",
        verdict("NEEDS_FIX", missing="x", status="not_verified") + "\n\n" + verdict(),
        verdict(missing=["one more thing"]),
    ],
    ids=["no verdict", "two verdicts", "missing work"],
)
async def test_verdict_that_is_no_plain_done_is_not_verified(
    project: PlanProject, words: str
) -> None:
    project.configure(NO_CYCLES)
    project.will_look()
    project.will_write("yes")
    project.will_review(words)
    project.model.will_say(words)

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert isinstance(result.outcome, NotVerified)


async def test_fork_that_repeats_itself_ends_plan(project: PlanProject) -> None:
    for _ in range(8):
        project.model.will_call("read", path="check.sh")

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert isinstance(result.outcome, Failed)
    assert "repeated itself" in result.outcome.message


async def test_fork_at_turn_limit_is_asked_for_its_report(
    project: PlanProject,
) -> None:
    project.configure("[plan]\nmax_turns = 2\n")
    project.model.will_call("read", path="check.sh").will_call("list_dir", path=".")
    project.model.will_say("What I have: check.sh.").will_say("  ")

    async with project.open() as conversation:
        await project.plan(conversation)

        assert stored_plan(conversation).findings == "What I have: check.sh."
    assert project.model.seen[2].tools == ()


async def test_implementation_that_reached_turn_limit_is_not_reviewed(
    project: PlanProject,
) -> None:
    project.configure("[loop]\nmax_turns = 1\n")
    project.will_look()
    project.model.will_call("bash", command="echo yes > answer.txt")

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert (result.outcome, conversation.exclusive_owner) == (MaxTurns(max=1), None)
        assert project.phases[-1] == ("implement", 1, "ended")
        assert stored_plan(conversation).is_resumable
        project.model.will_say("Written.")
        project.will_review(verdict())
        project.configure()
        assert (await resume_plan(conversation, project.approver)).outcome == Done()


async def test_plan_stops_at_token_limit(project: PlanProject) -> None:
    project.configure("[limits]\ntokens = 100\n")
    project.model.will_say("Findings.", usage=Usage(input=90, output=20))

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert result.outcome == LimitExceeded(name="tokens", used=110, max=100)


async def test_resuming_after_kill_continues_with_interrupted_phase(project: PlanProject) -> None:
    async with project.open() as conversation:
        conversation.session.metadata.begin("Answer")
        conversation.session.metadata.put(
            "plan", PlanState(request=REQUEST, findings="What was found.").stored()
        )

    project.model.will_say(PLAN)
    project.will_write("yes")
    project.will_review(verdict())
    async with project.open("newest") as conversation:
        assert any("cut off in its explore phase" in notice for notice in conversation.notices)
        assert (await resume_plan(conversation, project.approver)).outcome == Done()

    assert "What was found." in " ".join(project.prompts_of_call(0)), "it was not explored again"


async def test_review_without_evidence_or_second_verdict_is_not_verified(
    project: PlanProject,
) -> None:
    project.configure(NO_CYCLES)
    project.will_look()
    project.will_write("yes")
    project.model.will_say(verdict())  # nothing was run, and the script ends here

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert isinstance(result.outcome, NotVerified)
