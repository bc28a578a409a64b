"""A function call whose arguments come in pieces, each with the place it belongs to."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class PartialArguments:
    """Arguments under construction; `whole` is all that came so far."""

    def __init__(self) -> None:
        self.whole: dict[str, Any] = {}
        self._open = ""
        """The place of the text that goes on."""

    def put(self, partial: Mapping[str, Any]) -> None:
        """Take one piece.

        Raises:
            ValueError: its place cannot be: no path, or one through a value.
        """
        path = partial.get("jsonPath")
        if not isinstance(path, str):
            raise ValueError("a piece of arguments without its place")
        steps = _steps(path)
        value = _value(partial)
        place: Any = self.whole
        for step, following in pairwise(steps):
            place = _entered(place, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        if path == self._open and isinstance(value, str):
            before = _entered(place, last, "")
            value = f"{before}{value}"
        _entered(place, last, None)
        place[last] = value
        self._open = path if partial.get("willContinue") else ""


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
    return None


def _entered(place: Any, step: str | int, new: Any) -> Any:
    """What is at `step` of `place`, put there if nothing is."""
    if isinstance(step, str) and isinstance(place, dict):
        return place.setdefault(step, new)
    if isinstance(step, int) and isinstance(place, list) and step <= len(place):
        if step == len(place):
            place.append(new)
        return place[step]
    raise ValueError("a piece of arguments inside a value")
