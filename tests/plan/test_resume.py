"""Resuming a plan from every stored state."""

import shutil
from pathlib import Path

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.plan.runner import resume_plan
from dirge_py.plan.state import load_state
from dirge_py.providers.scripted import Reply, Script
from dirge_py.testing import assert_balanced
from dirge_py.types.events import LoopEvent, MessageEnd
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import PermissionAnswer
from tests.support.plan_project import CHECK, PLAN, PlanProject, stored_plan, verdict
from tests.support.project import user_texts


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="allow")


_OF_ONE_CYCLE = 16


class Worker:
    """A model that does the work of each phase; its first implementation is wrong."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self.stream_fn = Script([self._reply] * 500).stream

    def _reply(self, context: LlmContext) -> Reply:
        prompt = user_texts(context)[-1]
        if "exploration phase" in prompt:
            return Reply(text="check.sh:1 wants `yes`")
        if "planning phase" in prompt:
            return Reply(text=PLAN)
        has_run = not isinstance(context.messages[-1], UserMessage)
        if "You review work" in prompt:
            return Reply(text=self._verdict()) if has_run else Reply(calls=[_bash(CHECK)])
        if has_run:
            return Reply(text="Written.")
        is_again = "reviewed by somebody" in prompt
        return Reply(calls=[_bash(f"echo {'yes' if is_again else 'no'} > answer.txt")])

    def _verdict(self) -> str:
        if (self._project / "answer.txt").read_text() == "yes\n":
            return verdict()
        return verdict("NEEDS_FIX", missing="it says no", status="not_verified")


def _bash(command: str) -> tuple[str, dict[str, str]]:
    return "bash", {"command": command}


class Kills:
    """Copies of the state at these moments, as a kill would leave it."""

    def __init__(self, project: PlanProject, folder: Path) -> None:
        self._plan_project = project
        self._folder = folder
        self.names: list[str] = []

    def watch(self, conversation: Conversation) -> None:
        put = conversation.session.metadata.put

        def put_and_keep(name: str, value: object) -> None:
            put(name, value)
            state = load_state(value)
            assert state is not None
            self._keep(f"{state.phase} {state.cycle.step} {state.status}")

        conversation.session.metadata.put = put_and_keep  # type: ignore[method-assign]
        conversation.subscribe(self._on_event)

    def _on_event(self, event: LoopEvent) -> None:
        # The second cycle is like the first one.
        if isinstance(event, MessageEnd) and len(self.names) < _OF_ONE_CYCLE:
            self._keep(type(event.message).__name__)

    def _keep(self, name: str) -> None:
        place = self._folder / str(len(self.names))
        for source in (self._plan_project.state_dir, self._plan_project.folder):
            shutil.copytree(source, place / source.name)
        self.names.append(name)

    def back_to(self, number: int) -> None:
        for target in (self._plan_project.state_dir, self._plan_project.folder):
            shutil.rmtree(target)
            shutil.copytree(self._folder / str(number) / target.name, target)


async def test_plan_killed_at_any_point_can_be_resumed_to_same_result(
    project: PlanProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.model = Worker(project.folder)  # type: ignore[assignment]
    kills = Kills(project, tmp_path / "kills")
    async with project.open() as conversation:
        kills.watch(conversation)
        assert (await project.plan(conversation)).outcome == Done()
    assert len(kills.names) > 20

    for number, name in enumerate(kills.names[: _OF_ONE_CYCLE + 3]):
        kills.back_to(number)
        monkeypatch.chdir(project.folder)
        async with project.open("newest") as conversation:
            result = await resume_plan(conversation, project.approver)
            requests = [
                m
                for m in conversation.messages
                if isinstance(m, UserMessage) and m.origin == "user"
            ]
            assert_balanced(conversation.messages)
            where = f"{number}: {name}"
            if conversation.messages and "cut off" in str(result.outcome):
                assert name == "AssistantMessage", where  # a call that may have done its work
                continue
            assert (result.outcome, len(requests)) == (Done(), 1), where
            assert stored_plan(conversation).status == "verified", where
            assert (project.folder / "answer.txt").read_text() == "yes\n", where
