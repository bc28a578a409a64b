"""Small things that a session keeps by name, the last value of each counting: `Loaded.settings`."""

from collections.abc import Callable, Mapping
from typing import Any


class Kept:
    """They hold JSON values. `note` stores one; without it they last as long as the program."""

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        note: Callable[[str, Any], None] = lambda name, value: None,
    ) -> None:
        self._values = dict(values or {})
        self._note = note

    def get(self, name: str) -> Any:
        """None where nothing is kept by this name."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep `value` from now on; None lets go of what was kept."""
        self._values[name] = value
        self._note(name, value)
