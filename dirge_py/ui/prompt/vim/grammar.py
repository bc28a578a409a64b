"""What a row of keys says in normal or visual mode."""

from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.prompt.vim.motions import SIMPLE
from dirge_py.ui.prompt.vim.objects import NAMES

OPERATORS = frozenset("dcy")
_COMMANDS = frozenset("iaIAoOxXsSDCYpPuvVJ~./")
_VISUAL_COMMANDS = frozenset("xXsSDCYRpPuUvVJ~oO")
_MOST_TIMES = 9_999

Kind = Literal["motion", "find", "object", "line", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """One order. `what`: the motion, object or command; `char`: what is looked for or put in.

    `operator`: what to do with the text up to there; `line`: with as many whole lines.
    """

    kind: Kind
    what: str
    operator: str = ""
    char: str = ""
    count: int | None = None


Reading: TypeAlias = Phrase | Literal["more", "nothing"]
"""An order, the beginning of one, or neither."""


def read(keys: str, *, is_visual: bool = False) -> Reading:
    """What these keys mean together."""
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
            return Phrase(kind="line", what="line", operator=operator, count=count)
    return _rest(rest, operator, count, is_visual=is_visual)


def _rest(rest: str, operator: str, count: int | None, *, is_visual: bool) -> Reading:
    head, tail = rest[0], rest[1:]
    if head in "fFtT":
        return _with_next("find", head, tail, operator, count)
    if head == "g":
        if not tail:
            return "more"
        return _phrase("motion", "gg", operator, count) if tail == "g" else "nothing"
    if head in SIMPLE:
        return _phrase("motion", head, operator, count)
    if head in "ia" and (operator or is_visual):
        if not tail:
            return "more"
        found = _phrase("object", rest, operator, count)
        return found if tail in NAMES else "nothing"
    if operator:
        return "nothing"
    if head == "r":
        return _with_next("command", "r", tail, "", count)
    known = _VISUAL_COMMANDS | OPERATORS if is_visual else _COMMANDS
    return _phrase("command", head, "", count) if head in known else "nothing"


def _with_next(kind: Kind, what: str, tail: str, operator: str, count: int | None) -> Reading:
    if not tail:
        return "more"
    return Phrase(kind=kind, what=what, operator=operator, char=tail, count=count)


def _phrase(kind: Kind, what: str, operator: str, count: int | None) -> Phrase:
    return Phrase(kind=kind, what=what, operator=operator, count=count)


def _count(keys: str) -> tuple[int | None, str]:
    digits = 0
    while digits < len(keys) and keys[digits] in "0123456789" and (digits or keys[0] != "0"):
        digits += 1
    number = int(keys[:digits][:6]) if digits else None
    return (None if number is None else min(number, _MOST_TIMES)), keys[digits:]
