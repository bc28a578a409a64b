"""JSON values that a session keeps by name, such as the todo list: `SessionChoices.settings`."""

from collections.abc import Callable, Mapping
from typing import Any


class SessionMetadata:
    """They hold JSON values. `note` stores one, and `begin` has the session begun;
    without them they last as long as the program."""

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        note: Callable[[str, Any], None] = lambda name, value: None,
        begin: Callable[[str], None] = lambda title: None,
    ) -> None:
        self._values = dict(values or {})
        self._note = note
        self._begin = begin

    def begin(self, title: str) -> None:
        """Have the session on disk from now on, by this title unless it is there already."""
        self._begin(title)

    def get(self, name: str) -> Any:
        """None where nothing is kept by this name."""
        return self._values.get(name)

    def load(self, name: str, value: Any) -> None:
        """Take up what is stored already."""
        self._values[name] = value

    def put(self, name: str, value: Any) -> None:
        """Keep `value` from now on; None lets go of what was kept."""
        self._values[name] = value
        self._note(name, value)
