"""Drives line mode in this process: a project's conversation, input lines, output text."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.line.editor import TerminalLines
from dirge_py.frontend.line.repl import LineOptions, Repl
from dirge_py.frontend.line.streams import LineWriter, PlainLines
from dirge_py.frontend.session_opener import OpenMode
from dirge_py.permission.rules import Mode
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.questions import Asker
from tests.support.project import ScriptedProject

LIMIT_S = 10.0


class LineDriver:
    """A REPL under test. `output` is all it wrote."""

    repl: Repl

    def __init__(
        self, project: ScriptedProject, *, mode: Mode = "standard", resumes: str = ""
    ) -> None:
        self.project = project
        self._mode: Mode = mode
        self._resumes = resumes
        self.opened: list[Conversation] = []
        self._pieces: list[str] = []
        self.writer = LineWriter(self._pieces.append)

    def start(self, **more: Any) -> LineOptions:
        first = lambda asker: self._open(asker, self._resumes or None)  # noqa: E731
        return LineOptions(open_first=first, open_other=self._open, **more)

    def _open(self, asker: Asker, session_id: str | None, way: OpenMode = "write") -> Conversation:
        choice = SessionChoice()
        if session_id and way == "view":
            choice = SessionChoice(kind="view", id=session_id)
        elif session_id:
            choice = SessionChoice(kind="resume", id=session_id, fork=way == "fork")
        self.opened.append(self.project.build(asker, choice))
        self.opened[-1].settings.set_mode(self._mode)
        self.opened[-1].unsent.set_folder(self.project.state_dir / "project" / "typed", str)
        return self.opened[-1]

    @property
    def output(self) -> str:
        return "".join(self._pieces)

    @property
    def conversation(self) -> Conversation:
        return self.opened[-1]

    async def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        never = asyncio.get_running_loop().create_future()
        while not holds():
            assert time.monotonic() < end, self.output
            await asyncio.wait([never], timeout=0.002)

    async def tells(self, text: str) -> None:
        await self.until(lambda: text in self.output)


async def play(tty: LineDriver, script: str, **start: Any) -> int:
    """Run a script of lines to its end; returns the exit code."""
    reading, writing = os.pipe()
    os.write(writing, script.encode())
    os.close(writing)
    try:
        tty.repl = Repl(
            tty.start(**start),
            tty.writer,
            lambda repl: PlainLines(tty.writer, label=lambda: "> ", fd=reading),
        )
        try:
            return await tty.repl.run()
        finally:
            await tty.repl.close()
    finally:
        os.close(reading)


class Keyboard:
    """Keys and lines typed into `tty`."""

    def __init__(self, tty: LineDriver, pipe: PipeInput, ended: "asyncio.Task[int]") -> None:
        self.tty = tty
        self.ended = ended
        self._pipe = pipe

    def press(self, keys: str) -> None:
        self._pipe.send_text(keys)

    async def send(self, line: str) -> None:
        self.press(line)
        await self.tty.until(lambda: self.tty.repl.source.draft == line)
        self.press("\r")

    async def answer(self, question: str, line: str) -> None:
        """Answer once the question is shown and accepts answers."""
        await self.tty.until(
            lambda: question in self.tty.output and self.tty.repl.controller.is_asking
        )
        await self.tty.until(lambda: self._lines.is_asking)
        self.press(line + "\r")

    @property
    def _lines(self) -> TerminalLines:
        lines = self.tty.repl.source
        assert isinstance(lines, TerminalLines)
        return lines


@asynccontextmanager
async def keyboard(
    tty: LineDriver, *, guard_s: float = 0.0, **start: Any
) -> AsyncIterator[Keyboard]:
    """A REPL with typed lines; it ends by Ctrl+D at the latest."""
    with ExitStack() as opened:
        pipe = opened.enter_context(create_pipe_input())

        def make(repl: Repl) -> TerminalLines:
            lines = TerminalLines(
                label=lambda: repl.label,
                interrupt=repl.interrupt,
                commands=repl.commands,
                conversation=lambda: repl.controller.conversation,
                input=pipe,
                output=DummyOutput(),
            )
            return opened.enter_context(lines)

        tty.repl = Repl(tty.start(**start), tty.writer, make, has_keys=True, guard_s=guard_s)
        ended = asyncio.ensure_future(tty.repl.run())
        try:
            await tty.until(lambda: tty.opened or tty.repl.controller.is_asking or ended.done())
            yield Keyboard(tty, pipe, ended)
        finally:
            tty.repl.quit(0)
            await asyncio.wait({ended})
            await tty.repl.close()
        ended.result()
