"""The widgets above the input: the todo list, the queue, and a hint about the keys."""

from collections.abc import Sequence

from textual.geometry import Size

from dirge_py.frontend.controller import ChatController, QueuedPrompt
from dirge_py.lib.text import clean, plural
from dirge_py.ui.activity import TodoEntry
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.panels.dialog import fit_hints
from dirge_py.ui.panels.side_panels import MOST_TODOS, todo_lines
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip

_ROWS_FOR_OTHERS = 8
"""Rows for the rest of the screen: some of the transcript, the input, the status line."""


class TodoPanel(LinesWidget):
    """The todo list above the input, in at most eight rows."""

    DEFAULT_CSS = """
    TodoPanel { height: auto; padding: 0 1; display: none; }
    TodoPanel.shown { display: block; }
    .small-asking TodoPanel.shown { display: none; }
    """

    def __init__(self, styles: Styles) -> None:
        super().__init__(styles, "todos")
        self._todos: Sequence[TodoEntry] = ()

    def show_todos(self, todos: Sequence[TodoEntry]) -> None:
        if todos != self._todos:
            self._todos = todos
            self.refresh(layout=self.has_class("shown"))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        most = max(1, min(MOST_TODOS, viewport.height - _ROWS_FOR_OTHERS))
        return max(1, min(most, len(self._todos)))

    def line_at(self, y: int) -> Line:
        lines = todo_lines(self._todos, self.size.width, self._styles, max(1, self.size.height))
        lines = lines or [[("Nothing is on the todo list.", self._styles.dim)]]
        return lines[y] if y < len(lines) else []


_MARKS = {"steering": "↳ steers next: ", "next_run": "↳ enters the next run: "}
_MOST_ROWS = 4
_LOW_SCREEN = 6
"""Rows of a screen that is too low for a hint."""


class QueuePanel(LinesWidget):
    """One line per queued prompt and one hint; hidden when there is neither."""

    DEFAULT_CSS = "QueuePanel { height: auto; padding: 0 1; display: none; }"

    def __init__(self, styles: Styles) -> None:
        super().__init__(styles, "queue")
        self._waiting: Sequence[QueuedPrompt] = ()
        self._hint = ""

    def show_queue(self, waiting: Sequence[QueuedPrompt], hint: str) -> None:
        if (waiting, hint) != (self._waiting, self._hint):
            self._waiting, self._hint = waiting, hint
            self.display = bool(waiting or hint)
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        rows = min(len(self._waiting), _MOST_ROWS if viewport.height > 12 else 1)
        return rows + (1 if self._hint and viewport.height > _LOW_SCREEN else 0)

    def line_at(self, y: int) -> Line:
        # Drawing comes before layout, so the height may be that of the previous lines.
        width, height = self.size
        has_hint = bool(self._hint) and self.screen.size.height > _LOW_SCREEN
        rows = min(height - has_hint, len(self._waiting))
        lines = [self._line(waiting, width) for waiting in self._waiting[: max(0, rows)]]
        hidden = len(self._waiting) - rows
        if lines and hidden > 0:
            lines[-1] = [(f"… and {hidden + 1} more queued", self._styles.dim)]
        if has_hint:
            lines.append([(fit_hints(self._hint, width), self._styles.dim)])
        return lines[y] if y < len(lines) else []

    def _line(self, waiting: QueuedPrompt, width: int) -> Line:
        mark = _MARKS.get(waiting.kind, "⧗ when done: ")
        style = self._styles.warning if waiting.kind == "steering" else self._styles.accent
        return [(mark, style), (clip(clean(waiting.text), width - len(mark)), self._styles.text)]


def key_hint(composer: Composer, controller: ChatController, keymap: Keymap) -> str:
    """Return hints about the keys of a run, and the state of the input."""
    parts = [clean(composer.words), *_run_hints(composer, controller, keymap)]
    if count := len(composer.stashed):
        drafts = f"{plural(count, 'draft')} stashed"
        key = keymap.name_of("composer", "stash")
        if key and not composer.text.strip():
            drafts += f", {key} restores {'it' if count == 1 else 'the last'}"
        parts.append(drafts)
    return " · ".join(part for part in parts if part)


def _run_hints(composer: Composer, controller: ChatController, keymap: Keymap) -> list[str]:
    name = keymap.name_of
    if controller.state == "compacting":
        return [f"{name('screen', 'interrupt')} interrupts"]
    if not controller.is_busy or controller.is_asking:
        return []
    is_between = not controller.is_running
    verbs: dict[tuple[Scope, str], str] = {
        ("screen", "interrupt"): "stops the plan" if is_between else "interrupts",
        ("composer", "submit"): "keeps it for the next run" if is_between else "steers",
        ("composer", "queue"): "queues for after",
    }
    if controller.waiting and not composer.text:
        verbs["composer", "up"] = "takes back"
        verbs["screen", "drop_queue"] = "drops it"
    named = [(name(scope, action), verb) for (scope, action), verb in verbs.items()]
    return [f"{key} {verb}" for key, verb in named if key]
