"""What operators and commands make of a text."""

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.prompt.vim.motions import MotionTarget, first_word_on_line, line_end, line_start


@dataclass(frozen=True, slots=True)
class Register:
    """What was deleted or copied last; `is_lines`: whole lines, without the last newline."""

    text: str = ""
    is_lines: bool = False


@dataclass(frozen=True, slots=True)
class TextAndCursor:
    """A text and where the cursor is in it."""

    text: str
    at: int


def lines_around(text: str, start: int, end: int) -> tuple[int, int]:
    """The range widened to whole lines, without the newline of the last."""
    low, high = min(start, end), max(start, end)
    return line_start(text, low), line_end(text, high)


def without_lines(text: str, start: int, end: int) -> TextAndCursor:
    """The text without these whole lines, the cursor on the one that took their place."""
    if end < len(text):
        return TextAndCursor(text[:start] + text[end + 1 :], start)
    kept = text[: max(0, start - 1)]
    return TextAndCursor(kept, line_start(kept, len(kept)))


def put(place: TextAndCursor, register: Register, *, is_after: bool, times: int) -> TextAndCursor:
    """The text with the register in it: beside the cursor, or on lines of its own."""
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
    """The line and those below it as one, a space between."""
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
    """Small letters large and the other way round, where that does not change the length."""
    return "".join(char.swapcase() if len(char.swapcase()) == 1 else char for char in text)


def opened(what: str, place: TextAndCursor) -> TextAndCursor:
    """The place where writing begins, on a new line for `o` and `O`."""
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
        "I": first_word_on_line(text, at),
        "A": line_end(text, at),
    }
    return TextAndCursor(text, places[what])


def replaced(place: TextAndCursor, times: int, char: str) -> TextAndCursor:
    """Characters replaced by `char`, or for none with the other case."""
    text, at = place.text, place.at
    end = at + times
    if end > line_end(text, at):
        if char:
            return place
        end = line_end(text, at)
    made = char * (end - at) if char else recased(text[at:end])
    return TextAndCursor(text[:at] + made + text[end:], end - 1 if char else end)


def restyled(text: str, what: str, char: str) -> str:
    """What `r`, `~`, `u` and `U` make of a selection."""
    if what == "r":
        return "".join("\n" if old == "\n" else char for old in text)
    if what == "~":
        return recased(text)
    return text.lower() if what == "u" else text.upper()


def within_line(text: str, at: int, target: MotionTarget) -> MotionTarget:
    """The last word of a line is taken without the newline behind it."""
    end = line_end(text, at)
    if target.at > end and not text[end : target.at].strip():
        return MotionTarget(max(at, end), target.reach)
    return target


def typed_between(before: TextAndCursor, text: str) -> str:
    """What was written at the place where writing began."""
    head, tail = before.text[: before.at], before.text[before.at :]
    if text.startswith(head) and text.endswith(tail) and len(text) >= len(head) + len(tail):
        return text[len(head) : len(text) - len(tail)]
    return ""
