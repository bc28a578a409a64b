"""Arguments that broke off: the JSON that was meant so far, or the reason why there is none."""

import json
import re
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass

_SIGNIFICANT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|"', re.DOTALL)
_HALF_ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*"
    # The first half of a pair is a half escape too, whatever was there of the second.
    r"((?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?)\Z"
)
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What raw arguments spell.

    `whole`: they were JSON. `closed`: they had broken off, and `value` is what stands there once
    the open ends are closed. `broken`: `value` is the raw text and `reason` what is wrong with it.
    """

    value: Any
    state: Literal["whole", "closed", "broken"]
    reason: str = ""


def parse_arguments(raw: str, *, may_close: bool = True) -> Parsed:
    """The value that `raw` spells; bare line ends inside strings are let through."""
    if not raw.strip():
        return Parsed(value={}, state="whole")
    try:
        return Parsed(value=_loaded(raw), state="whole")
    except RecursionError:
        return Parsed(value=raw, state="broken", reason="nested too deep")
    except ValueError as error:
        reason = str(error)
    value = closed_json(raw) if may_close else None
    if not value:
        # Half a call must not become a call without arguments.
        return Parsed(value=raw, state="broken", reason=reason)
    return Parsed(value=value, state="closed", reason=reason)


def closed_json(raw: str) -> Any:
    """The value of JSON that breaks off, with its strings, lists and objects closed; None if none.

    A name without a value gets null. A half word, as in `{"a": tru`, stays broken.
    """
    text = raw
    open_ends: list[str] = []
    is_in_string = False
    for found in _SIGNIFICANT.finditer(text):
        mark = found.group()
        if mark == '"':
            # No closing quote is left: the rest is one open string.
            is_in_string = True
            break
        if mark in _CLOSING:
            open_ends.append(_CLOSING[mark])
        elif mark in "}]" and (not open_ends or open_ends.pop() != mark):
            return None
    if is_in_string:
        text = _without_half_escape(text) + '"'
    else:
        text = text.rstrip().removesuffix(",").rstrip()
        text += " null" if text.endswith(":") else ""
    try:
        return _loaded(text + "".join(reversed(open_ends)))
    except (ValueError, RecursionError):
        return None


def _loaded(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _without_half_escape(text: str) -> str:
    half = _HALF_ESCAPE.search(text)
    return text if half is None else text[: half.start(1)]
