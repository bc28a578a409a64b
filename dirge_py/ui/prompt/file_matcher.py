"""Ranks the files for the text behind an `@`; those of the conversation come first."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dirge_py.types.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.ui.prompt.file_index import ListedFile

SHOWN = 50
RECENT_S = 3600.0
"""Seconds in which a modified file counts as recent, and ranks before others."""
_SLICE = 500
Rank: TypeAlias = tuple[int, bool, bool, int, int, str]
"""Kind of match, not touched in the session, not recent, score, length, path."""


class FileMatcher:
    """Matches a query against a list of files: call `work` until it is done, then `best`."""

    def __init__(
        self,
        query: str,
        files: "Sequence[ListedFile]",
        *,
        touched: Collection[str] = (),
        before: "FileMatcher | None" = None,
    ) -> None:
        """`before`: the matcher of a shorter query, whose matches are the only candidates."""
        self.query = query
        self.files = files
        self._wanted = query.lower()
        self._touched = touched
        self._since = time.time() - RECENT_S
        self._shows_hidden = query.startswith(".") or "/." in query
        self._at = 0
        self._ranks: list[Rank] = []
        self._fitting: list[ListedFile] = []
        self._candidates = files
        if (
            before is not None
            and before.is_done
            and before.files is files
            and before._shows_hidden == self._shows_hidden
            and query.startswith(before.query)
        ):
            self._candidates = before._fitting

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._candidates)

    @property
    def left(self) -> int:
        """The number of files that aren't matched yet."""
        return len(self._candidates) - self._at

    def work(self, limit_s: float | None = None) -> bool:
        """Match files for `limit_s`, or all of them; return whether all are done."""
        until = time.monotonic() + limit_s if limit_s is not None else None
        while not self.is_done:
            for file in self._candidates[self._at : self._at + _SLICE]:
                if file.is_hidden and not self._shows_hidden:
                    continue
                score = _score(self._wanted, file.folded)
                if score is not None and file.path != self.query:
                    self._fitting.append(file)
                    self._ranks.append(self._rank(score, file))
            self._at += _SLICE
            if until is not None and time.monotonic() > until:
                break
        return self.is_done

    def best(self) -> list[str]:
        """Return the best paths so far, the best first."""
        self._ranks.sort()
        del self._ranks[SHOWN:]
        return [rank[-1] for rank in self._ranks]

    def _rank(self, score: int, file: "ListedFile") -> Rank:
        kind = 0 if not self._wanted or score < 100 else 1 if score < 1000 else 2
        if self._wanted.endswith("/") and kind < 2:
            # Files right in the typed folder come before deeper ones.
            kind = min(1, file.folded.count("/", 0, len(file.path) - 1) - self.query.count("/"))
        is_old = file.modified < self._since
        return (kind, file.path not in self._touched, is_old, score, len(file.path), file.path)


def _score(wanted: str, path: str) -> int | None:
    """Return a score, lower is better; None if the letters aren't all there in order."""
    if not wanted:
        return path.count("/", 0, len(path) - 1)
    name_at = path.rfind("/", 0, len(path) - 1) + 1
    if (at := path.find(wanted, name_at)) >= 0:
        return min(at - name_at, 99)
    if (at := path.find(wanted)) >= 0:
        return 100 + min(at, 899)
    at, gaps = -1, 0
    for letter in wanted:
        place = path.find(letter, at + 1)
        if place < 0:
            return None
        gaps += place - at - 1
        at = place
    return 1000 + gaps


_NAMES = ("path", "file_path", "file")


class TouchedFiles:
    """The files that a conversation has read, changed or attached, updated at each call."""

    def __init__(self) -> None:
        self._of: Conversation | None = None
        self._read = 0
        self._paths: set[str] = set()

    def paths(self, conversation: "Conversation") -> set[str]:
        """Return their paths relative to the folder of the conversation."""
        messages = conversation.messages
        if conversation is not self._of or len(messages) < self._read:
            self._of, self._read, self._paths = conversation, 0, set()
        for message in messages[self._read :]:
            for named in _named(message):
                path = Path(conversation.cwd, os.path.expanduser(named))
                if path.is_relative_to(conversation.cwd):
                    self._paths.add(str(path.relative_to(conversation.cwd)))
        self._read = len(messages)
        return self._paths


def _named(message: Message) -> list[str]:
    if isinstance(message, UserMessage):
        return list(message.attached)
    if not isinstance(message, AssistantMessage):
        return []
    arguments = [call.arguments for call in message.calls if isinstance(call.arguments, Mapping)]
    values = [call_arguments.get(name) for call_arguments in arguments for name in _NAMES]
    return [value for value in values if isinstance(value, str) and "\0" not in value]
