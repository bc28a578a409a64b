"""Decisions about a plan, odd plans, and what is stored."""

from collections.abc import Sequence

import pytest

from dirge_py.extensions.todo.extension import Todo
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.plan.approval import Accept, DeferPlan, Reject
from dirge_py.plan.runner import resume_plan
from dirge_py.plan.state import PlanCycle, PlanState, describe_progress, load_state
from dirge_py.slash.base import Unsupported
from dirge_py.slash.plan import FrontEndApprover
from dirge_py.types.errors import FileError, UsageError
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, Failed
from dirge_py.types.questions import PermissionAnswer, Question, QuestionAnswer
from tests.support.plan_project import CHECK, PLAN, REQUEST, PlanProject, stored_plan, verdict
from tests.support.typed_commands import COMMANDS, run_command


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="allow")


class ScriptedFront(PrintFront):
    """A user who chooses these options and makes these edits; None cannot edit."""

    def __init__(self, *chosen: str, edited: str | None = None) -> None:
        super().__init__(COMMANDS)
        self._chosen = list(chosen)
        self._edited = edited
        self.asked: list[str] = []

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        self.asked.append(questions[0].question)
        chosen = self._chosen.pop(0)
        return [QuestionAnswer(chosen=(chosen,))] if chosen else None

    async def edit_text(self, text: str) -> str | None:
        if self._edited is None:
            raise Unsupported("editing text")
        return self._edited


async def plan_state_after(project: PlanProject, front: ScriptedFront) -> PlanState:
    """The stored plan after this user deferred the decision."""
    project.will_look()
    project.approver = FrontEndApprover(front, accepts_alone=False)  # type: ignore[assignment]
    async with project.open() as conversation:
        result = await project.plan(conversation)
        assert isinstance(result.outcome, AwaitingConfirmation)
        return stored_plan(conversation)


async def test_edited_plan_is_shown_with_its_commands_and_stored(
    project: PlanProject,
) -> None:
    front = ScriptedFront("edit", "", edited=PLAN.replace(CHECK, "sh other.sh"))

    state = await plan_state_after(project, front)

    before, after = front.asked
    assert f"execute:{CHECK}" in before
    assert "as you edited it" in after and "execute:sh other.sh" in after
    assert CHECK not in after
    assert (state.status, "sh other.sh" in state.plan) == ("waiting", True)


@pytest.mark.parametrize("edited", [None, "", " \n"])
async def test_plan_stays_unchanged_when_edit_is_empty_or_unsupported(
    project: PlanProject, edited: str | None
) -> None:
    front = ScriptedFront("edit", "", edited=edited)

    assert (await plan_state_after(project, front)).plan == PLAN.strip()
    assert len(front.asked) == 2
    assert front.shown


async def test_accepting_empty_plan_fails_and_keeps_stored_plan(project: PlanProject) -> None:
    project.will_look()
    project.approver.answers = [Accept("  ")]

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert isinstance(result.outcome, Failed)
        assert (stored_plan(conversation).status, stored_plan(conversation).plan) == (
            "waiting",
            PLAN.strip(),
        )


@pytest.mark.parametrize("steps", [0, 500])
async def test_plan_with_any_number_of_steps_runs_with_at_most_100_todo_items(
    project: PlanProject, steps: int
) -> None:
    lines = "\n".join(f"{at}. Step {at}" for at in range(1, steps + 1))
    project.will_look(f"## Name\nMany\n\n## Steps\n{lines}\n" if steps else "Just do it.")
    project.will_write("yes")
    project.will_review(verdict())

    async with project.open() as conversation:
        assert (await project.plan(conversation)).outcome == Done()
        todo = conversation.extension(Todo)
        assert todo is not None
        assert len(todo.list.items) == min(steps, 100)
        assert f"Step {steps}" in str(conversation.messages[0]) or not steps


async def test_stored_plan_is_redacted_and_large_request_can_be_resumed(
    project: PlanProject,
) -> None:
    secret = "a1B2c3D4" * 6
    project.configure('[web]\nsearch = "brave"\n')
    project.set_variable("BRAVE_API_KEY", secret)
    (project.folder / "more.txt").write_text("attached words")
    request = f"{secret} \x1b]0;title\x07 {{{{PLAN}}}} @more.txt {'word ' * 40_000}"
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        await project.plan(conversation, request)
    assert "attached words" in project.prompts_of_call(0)[0]

    stored = project.journal.read_text()
    assert secret not in stored
    assert "\x1b" not in stored
    (project.folder / "more.txt").unlink()
    project.will_write("yes")
    project.will_review(verdict())
    async with project.open("newest") as conversation:
        assert (await resume_plan(conversation, project.approver)).outcome == Done()
        prompt = next(m for m in conversation.messages if isinstance(m, UserMessage))
        assert "{{PLAN}}" in prompt.text and "Answer yes" in prompt.text


async def test_plan_report_is_sent_to_model_once(project: PlanProject) -> None:
    project.configure("[plan]\nmax_review_cycles = 0\n")
    project.will_look()
    project.will_write("no")
    project.will_review(verdict("NEEDS_FIX", missing="it says no", status="not_verified"))

    async with project.open() as conversation:
        await project.plan(conversation)

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.model.will_say("On it.", hold=interrupt)
        result = await resume_plan(conversation, project.approver)

        told = [
            m
            for m in conversation.messages
            if isinstance(m, UserMessage) and "The report:" in m.text
        ]
        assert (result.outcome, result.report) == (Cancelled(reason="user"), "")
        assert len(told) == 1


async def test_resumed_implementation_after_other_runs_gets_plan_and_request(
    project: PlanProject,
) -> None:
    project.will_look()
    async with project.open() as conversation:

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.model.will_say("On it.", hold=interrupt)
        await project.plan(conversation)
        assert describe_progress(conversation.session.metadata.get("plan")) == "", (
            "other runs need not know of it"
        )

        async def abort() -> None:
            conversation.abort()

        project.model.will_say("A check.", hold=abort)
        await conversation.send("What is in check.sh?")

        project.will_write("yes")
        project.will_review(verdict())
        assert (await resume_plan(conversation, project.approver)).outcome == Done()
        prompts = [m.text for m in conversation.messages if isinstance(m, UserMessage)]
        told = next(text for text in prompts if "Continue it." in text)
    assert "Answer yes" in told
    assert REQUEST in told


async def test_plan_resumed_after_rewind_restarts_implementation(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.will_review(verdict())
    async with project.open() as conversation:
        await project.plan(conversation)
        await conversation.timeline.rewind(what="conversation")

        assert (list(conversation.messages), stored_plan(conversation).cycle.has_begun) == (
            [],
            False,
        )
        screen = await run_command("/plan status", conversation)
        assert "cut off in its implement phase" in screen.text
        project.will_write("yes")
        project.will_review(verdict())
        assert (await resume_plan(conversation, project.approver)).outcome == Done()
        assert REQUEST in str(conversation.messages[0])


async def test_new_plan_request_shows_that_waiting_plan_is_replaced(project: PlanProject) -> None:
    project.will_look()
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        await project.plan(conversation)
        project.approver.answers = [Reject()]
        screen = ScriptedFront("drop")
        command = COMMANDS.read("/plan Write `no` instead.")
        assert command is not None
        project.configure()
        await COMMANDS.run(command, conversation, screen)

    assert "A plan waits to be accepted; this request replaces it." in screen.shown


async def test_plan_status_mentions_waiting_plan_once(project: PlanProject) -> None:
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        await project.plan(conversation)
        screen = await run_command("/plan status", conversation)

    assert screen.text.count("waits to be accepted") == 1
    assert "/plan resume continues it" in screen.text


def test_plan_state_is_stored_as_one_flat_object() -> None:
    cycle = PlanCycle(step=2, cycles_left=1, has_begun=True, feedback="more")
    state = PlanState(request="x", plan="p", is_accepted=True, cycle=cycle, evidence=[{"id": "a"}])

    assert list(state.stored().items()) == [
        ("request", "x"),
        ("findings", ""),
        ("plan", "p"),
        ("comment", ""),
        ("is_accepted", True),
        ("phase", "explore"),
        ("step", 2),
        ("cycles_left", 1),
        ("has_begun", True),
        ("is_implemented", False),
        ("feedback", "more"),
        ("status", "active"),
        ("why", ""),
        ("report", ""),
        ("base_tree", ""),
        ("evidence", [{"id": "a"}]),
    ]
    assert load_state(state.stored()) == state


def test_damaged_plan_state_is_loaded_as_not_accepted() -> None:
    cycle = PlanCycle(has_begun=True, is_implemented=True)
    stored = PlanState(request="x", is_accepted=True, cycle=cycle).stored()
    state = load_state(stored)

    assert state is not None
    assert (state.is_accepted, state.cycle) == (False, PlanCycle())


async def test_plan_save_writes_markdown_and_never_over_a_file(project: PlanProject) -> None:
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        with pytest.raises(UsageError, match="no plan to save"):
            await run_command("/plan save", conversation)
        await project.plan(conversation)
        await run_command("/plan save", conversation)
        await run_command("/plan save docs-plan.md", conversation)
        with pytest.raises(FileError, match="already exists"):
            await run_command("/plan save docs-plan.md", conversation)

    (named,) = project.folder.glob("plan-*.md")
    text = named.read_text()
    assert text.startswith(f"# {REQUEST}\n\n")
    assert PLAN.strip() in text
    assert (project.folder / "docs-plan.md").read_text() == text
