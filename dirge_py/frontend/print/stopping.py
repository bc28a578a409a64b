"""Signals, and the end in good order that they bring."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from dirge_py.frontend.print.printer import Printer
from dirge_py.frontend.print.result import exit_code_of
from dirge_py.frontend.print.writer import on_signals


async def stoppable(printer: Printer, work: Coroutine[Any, Any, int]) -> int:
    """Run `work`; SIGINT and SIGTERM abort the run, which then ends in good order."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[int] = asyncio.ensure_future(work)
    stopped: list[str] = []

    def stop(name: str) -> None:
        stopped.append(name)
        loop.call_soon_threadsafe(_stop, printer, name, task)

    undo = on_signals(printer.stdout, stop)
    try:
        exit_code = await task
    except asyncio.CancelledError:
        if not stopped:
            raise
        exit_code = 0
    finally:
        undo()
    # A signal can also come when the run is over and its answer is being written.
    return exit_code or (exit_code_of(stopped[0]) if stopped else 0)


def _stop(printer: Printer, name: str, task: asyncio.Task[int]) -> None:
    conversation = printer.conversation
    if conversation.exclusive_owner is not None:
        printer.stopped.set()
        conversation.exclusive_owner.interrupt(name)
    elif conversation.is_running:
        printer.stopped.set()
        conversation.abort(name)
    else:
        task.cancel()
