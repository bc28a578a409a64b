"""Stopping a plan in any phase: nothing stays busy, nothing is lost."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dirge_py.config.schema import LimitsTable
from dirge_py.conversation.conversation import Conversation
from dirge_py.plan.approval import PlanAnswer, Revise
from dirge_py.plan.document import PlanDocument
from dirge_py.plan.runner import PlanBudget, resume_plan, start_plan
from dirge_py.providers.scripted import Gate, Reply
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import PlanPhase
from dirge_py.types.messages import Usage, UserMessage
from dirge_py.types.outcomes import Cancelled, Done, HookTerminated, LimitExceeded
from dirge_py.types.questions import PermissionAnswer
from tests.support.plan_project import PLAN, REQUEST, PlanProject, stored_plan, verdict

Stop = Callable[[], Awaitable[None]]
PLACES = ("attach", "hash", "explore", "plan", "question", "implement", "copy", "review")


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.user.answer = PermissionAnswer(effect="allow")
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))


class Stopped:
    """A plan that is stopped at a given point."""

    def __init__(
        self, project: PlanProject, conversation: Conversation, place: str, how: str
    ) -> None:
        self._plan_project = project
        self._conversation = conversation
        self._how = how
        self._is_over = False
        self._script(place)
        self.task = asyncio.get_running_loop().create_task(project.plan(conversation))
        self._closing: asyncio.Task[None] | None = None

    def _script(self, place: str) -> None:
        project = self._plan_project

        def at(name: str) -> Gate | None:
            return self._stop if name == place else None

        project.model.will_say("Findings.", hold=at("explore"))
        project.model.will_say(PLAN, hold=at("plan"))
        project.model.will_say("Written.", hold=at("implement"))
        project.model.will_say("I am at it.", hold=at("review"))
        if place == "question":
            project.approver = self  # type: ignore[assignment]
        names = {"attach": "attach", "hash": "read_tree", "copy": "fork"}
        if place in names:
            self._stop_in(names[place], only_copies=place == "copy")

    def _stop_in(self, name: str, *, only_copies: bool) -> None:
        environment = self._conversation.environment
        real = getattr(environment if name == "read_tree" else self._conversation, name)

        async def stopping(*given: Any) -> Any:
            if not only_copies or given[0].workspace == "copy":
                await self._stop()
            return await real(*given)

        if name == "read_tree":
            held = replace(environment, read_tree=stopping)
            self._conversation._deps = replace(self._conversation._deps, environment=held)
        else:
            setattr(self._conversation, name, stopping)

    async def decide(self, _plan: PlanDocument, _grants: object) -> PlanAnswer:
        await self._stop()
        await asyncio.Event().wait()
        raise AssertionError

    async def _stop(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._conversation.steer("typed meanwhile")
        assert self._conversation.exclusive_owner is not None
        if self._how == "interrupt":
            self._conversation.exclusive_owner.interrupt()
        elif self._how == "cancel":
            self.task.cancel()
        else:
            self._closing = asyncio.get_running_loop().create_task(self._conversation.close())

    async def wait_for_outcome(self) -> object:
        try:
            return (await self.task).outcome
        except asyncio.CancelledError:
            return None
        finally:
            if self._closing is not None:
                await self._closing
            if self._conversation.run is not None:
                await self._conversation.run


@pytest.mark.parametrize(
    ("how", "place"),
    [
        *(("interrupt", place) for place in PLACES),
        *(("cancel", place) for place in ("explore", "question", "implement", "copy", "review")),
        *(("close", place) for place in ("plan", "question", "implement", "review")),
    ],
)
async def test_stopped_plan_leaves_nothing_running_in_any_phase(
    project: PlanProject, tmp_path: Path, how: str, place: str
) -> None:
    async with project.open() as conversation:
        outcome = await Stopped(project, conversation, place, how).wait_for_outcome()

        assert (
            outcome
            == {
                "interrupt": Cancelled(reason="user"),
                "cancel": None,
                "close": Cancelled(reason="closed"),
            }[how]
        )
        assert (conversation.exclusive_owner, conversation.run) == (None, None)
        assert stored_plan(conversation).status == ("waiting" if place == "question" else "stopped")
        assert list((tmp_path / "copies").iterdir()) == []
        events = [e.state for e in project.events if isinstance(e, PlanPhase)]
        assert events == ["started", "ended"] * (len(events) // 2)
        delivered = "typed meanwhile" in [
            m.text for m in conversation.messages if isinstance(m, UserMessage)
        ]
        assert delivered != bool(conversation.queued())


async def test_other_plans_and_moves_are_refused_while_plan_is_running(
    project: PlanProject,
) -> None:
    refused: list[str] = []

    async def intrude() -> None:
        for other in (
            start_plan("Another.", conversation, project.approver),
            resume_plan(conversation, project.approver),
            conversation.compact(),
        ):
            with pytest.raises(DirgeError) as caught:
                await other
            refused.append(caught.value.message)
        with pytest.raises(DirgeError):
            await conversation.timeline.undo()

    async with project.open() as conversation:
        project.model.will_say("Hello.", hold=lambda: _refused(conversation, project))
        await conversation.send("Hello?")
        project.model.will_say("Findings.", hold=intrude).will_say("")
        await project.plan(conversation)

        assert stored_plan(conversation).request == REQUEST
    assert refused == ["the plan's exploration is running."] * 3


async def _refused(conversation: Conversation, project: PlanProject) -> None:
    with pytest.raises(DirgeError, match="a run is active"):
        await project.plan(conversation)
    assert conversation.exclusive_owner is None


async def test_revision_comment_is_kept_when_planning_is_interrupted(project: PlanProject) -> None:
    async with project.open() as conversation:

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.will_look()
        project.model.will_say("Planning…", hold=interrupt)
        project.approver.answers = [Revise("shorter, please")]
        await project.plan(conversation)

    project.model.will_say(PLAN)
    project.will_write("yes")
    project.will_review(verdict())
    async with project.open("newest") as conversation:
        assert (await resume_plan(conversation, project.approver)).outcome == Done()

    again = " ".join(project.prompts_of_call(3))
    assert "shorter, please" in again
    assert "Answer yes" in again, "the earlier plan"


HOLDS_BACK = """\
from pathlib import Path

def register(dirge):
    @dirge.on('before_prompt')
    async def check(message):
        if 'Implement all of it now' in message.text and not Path('open').exists():
            return dirge.refuse('Not before lunch.')
"""


async def test_implement_prompt_refused_by_hook_leaves_plan_not_begun(project: PlanProject) -> None:
    project.plugin(HOLDS_BACK)
    project.will_look()

    async with project.open() as conversation:
        result = await project.plan(conversation)

        assert isinstance(result.outcome, HookTerminated)
        assert "Not before lunch." in result.outcome.reason
        assert (list(conversation.messages), stored_plan(conversation).cycle.has_begun) == (
            [],
            False,
        )

        (project.folder / "open").touch()
        project.will_write("yes")
        project.will_review(verdict())
        assert (await resume_plan(conversation, project.approver)).outcome == Done()
        assert REQUEST in str(conversation.messages[0])


async def test_plan_limits_apply_to_all_runs_together_and_within_forks(
    project: PlanProject,
) -> None:
    project.configure("[limits]\ntokens = 100\n")
    half = Usage(input=50, output=10)
    project.model.will_say("Findings.", usage=half)
    project.model.will(Reply(calls=[("read", {"path": "check.sh"})], usage=half))

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert result.outcome == LimitExceeded(name="tokens", used=120, max=100)
    assert project.model.is_spent


async def test_time_limit_of_plan_is_paused_while_user_decides() -> None:
    ended = asyncio.Event()
    allowance = PlanBudget(LimitsTable(time_s=0.01), stop=ended.set)

    allowance.begin()
    with allowance.paused():
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, later.set)
        await later.wait()
        assert (ended.is_set(), allowance.exceeded()) == (False, None)
    await asyncio.wait_for(ended.wait(), 10)

    assert allowance.exceeded() == LimitExceeded(name="time", used=0.01, max=0.01)
