"""What a person typed that is no message: their draft, the queue of a busy conversation, a name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from dirge_py.errors import DirgeError
from dirge_py.messages import UserMessage
from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.recorder import Recorder

Kind = Literal["steering", "follow_up"]

MOST_DRAFT_CHARS = 100_000
"""A longer draft is not kept: it would be written again at every pause."""


class Unsent:
    """Keeps it in the session's journal, each time it changes; not before something was said.

    `has_begun`: the session has messages. Without a recorder nothing is kept.
    """

    def __init__(self, recorder: Recorder | None, *, has_begun: bool) -> None:
        self._recorder = recorder
        self._has_begun = has_begun
        self._queue: Sequence[Any] = ()
        self._title = ""
        self.draft = ""
        """What stood in the input when it was last kept."""

    def keep_draft(self, text: str) -> None:
        text = text if len(text) <= MOST_DRAFT_CHARS else ""
        if self._recorder is not None and self._has_begun and text != self.draft:
            self.draft = text
            self._recorder.note_setting("draft", text)

    def keep_queue(self, waiting: Iterable[tuple[Kind, UserMessage]]) -> None:
        stored = as_stored(waiting) if self._recorder is not None else ()
        if self._recorder is not None and self._has_begun and list(stored) != list(self._queue):
            self._queue = stored
            self._recorder.note_setting("queue", stored)

    def rename(self, title: str) -> str:
        """The name as it is kept, on one line. Raises DirgeError: it is empty, nothing is kept."""
        name = " ".join(title.split())
        if not name:
            raise DirgeError("a session needs a name.", hint="/rename NAME")
        if self._recorder is None:
            raise DirgeError("this conversation keeps no session, so there is nothing to name.")
        self._title = name
        self._keep_title()
        return name

    @property
    def title(self) -> str:
        """What the session is called by now; "" if it has no name, or keeps nothing."""
        if self._title or self._recorder is None:
            return self._title
        named = [r.data for r in self._recorder.records() if r.type == "title"]
        newest = named[-1].get("title") if named and isinstance(named[-1], Mapping) else ""
        return newest if isinstance(newest, str) else ""

    def message_came(self) -> None:
        """There is a message now: what waited for one can be kept."""
        self._has_begun = True
        self._keep_title()

    def _keep_title(self) -> None:
        # The session's own first title comes with its first message, and would cover it.
        if self._title and self._has_begun and self._recorder is not None:
            self._recorder.note("title", {"title": self._title}, sync=True)
            self._title = ""


def as_stored(waiting: Iterable[tuple[Kind, UserMessage]]) -> list[dict[str, Any]]:
    """The queue as JSON values, oldest first."""
    return [{"kind": kind, "message": encode_message(message)} for kind, message in waiting]


def stored_queue(value: Any) -> list[tuple[Kind, UserMessage]]:
    """What `as_stored` gave once; what is none of it is left out."""
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    found: list[tuple[Kind, UserMessage]] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("kind") not in ("steering", "follow_up"):
            continue
        try:
            message = decode_message(entry.get("message"))
        except ValueError:
            continue
        if isinstance(message, UserMessage):
            found.append((cast(Kind, entry["kind"]), message))
    return found


def stored_draft(value: Any) -> str:
    return value if isinstance(value, str) else ""
