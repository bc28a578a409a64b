"""The panels at the sides of the transcript: their widget, and their headings and lines."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from dirge_py.lib.text import clean
from dirge_py.types.extensions import PluginReport
from dirge_py.ui.activity import TodoEntry
from dirge_py.ui.status import ContextGauge
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip

if TYPE_CHECKING:
    from dirge_py.processes.runner import ShellState
    from dirge_py.ui.git_status import GitStatus


MOST_TODOS = 8
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
        context.insert(0, [(gauge.bar(width), full)])
    if foldings:
        times = "once" if foldings == 1 else f"{foldings} times"
        context.append([(clip(f"folded {times}", width), styles.dim)])
    activity = [_call(name, target, width, styles) for name, target in recent]
    sections = {"CONTEXT": context, "ACTIVITY": activity, "GIT": _git(git, width, styles)}
    return [line for name in sections for line in _section(name, sections[name], width, styles)]


def right_lines(
    width: int,
    rows: int,
    styles: Styles,
    *,
    todos: Sequence[TodoEntry] = (),
    files: Iterable[str] = (),
    plugins: Iterable[PluginReport] = (),
    shells: "Iterable[ShellState]" = (),
) -> list[Line]:
    """Return the right panel: todos, files (newest last), plugins, background commands."""
    done = sum(todo.status == "done" for todo in todos)
    title = f"TODO {done}/{len(todos)}" if todos else "TODO"
    plugin_lines = [_plugin(report, width, styles) for report in plugins]
    shell_lines = [_shell(shell, width, styles) for shell in shells]
    first = _section(title, todo_lines(todos, width, styles), width, styles)
    last = _section("PLUGINS", plugin_lines, width, styles)
    last += _section("SHELLS", shell_lines, width, styles)
    most = max(3, min(_MOST_FILES, rows - len(first) - len(last) - 3))
    return [*first, *_section("MODIFIED", _files(files, width, most, styles), width, styles), *last]


def todo_lines(
    todos: Sequence[TodoEntry], width: int, styles: Styles, most: int = MOST_TODOS
) -> list[Line]:
    """Return todos in progress, then open ones, then done ones, as many as fit."""
    order = {"in_progress": 0, "pending": 1}
    ranked = sorted(todos, key=lambda todo: order.get(todo.status, 2))
    shown = ranked if len(ranked) <= most else ranked[: most - 1]
    marks = {"in_progress": ("▶ ", styles.accent), "done": ("[x] ", styles.dim)}
    lines: list[Line] = []
    for todo in shown:
        mark, style = marks.get(todo.status, ("[ ] ", styles.text))
        space = max(1, width - cell_len(mark))
        lines.append([(mark, style), (clip(clean(todo.text), space), style)])
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
        state = "state not read"
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
    space = max(1, width - cell_len(head))
    return [(clip(head, width), style), (clip(clean(shell.command), space), styles.text)]


MARGIN = 2
"""Columns of a panel that are blank, one at each side."""


class SidePanel(LinesWidget):
    """A panel beside the transcript, which shows as many of its lines as there are rows."""

    DEFAULT_CSS = "SidePanel { height: 1fr; padding: 0 1; display: none; }"

    lines: reactive[Sequence[Line]] = reactive(())

    def line_at(self, y: int) -> Line:
        return self.lines[y] if y < len(self.lines) else []
