"""The block of a tool call: its main argument, state and progress, and a part of its output."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any, Literal

from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean, plural
from dirge_py.types.tools import LoopToolResult, is_internal
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript import diff
from dirge_py.ui.transcript.blocks import (
    LINES_COLLAPSED,
    LONGEST_OUTPUT,
    BlockPage,
    TranscriptBlock,
    main_argument,
    paint_hidden,
    title_argument,
    todo_items,
)
from dirge_py.ui.transcript.diff import DiffLayout, DiffRow
from dirge_py.ui.transcript.lines import Span, clip, clip_words, fold, wrap

EndState = Literal["ok", "failed", "again", "denied", "withheld", "aborted", "repeated", "unrun"]
CallState = Literal["running", "asking", "waiting"] | EndState
"""`again`: the tool asks for another try. `repeated`, `unrun`: answered without running it."""
NOT_OUTPUT: frozenset[CallState] = frozenset({"denied", "withheld", "repeated", "unrun"})
"""States in which the text below the call is a sentence of dirge, not output of the tool."""
UNRUN: frozenset[CallState] = frozenset({"repeated", "unrun"})
_LOOKS: Mapping[CallState, tuple[str, str, str]] = {
    "running": ("●", "accent", ""),
    "asking": ("?", "warning", "waits for your answer"),
    "waiting": ("○", "dim", ""),
    "ok": ("✓", "good", ""),
    "failed": ("✗", "error", ""),
    "denied": ("⊘", "warning", "denied"),
    "aborted": ("◌", "dim", "interrupted"),
    "again": ("↻", "warning", "asks the model to retry"),
    "withheld": ("⊘", "warning", "ran, result withheld"),
    "repeated": ("≡", "dim", "not run"),
    "unrun": ("◌", "dim", "not run"),
}
"""The mark of each state, its style, and its words."""
_BY_DETAIL: dict[str, CallState] = {"storm": "repeated", "withheld": "withheld", "retry": "again"}
_BY_OUTCOME: dict[str, CallState] = {
    "ok": "ok", "failed_command": "failed", "denied": "denied", "aborted": "aborted",
    "suppressed": "unrun",
}  # fmt: skip


def state_after(outcome: str, details: Mapping[str, Any], *, is_error: bool) -> CallState:
    """Return the state of a call that ended with this outcome and these details."""
    by_detail = (state for detail, state in _BY_DETAIL.items() if details.get(detail))
    return next(by_detail, _BY_OUTCOME.get(outcome, "failed" if is_error else "ok"))


_LOOKUPS = {
    "read": ("read", "file"),
    "grep": ("searched", "pattern"),
    "glob": ("searched", "pattern"),
    "find_files": ("searched", "pattern"),
    "list_dir": ("listed", "folder"),
}
"""Tools that only look: the verb and the noun for several calls of each."""
_READ_LINES = late_pattern(r"lines (\d+)-(\d+) of (\d+)\n")
_LINES_LIVE = 6
_TODO_LINES = 12
_DIFF_LINES = 60
"""Rows of a change that a collapsed call shows."""
SHOW_TIME_FROM_MS = 1000
"""How long a call must have taken for its time to be shown."""
_LIVE_OUTPUT = 8_000
_LINES_FAILED = 10
"""Last lines of a failed command that a collapsed block shows."""
_TELLING_LINES = 6
_TELLING = late_pattern(
    r"E   |FAILED |ERROR |--- FAIL|not ok |error(?:\[\w+\])?:"
    r"|.*\b(?:AssertionError|panicked at)\b|\s*(?:Expected|Received|left|right):"
)
"""Lines of a failed command that say why: assertions of test runners, errors of compilers."""
_LEFT_OUT = late_pattern(r"\[([\d,]+) lines \([\d,]+ bytes\) are left out\. ")
_EXIT_CODE = late_pattern(r"Exit code: \d+")
_LEAST_NAMES = 12
"""Cells from which a group names its calls."""
_BODY: str = "  "
_IN_HEADER = ("pattern", "path")
"""Arguments that the header shows together."""


class ToolBlock(TranscriptBlock):
    """A tool call, from its first streamed part to its result."""

    is_tool_call = True

    def __init__(
        self,
        call_id: str,
        name: str,
        args: Any = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        diff_layout: DiffLayout = "auto",
    ) -> None:
        super().__init__()
        self.call_id = call_id
        self.state: CallState = "running"
        self.set_call(name, args)
        self._output = self._diff = self._note = self._details = ""
        self._diff_layout = diff_layout
        self._rows: Sequence[DiffRow] = ()
        self._todo: Sequence[tuple[str, str]] = ()
        self._answers: Sequence[tuple[str, str]] = ()
        self._pictures: Sequence[str] = ()
        self._is_command = False
        self._folder: str | None = None
        """The folder in which a command ran; None, before its end, stands for its argument."""
        self._progress = ProgressText(clock)
        self._output_file = ""
        """The file with the whole output, of which `_output` is a part; "" for none."""
        self._whole_output: str | None = None

    @property
    def can_expand(self) -> bool:
        has_more = "\n" in main_argument(self._args) or bool(self._argument_lines())
        return bool(self._output or self._details or self._diff or has_more)

    @property
    def lookup(self) -> tuple[str, str] | None:
        """The verb and the noun of a call that only looks; it shows its output only when open."""
        return _LOOKUPS.get(self._name)

    @property
    def subject(self) -> str:
        """What tells it from other calls of the same tool, on one line."""
        return clean(title_argument(self._args)).partition("\n")[0]

    @property
    def is_quiet(self) -> bool:
        """Whether it is one line while it is closed: it has looked, and there is no picture."""
        return self.lookup is not None and self.state == "ok" and not self._pictures

    def set_call(self, name: str, args: Any) -> None:
        self._name, self._args = clean(name), args
        self.gathers = self.lookup is not None
        self.changed()

    def set_state(self, state: CallState) -> None:
        if state != self.state:
            if state == "running":
                self._progress.begin()
            self.state = state
            self.changed()

    def show_progress(self, report: LoopToolResult) -> None:
        """Show the report; one that is not for the user only while the block is expanded."""
        text = clean(report.text[-_LIVE_OUTPUT:]).rstrip("\n")
        if is_internal(report):
            self._details = text
        else:
            self._output = text
            self._progress.on_event(report.details)
        self.changed()

    def finish(
        self, text: str, details: Mapping[str, Any], *, is_error: bool, took_ms: int
    ) -> None:
        outcome = str(details.get("outcome", "error" if is_error else "ok"))
        self.state = state_after(outcome, details, is_error=is_error)
        self._is_command = "exit_code" in details
        self._folder = str(details.get("workdir") or "") if self._is_command else None
        self._diff = clean(str(details.get("diff") or ""))[:LONGEST_OUTPUT]
        is_part = _LEFT_OUT.search(text) is not None
        self._output_file = str(details.get("output_path") or "") if is_part else ""
        self._whole_output = None
        shown = text[:LONGEST_OUTPUT]
        if more := len(text) - len(shown):
            shown += f"\n… {more} more characters, in the session"
        self._output, self._details = clean(shown).strip("\n"), ""
        self._note = _note(details, took_ms)
        if self.state == "ok":
            self._todo = todo_items(details) if self._name == "todo" else ()
            self._answers = answers_in(self._args, text) if self._name == "question" else ()
            self.is_wide = bool(self._diff) and self._diff_layout != "unified"
        self._rows = ()
        self.changed()

    def show_pictures(self, lines: Sequence[str]) -> None:
        """Show a line for each picture or document of the result."""
        self._pictures = [clean(line) for line in lines]
        self.changed()

    @property
    def text(self) -> str:
        head = f"{self._name} {clean(main_argument(self._args))}".rstrip()
        parts = (head, *self._argument_lines(), self._diff, self._whole())
        return "\n".join(part for part in parts if part)

    def _whole(self) -> str:
        """Return all output that is stored, which is read at the first use."""
        if self._whole_output is None:
            stored = _read_output(self._output_file) if self._output_file else ""
            self._whole_output = stored or self._output
        return self._whole_output if self._output_file else self._output

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        strips = self._paint_header(width, styles, expanded=expanded)
        self.landmarks = (0,)
        if self._diff and self.state == "ok":
            return self._paint_diff(strips, width, styles, expanded=expanded)
        if (self.state in UNRUN or self.is_quiet) and not expanded:
            return strips
        body = self._paint_body(width, styles, expanded=expanded)
        for line in self._pictures:
            body += wrap([(f"▣ {line}", styles.dim)], width, indent=(_BODY, styles.text))
        return strips + body

    def _paint_diff(
        self, head: list[Strip], width: int, styles: Styles, *, expanded: bool
    ) -> list[Strip]:
        self._rows = self._rows or diff.read_diff(self._diff)
        rows = self._rows if expanded else self._rows[:_DIFF_LINES]
        split = diff.is_split(self._diff_layout, width)
        indent = [(_BODY, styles.text)]
        path = diff.path_in(self._diff)
        strips, hunks = diff.paint_rows(rows, width, styles, indent=indent, split=split, path=path)
        self.landmarks = (0, *(len(head) + line for line in hunks if line > 0))
        hidden = len(self._rows) - len(rows)
        return head + strips + (paint_hidden(hidden, width, styles) if hidden else [])

    def _paint_body(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        if expanded and self._details:
            lines = [*self._output.split("\n"), self._details] if self._output else [self._details]
            return self._paint_output(lines, width, styles)
        if not self._output:
            return []
        if self._todo and not expanded:
            return self._paint_todo(width, styles)
        if expanded:
            return self._paint_output(self._whole().split("\n"), width, styles)
        lines = self._output.split("\n")
        if self._answers:
            return self._paint_answers(width, styles)
        if self.state in ("running", "asking"):
            return self._paint_output(lines[-_LINES_LIVE:], width, styles)
        lines = [line for line in lines if line.strip()]
        # The last lines of a command's output matter most.
        of_end = self._is_command or self.state == "aborted"
        has_code = len(lines) > 1 and _EXIT_CODE.fullmatch(lines[-1])
        if of_end and has_code and self.state == "failed":
            lines = lines[:-1]  # The header has it.
        return self._paint_part(lines, width, styles, of_end=of_end)

    def _paint_todo(self, width: int, styles: Styles) -> list[Strip]:
        first, rest = [(_BODY, styles.text)], [(_BODY * 2, styles.text)]
        strips: list[Strip] = []
        done = 0
        if len(self._todo) > _TODO_LINES:
            done = next((at for at, item in enumerate(self._todo) if item[0] != "done"), 0)
        if done:
            strips += wrap([(f"… {done} done", styles.dim)], width, first=first)
        bold = styles.text + styles.strong
        looks = {"done": (styles.good, styles.dim), "in_progress": (styles.accent, bold)}
        for status, text in self._todo[done:]:
            mark, style = looks.get(status, (styles.dim, styles.text))
            spans = [(f"{_MARKS[status]} ", mark), (text, style)]
            strips += wrap(spans, width, first=first, rest=rest)
        return strips

    def _paint_answers(self, width: int, styles: Styles) -> list[Strip]:
        first, rest = [(_BODY, styles.text)], [(_BODY * 2, styles.text)]
        strips: list[Strip] = []
        for question, answer in self._answers:
            asked = f"{clip(question, width // 2)}  " if len(self._answers) > 1 else ""
            spans = [("→ ", styles.accent), (asked, styles.dim), (answer, styles.text)]
            strips += wrap(spans, width, first=first, rest=rest)
        return strips

    def _paint_part(
        self, lines: Sequence[str], width: int, styles: Styles, *, of_end: bool
    ) -> list[Strip]:
        has_failed = of_end and self.state == "failed"
        most = _LINES_FAILED if has_failed else LINES_COLLAPSED
        hidden_lines = lines[:-most] if of_end else lines[most:]
        hidden = sum(map(_count_lines, hidden_lines))
        shown = self._paint_output(lines[-most:] if of_end else lines[:most], width, styles)
        if len(shown) > most * 2:
            shown = shown[-most * 2 :] if of_end else shown[: most * 2]
            hidden = max(1, hidden)
        if has_failed:
            telling = [line for line in hidden_lines if _TELLING.match(line)][:_TELLING_LINES]
            shown = self._paint_output(telling, width, styles) + shown
            hidden -= len(telling)
        if hidden <= 0:
            return shown
        note = paint_hidden(hidden, width, styles, which="earlier" if of_end else "more")
        return note + shown if of_end else shown + note

    def guess_height(self, width: int) -> int:
        if self._diff:
            return min(_DIFF_LINES, self._diff.count("\n")) + 2
        if self.state in UNRUN or self.is_quiet:
            return 1
        most = _LINES_FAILED if self._is_command and self.state == "failed" else LINES_COLLAPSED
        return 1 + min(most + 1, self._output.count("\n") + bool(self._output))

    def _paint_header(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        mark, style, _ = _LOOKS[self.state]
        state = (f"{mark} ", getattr(styles, style))
        head: list[Span] = [state, (self._name, styles.tool), (" ", styles.text)]
        argument = main_argument(self._args) if expanded else title_argument(self._args)
        subject = self._answers[0][0] if len(self._answers) == 1 else argument
        subject, tail = clean(subject), self._tail_words()
        ending = (f"  {tail}" if tail else "", styles.dim)
        if expanded:
            spans, rest = [(subject, styles.text), ending], [(_BODY, styles.text)]
            strips = wrap(spans, width, first=head, rest=rest)
            return strips + self._paint_arguments(width, styles)
        space = max(8, width - len(self._name) - 3 - len(ending[0]))
        return wrap([*head, (clip(subject, space), styles.text), ending], width)

    def _tail_words(self) -> str:
        folder = self._folder
        if folder is None and isinstance(self._args, Mapping) and "command" in self._args:
            asked = self._args.get("workdir")
            folder = asked if isinstance(asked, str) and asked not in (".", "./") else ""
        looked = self._size_words() if self.is_quiet else ""
        parts = [clean(f"in {folder}") if folder else "", _LOOKS[self.state][2], looked, self._note]
        if self.state == "running":
            parts.append(self._progress.words)
        if self._diff:
            added, removed = diff.count_changes(self._diff)
            parts.append(f"+{added} −{removed}")
        return ", ".join(part for part in parts if part)

    def _size_words(self) -> str:
        """The size of what the call has found, such as `lines 10-20 of 300` or `12 lines`."""
        read = _READ_LINES.search(self._output)
        if read and (int(read[1]) > 1 or read[2] != read[3]):
            return f"lines {read[1]}-{read[2]} of {read[3]}"
        count = int(read[3]) if read else sum(bool(line) for line in self._output.split("\n"))
        return plural(count, "line")

    def _paint_arguments(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        for line in self._argument_lines():
            strips += wrap([(line, styles.dim)], width, indent=(_BODY, styles.text))
        return strips

    def _argument_lines(self) -> list[str]:
        """Return the arguments that neither the header nor the diff shows."""
        if not isinstance(self._args, Mapping):
            return []
        main = main_argument(self._args)
        lines: list[str] = []
        for name, value in self._args.items():
            is_shown = isinstance(value, str) and value in main and name in _IN_HEADER
            if (
                is_shown
                or value == main
                or (self._diff and isinstance(value, str) and "\n" in value)
            ):
                continue
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(clean(f"{name}: {shown}"))
        return lines

    def _paint_output(self, lines: Sequence[str], width: int, styles: Styles) -> list[Strip]:
        indent = (_BODY, styles.text)
        strips: list[Strip] = []
        for line in lines:
            style: Style = styles.dim
            if self.state == "failed":
                is_reason = not self._is_command or _TELLING.match(line)
                style = styles.error if is_reason else styles.text
            if self.state in NOT_OUTPUT:
                strips += wrap([(line, style)], width, indent=indent)
            else:
                strips += fold([(line, style)], width, prefix=[indent])
        return strips


def _count_lines(line: str) -> int:
    """Return 1, or the number of lines for which this note about left out lines stands."""
    note = _LEFT_OUT.match(line)
    return int(note[1].replace(",", "")) if note else 1


def _read_output(file: str) -> str:
    """Return the text of a stored output, without its middle if it is long; "" if it is gone."""
    half = LONGEST_OUTPUT // 2
    try:
        if not Path(file).is_file():
            return ""
        with Path(file).open("rb") as stored:
            size = stored.seek(0, SEEK_END)
            stored.seek(0)
            if size <= LONGEST_OUTPUT:
                return clean(stored.read(LONGEST_OUTPUT).decode("utf-8", "replace")).strip("\n")
            first = stored.read(half).decode("utf-8", "replace")
            stored.seek(size - half)
            last = stored.read(half).decode("utf-8", "replace")
    except OSError:
        return ""
    note = f"… {size - 2 * half:,} bytes left out; the full output is in {file}"
    return clean(f"{first}\n{note}\n{last}").strip("\n")


class LookupGroupBlock(TranscriptBlock):
    """Stands for several calls in a row that only looked: `Read 3 files, searched 2 patterns`."""

    most_guessed = 1

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[ToolBlock] = []

    @property
    def can_expand(self) -> bool:
        return True

    def add(self, call: ToolBlock) -> None:
        """Hide a call below this block until it is opened."""
        self._calls.append(call)
        call.group, call.gap = self, False
        call.changed()
        self.changed()

    @property
    def words(self) -> str:
        """What the calls did; a file that was read twice counts once."""
        subjects: dict[tuple[str, str], set[str]] = {}
        for call in self._calls:
            subjects.setdefault(call.lookup or ("called", "tool"), set()).add(call.subject)
        parts = [f"{verb} {plural(len(names), noun)}" for (verb, noun), names in subjects.items()]
        words = ", ".join(parts)
        return words[:1].upper() + words[1:]

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        words = self.words
        line: list[Span] = [("✓ ", styles.good), (words, styles.text)]
        left = width - len(words) - 4
        if left > _LEAST_NAMES and not expanded:
            names = ", ".join(dict.fromkeys(call.subject for call in self._calls))
            line.append((f"  {clip_words(names, left)}", styles.dim))
        return wrap(line, width)


class LookupPage:
    """A page on which calls in a row that only look are grouped once they have ended."""

    def __init__(self, page: BlockPage) -> None:
        self._page = page
        self.insert = page.insert
        self._row: list[ToolBlock] = []
        self._rows: dict[str, list[ToolBlock]] = {}
        """By the id of a call that has not ended: the calls in a row with it."""

    def add(self, block: TranscriptBlock) -> None:
        is_own = block.group is None  # Blocks of a fork have a page of their own.
        self._page.add(block)
        if isinstance(block, ToolBlock) and block.lookup and is_own:
            self._row.append(block)
            self._rows[block.call_id] = self._row
        elif block.gap:
            self._row = []

    def remove_block(self, block: TranscriptBlock) -> None:
        self._page.remove_block(block)
        if isinstance(block, ToolBlock) and (row := self._rows.pop(block.call_id, None)):
            row.remove(block)

    def touch(self, block: TranscriptBlock) -> None:
        self._page.touch(block)
        if not isinstance(block, ToolBlock) or block.call_id not in self._rows:
            return
        if block.state in ("running", "asking", "waiting"):
            return
        row = self._rows.pop(block.call_id)
        ended = [call for call in row if call.is_quiet]
        if len(ended) < 2 or not block.is_quiet:
            return
        groups = (call.group for call in ended)
        group = next((each for each in groups if isinstance(each, LookupGroupBlock)), None)
        if group is None:
            group = LookupGroupBlock()
            self._page.insert(row[0], group)
        for call in ended:
            if call.group is not group:
                group.add(call)
                self._page.touch(call)
        self._page.touch(group)


def _note(details: Mapping[str, Any], took_ms: int) -> str:
    parts = []
    if details.get("retry") and details.get("attempts"):
        parts.append(f"{details.get('attempt')}/{details['attempts']}")
    if details.get("storm"):
        parts.append(f"the same call ×{details['storm'].get('count')}")
    if details.get("exit_code") not in (None, 0):
        parts.append(f"exit {details['exit_code']}")
    if details.get("outcome") == "timeout":
        parts.append("timed out")
    if took_ms >= SHOW_TIME_FROM_MS:
        parts.append(f"{took_ms / 1000:.1f} s")
    return ", ".join(parts)


_MARKS = {"done": "☑", "in_progress": "▶", "pending": "☐"}


def answers_in(args: Any, text: str) -> Sequence[tuple[str, str]]:
    """Return each question in the result with its answer below; empty if a question is missing."""
    asked = args.get("questions") if isinstance(args, Mapping) else None
    if not isinstance(asked, Sequence) or isinstance(asked, str) or not asked:
        return ()
    questions = [_question_text(item) for item in asked]
    answers: list[tuple[str, str]] = []
    end = 0
    for question in questions:
        begin = text.find(question, end) if question else -1
        if begin < 0:
            return ()
        if answers:
            # The line of the next question begins with its number.
            answer = text[end:begin].rpartition("\n")[0]
            answers[-1] = (answers[-1][0], clean(" ".join(answer.split())))
        end = begin + len(question)
        answers.append((clean(question), clean(" ".join(text[end:].split()))))
    return answers


def _question_text(question: Any) -> str:
    if isinstance(question, Mapping):
        question = question.get("question") or question.get("prompt") or question.get("text")
    return question if isinstance(question, str) else ""


_SHOWN_FROM_S = 3
"""Seconds after which the running time of a call is shown."""
_BAR_WIDTH = 10


class ProgressText:
    """Describes the progress of a running call, from `clock` and the details of its updates."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._quiet_since: float | None = None
        self._share = ""

    def begin(self) -> None:
        """Restart the running time, as the call was waiting until now."""
        self._began = self._clock()

    def on_event(self, details: Mapping[str, Any]) -> None:
        """Apply the details of an update: `quiet_s`, or `done` and perhaps `total`."""
        quiet_s = _number(details.get("quiet_s"))
        self._quiet_since = self._clock() - quiet_s if quiet_s else None
        done = _number(details.get("done"))
        if done is not None:
            self._share = progress_bar(done, _number(details.get("total")))

    @property
    def words(self) -> str:
        """The progress in words, such as `95 s, quiet for 75 s`."""
        parts = [self._share]
        ran_s = int(self._clock() - self._began)
        if ran_s >= _SHOWN_FROM_S:
            parts.append(_duration(ran_s))
        if self._quiet_since is not None:
            parts.append(f"no output for {_duration(int(self._clock() - self._quiet_since))}")
        return ", ".join(part for part in parts if part)


def progress_bar(done: float, total: float | None) -> str:
    """Return a text such as `███░░░░░░░ 3/10`, or `3 done` without a total."""
    if not total or total < 0:
        return f"{done:g} done"
    filled = round(_BAR_WIDTH * max(0.0, min(1.0, done / total)))
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {done:g}/{total:g}"


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes >= 2 else f"{seconds} s"


def _number(value: Any) -> float | None:
    """Return a finite number or None: a plugin's tool may report anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None
