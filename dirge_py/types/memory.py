"""The vocabulary of memory: what is remembered from one session to the next.

There are two stores: `memory` is about one project, `user` about the person.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError
from dirge_py.types.messages import Message

StoreName: TypeAlias = Literal["memory", "user"]
MemoryAction: TypeAlias = Literal["add", "replace", "remove"]

ENTRY_CHARS = 2_000
"""The most characters of one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUpdate:
    """One change of a store."""

    store: StoreName
    """The store."""
    action: MemoryAction
    """Append an entry, or replace or remove the entries that hold `match`."""
    content: str = ""
    """The new text."""
    match: str = ""
    """A part of the entries that are meant; `replace` without it replaces everything."""
    expected: str | None = None
    """The change is refused unless the store says exactly this; None: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """Both stores as a run gets them."""

    project: str = ""
    """What is remembered of the project, cut to size."""
    user: str = ""
    """What is remembered of the person, cut to size."""
    notices: tuple[str, ...] = ()
    """What is wrong with the stores, for the person."""


class MemoryConflict(DirgeError):
    """The store has changed since the text that a change was made from."""


class MemoryProvider(Protocol):
    """Stores and reads what is remembered, for any number of conversations.

    Errors are DirgeErrors, with words that a model can act on.
    """

    def prefetch(self) -> RecalledMemory:
        """Return what a run that begins now gets. Called in another thread.

        It never raises for what is wrong with a store: that is a notice.
        """

    async def read(self, store: StoreName) -> str:
        """Return the whole text of a store."""

    async def update(self, change: MemoryUpdate) -> str:
        """Make a change, stored when this returns; returns a sentence about what was done.

        Raises:
            MemoryConflict: the store says something else than `change.expected`.
            DirgeError: nothing matches, it is too long, or it cannot be kept; nothing changed.
        """

    async def sync(self, messages: Sequence[Message]) -> None:
        """Handle what a run added to the conversation; called once, when the run is over."""

    def where(self, store: StoreName) -> str:
        """Return the place of a store, for the person."""
