"""Whatever the order of prompts, edits, moves and restarts: nothing is lost, and redo undoes."""

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
from tests.conversation.room import Room
from tests.session.rewind.kept import Desk, desk

MOVES = ("undo", "rewind", "talk", "files", "fork", "clone", "switch", "redo")

steps = st.lists(
    st.tuples(st.sampled_from(("prompt", "prompt", "call", *MOVES, "restart")), st.integers(0, 9)),
    min_size=4,
    max_size=14,
)


class Visit:
    """One session, taken through steps; after each of them the same things hold."""

    def __init__(self, room: Room, stack: AsyncExitStack) -> None:
        self.room = room
        self.stack = stack
        self.journal = b""
        self.count = 0

    async def open(self, kind: str) -> None:
        self.talk = await self.stack.enter_async_context(self.room.open(kind))

    async def take(self, step: str, number: int) -> None:
        self.count += 1
        timeline = self.talk.timeline
        if step in ("prompt", "call"):
            if step == "call":
                self.room.model.will_call_all(
                    ("read", {"path": "a.txt"}), ("read", {"path": "nothing"})
                )
            self.room.model.will_say("Yes.")
            await self.talk.send(f"prompt {self.count}")
            assert_balanced(self.room.model.seen[-1].messages)
        elif step == "restart":
            before = list(self.talk.messages)
            await self.talk.close()
            await self.open("newest")
            assert list(self.talk.messages) == before
        elif step != "redo":
            before, move = list(self.talk.messages), self._move(step, number)
            if await self._try(move):
                after = list(self.talk.messages)
                await timeline.redo()
                assert list(self.talk.messages) == before
                await move()
                assert list(self.talk.messages) == after
        else:
            await self._try(timeline.redo)

    def _move(self, step: str, number: int) -> Callable[[], Any]:
        timeline = self.talk.timeline
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
        assert_balanced(self.talk.messages)
        tree = self.talk.timeline.tree()
        assert len(set(tree.names)) == len(tree.nodes)
        found = list(self.room.state_dir.glob("sessions/*/*.jsonl"))
        now = found[0].read_bytes() if found else b""
        assert now.startswith(self.journal), "a record was changed or lost"
        self.journal = now


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_the_journal_only_grows_and_every_state_can_be_sent(story: list[tuple[str, int]]) -> None:
    async def visit(room: Room) -> None:
        async with AsyncExitStack() as stack:
            visit = Visit(room, stack)
            await visit.open("new")
            for step, number in story:
                await visit.take(step, number)
                visit.check()

    in_a_room(visit)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(("agent", "person", *MOVES[:4])), st.integers(0, 9)),
        min_size=4,
        max_size=7,
    )
)
def test_redo_after_a_move_gives_back_messages_and_files(story: list[tuple[str, int]]) -> None:
    async def visit(room: Room) -> None:
        async with desk(room) as d:
            for place, (step, number) in enumerate(story):
                await take(d, step, number, place)

    in_a_room(visit)


async def take(d: Desk, step: str, number: int, place: int) -> None:
    name = "abc"[number % 3]
    if step == "person":
        d.edit(**{name: f"person {place}\n"})
    elif step == "agent":
        command = f"echo agent {place} >> {name}" if number % 4 else f"rm -f {name}"
        await d.prompt(f"prompt {place}", command)
    elif prompts := d.timeline.prompts(None):
        before, files = list(d.talk.messages), d.files
        what: Any = {"talk": "conversation", "files": "files"}.get(step)
        moved = await d.timeline.rewind(prompts[number % len(prompts)].id, what)
        assert not moved.failed
        assert {path: files.get(path) for path in moved.kept} == {
            path: d.files.get(path) for path in moved.kept
        }
        await d.timeline.redo()
        assert (list(d.talk.messages), d.files) == (before, files)
        moves = [r for r in d.timeline._records() if r.type == MOVE_RECORD]
        assert moves[-1].data["why"] == "redo"


def in_a_room(visit: Callable[[Room], Any]) -> None:
    """Run it in a room of its own."""
    left = os.getcwd()
    with tempfile.TemporaryDirectory() as base:
        room = Room(Path(base))
        room.configure("\n[session]\nsnapshots = false\n")
        os.chdir(room.project)
        try:
            (room.project / "a.txt").write_text("one\n")
            asyncio.run(visit(room))
        finally:
            os.chdir(left)
