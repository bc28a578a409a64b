"""Runs the terminal UI, and restores the terminal at its end."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial

from dirge_py.frontend.session_opener import notice_sink
from dirge_py.lib.paths import own_command
from dirge_py.lib.text import clean
from dirge_py.ui.actions import ACTIONS
from dirge_py.ui.app import DirgeApp
from dirge_py.ui.options import UiOptions
from dirge_py.ui.terminal.app_base import watch_for_hangup

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HUNG_UP = 128 + signal.SIGHUP


def run_tui(start: UiOptions) -> int:
    """Run the UI, and return the exit code: 128 + its number after a signal. Raises DirgeError."""
    return asyncio.run(_run(start))


async def _run(start: UiOptions) -> int:
    no_color = bool(os.environ.get("NO_COLOR"))
    app = DirgeApp(start, ACTIONS, no_color=no_color)
    if no_color:
        # Textual removes the variable, but child processes need it.
        os.environ["NO_COLOR"] = "1"
    loop = asyncio.get_running_loop()
    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, app.leave_by_signal, number)
    leave = partial(loop.call_soon_threadsafe, app.leave, _HUNG_UP)
    watch_for_hangup(sys.stdin.fileno(), leave, _HUNG_UP)
    try:
        code = await app.run_async()
        options = app.session_opener.start
        last_line = _resume_hint(app) if options.is_stored else options.last_line
    finally:
        notices = await _close(app)
        if app.session_opener.start.close is not None:
            app.session_opener.start.close()
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)
    if app.failure is not None:
        raise app.failure
    code = code if code is not None else app.return_code or 0
    if code != _HUNG_UP:
        sys.stdout.writelines(f"{line}\n" for line in [*notices, last_line] if line)
    return code


async def _close(app: DirgeApp) -> Sequence[str]:
    """Close the conversation; return its last notices, which no screen shows."""
    notices: list[str] = []
    if app.controller.conversation is not None:
        app.controller.conversation.subscribe(notice_sink(lambda text: notices.append(clean(text))))
    await app.controller.close()
    return notices


def _resume_hint(app: DirgeApp) -> str:
    conversation = app.controller.conversation
    if conversation is None or conversation.session_id is None or not conversation.messages:
        return ""
    return f"To come back: {own_command()} -r {conversation.session_id}"
