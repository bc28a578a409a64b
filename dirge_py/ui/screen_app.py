"""The base of the app, with everything that the parts of the screen use of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.theme import Theme

from dirge_py.frontend.controller import ChatController
from dirge_py.lib.lazy import late
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import DirgeError
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.options import UiSettings
from dirge_py.ui.panels.above_input import QueuePanel
from dirge_py.ui.panels.choices import LineQuestion, Picker
from dirge_py.ui.prompt.completion import Completer
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.status import StatusBar
from dirge_py.ui.terminal.app_base import TerminalApp
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.view import TranscriptWidget

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.ui.transcript.renderer import TranscriptRenderer
else:
    TranscriptRenderer = late("dirge_py.ui.transcript.renderer", "TranscriptRenderer")


class ScreenApp(TerminalApp):
    """The app as its parts know it; `app.DirgeApp` makes the parts."""

    clock: Callable[[], float]
    """Seconds; `time.monotonic` except in tests."""
    keymap: Keymap
    commands: Registry
    controller: ChatController
    ui_settings: UiSettings
    theme_styles: Styles
    """The styles of the theme on its background."""
    panel_styles: Styles
    """The styles of the theme on the background of panels."""
    transcript: TranscriptWidget
    composer: Composer
    proposer: Completer
    queue: QueuePanel
    picker: Picker
    line_question: LineQuestion
    status: StatusBar
    _renderer: "TranscriptRenderer | None" = None

    @property
    def renderer(self) -> "TranscriptRenderer":
        """The renderer of this conversation, made at the first use."""
        if self._renderer is None:
            conversation = self.controller.conversation
            self._renderer = TranscriptRenderer(
                self.transcript,
                show_thinking=self.ui_settings.show_thinking,
                diff=self.ui_settings.diff,
                clock=self.clock,
                assets=conversation.environment.asset_dir if conversation else None,
            )
        return self._renderer

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        """Add a notice to the transcript, after all events so far."""
        self.flush_events()
        self.renderer.notice(text, tone=tone)
        self.transcript.redraw()

    def show_error(self, error: DirgeError) -> None:
        self.notify_user(f"{error.message}\n{error.hint}".strip(), tone="error")

    def flush_events(self) -> None:
        """Draw all events so far."""

    def refresh_status(self) -> None:
        """Update the status line, the panels, and the lines above the input."""

    def hint(self, text: str) -> None:
        """Show `text` above the input until the next key."""

    def focus_input(self) -> None:
        """Focus the box of a running command, or else the input."""

    def adopt(self, conversation: "Conversation") -> None:
        """Switch to this conversation, with an empty transcript."""

    def apply_settings(self, settings: UiSettings) -> Sequence[str]:
        """Apply the settings of the screen; return problems with the theme."""
        return ()

    def set_colors(self, name: str) -> None:
        """Switch to a theme."""

    def draw_with(self, theme: Theme, *, before: str) -> None:
        """Replace the Textual theme `before` by this one, and restyle all widgets."""
