"""What our app does in the place of Textual: leaving, failing, the driver of the terminal."""

import asyncio
import signal
from typing import ClassVar

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.worker import WorkerFailed

from dirge_py.ui.terminal import TerminalDriver

_TURNS_TO_HEAR = 3
"""One until the loop looks for signals, one until it reads which, one until it has told us."""


class _Screen(Screen[None], inherit_bindings=False):
    """A screen without keys of its own: Tab would take the focus out of what is being written.

    `is_styled`: nothing that styles depend on is changing.
    """

    BINDINGS: ClassVar = []
    is_styled = False

    def update_node_styles(self, animate: bool = True) -> None:
        if not self.is_styled:
            super().update_node_styles(animate=animate)

    AUTO_FOCUS = ""  # The app says who hears keys; None would mean the first that can.


class TerminalApp(App[int], inherit_bindings=False):
    """An app that ends in good order, whatever ends it. `failure` is what it failed of, if it did.

    `is_handed_over`: another program has the screen for a while. `has_mouse`: the mouse is ours.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []

    def __init__(self, *, no_color: bool) -> None:
        super().__init__(ansi_color=True if no_color else None)
        self.animation_level = "none"
        self.scroll_sensitivity_y = 3.0
        self.failure: BaseException | None = None
        self.is_handed_over = False
        self.has_mouse = True

    def to_terminal(self, sequence: str) -> None:
        """Send an escape sequence that draws nothing, while the terminal is ours."""
        if self._driver is not None and not self.is_handed_over:
            self._driver.write(sequence)

    def take_mouse(self, *, is_ours: bool) -> None:
        """Have mouse reports, or leave the mouse to the terminal: selecting, its own menus."""
        self.has_mouse = is_ours
        if isinstance(self._driver, TerminalDriver):
            self._driver.take_mouse(is_ours=is_ours)

    def _watch_app_focus(self, focus: bool) -> None:
        # Textual would style every widget anew, and draw all of the screen. No style of ours
        # depends on it; the widget that loses the focus or gets it back sees to itself.
        screen = self.screen
        if isinstance(screen, _Screen):
            screen.is_styled = True
        try:
            super()._watch_app_focus(focus)
        finally:
            if isinstance(screen, _Screen):
                screen.is_styled = False

    def get_default_screen(self) -> Screen[None]:
        return _Screen(id="_default")

    def draw_anew(self) -> None:
        """Draw the whole screen: something else was on it."""
        self.refresh(layout=True, repaint=True)

    def leave(self, code: int) -> None:
        """End the program; the terminal is restored first."""
        self.exit(code, return_code=code)

    async def take_back(self) -> None:
        """The screen is ours again; to be called once the terminal is.

        The loop hears of a signal some turns after it came: a Ctrl+C pressed before that was
        still meant for the other program.
        """
        for _ in range(_TURNS_TO_HEAR):
            await asyncio.sleep(0)
        self.is_handed_over = False

    def leave_by_signal(self, number: int) -> None:
        """What a signal asks for; Ctrl+C in an editor that has the screen is not for us."""
        if not (self.is_handed_over and number == signal.SIGINT):
            self.leave(128 + number)

    def fail(self, error: Exception) -> None:
        """End the program because of `error`, which whoever runs the app raises then."""
        self.failure = self.failure or error
        self.leave(1)

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return TerminalDriver if found is LinuxDriver else found

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.failure = self.failure or cause
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print the values of all local variables: prompts, files, keys.
        self._close_messages_no_wait()
