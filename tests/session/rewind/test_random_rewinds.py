"""Random prompts, edits, moves and restarts: nothing is lost, and redo reverts each move."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.session.tree import MOVE_RECORD
from dirge_py.testing import assert_balanced
from dirge_py.types.errors import DirgeError
from tests.support.project import ScriptedProject
from tests.support.rewind_driver import RewindDriver, rewindable

MOVES = ("undo", "rewind", "talk", "files", "fork", "clone", "switch", "redo")

steps = st.lists(
    st.tuples(st.sampled_from(("prompt", "prompt", "call", *MOVES, "restart")), st.integers(0, 9)),
    min_size=4,
    max_size=14,
)


class Visit:
    """One session driven through steps, with invariants checked after each."""

    def __init__(self, project: ScriptedProject, stack: AsyncExitStack) -> None:
        self.project = project
        self.stack = stack
        self.journal = b""
        self.count = 0

    async def open(self, kind: str) -> None:
        self.conversation = await self.stack.enter_async_context(self.project.open(kind))

    async def take(self, step: str, number: int) -> None:
        self.count += 1
        timeline = self.conversation.timeline
        if step in ("prompt", "call"):
            if step == "call":
                self.project.model.will_call_all(
                    ("read", {"path": "a.txt"}), ("read", {"path": "nothing"})
                )
            self.project.model.will_say("Yes.")
            await self.conversation.send(f"prompt {self.count}")
            assert_balanced(self.project.model.seen[-1].messages)
        elif step == "restart":
            before = list(self.conversation.messages)
            await self.conversation.close()
            await self.open("newest")
            assert list(self.conversation.messages) == before
        elif step != "redo":
            before, move = list(self.conversation.messages), self._move(step, number)
            if await self._try(move):
                after = list(self.conversation.messages)
                await timeline.redo()
                assert list(self.conversation.messages) == before
                await move()
                assert list(self.conversation.messages) == after
        else:
            await self._try(timeline.redo)

    def _move(self, step: str, number: int) -> Callable[[], Any]:
        timeline = self.conversation.timeline
        prompts, points = timeline.prompts(None), timeline.points(None)
        nodes = timeline.tree().nodes
        prompt = prompts[number % len(prompts)].id if prompts else ""
        what: Any = {"talk": "conversation", "files": "files"}.get(step)
        point = points[number % len(points)].id if points else ""
        node = nodes[number % len(nodes)].id if nodes else ""
        moves: dict[str, Callable[[], Any]] = {
            "undo": timeline.undo,
            "fork": lambda: timeline.fork(prompt),
            "clone": lambda: timeline.clone(point),
            "switch": lambda: timeline.switch(node),
        }
        return moves.get(step, lambda: timeline.rewind(prompt, what))

    async def _try(self, move: Callable[[], Any]) -> bool:
        try:
            await move()
        except DirgeError:
            return False
        return True

    def check(self) -> None:
        assert_balanced(self.conversation.messages)
        tree = self.conversation.timeline.tree()
        assert len(set(tree.names)) == len(tree.nodes)
        found = list(self.project.state_dir.glob("sessions/*/*.jsonl"))
        now = found[0].read_bytes() if found else b""
        assert now.startswith(self.journal), "a record was changed or lost"
        self.journal = now


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_random_moves_never_change_journal_records_and_keep_history_sendable(
    script: list[tuple[str, int]],
) -> None:
    async def visit(project: ScriptedProject) -> None:
        async with AsyncExitStack() as stack:
            visit = Visit(project, stack)
            await visit.open("new")
            for step, number in script:
                await visit.take(step, number)
                visit.check()

    run_in_new_project(visit)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(("agent", "person", *MOVES[:4])), st.integers(0, 9)),
        min_size=4,
        max_size=7,
    )
)
def test_redo_after_random_moves_restores_messages_and_files(script: list[tuple[str, int]]) -> None:
    async def visit(project: ScriptedProject) -> None:
        async with rewindable(project) as driver:
            for place, (step, number) in enumerate(script):
                await take(driver, step, number, place)

    run_in_new_project(visit)


async def take(driver: RewindDriver, step: str, number: int, place: int) -> None:
    name = "abc"[number % 3]
    if step == "person":
        driver.edit(**{name: f"person {place}\n"})
    elif step == "agent":
        command = f"echo agent {place} >> {name}" if number % 4 else f"rm -f {name}"
        await driver.prompt(f"prompt {place}", command)
    elif prompts := driver.timeline.prompts(None):
        before, files = list(driver.conversation.messages), driver.files
        what: Any = {"talk": "conversation", "files": "files"}.get(step)
        moved = await driver.timeline.rewind(prompts[number % len(prompts)].id, what)
        assert not moved.failed
        assert {path: files.get(path) for path in moved.kept} == {
            path: driver.files.get(path) for path in moved.kept
        }
        await driver.timeline.redo()
        assert (list(driver.conversation.messages), driver.files) == (before, files)
        moves = [r for r in driver.timeline._records() if r.type == MOVE_RECORD]
        assert moves[-1].data["why"] == "redo"


def run_in_new_project(visit: Callable[[ScriptedProject], Any]) -> None:
    """Run `visit` in a new project."""
    left = os.getcwd()
    with tempfile.TemporaryDirectory() as base:
        project = ScriptedProject(Path(base))
        project.configure("\n[session]\nsnapshots = false\n")
        os.chdir(project.folder)
        try:
            (project.folder / "a.txt").write_text("one\n")
            asyncio.run(visit(project))
        finally:
            os.chdir(left)
