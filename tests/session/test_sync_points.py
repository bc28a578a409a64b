"""When records are on disk: before anything depends on them, with one wait for calls that read."""

import os
from pathlib import Path
from typing import Any

import pytest

from dirge_py.session.journal import Journal
from dirge_py.session.recorder import Recorder
from dirge_py.types.events import MessageEnd, PermissionAsked
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from dirge_py.types.tools import Claim, LoopToolResult, ToolCall, text_result


class Tool:
    """A tool whose calls read or edit a file."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def claims(self, arguments: Any) -> list[Claim]:
        return [Claim(op=self._operation, resource="a.txt")]  # type: ignore[arg-type]


class Session:
    """A recorder, and how many of its bytes each sync found in the file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "s.jsonl"
        self.recorder = Recorder(Journal(self.path))
        self.syncs = 0
        self.synced = 0
        real = os.fsync

        def fsync(fd: int) -> None:
            real(fd)
            if os.path.samestat(os.fstat(fd), self.path.stat()):
                self.syncs += 1
                self.synced = self.path.stat().st_size

        monkeypatch.setattr(os, "fsync", fsync)

    @property
    def is_on_disk(self) -> bool:
        return self.synced == self.path.stat().st_size

    def add(self, message: Message) -> None:
        self.recorder.sink(MessageEnd(message))

    async def run(self, call_id: str, operation: str) -> bool:
        """Run a call; returns whether everything was on disk when it started."""
        found: list[bool] = []

        async def proceed() -> LoopToolResult:
            found.append(self.is_on_disk)
            return text_result("ok")

        call = ToolCall(id=call_id, name="work", arguments={}, tool=Tool(operation), written={})  # type: ignore[arg-type]
        await self.recorder.interceptor(call, proceed)
        return found[0]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    session = Session(tmp_path, monkeypatch)
    session.add(user_text("go"))
    return session


def answer(*call_ids: str) -> AssistantMessage:
    calls = (ToolCallBlock(id=each, name="work", arguments={}) for each in call_ids)
    return AssistantMessage(content=(TextBlock("I work."), *calls))


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="work", content=(TextBlock("ok"),))


def test_persons_message_and_answer_without_calls_are_on_disk_at_once(session: Session) -> None:
    assert session.is_on_disk
    session.add(AssistantMessage(content=(TextBlock("Done."),)))

    assert session.is_on_disk


async def test_turn_that_only_reads_waits_once_for_the_disk(session: Session) -> None:
    before = session.syncs
    session.add(answer("a", "b"))
    for call_id in ("a", "b"):
        await session.run(call_id, "read")
    session.add(result("a"))
    session.add(result("b"))

    assert session.syncs == before + 1
    assert session.is_on_disk


def test_answer_is_on_disk_while_the_person_is_asked(session: Session) -> None:
    session.add(answer("a"))
    asked = PermissionAsked(tool_call_id="a", tool_name="work", claims=(), reason="")
    session.recorder.sink(asked)

    assert session.is_on_disk


async def test_answer_and_start_are_on_disk_before_a_call_changes_anything(
    session: Session,
) -> None:
    session.add(answer("a"))

    assert await session.run("a", "edit")


async def test_result_of_a_change_is_on_disk_before_the_next_call(session: Session) -> None:
    session.add(answer("a", "b"))
    await session.run("a", "edit")
    session.add(result("a"))

    assert session.is_on_disk
