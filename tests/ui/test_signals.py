"""Which program gets Ctrl+C while another one has the screen."""

import asyncio
import os
import signal

import pytest

from dirge_py.ui.terminal.app_base import TerminalApp


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_ctrl_c_pressed_while_other_program_had_screen_is_ignored(
    monkeypatch: pytest.MonkeyPatch, is_handed_over: bool
) -> None:
    app, left = TerminalApp(no_color=False), list[int]()
    monkeypatch.setattr(app, "leave", left.append)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, app.leave_by_signal, signal.SIGINT)
    try:
        app.is_handed_over = is_handed_over
        os.kill(os.getpid(), signal.SIGINT)
        await app.reclaim_screen()
        assert not app.is_handed_over
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    assert left == ([] if is_handed_over else [128 + signal.SIGINT])
