"""Letting go of snapshots: those that are too old, and the oldest when all take too much room."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.git import Git, GitFailed
from dirge_py.session.snapshots.seat import sessions_in_use
from dirge_py.session.snapshots.store_folder import StoreFolder

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


class Pruning:
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
        with _alone(self._store / "dirge" / "pruning") as stamp:
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
def _alone(stamp: Path) -> Iterator[int | None]:
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
