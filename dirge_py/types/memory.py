"""What is remembered from one session to the next, whoever keeps it.

There are two stores: `memory` is about one project, `user` about the person, wherever they work.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError
from dirge_py.types.messages import Message

StoreName: TypeAlias = Literal["memory", "user"]
MemoryAction: TypeAlias = Literal["add", "replace", "remove"]

ENTRY_CHARS = 2_000
"""The most that one entry may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUpdate:
    """One change of a store.

    `add` appends `content` as an entry. `replace` puts it in the place of the entries that hold
    `match`, or of everything where `match` is empty. `remove` drops the entries that hold `match`.
    With `expected` nothing happens unless the store says exactly that.
    """

    store: StoreName
    action: MemoryAction
    content: str = ""
    match: str = ""
    expected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """Both stores as a run is told them, already cut to size. `notices` are for the person."""

    project: str = ""
    user: str = ""
    notices: tuple[str, ...] = ()


class MemoryConflict(DirgeError):
    """The store does not say any more what the change was made from."""


class MemoryProvider(Protocol):
    """Keeps both stores. One is enough for any number of conversations.

    Errors are DirgeErrors, with words that a model can act on.
    """

    def prefetch(self) -> RecalledMemory:
        """What a run that begins now is told. It may take its time: it has a thread to itself.

        Never raises for what is wrong with a store: that is a notice.
        """

    async def read(self, store: StoreName) -> str:
        """Everything in a store; empty if nothing is."""

    async def update(self, change: MemoryUpdate) -> str:
        """Make a change, kept once this returns; gives a sentence that says what was done.

        Raises:
            StoreChanged: the store says something else than `change.expected`.
            DirgeError: nothing matches, it is too long, or it cannot be kept; nothing changed.
        """

    async def sync(self, messages: Sequence[Message]) -> None:
        """Hear what a run added to the conversation: once, when it is over and not yet told so."""

    def where(self, store: StoreName) -> str:
        """Where a store is kept, for the person."""
