"""Sees to it that a fork leaves the project as it was."""

from typing import TYPE_CHECKING

from dirge_py.errors import DirgeError
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.parts import TreeState

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.session.snapshots.base import Snapshot

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What differs afterwards: `paths` of files, and `words` for the person about it.

    `tree` is the hash of the files as they are now; "" where they cannot be read.
    """

    tree: str
    paths: tuple[str, ...] = ()
    words: str = ""


class Untouched:
    """Looks at the project's files before and after one fork.

    What a fork changed although it must not is undone from a snapshot. Where nothing it ran could
    have done so, somebody else works in the project, whose changes are left alone.
    """

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation
        self._before: TreeState | None = None
        self._snapshot: Snapshot | None = None

    async def look(self, *, needs_way_back: bool) -> None:
        """Take the state to compare with; with a snapshot where a sandbox does not shut it in."""
        self._before = await self._read()
        snapshots = self._conversation.snapshots
        if needs_way_back and snapshots is not None:
            self._snapshot = await snapshots.take()

    async def compare(self, *, can_be_its_own: bool) -> Touched:
        """What became of the files. `can_be_its_own`: the fork ran something unconfined."""
        after = await self._read()
        if self._before is None or after is None:
            return Touched(tree=after.sha256 if after else "")
        if after.sha256 == self._before.sha256:
            return Touched(tree=after.sha256)
        paths = _differing(self._before, after)
        named = _named(paths)
        if not can_be_its_own:
            words = f"Files changed meanwhile, not by this phase: {named}. They are left alone."
            return Touched(tree=after.sha256, paths=paths, words=words)
        return await self._undone(paths, named)

    async def _undone(self, paths: tuple[str, ...], named: str) -> Touched:
        words = f"This phase must not change the project, and did: {named}."
        snapshots, snapshot = self._conversation.snapshots, self._snapshot
        if snapshots is None or snapshot is None:
            words += " There is no snapshot to undo it from: look at these files yourself."
            return Touched(tree="", paths=paths, words=words)
        try:
            now = await snapshots.take()  # What was there may be somebody's work all the same.
            restored = await snapshots.restore(snapshot.tree, paths)
        except DirgeError as error:
            words += f" It could not be undone: {error.message}"
            return Touched(tree="", paths=paths, words=words)
        failed = [path for path, _why in restored.failed]
        words += f" Undone, except for {_named(tuple(failed))}." if failed else " It is undone."
        if now is not None:
            words += f" What stood there is kept in the snapshot {now.tree[:12]}."
        left = await self._read()
        return Touched(tree=left.sha256 if left else "", paths=paths, words=words)

    async def _read(self) -> TreeState | None:
        read = self._conversation.read_tree
        try:
            return await read() if read is not None else None
        except DirgeError:
            return None


def _differing(before: TreeState, after: TreeState) -> tuple[str, ...]:
    paths = {*before.files, *after.files}
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


def _named(paths: tuple[str, ...]) -> str:
    shown = ", ".join(clean(path) for path in paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
