"""The store of a project's snapshots: its folder, the leases of processes, and pruning.

The folder is created whole or not at all, and moved aside when damaged. A lease holds the index and
the scratch files of one process; its lock says that the process lives and which session it works
for, so that the snapshots of that session are not pruned. Pruning removes snapshots that are too
old, and the oldest ones when all take too much space.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.git import ATTRIBUTES, Git, GitFailed
from dirge_py.types.errors import SessionError

SCRATCH_PREFIX = "read"
NEW_PREFIX = "new"
_INIT_S = 20.0
_LOCK_S = 10.0
_POLL_S = 0.02


class StoreFolder:
    """`<name>.git` in the folder of all snapshots, and what was moved aside beside it."""

    def __init__(self, above: Path, name: str) -> None:
        self._above = above
        self._name = name
        self.path = above / f"{name}.git"

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Alone with the store for a moment: it is made, moved aside, or a seat is taken in it.

        Raises:
            SessionError: another process does not let go of it, or there can be no folder.
        """
        try:
            self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._above / f"{self._name}.lock", flags, 0o600)
        except OSError as error:
            raise SessionError(
                f"{self._above}: no snapshots can be kept there: {error.strerror}.",
                hint="Make room there, or make the folder writable.",
            ) from error
        try:
            deadline = time.monotonic() + _LOCK_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise SessionError(f"{self.path} is held by another process.") from None
                    await asyncio.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether it looks like a store of ours. Its objects are looked at when they are used."""
        path = self.path
        return (
            not path.is_symlink()
            and all((path / name).is_dir() for name in ("objects", "refs", "info"))
            and all((path / name).is_file() for name in ("HEAD", "config"))
            and _file_text(path / "info" / "attributes") == ATTRIBUTES
        )

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for the time of the block, beside the store."""
        self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = f"{self._name}.{SCRATCH_PREFIX}-"
        with tempfile.TemporaryDirectory(
            prefix=prefix, dir=self._above, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)

    def leftovers(self) -> Iterator[Path]:
        """What processes that were killed left beside the store, or are still at work on."""
        for kind in (SCRATCH_PREFIX, NEW_PREFIX):
            yield from self._above.glob(f"{self._name}.{kind}-*")

    def damaged(self) -> list[Path]:
        """Stores that were moved aside, the newest first: what is whole in them can be read."""
        found = self._above.glob(f"{self._name}.git.damaged-*")
        return sorted((path for path in found if (path / "objects").is_dir()), reverse=True)

    def set_aside(self) -> Path | None:
        """Move what stands there away; None if nothing does."""
        if not self.is_there:
            return None
        date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        aside, number = self.path.with_name(f"{self.path.name}.damaged-{date}"), 1
        while os.path.lexists(aside):
            number += 1
            aside = self.path.with_name(f"{self.path.name}.damaged-{date}-{number}")
        os.rename(self.path, aside)
        return aside

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    async def make(self, git: Git) -> None:
        """Make an empty store, in one step.

        Raises:
            GitFailed, OSError: it cannot be made.
        """
        fresh = Path(tempfile.mkdtemp(prefix=f"{self._name}.{NEW_PREFIX}-", dir=self._above))
        try:
            made = git.command(
                "-c", "init.defaultBranch=main", "init", "--quiet", "--bare", "--template=", fresh
            )
            await git.run(made, store=None, timeout_s=_INIT_S)
            (fresh / "info").mkdir(exist_ok=True)
            (fresh / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
            os.rename(fresh, self.path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _file_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


_LEASES_FOLDER = "dirge"
_LOCK_NAME = "lock"
_SHARED_FILES = ("index", "large.json")
"""What the next process begins with: which files were seen, and what is too large."""


class StoreLease:
    """One process's place in the store. Open until `leave`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.index = folder / "index"
        self.large = folder / "large.json"
        self._lock = lock

    def file(self, name: str) -> Path:
        """A scratch file of this process."""
        return self.folder / name

    def publish(self) -> None:
        """Let processes that come later begin with what this one knows."""
        for name in _SHARED_FILES:
            with contextlib.suppress(OSError):
                _copy_file(self.folder / name, self.folder.parent / name)

    def forget(self) -> None:
        """Let go of the index, which nobody may begin with either."""
        for name in _SHARED_FILES:
            (self.folder / name).unlink(missing_ok=True)
            (self.folder.parent / name).unlink(missing_ok=True)

    def leave(self) -> None:
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)


def acquire_lease(store: Path, session: str) -> StoreLease:
    """A seat in the store, with the newest index that somebody left. The store is held meanwhile.

    Raises:
        OSError: it cannot be made.
    """
    above = store / _LEASES_FOLDER
    above.mkdir(mode=0o700, exist_ok=True)
    abandoned = [folder for folder in _lease_folders(above) if _session_of(folder) is None]
    folder = Path(tempfile.mkdtemp(prefix="seat-", dir=above))
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
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
    """The sessions that some process works on, as far as they take snapshots."""
    users = [_session_of(folder) for folder in _lease_folders(store / _LEASES_FOLDER)]
    return {user for user in users if user is not None}


def _lease_folders(above: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from above.glob("seat-*")


def _session_of(folder: Path) -> str | None:
    """The session of the process that holds the seat; None if it is gone."""
    try:
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return os.read(descriptor, 4096).decode(errors="replace")
    else:
        return None
    finally:
        os.close(descriptor)


def _copy_file(source: Path, target: Path) -> None:
    """Copy in one step, with the time of the original.

    Git compares the time of an index with those of files to tell which it must look into again.
    """
    status = source.stat()
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, fresh)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.rename(fresh, target)


DAY_S = 24 * 60 * 60
_GRACE = "1.hour.ago"
"""Objects without a ref stay so long: another process may be about to give them one."""
_PACK_S = 1800.0
_LIST_S = 60.0
_LOOSE_FROM = 1000


@dataclass(frozen=True, slots=True)
class _Ref:
    date: int
    name: str

    @property
    def session(self) -> str:
        return self.name.split("/")[2]


class StorePruner:
    """Prunes one store, at most once a day, whoever comes first. `clock` is in seconds."""

    def __init__(
        self,
        git: Git,
        folder: StoreFolder,
        *,
        session: str,
        days: int,
        max_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._git = git
        self._folder = folder
        self._store = folder.path
        self._session = session
        self._days = days
        self._max_bytes = max_bytes
        self._clock = clock

    async def run(self) -> bool:
        """Prune if it is time; False if the store is damaged."""
        with _hold_alone(self._store / "dirge" / "pruning") as stamp:
            if stamp is None or not self._is_time(stamp):
                return True
            try:
                await self._prune()
            except GitFailed as error:
                return error.timed_out or error.has_no_room
            os.pwrite(stamp, b"pruned\n", 0)
            os.utime(stamp, (self._clock(), self._clock()))
        return True

    def _is_time(self, stamp: int) -> bool:
        status = os.fstat(stamp)
        # A fresh one is empty; its own time says nothing.
        return status.st_size == 0 or abs(self._clock() - status.st_mtime) >= DAY_S

    async def _prune(self) -> None:
        self._clear_up()
        in_use = {self._session, *sessions_in_use(self._store)}
        every = await self._refs()
        staying = [ref for ref in every if ref.session in in_use]
        others = [ref for ref in every if ref.session not in in_use]
        oldest = self._clock() - self._days * DAY_S
        leaving = [ref for ref in others if ref.date < oldest]
        others = others[len(leaving) :]
        is_full = size_of(self._store) > self._max_bytes
        if is_full:
            count = await self._fitting(staying, others)
            leaving += others[: len(others) - count]
        await self._delete(leaving)
        if leaving or is_full or self._has_many_loose_objects():
            # Once only: what is packed anew counts as fresh, and would stay for the time of grace.
            await self._pack()

    async def _fitting(self, staying: Sequence[_Ref], others: Sequence[_Ref]) -> int:
        """How many of the newest of `others` can be kept beside those that stay."""
        fits, too_many = 0, len(others) + 1
        while too_many - fits > 1:
            count = (fits + too_many) // 2
            kept = [*staying, *others[len(others) - count :]]
            if await self._bytes_of(kept) <= self._max_bytes:
                fits = count
            else:
                too_many = count
        return fits

    async def _bytes_of(self, refs: Sequence[_Ref]) -> int:
        """What the objects of these snapshots take, each counted once."""
        with self._folder.scratch() as scratch:
            names, sizes = scratch / "names", scratch / "sizes"
            names.write_text("".join(f"{ref.name}\n" for ref in refs), encoding="utf-8")
            listed = self._git.command(
                "rev-list", "--objects", "--no-object-names", "--stdin", stdin=names
            )
            form = "--batch-check=%(objectsize:disk)"
            measured = self._git.command("cat-file", form, "--buffer", stdout=sizes)
            await self._git.run(f"{listed} | {measured}", store=self._store, timeout_s=_PACK_S)
            return sum(map(int, sizes.read_text("ascii").split()))

    async def _refs(self) -> Sequence[_Ref]:
        """All snapshots, the oldest first."""
        with self._folder.scratch() as scratch:
            listed = scratch / "refs"
            form = "--format=%(creatordate:unix) %(refname)"
            command = self._git.command("for-each-ref", form, "refs/dirge", stdout=listed)
            await self._git.run(command, store=self._store, timeout_s=_LIST_S)
            lines = [line.partition(" ") for line in listed.read_text("utf-8").splitlines()]
        return sorted((_Ref(int(date), name) for date, _, name in lines), key=lambda ref: ref.date)

    async def _delete(self, refs: Sequence[_Ref]) -> None:
        if not refs:
            return
        with self._folder.scratch() as scratch:
            orders = scratch / "orders"
            orders.write_text("".join(f"delete {ref.name}\n" for ref in refs), encoding="utf-8")
            command = self._git.command("update-ref", "--stdin", stdin=orders)
            await self._git.run(command, store=self._store, timeout_s=_LIST_S)

    async def _pack(self) -> None:
        """All that is kept in one pack; what nothing needs any more is gone."""
        await self._git.run(
            self._git.command("pack-refs", "--all", "--prune"),
            self._git.command(
                *("repack", "-A", "-d", "-q", "--window=5"), f"--unpack-unreachable={_GRACE}"
            ),
            self._git.command("prune", f"--expire={_GRACE}"),
            store=self._store,
            timeout_s=_PACK_S,
        )

    def _has_many_loose_objects(self) -> bool:
        folders = (self._store / "objects").glob("[0-9a-f][0-9a-f]")
        return sum(len(os.listdir(folder)) for folder in folders) > _LOOSE_FROM

    def _clear_up(self) -> None:
        """Remove what killed processes left, and damaged stores that are too old."""
        now = time.time()
        limits = [
            *((path, DAY_S) for path in self._folder.leftovers()),
            *((path, self._days * DAY_S) for path in self._folder.damaged()),
        ]
        for path, limit_s in limits:
            with contextlib.suppress(OSError):
                if now - path.lstat().st_mtime > limit_s:
                    shutil.rmtree(path)


def size_of(store: Path) -> int:
    """The bytes that the objects of a store take."""
    total = 0
    for folder, _, names in os.walk(store / "objects"):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


@contextlib.contextmanager
def _hold_alone(stamp: Path) -> Iterator[int | None]:
    """The open stamp, if no other process prunes; it says when somebody last did."""
    try:
        descriptor = os.open(stamp, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
