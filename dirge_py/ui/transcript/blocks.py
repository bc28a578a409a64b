"""The blocks of the transcript, which paint themselves for a given width.

A block changes only through its methods, and cleans text from outside when it receives it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import line_of_words, without_leading_comments
from dirge_py.lib.text import clean, format_cost, plural
from dirge_py.slash.base import Tone
from dirge_py.types.messages import Usage
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import HINT_JOINT, Line, clip, fold, pack_hints, strip, wrap


class TranscriptBlock:
    """One piece of the transcript."""

    gap = True
    """A blank line goes above it, except between two blocks of one class that both `gathers`."""
    gathers = False
    is_wide = False
    """It is painted at the full width of the transcript, not at the narrower one for prose."""
    is_tool_call = False
    most_guessed = 1 << 30
    """The most lines that `guess_height` returns, for blocks that are collapsed at first."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self.version = 0
        """Increases with each change, so that cached lines are known to be stale."""
        self.is_open: bool | None = None
        """Overrides the transcript's "expand all" once the person has opened or closed it."""
        self.group: TranscriptBlock | None = None
        """The block it belongs to: it is shown, indented, only while that block is open."""
        self.landmarks: Sequence[int] = (0,)
        """Lines of the last painting that keys jump to, such as the first lines of hunks."""

    @property
    def can_expand(self) -> bool:
        """Whether it hides something while it is collapsed."""
        return False

    @property
    def text(self) -> str:
        """Its plain text with all folded parts; "" if only painting produces the text."""
        return self._text

    def changed(self) -> None:
        self.version += 1

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        """Return its lines, each at most `width` cells."""
        raise NotImplementedError

    def guess_height(self, width: int) -> int:
        """Guess quickly how many lines `paint` will return."""
        text = self.text.rstrip("\n")
        lines = text.count("\n") + 1 + len(text) // max(1, width * 2)
        return min(lines, self.most_guessed)


def groups_of(block: TranscriptBlock) -> Sequence[TranscriptBlock]:
    """Return the blocks it belongs to, the innermost first."""
    groups: list[TranscriptBlock] = []
    while block.group is not None:
        block = block.group
        groups.append(block)
    return groups


class BlockPage(Protocol):
    """Where blocks go: the transcript's widget, or a `TranscriptLayout` in a test."""

    def add(self, block: TranscriptBlock) -> None: ...
    def insert(self, before: TranscriptBlock, block: TranscriptBlock) -> None: ...
    def remove_block(self, block: TranscriptBlock) -> None: ...
    def touch(self, block: TranscriptBlock) -> None: ...


_STATUSES = {"pending", "in_progress", "done"}


_PATCHED_FILE = late_pattern(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def main_argument(args: Any) -> str:
    """Return what tells this call from others of the same tool, such as `"x" in src/`."""
    if not isinstance(args, Mapping):
        return str(args or "")
    pattern, path = args.get("pattern"), args.get("path")
    if isinstance(pattern, str) and pattern:
        has_place = isinstance(path, str) and path not in ("", ".", "./")
        return f'"{pattern}" in {path}' if has_place else f'"{pattern}"'
    if files := _patched_files(args):
        return files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    for name in ("command", "path", "file_path", "query", "url", "name"):
        match args.get(name):
            case str(text):
                return text
            case [str(), *_] as words if name == "command":
                return line_of_words([str(word) for word in words])
    texts = [value for value in args.values() if isinstance(value, str)]
    return texts[0] if texts else ""


def title_argument(args: Any) -> str:
    """Return `main_argument` for a title: a command without the comments before it."""
    main = main_argument(args)
    is_command = isinstance(args, Mapping) and args.get("command") == main
    return without_leading_comments(main) if is_command else main


def _patched_files(args: Mapping[str, Any]) -> Sequence[str]:
    """Return the paths in the arguments of a patch, in either of their forms."""
    if isinstance(patch := args.get("patch"), str):
        return _PATCHED_FILE.findall(patch)
    operations = args.get("operations")
    each = operations if isinstance(operations, list) else ()
    return [str(op["path"]) for op in each if isinstance(op, Mapping) and op.get("path")]


def todo_items(details: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return status and text of each item in the `details` of the todo tool."""
    items = details.get("items")
    if not isinstance(items, Sequence) or isinstance(items, str):
        return ()
    entries = [
        (str(item.get("status")), " ".join(clean(str(item.get("text", ""))).split()))
        for item in items
        if isinstance(item, Mapping)
    ]
    return entries if {status for status, _ in entries} <= _STATUSES else ()


LINES_COLLAPSED = 4
"""Lines of output that a collapsed block shows."""
LONGEST_OUTPUT = 400_000
"""Characters of one output kept for the view; all of it is in the session."""


def paint_hidden(count: int, width: int, styles: Styles, *, which: str = "more") -> list[Strip]:
    """Return the line that says how many lines are hidden."""
    words = f"… {count:,} {which} {'line' if count == 1 else 'lines'}"
    return wrap([(words, styles.dim)], width, indent=("  ", styles.text))


class UserBlock(TranscriptBlock):
    """A prompt with its attachments. `label` says how it was sent, if not by Enter."""

    def __init__(self, text: str, *, label: str = "", attached: Sequence[str] = ()) -> None:
        self._body = clean(text)
        self._label = label
        self._attached = [clean(name) for name in attached]
        super().__init__("\n".join([self._body, *self._attached]))

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        mark, indent = ("› ", styles.user), ("  ", styles.text)
        strips = wrap([(self._body, styles.user)], width, first=[mark], rest=[indent])
        for line in (*(f"+ {name}" for name in self._attached), self._label):
            strips += wrap([(line, styles.dim)], width, indent=indent) if line else []
        return strips


_LINES_OF_ASIDE = 3


class AsideBlock(TranscriptBlock):
    """A message that dirge or a plugin wrote, dim and with its source; collapsed if it is long."""

    def __init__(self, text: str, *, source: str, is_whole: bool = False) -> None:
        self._body = clean(text).strip("\n")
        self._source = clean(source)
        super().__init__(f"{self._source}\n{self._body}".rstrip())
        self._is_whole = is_whole
        if not is_whole:
            self.most_guessed = _LINES_OF_ASIDE + 2

    @property
    def can_expand(self) -> bool:
        return not self._is_whole

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        head = wrap([(f"» {self._source}", styles.accent)], width)
        indent = ("  ", styles.dim)
        body = wrap([(self._body, styles.dim)], width, indent=indent) if self._body else []
        hidden = 0 if expanded or self._is_whole else len(body) - _LINES_OF_ASIDE
        if hidden > 1:
            body = body[:_LINES_OF_ASIDE] + paint_hidden(hidden, width, styles)
        return head + body


_COLUMN = late_pattern(r" *(?:\S+(?: \S+)* {2,}){1,2}|  +")
"""All but the last column of a line with two or three columns; else the line's indentation."""
_FIRST_COLUMN = late_pattern(r" *\S+(?: \S+)* {2,}")
_DEEP = " " * 8
"""How headings of columns begin, and descriptions whose name is on the line above."""
_MARKS: dict[Tone, str] = {"plain": "· ", "good": "✓ ", "warning": "! ", "error": "✗ "}


class NoticeBlock(TranscriptBlock):
    """A message of dirge: one dim line, or what a command shows, with a blank line above it."""

    def __init__(self, text: str, *, tone: Tone = "plain") -> None:
        super().__init__(clean(text))
        self.gathers = "\n" not in self.text
        self._tone: Tone = tone

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        plain = styles.dim if self.gathers else styles.text
        base = plain if self._tone == "plain" else getattr(styles, self._tone)
        strips: list[Strip] = []
        lines = self.text.split("\n")
        for at, line in enumerate(lines):
            mark = "  " if strips or line.startswith(" ") else _MARKS[self._tone]
            rest: Line = [(" " * (2 + _hanging_indent(line, width // 2)), base)]
            below = lines[at + 1] if at + 1 < len(lines) else ""
            spans = self._columns(line, below, base, styles)
            strips += wrap(spans, width, first=[(mark, base)], rest=rest)
        return strips

    def _columns(self, line: str, below: str, base: Style, styles: Styles) -> Line:
        """Return a line of a list or table with headings, names and descriptions told apart."""
        if self.gathers or self._tone != "plain" or not line.strip():
            return [(line, base)]
        if line.startswith(_DEEP):
            return [(line, styles.dim)]
        column = _FIRST_COLUMN.match(line)
        if line[0] != " " and column is None and below.startswith("  "):
            return [(line, base + styles.strong)]
        if column is None:
            return [(line, base)]
        name, text = line[: column.end()], line[column.end() :]
        if line[0] != " ":
            return [(name, styles.dim), (text, base)]
        return [(name, base), (text, styles.dim if text[:1].isalpha() else base)]


def _hanging_indent(line: str, most: int) -> int:
    """Return where a line continues: at its last column that begins before `most`, else deeper."""
    columns = [len(found[0]) for each in (_COLUMN, _FIRST_COLUMN) if (found := each.match(line))]
    if columns:
        columns.append(len(line) - len(line.lstrip(" ")) + 4)
    return next((column for column in columns if column < most), 0)


class DetailBlock(NoticeBlock):
    """A notice that is hidden until everything is expanded."""

    gap = False

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        return super().paint(width, styles, expanded=expanded) if expanded else []


class ReasoningBlock(TranscriptBlock):
    """The model's thinking; collapsed to one line at first."""

    most_guessed = 1

    def __init__(self, text: str = "", *, is_done: bool = False, is_shown: bool = False) -> None:
        super().__init__()
        self.is_open = True if is_shown else None
        self._parts = [clean(text)] if text else []
        self._is_done = is_done

    @property
    def can_expand(self) -> bool:
        return bool(self._parts)

    @property
    def text(self) -> str:
        # Not joined for good here: a search reads in another thread while more is appended.
        return "".join(self._parts)

    def append(self, text: str) -> None:
        self._parts.append(clean(text))
        self.changed()

    def finish(self) -> None:
        self._is_done = True
        self._parts = [self.text] if self._parts else []
        self.changed()

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        text = self.text.strip("\n")
        if expanded:
            mark, indent = ("∴ ", styles.dim), ("  ", styles.dim)
            return wrap([(text, styles.thinking)], width, first=[mark], rest=[indent])
        line = f"∴ thinking… {text.rpartition(chr(10))[2]}"
        if self._is_done:
            line = "∴ thought" + (f", {plural(text.count(chr(10)) + 1, 'line')}" if text else "")
        return wrap([(clip(line, width), styles.dim)], width)


_NARROW = 50
"""Columns below which there are no names of rows, no blank lines, and one hint."""


class GreetingBlock(TranscriptBlock):
    """The greeting of a new session: a title, a line for each fact, hints in one line, and tips."""

    def __init__(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        hint: Sequence[str],
        tips: Sequence[str] = (),
    ) -> None:
        self._title = clean(title)
        self._facts = [(name, clean(text)) for name, text in facts if text]
        self._hint, self._tips = hint, tips
        facts_text = (f"{name} {text}" for name, text in self._facts)
        super().__init__("\n".join([self._title, *facts_text]))

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        is_narrow = width < _NARROW
        label = 0 if is_narrow else max(len(name) for name, _ in self._facts) + 2
        rest: Line = [(" " * label, styles.text)]
        facts = [
            row
            for name, text in self._facts
            for row in wrap(
                [(clip(text, width) if is_narrow else text, styles.text)],
                width,
                first=[(name.ljust(label)[:label], styles.dim)],
                rest=rest,
            )
        ]
        hints = [self._hint[0]] if is_narrow else pack_hints(self._hint, width)
        tips = [] if is_narrow else self._tips
        hints += [row for tip in tips for row in pack_hints(tip.split(HINT_JOINT), width)]
        blank: list[Strip] = [] if is_narrow else [strip([])]
        return [
            strip([(clip(self._title, width), styles.heading)]),
            *blank,
            *facts,
            *blank,
            *(row for hint in hints for row in wrap([(hint, styles.dim)], width)),
        ]


class RetryBlock(TranscriptBlock):
    """The error of a model call, and a countdown of `delay_s` seconds to the next attempt."""

    def __init__(
        self, attempt: int, delay_s: float, error: str, *, clock: Callable[[], float]
    ) -> None:
        self._attempt = attempt
        self._error = clean(error)
        super().__init__(f"Attempt {attempt}: {self._error}")
        self._clock = clock
        self._due = clock() + delay_s
        self._shown_s = self._left_s

    @property
    def is_waiting(self) -> bool:
        return self._shown_s > 0

    def tick(self) -> bool:
        """Update the countdown; return whether another number has to be shown."""
        before, self._shown_s = self._shown_s, self._left_s
        if self._shown_s != before:
            self.changed()
        return self._shown_s != before

    @property
    def _left_s(self) -> int:
        return max(0, round(self._due - self._clock()))

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        when = f"in {self._shown_s} s" if self._shown_s else "now"
        line = f"Retrying {when} (attempt {self._attempt}): {self._error}"
        mark, rest = [("! ", styles.warning)], [("  ", styles.warning)]
        return wrap([(line, styles.warning)], width, first=mark, rest=rest)


class ShellBlock(TranscriptBlock):
    """The person's `! command`, how it ended if it failed, and the end of its output."""

    most_guessed = LINES_COLLAPSED + 2

    def __init__(self, command: str, output: str, *, how: str = "") -> None:
        self._command = clean(command)
        self._how = "" if how == "exit 0" else clean(how)
        shown = clean(output[-LONGEST_OUTPUT:]).strip("\n")
        self._lines = shown.split("\n") if shown else []
        super().__init__("\n".join([f"! {self._command}", *self._lines]))

    @property
    def can_expand(self) -> bool:
        return len(self._lines) > LINES_COLLAPSED

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        indent = ("  ", styles.text)
        how = f"  {self._how}" if self._how else ""
        head: Line = [(self._command, styles.user), (how, styles.error)]
        strips = wrap(head, width, first=[("! ", styles.accent)], rest=[indent])
        lines = self._lines if expanded else self._lines[-LINES_COLLAPSED:]
        if hidden := len(self._lines) - len(lines):
            strips += paint_hidden(hidden, width, styles, which="earlier")
        for line in lines:
            strips += fold([(line, styles.dim)], width, prefix=[indent])
        return strips


class RunSummaryBlock(TranscriptBlock):
    """The dim line that sums up a run."""

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        return wrap([(self.text, styles.dim)], width)


def spent_text(usage: Usage, cost_usd: float | None, least_usd: float = 0.0) -> Sequence[str]:
    """Return the tokens and the cost that aren't zero; an unknown cost is said to be unknown."""
    parts = []
    if usage.input:
        share = round(100 * usage.cache_read / usage.input)
        cached = f" ({share}% cached)" if usage.cache_read else ""
        parts.append(f"{format_tokens(usage.input)} in{cached}")
    if usage.output:
        parts.append(f"{format_tokens(usage.output)} out")
    if cost_usd or (cost_usd is None and parts):
        parts.append(format_cost(cost_usd, least_usd))
    return parts


def format_tokens(count: int) -> str:
    """Return a text such as `950`, `12.3k` or `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def duration_text(seconds: float) -> str:
    """Return a text such as `14 s` or `2 min 3 s`; "" for less than a second."""
    if seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
