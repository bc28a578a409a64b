"""Looking into stores: the one in use, and behind it those that were moved aside."""

import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from dirge_py.session.snapshots.base import TreeChange
from dirge_py.session.snapshots.git import Git, GitFailed
from dirge_py.session.snapshots.ignoring import ignored_by
from dirge_py.session.snapshots.store_folder import StoreFolder
from dirge_py.session.snapshots.trees import TREE, Contents, Entry, changes_in, entries_of
from dirge_py.types.errors import SessionError

_READ_S = 60.0
_MOST_DAMAGED = 50
"""Contents that are passed over in one restore, each of which costs another start of git."""


class Reading:
    """Reads trees and contents. Nothing is written into a store."""

    def __init__(self, git: Git, folder: StoreFolder) -> None:
        damaged = folder.damaged()
        usable = [folder.path] if folder.is_whole else []
        self._git = git
        self._folder = folder
        self._stores = [*usable, *damaged] or [folder.path]

    async def _run(self, *commands: str) -> None:
        store, *others = self._stores
        await self._git.run(*commands, store=store, alternates=others, timeout_s=_READ_S)

    async def holds(self, tree: str) -> bool:
        """Whether all that the tree consists of is there. Contents are looked at when needed.

        Raises GitFailed: that cannot be told now.
        """
        if not TREE.fullmatch(tree):
            return False
        with self._folder.scratch() as scratch:
            found = scratch / "found"
            everything = self._git.command("rev-list", "--objects", "--no-object-names", tree)
            check = self._git.command("cat-file", "--batch-check", "--buffer", stdout=found)
            try:
                await self._run(f"{everything} | {check}")
            except GitFailed as error:
                if error.tells_nothing:
                    raise
                return False
            return b" missing\n" not in found.read_bytes()

    async def should_hold(self, tree: str) -> bool:
        """Whether a ref of the store in use says that it is kept. Raises as `holds`."""
        if not TREE.fullmatch(tree):
            return False
        with self._folder.scratch() as scratch:
            refs = scratch / "refs"
            listed = self._git.command(
                "for-each-ref", "--format=%(refname)", "refs/dirge", stdout=refs
            )
            try:
                await self._run(listed)
            except GitFailed as error:
                if error.tells_nothing:
                    raise
                return True
            return f"/{tree}\n".encode() in refs.read_bytes()

    async def is_damaged(self) -> bool:
        """Whether something that the refs of the store in use lead to is missing or unreadable."""
        check = self._git.command(
            "fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress"
        )
        try:
            await self._git.run(check, store=self._folder.path, timeout_s=_READ_S)
        except GitFailed as error:
            return not error.tells_nothing
        return False

    async def entries(self, tree: str) -> dict[str, Entry]:
        """The files of the tree. Raises SessionError if it is gone."""
        if not TREE.fullmatch(tree):
            raise _gone(tree)
        with self._folder.scratch() as scratch:
            listed = scratch / "listed"
            try:
                await self._run(self._git.command("ls-tree", "-r", "-z", tree, stdout=listed))
            except GitFailed as error:
                raise _gone(tree, error) from error
            return entries_of(listed.read_bytes())

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        """What differs, by path. Raises SessionError if a tree is gone."""
        for tree in (before, after):
            if not TREE.fullmatch(tree):
                raise _gone(tree)
        with self._folder.scratch() as scratch:
            listed = scratch / "changes"
            options = ["-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--raw"]
            try:
                with_lines = self._git.command(
                    "diff-tree", *options, "--numstat", before, after, stdout=listed
                )
                await self._run(with_lines)
            except GitFailed:
                # Lines need contents, and one of those may be damaged; the trees may yet be whole.
                try:
                    plain = self._git.command("diff-tree", *options, before, after, stdout=listed)
                    await self._run(plain)
                except GitFailed as error:
                    raise _gone(before, error) from error
            return changes_in(listed.read_bytes())

    async def difference(self, before: str, after: str, path: str = "") -> str:
        """What differs, as a unified diff. Raises SessionError if a tree or a content is gone."""
        for tree in (before, after):
            if not TREE.fullmatch(tree):
                raise _gone(tree)
        options = ["-r", "-p", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv"]
        only = ["--", path] if path else []
        with self._folder.scratch() as scratch:
            written = scratch / "difference"
            command = self._git.command("diff-tree", *options, before, after, *only, stdout=written)
            try:
                await self._run(command)
            except GitFailed as error:
                raise _gone(before, error) from error
            return written.read_bytes().decode("utf-8", "replace")

    async def known(self, oids: Iterable[str]) -> frozenset[str]:
        """Those of the contents that some store has."""
        wanted = sorted(set(oids))
        if not wanted:
            return frozenset()
        with self._folder.scratch() as scratch:
            asked, found = scratch / "asked", scratch / "found"
            asked.write_text("".join(f"{oid}\n" for oid in wanted), encoding="ascii")
            check = self._git.command(
                "cat-file", "--batch-check=%(objectname)", "--buffer", stdin=asked, stdout=found
            )
            with contextlib.suppress(GitFailed):
                await self._run(check)
            lines = found.read_text(encoding="ascii").splitlines()
        return frozenset(line for line in lines if " " not in line)

    async def ignored(
        self, paths: Sequence[str], *, rules: Mapping[str, bytes], files: Sequence[Path | None]
    ) -> Collection[str]:
        """See `ignored_by`. What cannot be told counts as ignored."""
        with self._folder.scratch() as scratch:
            try:
                return await ignored_by(
                    self._git,
                    paths,
                    rules=rules,
                    files=files,
                    store=self._stores[0],
                    scratch=scratch,
                )
            except (GitFailed, OSError):
                return frozenset(paths)

    @contextlib.asynccontextmanager
    async def contents(self, oids: Iterable[str]) -> AsyncIterator[Contents]:
        """The contents, for the time of the block; those that cannot be read are not among them."""
        with self._folder.scratch() as scratch:
            contents = Contents()
            left = sorted(set(oids))
            for number in range(_MOST_DAMAGED):
                if not left:
                    break
                file = scratch / f"contents-{number}"
                is_whole = await self._fetch(left, scratch / "asked", file)
                contents.add(file)
                if is_whole:
                    break
                # Git stops at one that it cannot read: it is the first of those that did not come.
                left = [oid for oid in left if oid not in contents][1:]
            yield contents

    async def _fetch(self, oids: Sequence[str], asked: Path, target: Path) -> bool:
        asked.write_text("".join(f"{oid}\n" for oid in oids), encoding="ascii")
        command = self._git.command("cat-file", "--batch", stdin=asked, stdout=target)
        try:
            await self._run(command)
        except GitFailed as error:
            if error.tells_nothing:
                raise SessionError(f"The files of then could not be read: {error}") from error
            return False
        return True


def _gone(tree: str, error: GitFailed | None = None) -> SessionError:
    if error is not None and error.tells_nothing:
        return SessionError(f"The files of then could not be read: {error}")
    return SessionError(
        "The files of then are no longer kept.",
        hint=f"There is no snapshot {tree[:12]!r}; going back in the conversation still works.",
    )
