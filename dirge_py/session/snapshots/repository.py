"""The snapshots of one project: a private git repository that the project knows nothing of."""

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.names import project_id, project_root
from dirge_py.session.snapshots.base import Restored, Snapshot, TreeChange
from dirge_py.session.snapshots.candidates import is_in_index
from dirge_py.session.snapshots.git import GitFailed, find_git, private_git
from dirge_py.session.snapshots.ignoring import (
    is_never_held,
    personal_excludes,
    project_git,
    rules_in,
)
from dirge_py.session.snapshots.pruning import Pruning
from dirge_py.session.snapshots.reading import Reading
from dirge_py.session.snapshots.restoring import DAMAGED, Wanted, look_at, put_back
from dirge_py.session.snapshots.seat import Seat, sessions_in_use, take_seat
from dirge_py.session.snapshots.store_folder import StoreFolder
from dirge_py.session.snapshots.taking import Taking, Terms, TooLarge
from dirge_py.types.errors import SessionError

T = TypeVar("T")

NO_GIT = "Without git, `/undo` and `/rewind` bring back the conversation only: install git."
_FRESH_S = 10.0
"""So long, a tree found whole is not looked through again: lists ask about the same ones."""

_ONLY = "`/undo` and `/rewind` bring back the conversation only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How long and how much is kept: days, and bytes of one project's store."""

    days: int = 30
    max_bytes: int = 2_000_000_000


class Repository:
    """Snapshots of the project around `project`, kept below `state_dir` for `session`.

    `path` is the search path to find git on; git in the project is not taken. `on_notice` gets
    lines for the person. Everything waits its turn; a caller that is cancelled ends no work that
    has begun.
    """

    def __init__(
        self,
        state_dir: Path,
        project: Path,
        *,
        session: str,
        path: str,
        terms: Terms,
        keeping: Keeping | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = os.fspath(project_root(project))
        self._state = os.path.realpath(state_dir)
        self._session = _as_ref(session)
        self._terms = terms
        self._keeping = keeping or Keeping()
        self._on_notice = on_notice
        self._clock = clock
        program = find_git(path, self._root)
        self._git = private_git(program, path, self._root)
        self._folder = StoreFolder(Path(self._state, "snapshots"), project_id(project))
        self._never = _objection(self._root, program)
        self._failure = ""
        self._taking: Taking | None = None
        self._seat: Seat | None = None
        self._personal: Path | None = None
        self._whole: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def root(self) -> str:
        return self._root

    @property
    def unavailable(self) -> str:
        return self._never or self._failure

    @property
    def store(self) -> Path:
        """The private repository, for whoever wants to look into it."""
        return self._folder.path

    async def take(self, also: Sequence[str] = ()) -> Snapshot | None:
        if self._never or self._is_closed:
            return None
        return await self._alone(self._take([path for path in map(self._in_project, also) if path]))

    def holds_file(self, real: str) -> bool:
        path = self._in_project(real)
        return bool(path) and not self.unavailable and self._is_held(path)

    def unheld(self, reals: Sequence[str]) -> Sequence[str]:
        if self.unavailable or self._is_closed:
            return ()
        found = [(real, self._in_project(real)) for real in reals]
        return [real for real, path in found if path and not self._is_held(path)]

    def _is_held(self, path: str) -> bool:
        return self._seat is not None and is_in_index(self._seat.index, path)

    def _in_project(self, real: str) -> str:
        """The path relative to the project, "" where no snapshot can hold a file there."""
        if not real.startswith(f"{self._root}/") or real.startswith(f"{self._state}/"):
            return ""
        path = real[len(self._root) + 1 :]
        folders = path.split("/")[:-1]
        above = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
        if is_never_held(path) or any(os.path.lexists(f"{self._root}/{at}/.git") for at in above):
            return ""
        return path

    async def holds(self, tree: str) -> bool:
        if self._is_closed or self._is_missing():
            return False
        return await self._alone(self._holds(tree))

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        self._check_there()
        return await self._alone(self._reading().changes(before, after))

    async def difference(self, before: str, after: str, path: str = "") -> str:
        self._check_there()
        return await self._alone(self._reading().difference(before, after, path))

    async def ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        self._check_there()
        return await self._alone(self._ignored_then(tree, paths)) if paths else ()

    async def restore(self, tree: str, paths: Sequence[str]) -> Restored:
        self._check_there()
        return await self._alone(self._restore(tree, paths))

    async def prune(self) -> None:
        """Let go of what is too old or too much; does nothing if that was done within a day.

        For the background: it may be cancelled at any moment.
        """
        if self._is_closed or self._is_missing() or self._seat is None:
            return
        pruning = Pruning(
            self._git,
            self._folder,
            session=self._session,
            days=self._keeping.days,
            max_bytes=self._keeping.max_bytes,
            clock=self._clock,
        )
        if not await pruning.run() and not self._is_closed:
            await self._alone(self._set_aside())

    async def aclose(self) -> None:
        """Stop what is under way, and leave what was learnt to the next process."""
        self._is_closed = True
        if self._taking is not None:
            self._taking.stop()
        await self._git.runner.shutdown()
        async with self._turn:
            seat, self._seat, self._taking = self._seat, None, None
            if seat is not None:
                await asyncio.to_thread(seat.publish)
                await asyncio.to_thread(seat.leave)

    # -- one after the other

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_turn() -> T:
            async with self._turn:
                return await work

        task = asyncio.ensure_future(in_turn())
        return await asyncio.shield(task)

    # -- taking

    async def _take(self, also: Sequence[str] = ()) -> Snapshot | None:
        was_there = self._folder.is_there
        try:
            snapshot = await self._taken(also)
        except TooLarge as error:
            self._never = (
                f"No snapshots of the files are kept in {self._root}: {error}. {_ONLY}. "
                "What `.gitignore` leaves out is not counted."
            )
            if not was_there:
                await self._remove()
            return None
        except (GitFailed, SessionError, OSError) as error:
            why = error.message if isinstance(error, SessionError) else str(error)
            self._failure = f"No snapshot of the files could be taken: {why}"
            return None
        self._failure = ""
        return replace(snapshot, held=tuple(path for path in also if self._is_held(path)))

    async def _taken(self, also: Sequence[str]) -> Snapshot:
        """A snapshot; after a failure another try, then with a new index, then in a new store."""
        date = int(self._clock())
        if self._folder.is_there and not self._folder.is_whole:
            await self._set_aside()
        for mend in (self._mend_nothing, self._mend_index, self._mend_store):
            try:
                return await (await self._ready()).take(date, also)
            except GitFailed as error:
                if error.has_no_room or self._is_closed:
                    raise
                await mend()
        return await (await self._ready()).take(date, also)

    async def _ready(self) -> Taking:
        if self._taking is not None and self._seat is not None and self._seat.index.parent.is_dir():
            return self._taking
        self._leave()
        async with self._folder.held():
            if not self._folder.is_there:
                await self._folder.make(self._git)
            self._seat = await asyncio.to_thread(take_seat, self._folder.path, self._session)
        project = project_git(self._root)
        self._personal = await personal_excludes(self._git, project, self._seat.file("personal"))
        own = os.path.relpath(self._state, self._root)
        self._taking = Taking(
            self._git,
            self._seat,
            project=project,
            personal=self._personal,
            own_folder="" if own.startswith("..") else own,
            ref=f"refs/dirge/{self._session}",
            terms=self._terms,
        )
        return self._taking

    def _leave(self) -> None:
        if self._seat is not None:
            self._seat.leave()
        self._seat = self._taking = None

    async def _remove(self) -> None:
        """Leave no half store behind, unless somebody else uses it by now."""
        self._leave()
        async with self._folder.held():
            if not sessions_in_use(self._folder.path):
                await asyncio.to_thread(self._folder.remove)

    async def _mend_nothing(self) -> None:
        """A file that changed while it was read makes git stop: the next try finds it settled."""

    async def _mend_index(self) -> None:
        if self._seat is not None:
            self._seat.forget()
        self._leave()

    async def _mend_store(self) -> None:
        if await self._reading().is_damaged():
            await self._set_aside()

    async def _set_aside(self) -> None:
        """Begin a new store. What is whole in the old one can still be read."""
        self._leave()
        self._whole.clear()
        async with self._folder.held():
            aside = await asyncio.to_thread(self._folder.set_aside)
            # Through a new one the old one can be read, whatever it lacks.
            await self._folder.make(self._git)
        if aside is not None:
            self._on_notice(
                f"The snapshots of the files were damaged; they lie in {aside} now, and new ones "
                "begin. What is whole in them can still be brought back."
            )

    # -- looking back

    def _is_missing(self) -> bool:
        return not self._git.program or not (self._folder.is_there or self._folder.damaged())

    def _check_there(self) -> None:
        if self._is_missing():
            raise SessionError(
                f"There are no snapshots of {self._root}.", hint=self.unavailable or NO_GIT
            )

    def _reading(self) -> Reading:
        return Reading(self._git, self._folder)

    async def _holds(self, tree: str) -> bool:
        try:
            return await self._held(tree)
        except (GitFailed, OSError) as error:
            self._failure = f"The snapshots of the files cannot be read: {error}"
            return False

    async def _held(self, tree: str) -> bool:
        if self._folder.is_there and not self._folder.is_whole:
            await self._set_aside()
        if time.monotonic() - self._whole.get(tree, -_FRESH_S) < _FRESH_S:
            return True
        reading = self._reading()
        if await reading.holds(tree):
            self._whole[tree] = time.monotonic()
            return True
        if not await reading.should_hold(tree):
            return False
        await self._set_aside()
        return await self._reading().holds(tree)

    async def _ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        reading = self._reading()
        rules = rules_in(await reading.entries(tree))
        async with reading.contents(entry.oid for entry in rules.values()) as contents:
            texts = {path: contents.read(entry.oid) or b"" for path, entry in rules.items()}
        files = (self._personal, project_git(self._root).exclude)
        return await reading.ignored(paths, rules=texts, files=files)

    async def _restore(self, tree: str, paths: Sequence[str]) -> Restored:
        reading = self._reading()
        entries = await reading.entries(tree)
        wanted = {path: Wanted(entry=entries.get(path)) for path in paths}
        standing = await asyncio.to_thread(
            look_at,
            self._root,
            wanted,
            limit_bytes=self._terms.file_bytes,
            kept=frozenset(self._taking.kept if self._taking is not None else ()),
        )
        needed = [entry.oid for path in wanted if (entry := entries.get(path)) is not None]
        known = await reading.known([found.oid for found in standing.values() if found.oid])
        async with reading.contents(needed) as contents:
            restored = await asyncio.to_thread(
                put_back,
                self._root,
                wanted,
                standing=standing,
                known=known,
                contents=contents,
                folders=_folders(entries),
            )
        if any(why == DAMAGED for _, why in restored.failed):
            await self._set_aside()
        return restored


def _folders(paths: Iterable[str]) -> frozenset[str]:
    """Every folder that has one of these files somewhere below it."""
    found: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return frozenset(found)


def _objection(root: str, program: str) -> str:
    """Why there can be no snapshots of the folder at all, or ""."""
    home = os.path.realpath(os.path.expanduser("~"))
    if root == "/" or os.path.commonpath((root, home)) == root:
        return (
            f"No snapshots of the files are kept in {root}, which is more than a project: {_ONLY}."
        )
    return "" if program else NO_GIT


_REF = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _as_ref(session: str) -> str:
    """The session as a part of a ref; git has its own idea of names."""
    if _REF.fullmatch(session) and not session.endswith(".lock"):
        return session
    return "session-" + hashlib.sha256(session.encode()).hexdigest()[:16]
