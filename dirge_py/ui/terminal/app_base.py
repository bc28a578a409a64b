"""Changes to Textual's app and driver: exit, failure, signals, a closed terminal."""

import asyncio
import os
import select
import signal
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, ClassVar, cast

from textual._compositor import Compositor
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Offset, Region
from textual.message import Message
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import WorkerFailed

from dirge_py.ui.terminal import early_frame
from dirge_py.ui.terminal.input import TerminalInput

_ESCAPE_DELAY_S = 0.02
"""Seconds after which an Esc without further bytes is the key."""
_LOOK_UP_S = 0.1
"""Seconds after which the reader checks whether it must end."""
_READ_BYTES = 65_536
_LAST_RESORT_S = 1.5
"""Seconds that the process may take to end after the terminal was closed."""


class _TerminalFile:
    """The terminal as a file that discards writes once it is closed."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


class TerminalDriver(LinuxDriver):
    """Textual's driver with another reader, and a writer that survives the terminal.

    Textual's reader recognises Esc late, ends at invalid UTF-8, and types unknown sequences. Its
    writer ends at the first error, so that the program waits for it forever.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _TerminalFile(cast("IO[str]", self._file)))
        self._size = self._get_terminal_size()
        self.at_release = ""
        """Restores the terminal when dirge ends, fails or hands it over."""
        self._typed_early = b""
        """What was typed before the terminal was ours."""
        self._has_early_frame = False
        self.may_read = threading.Event()
        """Set when keys may arrive: not before the first frame, which is stored without text."""

    def start_application_mode(self) -> None:
        frame = early_frame.shown()
        if frame is not None:
            self._typed_early = frame.take_typed()
            self.may_read.set()
        self._has_early_frame = frame is not None
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._has_early_frame = False
        if frame is not None:
            self.attrs_before = frame.attributes
            early_frame.hand_over()

    def write(self, data: str) -> None:
        # Entered again, the alternate screen would be cleared.
        if not (self._has_early_frame and data == early_frame.ENTER):
            super().write(data)

    def use_mouse(self, *, is_ours: bool) -> None:
        """Turn mouse reports on or off, also after a suspension."""
        if is_ours == self._mouse:
            return
        if is_ours:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False

    def disable_input(self) -> None:
        super().disable_input()
        # Textual turns the first two on when the terminal reports support, which may happen after
        # it has turned the others off. The third: reports of the background.
        if self._writer_thread is not None:
            self.write(f"\x1b[?1016l\x1b[?2048l\x1b[?2031l{self.at_release}")
            self.at_release = ""

    def _get_terminal_size(self) -> tuple[int, int]:
        # The terminal's own size, as COLUMNS in the environment may be outdated.
        try:
            width, height = os.get_terminal_size(self.fileno)
        except OSError:
            return super()._get_terminal_size()
        return (width, height) if width and height else super()._get_terminal_size()

    def run_input_thread(self) -> None:
        arrived = TerminalInput()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        ready = select.poll()
        ready.register(self.fileno, select.POLLIN)
        patience_s, silent_s = _LOOK_UP_S, 0.0
        while not self.may_read.wait(_LOOK_UP_S) and not self.exit_event.is_set():
            continue
        while not self.exit_event.is_set():
            typed, self._typed_early = self._typed_early, b""
            if not typed and ready.poll(patience_s * 1000):
                typed = self._read()
                if not typed:
                    return  # The terminal is gone, which `watch_for_hangup` handles.
            silent_s = 0.0 if typed else silent_s + patience_s
            for event in arrived.feed(decode(typed)) if typed else arrived.idle(silent_s):
                self.process_message(event)
            # After an Esc it is soon clear whether more belongs to it.
            patience_s = _ESCAPE_DELAY_S if typed else _LOOK_UP_S

    def _sigcont_application(self, *signal: Any) -> None:
        if self._auto_restart and not self._must_signal_resume:
            # Stopped from outside without a chance to clean up: the saved state of the terminal
            # would be the one that dirge has set.
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application(*signal)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:
            return b""


def watch_for_hangup(descriptor: int, gone: Callable[[], object], exit_code: int) -> None:
    """Call `gone` from another thread once the terminal is closed, and soon end the process.

    The hangup signal reaches only the terminal's session, and Textual ignores the end of the input.
    """
    hangup = select.poll()
    hangup.register(descriptor, 0)

    def wait() -> None:
        hangup.poll()
        gone()
        threading.Event().wait(_LAST_RESORT_S)
        os._exit(exit_code)

    threading.Thread(target=wait, name="hangup", daemon=True).start()


_TURNS_FOR_SIGNALS = 3
"""Turns of the event loop after which a pending signal was handled."""


class _VisibleRowsCompositor(Compositor):
    """Asks a widget only for rows that will be sent and that widgets in front leave uncovered.

    Textual asks every widget between the first and the last change for all of its rows.
    """

    def update_widgets(self, widgets: set[Widget]) -> None:
        # For a scrollbar without width, which moves too, Textual would arrange all widgets anew.
        visible = self.visible_widgets
        super().update_widgets(
            {each for each in widgets if each in visible or not isinstance(each, ScrollBar)}
        )

    def _render_chops(
        self, crop: Region, is_rendered_line: Callable[[int], bool]
    ) -> Sequence[Mapping[int, Strip]]:
        cuts = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(row[:-1]) for row in cuts]
        # The widgets come from front to back, so the first strip of a cell is the visible one.
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            if not (sent := shown.intersection(crop)):
                continue
            rows = [y for y in sent.line_range if is_rendered_line(y) and None in chops[y].values()]
            if not rows:
                continue
            first = Offset(shown.x - region.x, rows[0] - region.y)
            strips = widget.render_lines(Region(*first, shown.width, rows[-1] + 1 - rows[0]))
            begin, end = shown.column_span
            for y in rows:
                chop = chops[y]
                edges = [cut for cut in cuts[y] if begin <= cut <= end]
                parts = strips[y - rows[0]].divide([cut - begin for cut in edges[1:]])
                for cut, part in zip(edges, parts, strict=False):
                    if chop[cut] is None:
                        chop[cut] = part
        return cast("Sequence[Mapping[int, Strip]]", chops)


class _Screen(Screen[None], inherit_bindings=False):
    """A screen without key bindings, as Tab would move the focus. `is_styled`: no style changes."""

    BINDINGS: ClassVar = []
    is_styled = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._compositor = _VisibleRowsCompositor()

    def update_node_styles(self, animate: bool = True) -> None:
        if not self.is_styled:
            super().update_node_styles(animate=animate)

    AUTO_FOCUS = ""  # None would focus the first widget.


@dataclass
class ScreenAction(Message):
    """A key in a widget asked for an action of the screen."""

    action: str


class TerminalApp(App[int], inherit_bindings=False):
    """An app that restores the terminal at any kind of end."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []

    def __init__(self, *, no_color: bool) -> None:
        super().__init__(ansi_color=True if no_color else None)
        self.animation_level = "none"
        self.scroll_sensitivity_y = 3.0
        self.failure: BaseException | None = None
        """The error that ended the app."""
        self.is_handed_over = False
        """Another program has the screen."""
        self.has_mouse = True
        """The terminal reports the mouse to dirge."""

    @property
    def has_terminal(self) -> bool:
        """Whether the app is drawn on a terminal by dirge's own driver."""
        return isinstance(self._driver, TerminalDriver)

    def accept_input(self) -> None:
        """Let keys arrive: what was typed since the start of the process, and later ones."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.may_read.set()

    def painted_rows(self) -> Sequence[Strip]:
        """Return the rows of the screen as they are now."""
        return self.screen._compositor.render_strips()

    def to_terminal(self, sequence: str) -> None:
        """Send an escape sequence, unless another program has the terminal."""
        if self._driver is not None and not self.is_handed_over:
            self._driver.write(sequence)

    def at_release(self, sequence: str) -> None:
        """Send an escape sequence when dirge ends, fails or hands the terminal over."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.at_release = sequence

    def use_mouse(self, *, is_ours: bool) -> None:
        """Turn mouse reports on, or leave the mouse to the terminal."""
        self.has_mouse = is_ours
        if isinstance(self._driver, TerminalDriver):
            self._driver.use_mouse(is_ours=is_ours)

    def _watch_app_focus(self, focus: bool) -> None:
        # Textual would style every widget again and draw the whole screen, though no style here
        # depends on the focus of the app.
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
        """Draw the whole screen again."""
        self.refresh(layout=True, repaint=True)

    def leave(self, code: int) -> None:
        """End the program."""
        self.exit(code, return_code=code)

    async def reclaim_screen(self) -> None:
        """Mark the screen as dirge's again, after pending signals for the other program."""
        for _ in range(_TURNS_FOR_SIGNALS):
            await asyncio.sleep(0)
        self.is_handed_over = False

    def leave_by_signal(self, number: int) -> None:
        """End the program on a signal, except for a Ctrl+C in another program."""
        if not (self.is_handed_over and number == signal.SIGINT):
            self.leave(128 + number)

    def fail(self, error: Exception) -> None:
        """End the program with an error, which `run_tui` raises."""
        self.failure = self.failure or error
        self.leave(1)

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.failure = self.failure or cause
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print all local variables, with prompts, files and keys.
        self._close_messages_no_wait()
