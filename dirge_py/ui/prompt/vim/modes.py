"""Vim's modes: each key changes a text and a cursor. `read_command` parses keys into commands."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.prompt.vim import motions
from dirge_py.ui.prompt.vim.motions import MotionTarget, line_end, line_start


@dataclass(frozen=True, slots=True)
class Register:
    """The text that was deleted or copied last."""

    text: str = ""
    is_lines: bool = False
    """It is whole lines, without the last newline."""


@dataclass(frozen=True, slots=True)
class TextAndCursor:
    """A text and the offset of its cursor."""

    text: str
    at: int


def lines_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a range to whole lines, without the last newline."""
    return line_start(text, min(start, end)), line_end(text, max(start, end))


def without_lines(text: str, start: int, end: int) -> TextAndCursor:
    """Remove whole lines, and put the cursor on the line behind them."""
    if end < len(text):
        return TextAndCursor(text[:start] + text[end + 1 :], start)
    left = text[: max(0, start - 1)]
    return TextAndCursor(left, line_start(left, len(left)))


def put(place: TextAndCursor, register: Register, *, is_after: bool, times: int) -> TextAndCursor:
    """Insert the register beside the cursor, or as whole lines."""
    text, at = place.text, place.at
    if not register.text:
        return place
    if not register.is_lines:
        if is_after and at < line_end(text, at):
            at += 1
        pasted = register.text * times
        return TextAndCursor(text[:at] + pasted + text[at:], at + len(pasted) - 1)
    pasted = "\n".join([register.text] * times)
    if is_after:
        end = line_end(text, at)
        return TextAndCursor(f"{text[:end]}\n{pasted}{text[end:]}", end + 1)
    start = line_start(text, at)
    return TextAndCursor(f"{text[:start]}{pasted}\n{text[start:]}", start)


def joined(text: str, at: int, lines: int) -> TextAndCursor:
    """Join a line with those below it, with a space between."""
    for _ in range(max(1, lines - 1)):
        end = line_end(text, at)
        if end == len(text):
            break
        below = text[end + 1 : line_end(text, end + 1)].lstrip()
        gap = " " if below and end > line_start(text, end) and text[end - 1] != " " else ""
        text = text[:end] + gap + below + text[line_end(text, end + 1) :]
        at = end
    return TextAndCursor(text, at)


def recased(text: str) -> str:
    """Swap the case of letters, unless that changes the length."""
    return "".join(char.swapcase() if len(char.swapcase()) == 1 else char for char in text)


def opened(what: str, place: TextAndCursor) -> TextAndCursor:
    """Return where writing starts, on a new line for `o` and `O`."""
    text, at = place.text, place.at
    if what == "o":
        end = line_end(text, at)
        return TextAndCursor(f"{text[:end]}\n{text[end:]}", end + 1)
    if what == "O":
        start = line_start(text, at)
        return TextAndCursor(f"{text[:start]}\n{text[start:]}", start)
    places = {
        "i": at,
        "a": min(at + 1, line_end(text, at)),
        "I": motions.first_word_on_line(text, at),
        "A": line_end(text, at),
    }
    return TextAndCursor(text, places[what])


def replaced(place: TextAndCursor, times: int, char: str) -> TextAndCursor:
    """Replace characters by `char`; without one, swap their case."""
    text, at = place.text, place.at
    end = at + times
    if end > line_end(text, at):
        if char:
            return place
        end = line_end(text, at)
    made = char * (end - at) if char else recased(text[at:end])
    return TextAndCursor(text[:at] + made + text[end:], end - 1 if char else end)


def restyled(text: str, what: str, char: str) -> str:
    """Return a selection after `r`, `~`, `u` or `U`."""
    if what == "r":
        return "".join("\n" if old == "\n" else char for old in text)
    if what == "~":
        return recased(text)
    return text.lower() if what == "u" else text.upper()


CommandKind = Literal["motion", "find", "object", "line", "command"]
OPERATORS = frozenset("dcy")
_COMMANDS = frozenset("iaIAoODCpPuvVJ~./")
_VISUAL_COMMANDS = frozenset("xXsSDCYRpPuUvVJ~oO")
_SHORT: Mapping[str, tuple[CommandKind, str, str]] = {
    "Y": ("line", "line", "y"),
    "S": ("line", "line", "c"),
    "x": ("motion", "l", "d"),
    "X": ("motion", "h", "d"),
    "s": ("motion", "l", "c"),
}
"""Kind, motion and operator of the keys that stand for another command."""
_MOST_TIMES = 9_999
_NUMBER = late_pattern("[1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class VimCommand:
    """A complete command."""

    kind: CommandKind
    """`line`: an operator on `count` whole lines."""
    what: str
    """The motion, text object or command."""
    operator: str = ""
    """The operator on the text up to the motion's target."""
    char: str = ""
    """The character to search for or to insert."""
    count: int | None = None
    """The number in front of the command."""


Reading: TypeAlias = VimCommand | Literal["more", "nothing"]
"""A command, the start of one, or neither."""


def read_command(keys: str, *, is_visual: bool = False) -> Reading:
    """Parse the keys of a command."""
    count, rest = _count(keys)
    if not rest:
        return "more"
    operator = ""
    if rest[0] in OPERATORS and not is_visual:
        operator, (second, rest) = rest[0], _count(rest[1:])
        if second is not None:
            count = min(_MOST_TIMES, (count or 1) * second)
        if not rest:
            return "more"
        if rest == operator:
            return VimCommand(kind="line", what="line", operator=operator, count=count)
    return _rest(rest, operator, count, is_visual=is_visual)


def _rest(rest: str, operator: str, count: int | None, *, is_visual: bool) -> Reading:
    head, tail = rest[0], rest[1:]
    is_object = head in "ia" and bool(operator or is_visual)
    if not tail and (head in "fFtTg" or is_object or (head == "r" and not operator)):
        return "more"
    kind: CommandKind = "command"
    if head in "fFtT":
        kind, what = "find", head
    elif head == "g" and tail == "g":
        kind, what = "motion", "gg"
    elif head in motions.SIMPLE:
        kind, what = "motion", head
    elif is_object and tail in motions.NAMES:
        kind, what = "object", rest
    elif head == "g" or is_object or operator:
        return "nothing"
    elif not is_visual and head in _SHORT:
        kind, what, operator = _SHORT[head]
    elif head == "r" or head in (_VISUAL_COMMANDS | OPERATORS if is_visual else _COMMANDS):
        what = head
    else:
        return "nothing"
    char = tail if head in "fFtTr" else ""
    return VimCommand(kind=kind, what=what, operator=operator, char=char, count=count)


def _count(keys: str) -> tuple[int | None, str]:
    digits = _NUMBER.match(keys)
    if digits is None:
        return None, keys
    return min(int(digits[0][:6]), _MOST_TIMES), keys[digits.end() :]


Mode = Literal["insert", "normal", "visual", "visual line"]
Wish = Literal["", "undo", "redo", "history_older", "history_newer", "search_history"]
_LONGEST = 4_000_000
"""Characters that a count may insert at most."""
_AS_LETTERS = {"backspace": "h", "left": "h", "right": "l", "home": "0", "end": "$", "space": "l"}
_WHOLE_LINE = {"D": "d", "C": "c", "Y": "y", "S": "c", "R": "c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VimResult:
    """The state after a key."""

    text: str
    at: int
    """The offset of the cursor."""
    anchor: int | None = None
    """The other end of the selection, if there is one."""
    wish: Wish = ""
    """An action that the composer has to do."""
    cut: str = ""
    """The text that the key has deleted or copied."""


class Vim:
    """Vim's modes, register and last change; it starts in insert mode."""

    def __init__(self) -> None:
        self.mode: Mode = "insert"
        self.register = Register()
        self.pending = ""
        """The keys of an incomplete command."""
        self._last_search = ("", "")
        """Motion and character of the last search; "" for none."""
        self._column: int | None = None
        self._anchor = 0
        self._cut = ""
        self._wish: Wish = ""
        self._done = self._inserted = ""
        self._before = TextAndCursor("", 0)
        self._repeats = False

    def begin(self) -> None:
        """Start in insert mode."""
        self.mode, self.pending, self._column = "insert", "", None

    def press(self, key: str, text: str, at: int) -> VimResult | None:
        """Handle a character or a named key, at offset `at`; return None if it has no meaning."""
        self._cut, self._wish = "", ""
        at = max(0, min(at, len(text)))
        if key == "escape":
            return self._escape(text, at)
        if self.mode == "insert":
            return None
        if key == "ctrl+r":
            self.pending = ""
            return VimResult(text=text, at=at, wish="redo")
        if not (self.pending and self.pending[-1] in "rfFtT"):
            key = _AS_LETTERS.get(key, key)
        key = " " if key == "space" else key
        if len(key) != 1:
            self.pending = ""
            return None
        return self._handle_key(key, TextAndCursor(text, at))

    def _handle_key(self, key: str, place: TextAndCursor) -> VimResult | None:
        keys, self.pending = self.pending + key, ""
        phrase = read_command(keys, is_visual=self.mode != "normal")
        if phrase == "more":
            self.pending = keys
            return self._outcome(place)
        if phrase == "nothing":
            return self._outcome(place) if len(keys) > 1 or key.isprintable() else None
        assert isinstance(phrase, VimCommand)
        if phrase.what not in ("j", "k"):
            self._column = None
        if phrase.kind == "command" and phrase.what == "." and self.mode == "normal":
            return self._again(place, phrase.count)
        was_visual = self.mode != "normal"
        after = self._visual(phrase, place) if was_visual else self._normal(phrase, place)
        if not was_visual and not self._repeats and _changes(phrase):
            self._done, self._inserted = keys, ""
        return self._outcome(after)

    def _outcome(self, place: TextAndCursor) -> VimResult:
        at, anchor = place.at, None
        if self.mode == "normal":
            at = motions.rested(place.text, at)
        elif self.mode == "visual":
            at, anchor = min(at, len(place.text)), min(self._anchor, len(place.text))
        elif self.mode == "visual line":
            anchor = min(self._anchor, len(place.text))
        return VimResult(text=place.text, at=at, anchor=anchor, wish=self._wish, cut=self._cut)

    def _escape(self, text: str, at: int) -> VimResult | None:
        """Go back to normal mode; return None if it is active and no command is incomplete."""
        if self.mode == "normal" and not self.pending:
            return None
        if self.mode == "insert":
            before, place = self._before.text, self._before.at
            head, tail = before[:place], before[place:]
            is_longer = text.startswith(head) and text.endswith(tail) and len(text) >= len(before)
            self._inserted = text[place : len(text) - len(tail)] if is_longer else ""
            at = max(line_start(text, at), at - 1)
        self.mode, self.pending = "normal", ""
        return self._outcome(TextAndCursor(text, at))

    def _again(self, place: TextAndCursor, count: int | None) -> VimResult:
        self._repeats = True
        keys, inserted = self._done, self._inserted
        if count is not None:
            keys = f"{count}{keys.lstrip('0123456789')}"
        done = self._outcome(place)
        try:
            for key in keys:
                done = self.press(key, done.text, done.at) or done
            if self.mode == "insert":
                text = done.text[: done.at] + inserted + done.text[done.at :]
                self.mode = "normal"
                at = max(line_start(text, done.at), done.at + len(inserted) - 1)
                done = dataclasses.replace(self._outcome(TextAndCursor(text, at)), cut=done.cut)
        finally:
            self._repeats = False
        return done

    def _normal(self, phrase: VimCommand, place: TextAndCursor) -> TextAndCursor:
        if phrase.kind == "command":
            return self._command(phrase, place)
        text, at = place.text, place.at
        if phrase.kind == "line":
            times = phrase.count or 1
            below = motions.move(text, at, "j", count=times - 1) if times > 1 else MotionTarget(at)
            last = below.at if below else len(text)
            return self._operate(phrase.operator, place, at, MotionTarget(last, "lines"))
        if phrase.kind == "object":
            ends = motions.find_object(text, at, phrase.what[1], is_around=phrase.what[0] == "a")
            if ends is None:
                return place
            return self._operate(phrase.operator, place, ends[0], MotionTarget(ends[1]))
        if (target := self._target(phrase, place)) is None:
            if phrase.what in ("j", "k") and not phrase.operator and phrase.count is None:
                # Above the first line are the earlier prompts, below the last the later ones.
                self._wish = "history_older" if phrase.what == "k" else "history_newer"
            return place
        if not phrase.operator:
            return TextAndCursor(text, target.at)
        return self._operate(phrase.operator, place, at, target)

    def _target(self, phrase: VimCommand, place: TextAndCursor) -> MotionTarget | None:
        text, at = place.text, place.at
        if phrase.kind == "find":
            self._last_search = (phrase.what, phrase.char)
            return motions.find(text, at, *self._last_search, times=phrase.count or 1)
        if phrase.what in (";", ","):
            motion, char = self._last_search
            if not motion:
                return None
            motion = motion if phrase.what == ";" else motion.swapcase()
            return motions.find(text, at, motion, char, times=phrase.count or 1, is_again=True)
        if phrase.what in ("j", "k"):
            if self._column is None:
                self._column = at - line_start(text, at)
            return motions.move(text, at, phrase.what, count=phrase.count, column=self._column)
        is_on_word = at < len(text) and not text[at].isspace()
        if phrase.operator == "c" and phrase.what in ("w", "W") and is_on_word:
            # Like Vim, keep the space behind the word. The motion starts one character earlier, as
            # on the last letter of a word `e` would move to the next word.
            word_end = "e" if phrase.what == "w" else "E"
            return motions.move(text, at - 1, word_end, count=phrase.count)
        target = motions.move(text, at, phrase.what, count=phrase.count)
        if not phrase.operator or phrase.what not in ("w", "W") or target is None:
            return target
        end = line_end(text, at)
        if target.at > end and not text[end : target.at].strip():
            # The last word of a line doesn't include the newline.
            return MotionTarget(max(at, end), target.reach)
        return target

    def _operate(
        self, operator: str, place: TextAndCursor, start: int, target: MotionTarget
    ) -> TextAndCursor:
        text = place.text
        if target.reach == "lines":
            return self._on_lines(operator, place, *lines_around(text, start, target.at))
        low, high = min(start, target.at), max(start, target.at)
        if target.reach == "inclusive":
            high = min(high + 1, len(text))
        self._keep(Register(text[low:high]))
        if operator == "y":
            return TextAndCursor(text, low)
        left = TextAndCursor(text[:low] + text[high:], low)
        return self._insert(left) if operator == "c" else left

    def _on_lines(self, operator: str, place: TextAndCursor, start: int, end: int) -> TextAndCursor:
        text = place.text
        self._keep(Register(text[start:end], is_lines=True))
        if operator == "y":
            return place
        if operator == "c":
            return self._insert(TextAndCursor(text[:start] + text[end:], start))
        left = without_lines(text, start, end)
        return TextAndCursor(left.text, motions.first_word_on_line(left.text, left.at))

    def _keep(self, register: Register) -> None:
        if register.text or register.is_lines:
            self.register = register
            self._cut = register.text

    def _insert(self, place: TextAndCursor) -> TextAndCursor:
        self.mode = "insert"
        self._before = place
        return place

    def _command(self, phrase: VimCommand, place: TextAndCursor) -> TextAndCursor:
        text, at, what = place.text, place.at, phrase.what
        times = phrase.count or 1
        if what in "iaIAoO":
            return self._insert(opened(what, place))
        if what in "DC":
            below = motions.move(text, at, "$", count=times) or MotionTarget(len(text))
            return self._operate(what.lower(), place, at, MotionTarget(line_end(text, below.at)))
        if what in "pP":
            times = max(1, min(times, _LONGEST // max(1, len(self.register.text))))
            return put(place, self.register, is_after=what == "p", times=times)
        if what in "vV":
            self.mode, self._anchor = ("visual" if what == "v" else "visual line"), at
        elif what in "u/":
            self._wish = "undo" if what == "u" else "search_history"
        elif what == "J":
            return joined(text, at, times)
        elif what in "r~":
            return replaced(place, times, phrase.char)
        return place

    def _visual(self, phrase: VimCommand, place: TextAndCursor) -> TextAndCursor:
        text, at = place.text, place.at
        if phrase.kind == "command":
            return self._visual_command(phrase, place)
        if phrase.kind == "object":
            ends = motions.find_object(text, at, phrase.what[1], is_around=phrase.what[0] == "a")
            if ends is None or ends[0] == ends[1]:
                return place
            self._anchor = ends[0]
            return TextAndCursor(text, ends[1] - 1)
        target = self._target(phrase, place)
        return TextAndCursor(text, min(target.at, max(0, len(text) - 1))) if target else place

    def _visual_command(self, phrase: VimCommand, place: TextAndCursor) -> TextAndCursor:
        text, at, what = place.text, place.at, phrase.what
        if what in "vV":
            wanted: Mode = "visual" if what == "v" else "visual line"
            self.mode = "normal" if self.mode == wanted else wanted
            return place
        if what in "oO":
            self._anchor, at = at, self._anchor
            return TextAndCursor(text, min(at, len(text)))
        start, end = sorted((min(self._anchor, len(text)), at))
        is_lines = self.mode == "visual line" or what in "DCYSRX"
        self.mode = "normal"
        if is_lines:
            start, end = lines_around(text, start, end)
        else:
            end = min(len(text), end + 1)
        if what in "r~uU":
            changed = restyled(text[start:end], what, phrase.char)
            return TextAndCursor(text[:start] + changed + text[end:], start)
        if what == "J":
            return joined(text, start, text.count("\n", start, end) + 1)
        if what in "pP":
            return self._put_over_selection(place, start, end, is_lines=is_lines)
        operator = _WHOLE_LINE.get(what) or {"x": "d", "X": "d", "s": "c"}.get(what, what)
        if is_lines:
            return self._on_lines(operator, place, start, end)
        return self._operate(operator, place, start, MotionTarget(end))

    def _put_over_selection(
        self, place: TextAndCursor, start: int, end: int, *, is_lines: bool
    ) -> TextAndCursor:
        text, taken = place.text, self.register
        self._keep(Register(text[start:end], is_lines=is_lines))
        pasted = taken.text if is_lines or not taken.is_lines else f"\n{taken.text}\n"
        last = start + max(0, len(pasted) - 1)
        return TextAndCursor(text[:start] + pasted + text[end:], last)


def _changes(phrase: VimCommand) -> bool:
    return phrase.what not in "vVu./" if phrase.kind == "command" else phrase.operator in ("d", "c")
