"""The store of a project's snapshots: its folder, the leases of processes, and pruning.

The folder is created atomically, and moved aside when damaged. A lease holds the index and the
scratch files of one process; its lock shows that the process is running and which session it works
on, so that the snapshots of that session are not pruned. Pruning removes snapshots that are too
old, and the oldest ones when all take too much space.
"""

import asyncio
import contextlib
import errno
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime
from pathlib import Path

from dirge_py.git.objects import (
    TREE_ID,
    TreeChange,
    TreeEntry,
    parse_changes,
    parse_tree,
    read_names,
    write_names,
)
from dirge_py.git.runner import ATTRIBUTES, Git, GitFailed
from dirge_py.lib.file_lock import closing_descriptor, hold_lock, try_lock, wait_for_lock
from dirge_py.types.errors import SessionError

_SCRATCH_PREFIX = "read"
_NEW_PREFIX = "new"
_INIT_S = 20.0
_LOCK_S = 10.0
_READ_S = 60.0
_DIFF_OPTIONS = ("--no-renames", "--no-ext-diff", "--no-textconv")
_MOST_DAMAGED = 50
"""How many unreadable contents one restore skips; each costs another start of git."""


class StoreFolder:
    """The store `<name>.git`; reading uses it, then the damaged stores beside it, newest first."""

    def __init__(self, above: Path, name: str, git: Git) -> None:
        self._above = above
        self._name = name
        self.git = git
        self.path = above / f"{name}.git"

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock of the store, to make or move it, or add a lease. Raises SessionError."""
        with contextlib.ExitStack() as lock:
            try:
                self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = self._above / f"{self._name}.lock"
                await asyncio.to_thread(lock.enter_context, hold_lock(path, _LOCK_S))
            except OSError as error:
                if error.errno == errno.EBUSY:
                    raise SessionError(f"{self.path} is held by another process.") from None
                raise SessionError(
                    f"Cannot store snapshots in {self._above}: {error.strerror}.",
                    hint="Free space there, or make the folder writable.",
                ) from error
            yield

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether it looks like a store of snapshots; objects are checked when they are used."""
        path = self.path
        with contextlib.suppress(OSError, ValueError):
            return (
                not path.is_symlink()
                and all((path / name).is_dir() for name in ("objects", "refs"))
                and all((path / name).is_file() for name in ("HEAD", "config"))
                and (path / "info" / "attributes").read_text(encoding="ascii") == ATTRIBUTES
            )
        return False

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for the time of the block, beside the store."""
        self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{self._name}.{_SCRATCH_PREFIX}-"
        with tempfile.TemporaryDirectory(
            prefix=name, dir=self._above, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)

    def leftovers(self) -> Iterator[Path]:
        """Temporary files beside the store, of killed processes and of running ones."""
        for kind in (_SCRATCH_PREFIX, _NEW_PREFIX):
            yield from self._above.glob(f"{self._name}.{kind}-*")

    def damaged(self) -> list[Path]:
        """The damaged stores that were moved aside, newest first; intact objects are readable."""
        paths = self._above.glob(f"{self._name}.git.damaged-*")
        return sorted((path for path in paths if (path / "objects").is_dir()), reverse=True)

    def set_aside(self) -> Path | None:
        """Move the store aside and return its new path; None if there is none."""
        if not self.is_there:
            return None
        date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        aside = self.path.with_name(f"{self.path.name}.damaged-{date}")
        os.rename(self.path, aside)
        return aside

    async def make(self) -> None:
        """Create an empty store atomically. Raises GitFailed, OSError: it can't be created."""
        fresh = Path(tempfile.mkdtemp(prefix=f"{self._name}.{_NEW_PREFIX}-", dir=self._above))
        try:
            made = self.git.command(
                "-c", "init.defaultBranch=main", "init", "--quiet", "--bare", "--template=", fresh
            )
            await self.git.run(made, store=None, timeout_s=_INIT_S)
            (fresh / "info").mkdir(exist_ok=True)
            (fresh / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
            os.rename(fresh, self.path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    # -- reading

    def _stores(self) -> Sequence[Path]:
        """The stores to read from: the current one, then damaged ones, the newest first."""
        usable = [self.path] if self.is_whole else []
        return [*usable, *self.damaged()] or [self.path]

    async def output(
        self,
        *commands: Sequence[str],
        stdin: str = "",
        timeout_s: float = _READ_S,
        is_partial: bool = False,
    ) -> bytes:
        """The output of a pipe of git commands. Raises GitFailed unless `is_partial`."""
        store, *others = self._stores()
        with self.scratch() as scratch:
            input_file, output_file = scratch / "stdin", scratch / "stdout"
            input_file.write_text(stdin, encoding="utf-8")
            pipe = " | ".join(self.git.command(*words) for words in commands)
            line = f"{{ {pipe}; }} <{shlex.quote(str(input_file))} >{shlex.quote(str(output_file))}"
            try:
                await self.git.run(line, store=store, alternates=others, timeout_s=timeout_s)
            except GitFailed:
                if not is_partial:
                    raise
            return output_file.read_bytes()

    async def _output_about(self, command: Sequence[str], *trees: str, path: str = "") -> bytes:
        only = ["--", path] if path else []
        if not all(map(TREE_ID.fullmatch, trees)):
            raise _tree_gone(trees[0])
        try:
            return await self.output([*command, *trees, *only])
        except GitFailed as error:
            raise _tree_gone(trees[0], error) from error

    async def holds(self, tree: str) -> bool:
        """Whether the whole tree exists, without reading files. Raises GitFailed: unknown."""
        if not TREE_ID.fullmatch(tree):
            return False
        try:
            objects = await self.output(
                ["rev-list", "--objects", "--no-object-names", tree],
                ["cat-file", "--batch-check", "--buffer"],
            )
        except GitFailed as error:
            if error.is_inconclusive:
                raise
            return False
        return b" missing\n" not in objects

    async def should_hold(self, tree: str) -> bool:
        """Whether a ref of the current store leads to `tree`. Raises as `holds`."""
        try:
            refs = await self.output(["for-each-ref", "--format=%(refname)", "refs/dirge"])
        except GitFailed as error:
            if error.is_inconclusive:
                raise
            return bool(TREE_ID.fullmatch(tree))
        return f"/{tree}\n".encode() in refs

    async def is_damaged(self) -> bool:
        """Whether an object that the refs of the current store lead to is missing or unreadable."""
        check = self.git.command("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
        try:
            await self.git.run(check, store=self.path, timeout_s=_READ_S)
        except GitFailed as error:
            return not error.is_inconclusive
        return False

    async def entries(self, tree: str) -> dict[str, TreeEntry]:
        """The files of the tree. Raises SessionError if it is gone."""
        return parse_tree(await self._output_about(["ls-tree", "-r", "-z"], tree))

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        """The changes between two trees, by path. Raises SessionError if a tree is gone."""
        command = ["diff-tree", "-r", "-z", *_DIFF_OPTIONS, "--raw"]
        try:
            listed = await self._output_about([*command, "--numstat"], before, after)
        except SessionError:
            # Line counts need contents, which may be damaged while the trees are whole.
            listed = await self._output_about(command, before, after)
        return parse_changes(listed)

    async def difference(self, before: str, after: str, path: str = "") -> str:
        """The unified diff of two trees. Raises SessionError if a tree or a content is gone."""
        command = ["diff-tree", "-r", "-p", "--no-color", *_DIFF_OPTIONS]
        diff = await self._output_about(command, before, after, path=path)
        return diff.decode("utf-8", "replace")

    async def known(self, oids: Iterable[str]) -> frozenset[str]:
        """The contents among `oids` that a store holds."""
        wanted = "".join(f"{oid}\n" for oid in sorted(set(oids)))
        if not wanted:
            return frozenset()
        check = ["cat-file", "--batch-check=%(objectname)", "--buffer"]
        found = await self.output(check, stdin=wanted, is_partial=True)
        return frozenset(line for line in found.decode("ascii").splitlines() if " " not in line)

    async def ignored(
        self, paths: Sequence[str], *, rules: Mapping[str, bytes], files: Sequence[Path | None]
    ) -> Collection[str]:
        """Return the paths that `.gitignore` files `rules` or `files` exclude.

        Git decides, as its patterns are more than those of searches; all paths if it can't.
        """
        with self.scratch() as scratch, contextlib.suppress(GitFailed, OSError):
            tree, names, ignored = scratch / "tree", scratch / "names", scratch / "ignored"
            for path, text in rules.items():
                file = tree / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)
            tree.mkdir(exist_ok=True)
            outside = scratch / "rules"
            readable = (file for file in files if file and os.path.isfile(file))
            outside.write_bytes(b"\n".join(file.read_bytes() for file in readable))
            # This command reads patterns: without the dot, a leading colon would have a meaning.
            write_names(names, paths, b"./")
            words = ("-C", tree, "check-ignore", "--no-index", "-z", "--stdin")
            # Its exit code is 1 if no path is ignored.
            line = f"{{ {self.git.command(*words, stdin=names, stdout=ignored)} || [ $? = 1 ]; }}"
            await self.git.run(
                line,
                store=self._stores()[0],
                timeout_s=_READ_S,
                extra={"GIT_WORK_TREE": str(tree), "GIT_LITERAL_PATHSPECS": "0"},
                settings=[("core.excludesFile", str(outside))],
            )
            return frozenset(path.removeprefix("./") for path in read_names(ignored))
        return frozenset(paths)

    @contextlib.asynccontextmanager
    async def contents(self, oids: Iterable[str]) -> AsyncIterator[Path]:
        """A folder, for the block, with each readable content in a file that is named by its id."""
        with self.scratch() as scratch:
            left = sorted(set(oids))
            store, *others = self._stores()
            entries, index = scratch / "entries", scratch / "index"
            add = self.git.command("update-index", "-z", "--index-info", stdin=entries)
            write = self.git.command("checkout-index", "--all", "--quiet", f"--prefix={scratch}/")
            for _ in range(_MOST_DAMAGED):
                # An index that has each content as a file named by its id.
                write_names(entries, (f"100644 {oid}\t{oid}" for oid in left))
                index.unlink(missing_ok=True)
                extra = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(scratch)}
                try:
                    await self.git.run(
                        add, write, store=store, alternates=others, timeout_s=_READ_S, extra=extra
                    )
                    break
                except GitFailed as error:
                    if error.is_inconclusive:
                        raise _unreadable(error) from error
                # Git stops at an unreadable object: the first one it didn't write.
                left = [oid for oid in left if not (scratch / oid).exists()][1:]
            yield scratch


def _tree_gone(tree: str, error: GitFailed | None = None) -> SessionError:
    if error is not None and error.is_inconclusive:
        return _unreadable(error)
    return SessionError(
        "The snapshot of the files is no longer kept.",
        hint=f"There is no snapshot {tree[:12]!r}; going back in the conversation still works.",
    )


def _unreadable(error: GitFailed) -> SessionError:
    return SessionError(f"Cannot read the snapshot of the files: {error}")


_LEASES_FOLDER = "dirge"
_LOCK_NAME = "lock"
_SHARED_FILES = ("index", "large.json")
"""The files that the next process starts from: the index, and the list of large files."""


class StoreLease:
    """One process's use of the store, with its own index and scratch files in `folder`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.index = folder / "index"
        self._lock = lock

    def publish(self) -> None:
        """Let later processes start from this process's index."""
        for name in _SHARED_FILES:
            with contextlib.suppress(OSError):
                _copy_file(self.folder / name, self.folder.parent / name)

    def forget_index(self) -> None:
        """Remove the index, and the published one that later processes would start from."""
        for name in _SHARED_FILES:
            (self.folder / name).unlink(missing_ok=True)
            (self.folder.parent / name).unlink(missing_ok=True)

    def release(self) -> None:
        """End the lease and remove its folder."""
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)


def acquire_lease(store: Path, session: str) -> StoreLease:
    """Acquire a lease of a locked store, with the newest index. Raises OSError."""
    above = store / _LEASES_FOLDER
    above.mkdir(mode=0o700, exist_ok=True)
    abandoned = [folder for folder, holder in _leases(store) if holder is None]
    folder = Path(tempfile.mkdtemp(prefix="seat-", dir=above))
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Another process may hold it for a moment, to see whether it is abandoned.
    wait_for_lock(lock, _LOCK_S)
    os.write(lock, session.encode())
    left = [place for place in (above, *abandoned) if (place / "index").is_file()]
    if left:
        newest = max(left, key=lambda place: (place / "index").stat().st_mtime_ns)
        for name in _SHARED_FILES:
            with contextlib.suppress(FileNotFoundError):
                _copy_file(newest / name, folder / name)
    for stale in abandoned:
        shutil.rmtree(stale, ignore_errors=True)
    return StoreLease(folder, lock)


def sessions_in_use(store: Path) -> set[str]:
    """The ids of the sessions for which a running process takes snapshots."""
    return {session for _, session in _leases(store) if session is not None}


def _leases(store: Path) -> Iterator[tuple[Path, str | None]]:
    """The folder of each lease and the session of its process; None if the process is gone."""
    for folder in (store / _LEASES_FOLDER).glob("seat-*"):
        try:
            descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            yield folder, None
            continue
        with closing_descriptor(descriptor):
            is_free = try_lock(descriptor)
            yield folder, None if is_free else os.read(descriptor, 4096).decode(errors="replace")


def _copy_file(source: Path, target: Path) -> None:
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    # With its time, which git compares with those of files to find what it must read again.
    shutil.copy2(source, fresh)
    os.rename(fresh, target)


DAY_S = 24 * 60 * 60
_GRACE = "1.hour.ago"
"""How long objects without a ref are kept, because another process may be about to add one."""
_PACK_S = 1800.0
_LOOSE_FROM = 1000


async def prune_store(
    folder: StoreFolder, *, session: str, days: int, max_bytes: int, clock: Callable[[], float]
) -> bool:
    """Prune at most once a day over all processes; False if the store is damaged.

    The snapshots of `session`, and of other sessions in use, stay; of others those of so many
    days, as far as the store then has at most so many bytes.
    """
    if not folder.is_whole:
        return False
    with contextlib.ExitStack() as lock:
        try:
            stamp = lock.enter_context(hold_lock(folder.path / _LEASES_FOLDER / "pruning", 0))
        except OSError:
            return True  # another process prunes
        status, now = os.fstat(stamp), clock()
        # A new store is empty, and its own time doesn't tell when it was pruned.
        if status.st_size and abs(now - status.st_mtime) < DAY_S:
            return True
        try:
            in_use = {session, *sessions_in_use(folder.path)}
            await _prune(folder, in_use, now - days * DAY_S, max_bytes)
        except GitFailed as error:
            return error.is_inconclusive
        os.pwrite(stamp, b"pruned\n", 0)
        os.utime(stamp, (clock(), clock()))
    return True


async def _prune(
    folder: StoreFolder, in_use: Collection[str], oldest: float, max_bytes: int
) -> None:
    _remove_leftovers(folder, oldest)
    form = "--format=%(creatordate:unix) %(refname)"
    listed = await folder.output(["for-each-ref", form, "refs/dirge"])
    lines = [line.partition(" ") for line in listed.decode().splitlines()]
    refs = sorted((int(date), name) for date, _, name in lines)
    # `refs/dirge/<session>/<tree>`
    staying = {name for _, name in refs if name.split("/")[2] in in_use}
    leaving = [name for date, name in refs if date < oldest and name not in staying]
    others = [name for date, name in refs if date >= oldest and name not in staying]
    is_full = size_of(folder.path) > max_bytes
    if is_full:
        count = await _fitting(folder, staying, others, max_bytes)
        leaving += others[: len(others) - count]
    if leaving:
        orders = "".join(f"delete {name}\n" for name in leaving)
        await folder.output(["update-ref", "--stdin"], stdin=orders)
    loose = (folder.path / "objects").glob("[0-9a-f][0-9a-f]")
    if leaving or is_full or sum(len(os.listdir(each)) for each in loose) > _LOOSE_FROM:
        # Repack everything that is kept into one pack, without unneeded objects. Only once:
        # repacked objects count as new, and would stay for the grace period.
        git = folder.git
        repack = ("repack", "-A", "-d", "-q", "--window=5", f"--unpack-unreachable={_GRACE}")
        await git.run(
            git.command("pack-refs", "--all", "--prune"),
            git.command(*repack),
            git.command("prune", f"--expire={_GRACE}"),
            store=folder.path,
            timeout_s=_PACK_S,
        )


async def _fitting(
    folder: StoreFolder, staying: Collection[str], others: Sequence[str], max_bytes: int
) -> int:
    """How many of the newest `others` fit into the limit together with `staying`."""
    fits, too_many = 0, len(others) + 1
    while too_many - fits > 1:
        count = (fits + too_many) // 2
        kept = [*staying, *others[len(others) - count :]]
        # The size of all their objects, each counted once.
        sizes = await folder.output(
            ["rev-list", "--objects", "--no-object-names", "--stdin"],
            ["cat-file", "--batch-check=%(objectsize:disk)", "--buffer"],
            stdin="".join(f"{name}\n" for name in kept),
            timeout_s=_PACK_S,
        )
        if sum(map(int, sizes.split())) <= max_bytes:
            fits = count
        else:
            too_many = count
    return fits


def _remove_leftovers(folder: StoreFolder, oldest: float) -> None:
    """Remove temporary files of killed processes, and damaged stores that are too old."""
    yesterday = time.time() - DAY_S
    limits = [(path, yesterday) for path in folder.leftovers()]
    for path, limit in (*limits, *((path, oldest) for path in folder.damaged())):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < limit:
                shutil.rmtree(path)


def size_of(store: Path) -> int:
    """The size of a store's objects in bytes."""
    total = 0
    for file in (store / "objects").rglob("*"):
        with contextlib.suppress(OSError):
            total += file.lstat().st_size if file.is_file() else 0
    return total
