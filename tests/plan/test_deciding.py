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


async def decided(project: PlanProject, seat: ScriptedFront) -> PlanState:
    """The stored plan after this user deferred the decision."""
    project.will_look()
    project.approver = FrontEndApprover(seat, accepts_alone=False)  # type: ignore[assignment]
    async with project.open() as conversation:
        result = await project.plan(conversation)
        assert isinstance(result.outcome, AwaitingConfirmation)
        return stored_plan(conversation)


async def test_an_edited_plan_is_shown_with_its_own_commands_and_kept_at_once(
    project: PlanProject,
) -> None:
    seat = ScriptedFront("edit", "", edited=PLAN.replace(CHECK, "sh other.sh"))

    state = await decided(project, seat)

    before, after = seat.asked
    assert f"execute:{CHECK}" in before
    assert "as you edited it" in after and "execute:sh other.sh" in after
    assert CHECK not in after
    assert (state.status, "sh other.sh" in state.plan) == ("waiting", True)


@pytest.mark.parametrize("edited", [None, "", " \n"])
async def test_a_plan_that_was_emptied_or_cannot_be_edited_stays_as_it_was(
    project: PlanProject, edited: str | None
) -> None:
    seat = ScriptedFront("edit", "", edited=edited)

    assert (await decided(project, seat)).plan == PLAN.strip()
    assert len(seat.asked) == 2
    assert seat.shown


async def test_an_empty_plan_is_not_carried_out(project: PlanProject) -> None:
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
async def test_a_plan_may_have_any_number_of_steps(project: PlanProject, steps: int) -> None:
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


async def test_what_is_stored_of_a_plan_holds_no_secret_and_what_is_large_fits(
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


async def test_a_report_is_told_to_the_model_once(project: PlanProject) -> None:
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


async def test_an_implementation_that_others_followed_is_told_where_it_stands(
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


async def test_a_plan_that_was_rewound_begins_its_implementation_anew(project: PlanProject) -> None:
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


async def test_another_request_tells_of_the_plan_whose_place_it_takes(project: PlanProject) -> None:
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


async def test_a_plan_that_waits_says_so_once(project: PlanProject) -> None:
    project.will_look()
    project.approver.answers = [DeferPlan()]
    async with project.open() as conversation:
        await project.plan(conversation)
        screen = await run_command("/plan status", conversation)

    assert screen.text.count("waits to be accepted") == 1
    assert "/plan resume continues it" in screen.text


def test_a_plan_is_stored_as_one_flat_object() -> None:
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


def test_a_damaged_state_is_none_that_skips_the_question() -> None:
    cycle = PlanCycle(has_begun=True, is_implemented=True)
    stored = PlanState(request="x", is_accepted=True, cycle=cycle).stored()
    state = load_state(stored)

    assert state is not None
    assert (state.is_accepted, state.cycle) == (False, PlanCycle())
