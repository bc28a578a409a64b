"""The panels around the transcript: at the sides, the todo list, the queue and its hints."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.geometry import Region, Size
from textual.reactive import reactive

from dirge_py.frontend.controller import ChatController, QueuedPrompt
from dirge_py.lib.shell_lexer import without_leading_comments
from dirge_py.lib.text import clean, plural
from dirge_py.types.extensions import PluginReport
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.panels.dialog import fit_hints, hint_line
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.status import ContextGauge, mode_style
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip

if TYPE_CHECKING:
    from dirge_py.processes.runner import ShellState
    from dirge_py.ui.git_status import GitStatus


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
        self._todos: Sequence[tuple[str, str]] = ()

    def show_todos(self, todos: Sequence[tuple[str, str]]) -> None:
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
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LOW_SCREEN = 6
"""Rows of a screen that is too low for a hint."""


class QueuePanel(LinesWidget):
    """One line per queued prompt and one hint; hidden when there is neither."""

    DEFAULT_CSS = "QueuePanel { height: auto; padding: 0 1; display: none; }"

    def __init__(self, styles: Styles) -> None:
        super().__init__(styles, "queue")
        self._waiting: Sequence[QueuedPrompt] = ()
        self._hint = self._progress = ""
        self._frame = 0

    def show_queue(self, waiting: Sequence[QueuedPrompt], hint: str, progress: str = "") -> None:
        """Show the prompts, and the hint with a spinner in front if it contains `progress`."""
        progress = progress if progress in hint else ""
        if (waiting, hint, progress) != (self._waiting, self._hint, self._progress):
            # Another number of lines changes the layout of the screen, other words don't.
            is_same_size = (len(waiting), bool(hint)) == (len(self._waiting), bool(self._hint))
            self._waiting, self._hint, self._progress = waiting, hint, progress
            self.display = bool(waiting or hint)
            self.refresh(layout=not is_same_size)

    @property
    def has_spinner(self) -> bool:
        return bool(self._progress)

    def spin(self) -> None:
        """Show the next frame of the spinner, and draw nothing else."""
        self._frame = (self._frame + 1) % len(_SPINNER)
        if self._progress:
            self.refresh(Region(1, self.size.height - 1, 1, 1))

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
            lines.append(self._hint_line(width))
        return lines[y] if y < len(lines) else []

    def _hint_line(self, width: int) -> Line:
        if not self._progress:
            return hint_line(fit_hints(self._hint, width), self._styles)
        accent = self._styles.accent
        words, joint, rest = fit_hints(self._hint, width - 2).partition(" · ")
        line = [(f"{_SPINNER[self._frame]} ", accent), (words, accent), (joint, self._styles.dim)]
        return [*line, *hint_line(rest, self._styles)]

    def _line(self, waiting: QueuedPrompt, width: int) -> Line:
        mark = _MARKS.get(waiting.kind, "○ when done: ")
        style = self._styles.warning if waiting.kind == "steering" else self._styles.accent
        return [(mark, style), (clip(clean(waiting.text), width - len(mark)), self._styles.text)]


def key_hint(
    composer: Composer, controller: ChatController, keymap: Keymap, progress: str = ""
) -> str:
    """Return the progress of a run with hints about its keys, and the state of the input."""
    parts = [clean(composer.words), progress, *_run_hints(composer, controller, keymap)]
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
        return [f"{name('screen', 'interrupt')} to interrupt"]
    if not controller.is_busy or controller.is_asking:
        return []
    is_between = not controller.is_running
    verbs: dict[tuple[Scope, str], str] = {
        ("screen", "interrupt"): "stop the plan" if is_between else "interrupt",
    }
    if controller.waiting and not composer.text:
        verbs["composer", "up"] = "edit it"
        verbs["screen", "drop_queue"] = "drop it"
    verbs["composer", "submit"] = "keep it for the next run" if is_between else "steer"
    verbs["composer", "queue"] = "queue"
    named = [(name(scope, action), verb) for (scope, action), verb in verbs.items()]
    return [f"{key} to {verb}" for key, verb in named if key]


MOST_TODOS = 8
_BAR_WIDTH = 20
_MOST_FILES = 12
_TARGET, _COMMAND_TARGET = 24, 28
"""Cells for a call in the list of recent calls."""


def left_lines(
    width: int,
    styles: Styles,
    *,
    gauge: ContextGauge,
    foldings: int = 0,
    recent: Iterable[tuple[str, str]] = (),
    git: "GitStatus | None" = None,
) -> list[Line]:
    """Return the left panel: context, recent calls (tool and main argument), checkout."""
    full = {"": styles.good, "fold": styles.warning, "fold!": styles.error}[gauge.mark]
    context: list[Line] = [[(clip(gauge.words, width), styles.text)]]
    if gauge.window:
        context.insert(0, [(gauge.bar(min(width, _BAR_WIDTH)), full)])
    if foldings:
        times = "once" if foldings == 1 else f"{foldings} times"
        context.append([(clip(f"compacted {times}", width), styles.dim)])
    activity = [_call(name, target, width, styles) for name, target in recent]
    sections = {"CONTEXT": context, "ACTIVITY": activity, "GIT": _git(git, width, styles)}
    return [line for name in sections for line in _section(name, sections[name], width, styles)]


def right_lines(
    width: int,
    rows: int,
    styles: Styles,
    *,
    todos: Sequence[tuple[str, str]] = (),
    files: Iterable[str] = (),
    plugins: Iterable[PluginReport] = (),
    shells: "Iterable[ShellState]" = (),
) -> list[Line]:
    """Return the right panel: todos, files (newest last), plugins, background commands."""
    done = sum(status == "done" for status, _ in todos)
    title = f"TODO {done}/{len(todos)}" if todos else "TODO"
    plugin_lines = [_plugin(report, width, styles) for report in plugins]
    shell_lines = [_shell(shell, width, styles) for shell in shells]
    first = _section(title, todo_lines(todos, width, styles), width, styles)
    last = _section("PLUGINS", plugin_lines, width, styles)
    last += _section("SHELLS", shell_lines, width, styles)
    most = max(3, min(_MOST_FILES, rows - len(first) - len(last) - 3))
    return [*first, *_section("MODIFIED", _files(files, width, most, styles), width, styles), *last]


def todo_lines(
    todos: Sequence[tuple[str, str]], width: int, styles: Styles, most: int = MOST_TODOS
) -> list[Line]:
    """Return the todos (status, text): in progress, open, done, as many as fit."""
    order = {"in_progress": 0, "pending": 1}
    ranked = sorted(todos, key=lambda todo: order.get(todo[0], 2))
    shown = ranked if len(ranked) <= most else ranked[: most - 1]
    marks = {"in_progress": ("▶ ", styles.accent), "done": ("[x] ", styles.dim)}
    lines: list[Line] = []
    for status, text in shown:
        mark, style = marks.get(status, ("[ ] ", styles.text))
        space = max(1, width - cell_len(mark))
        lines.append([(mark, style), (clip(clean(text), space), style)])
    if len(ranked) > len(shown):
        lines.append([(clip(f"… {len(ranked) - len(shown)} more", width), styles.dim)])
    return lines


def _section(title: str, lines: Sequence[Line], width: int, styles: Styles) -> list[Line]:
    return [[(clip(title, width), styles.heading)], *lines, []] if lines else []


def _call(name: str, target: str, width: int, styles: Styles) -> Line:
    space = min(width, _COMMAND_TARGET if name == "bash" else _TARGET)
    shown = clip(clean(name), space)
    left = space - cell_len(shown) - 1
    line: Line = [(shown, styles.tool)]
    if target and left > 1:
        line.append((" " + clip(clean(target), left), styles.dim))
    return line


def _git(git: "GitStatus | None", width: int, styles: Styles) -> list[Line]:
    if git is None:
        return []
    counts = {"staged": git.staged, "changed": git.unstaged, "new": git.untracked}
    state = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "clean"
    if git.is_withheld:
        state = "status not read"
    lines: list[Line] = [
        [(clip(clean(git.branch), width), styles.accent)],
        [(clip(state, width), styles.warning if git.staged or git.unstaged else styles.dim)],
    ]
    if git.subject:
        lines.append([(clip(clean(git.subject), width), styles.dim)])
    return lines


def _files(files: Iterable[str], width: int, most: int, styles: Styles) -> list[Line]:
    newest = [*files][::-1]
    shown = newest if len(newest) <= most else newest[: most - 1]
    lines: list[Line] = []
    for path in shown:
        name = clean(path).partition("\n")[0]
        if cell_len(name) > width:
            name = f"…/{name.rpartition('/')[2]}"
        lines.append([(clip(name, width), styles.text)])
    if len(newest) > len(shown):
        lines.append([(clip(f"+{len(newest) - len(shown)} older", width), styles.dim)])
    return lines


def _plugin(report: PluginReport, width: int, styles: Styles) -> Line:
    marks = {"on": ("●", styles.good), "off": ("○", styles.dim), "failed": ("✗", styles.error)}
    mark, style = marks[report.state]
    state = "" if report.state == "on" else f" {report.state}"
    space = max(1, width - 2 - len(state))
    return [(f"{mark} ", style), (clip(clean(report.name), space), styles.text), (state, style)]


def _shell(shell: "ShellState", width: int, styles: Styles) -> Line:
    is_running = shell.status == "running"
    ended = shell.status if shell.exit_code is None else f"exit {shell.exit_code}"
    head = f"{clean(shell.id)} {'' if is_running else ended + ' '}"
    style = styles.accent if is_running else styles.dim
    space, command = max(1, width - cell_len(head)), without_leading_comments(shell.command)
    return [(clip(head, width), style), (clip(clean(command), space), styles.text)]


class InputRule(LinesWidget):
    """A line above or below the input, with the permission mode in it if it is set."""

    DEFAULT_CSS = "InputRule { height: 1; padding: 0 1; }"

    mode: reactive[str] = reactive("")

    def line_at(self, y: int) -> Line:
        width, mode, look = self.size.width, clean(self.mode), self._styles.markdown.line
        if not mode or width < len(mode) + _LEAST_RULE:
            return [("─" * width, look)]
        label = f" {mode} "
        left = width - cell_len(label) - 2
        style = mode_style(self.mode, self._styles)
        return [("─" * left, look), (label, style), ("──", look)]


_LEAST_RULE = 8
"""Cells of a rule that the mode must leave."""
MARGIN = 2
"""Columns of a panel that are blank, one at each side."""


class SidePanel(LinesWidget):
    """A panel beside the transcript, which shows as many of its lines as there are rows."""

    DEFAULT_CSS = "SidePanel { height: 1fr; padding: 0 1; display: none; }"

    lines: reactive[Sequence[Line]] = reactive(())

    def line_at(self, y: int) -> Line:
        return self.lines[y] if y < len(self.lines) else []
