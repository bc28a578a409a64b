"""Starting line mode, and ending it in good order however it ends."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dirge_py.frontend.line.repl import LineOptions, Repl
from dirge_py.frontend.line.source import PlainLines
from dirge_py.frontend.line.writer import LineWriter
from dirge_py.lib.lazy import late

if TYPE_CHECKING:
    from dirge_py.frontend.line.editor import edited_repl
else:
    # Only where lines are edited: a script is not to wait for what it does not need.
    edited_repl = late("dirge_py.frontend.line.editor", "edited_repl")

_HUNG_UP = 128 + signal.SIGHUP


def run_line(start: LineOptions) -> int:
    """Run line mode until the input ends or the person leaves; returns the exit code.

    A signal ends it like a person would, with exit code 128 + its number.

    Raises:
        DirgeError: the conversation could not be opened.
        OSError: what a script brought about could not be written.
    """
    return asyncio.run(_run(start))


async def _run(start: LineOptions) -> int:
    is_edited = not start.is_dumb and os.isatty(0) and os.isatty(1)
    with ExitStack() as opened:
        repl = edited_repl(start, opened) if is_edited else _plain(start)
        opened.callback(_listen_to_signals(repl))
        try:
            code = await repl.run()
        finally:
            await repl.close()
        if way_back := _way_back(repl):
            repl.writer.line(way_back)
    if repl.source.is_script and repl.writer.problem is not None:
        raise repl.writer.problem
    return _HUNG_UP if repl.source.is_gone else code


def _plain(start: LineOptions) -> Repl:
    writer = LineWriter()
    return Repl(start, writer, lambda repl: PlainLines(writer, label=lambda: _short(repl)))


def _short(repl: Repl) -> str:
    """A line that stands there cannot be changed: it begins with a label only when it is time."""
    return "> " if repl.is_ready else ""


def _listen_to_signals(repl: Repl) -> Callable[[], None]:
    """Let signals end it; returns the undo."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        source = repl.source
        if source.is_script:
            repl.leave(128 + signal.SIGINT)
        elif not (isinstance(source, PlainLines) and source.interrupt()):
            repl.interrupt()

    numbers = {
        signal.SIGINT: stop,
        signal.SIGTERM: lambda: repl.leave(128 + signal.SIGTERM),
        signal.SIGHUP: lambda: repl.leave(_HUNG_UP),
    }
    for number, action in numbers.items():
        loop.add_signal_handler(number, action)

    def undo() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    return undo


def _way_back(repl: Repl) -> str:
    """How to come back to this session, if there is anything to come back to."""
    conversation = repl.opened
    if conversation is None or conversation.session_id is None or not conversation.messages:
        return ""
    return f"To come back: dirge --line -r {conversation.session_id}"
