"""The vocabulary of memory: what is remembered from one session to the next.

There are two stores: `memory` is about one project, `user` about the user.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

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
    """A part of the entries to change; `replace` without it replaces everything."""
    expected: str | None = None
    """The text that the store must have, or the change is refused; None: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """Both stores as a run gets them."""

    project: str = ""
    """What is remembered of the project, cut to size."""
    user: str = ""
    """What is remembered of the user, cut to size."""
    notices: tuple[str, ...] = ()
    """Problems with the stores, for the user."""


class MemoryConflict(DirgeError):
    """The store has changed since the text that a change was made from."""


class MemoryProvider(Protocol):
    """Stores and reads what is remembered, for any number of conversations.

    Errors are DirgeErrors with messages that a model can act on.
    """

    def prefetch(self) -> RecalledMemory:
        """Return what a run that begins now gets. Called in another thread.

        A problem with a store becomes a notice, not an error.
        """

    async def read(self, store: StoreName) -> str:
        """Return the whole text of a store."""

    async def update(self, change: MemoryUpdate) -> str:
        """Make a change, stored when this returns; returns a sentence about what was done.

        Raises:
            MemoryConflict: the store's text differs from `change.expected`.
            DirgeError: nothing matches, it is too long, or it can't be stored; nothing changed.
        """

    async def sync(self, messages: Sequence[Message]) -> None:
        """Handle what a run added to the conversation; called once, when the run is over."""

    def where(self, store: StoreName) -> str:
        """Return the place of a store, for the user."""


@runtime_checkable
class SupportsScopes(Protocol):
    """A memory provider that can keep several memories of a project."""

    def use_scope(self, scope: str) -> None:
        """Use the project's memory named `scope` from now on; "": the shared one."""
