"""A function call whose arguments come in pieces, each with the place it belongs to."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class PartialArguments:
    """Arguments under construction, beginning with those that came whole."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = dict(whole)
        self._open = ""
        """The place of the text that goes on."""
        self._pieces: list[str] = []
        self._at: tuple[Any, Any] = ({}, "")
        """What holds the newest value, and under which name or number."""

    def put(self, partial: Mapping[str, Any]) -> None:
        """Take one piece.

        Raises:
            ValueError: its place cannot be: no path, or one through a value.
        """
        path = partial.get("jsonPath")
        if not isinstance(path, str):
            raise ValueError("a piece of arguments without its place")
        value, goes_on = _value(partial), bool(partial.get("willContinue"))
        if self._open and path == self._open and isinstance(value, str):
            self._pieces.append(value)
        else:
            self._settle()
            self._begin(path, value)
        self._open = path if goes_on else ""

    def whole(self) -> dict[str, Any]:
        """All that came so far."""
        self._settle()
        return self._whole

    def _begin(self, path: str, value: Any) -> None:
        steps = _steps(path)
        place: Any = self._whole
        for step, following in pairwise(steps):
            place = _entered(place, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        _entered(place, last, None)
        place[last] = value
        self._pieces = [value] if isinstance(value, str) else []
        self._at = (place, last)

    def _settle(self) -> None:
        """Join the open text only now: at each of its pieces it would cost all that came before."""
        if self._pieces:
            place, last = self._at
            place[last] = "".join(self._pieces)


def _steps(path: str) -> list[str | int]:
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            break
        member, index, *quoted = found.groups()
        steps.append(int(index) if index else next(n for n in (member, *quoted) if n is not None))
        at = found.end()
    if not steps or at < len(rest) or isinstance(steps[0], int):
        raise ValueError(f"a piece of arguments at {path[:100]!r}")
    return steps


def _value(partial: Mapping[str, Any]) -> Any:
    for name in ("stringValue", "numberValue", "boolValue"):
        if name in partial:
            return partial[name]
    # The piece that ends a text may bring nothing.
    return None if "nullValue" in partial else ""


def _entered(place: Any, step: str | int, new: Any) -> Any:
    """What is at `step` of `place`, put there if nothing is."""
    if isinstance(step, str) and isinstance(place, dict):
        return place.setdefault(step, new)
    if isinstance(step, int) and isinstance(place, list) and step <= len(place):
        if step == len(place):
            place.append(new)
        return place[step]
    raise ValueError("a piece of arguments inside a value")
