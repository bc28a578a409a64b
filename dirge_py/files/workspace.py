"""The workspace: its folders, and the file access of each tool call."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dirge_py.files import transaction
from dirge_py.files.atomic import FileLocation, clear_leftovers_in
from dirge_py.files.resolve import (
    Resolved,
    absolute,
    make_folders,
    open_folder_handle,
    open_regular,
    reason_of,
    resolve,
)
from dirge_py.files.transaction import RollbackEntry, TransactionStep, run_transaction
from dirge_py.files.versions import (
    FileContent,
    FileIdentity,
    ReadLog,
    changed_since_read,
    sha256_of,
)
from dirge_py.files.walk import DirectoryEntry, FileSearch, FoundFile, list_directory, walk
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.types.errors import FileError
from dirge_py.types.tools import FileChange

WHOLE_FILE_LIMIT = 100 * 1024 * 1024
"""In bytes. Larger files are never loaded into memory, so they cannot be edited either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedPath(Resolved):
    """A path and where it leads at this moment."""

    path: str
    """The absolute form of the path that was asked for."""
    inside: bool
    """Whether `real` lies beneath a root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """A file to write or to remove."""

    path: str
    """Its path, as the call names it."""
    content: bytes | None
    """Its new content; None removes it."""
    expected: FileIdentity | None
    """Its current version; None if there must be no file."""
    moved_from: str | None = None
    """Path that a new file takes owner, attributes and mode from."""


class Originals:
    """Hooks for original contents that tools replace or remove; the snapshot store sets them."""

    def __init__(self) -> None:
        self.unkept: Callable[[str], str] = lambda real: ""
        """Returns why removing the file at this physical path needs a question, because no snapshot
        contains it; "" if one does."""
        self.keep: Callable[[str, Callable[[], bytes]], None] = lambda real, read: None
        """Called with a physical path and a function that reads it, before a tool changes it.

        Raises FileError if the content could not be stored: then nothing is changed."""


class ApprovedChanges:
    """The changes of one call as they were shown; `real_of` returns the physical path of a path."""

    def __init__(
        self,
        shown: Sequence[FileChange],
        chosen: Sequence[FileChange] | None,
        real_of: Callable[[str], str],
    ) -> None:
        self._shown, self._chosen = (
            {real_of(change.path): change for change in reversed(changes or ())}
            | {change.path: change for change in changes or ()}
            for changes in (shown, chosen)
        )

    def check(self, path: str, real: str, found: FileContent | None) -> None:
        """Raise FileError if `found` is another version than the one that was shown."""
        shown = self._shown.get(path) or self._shown.get(real)
        if shown is None:
            return
        sha256 = None if found is None else found.identity.sha256
        if sha256 != (None if shown.before is None else shown.before_sha256):
            raise FileError(
                f"{path} has changed since it was shown to the user; nothing was written.",
                hint="Use `read` on it again, then repeat the change for its new content.",
            )

    def chosen(self, path: str) -> FileChange | None:
        """Return the user's version of the change; None if the user accepted it as it was shown."""
        return self._chosen.get(path)


class Workspace:
    """The roots (the start folder and those added to it), and what has been read in the session.

    Roots come from the user, never from a model. Owns one descriptor per root until `close`. Every
    method may be called from any thread. `journals` is a folder for the journals of transactions:
    an interrupted one below the roots is undone now, which `notices` reports.
    """

    def __init__(
        self, roots: Sequence[Path | str], cwd: Path | str, *, journals: Path | None = None
    ) -> None:
        self.cwd = absolute(os.fspath(cwd), os.getcwd())
        self.roots = tuple(_physical_folder(root, self.cwd) for root in roots)
        self.ledger = ReadLog()
        self.withheld: Callable[[str], bool] = lambda real: False
        """Set by the permission engine: returns whether a search must silently skip a file."""
        self.originals = Originals()
        self._handles = {root: open_folder_handle(root) for root in {*self.roots, "/"}}
        self._approved: dict[str, frozenset[str]] = {}
        self._shown: dict[str, ApprovedChanges] = {}
        self.journals = journals
        self.notices: Sequence[str] = ()
        if journals is not None:
            clear_leftovers_in(self.roots)
            self.notices = transaction.roll_back_leftovers(journals, self._is_inside)

    def close(self) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1])

    def add_root(self, folder: Path | str) -> str:
        """Add `folder` to the roots; return its physical path. Raises FileError."""
        root = _physical_folder(folder, self.cwd)
        if root not in self._handles:
            self._handles[root] = open_folder_handle(root)
        if root not in self.roots:
            self.roots = (*self.roots, root)
        return root

    def _is_inside(self, real: str) -> bool:
        return is_below_any(real, self.roots)

    def locate(self, path: str) -> LocatedPath:
        """Return where `path`, absolute or relative to `cwd`, leads now. Opens nothing.

        Raises FileError if it leads nowhere: a link loop, a file used as a folder, a bad name.
        """
        asked = absolute(path, self.cwd)
        resolved = resolve(asked)
        real, kind = resolved.real, resolved.kind
        return LocatedPath(path=asked, real=real, inside=self._is_inside(real), kind=kind)

    def approve(self, call_id: str, reals: Collection[str]) -> None:
        """Let this call open what is at or below these physical paths, instead of the roots."""
        self._approved[call_id] = frozenset(reals)

    def release(self, call_id: str) -> None:
        """Forget what the ended call may open and what was shown of it."""
        self._approved.pop(call_id, None)
        self._shown.pop(call_id, None)

    def hold_to(
        self, call_id: str, shown: Sequence[FileChange], chosen: Sequence[FileChange] | None
    ) -> None:
        """Restrict the call to the changes that were `shown`, or the user's versions in `chosen`.

        It may read a shown file only in the version that was shown.
        """
        self._shown[call_id] = ApprovedChanges(shown, chosen, lambda path: self.locate(path).real)

    def at_call(self, call_id: str) -> "CallFiles":
        """Return the files as one tool call may use them."""
        return CallFiles(
            self, lambda: self._approved.get(call_id, self.roots), lambda: self._shown.get(call_id)
        )

    def for_person(self) -> "CallFiles":
        """Return the files for reading what only the user sees: a diff to approve."""
        return CallFiles(self, lambda: ("/",))

    def anchor(self, real: str) -> tuple[int, str]:
        """Return the descriptor to start from for the physical `real`, and the path."""
        for root in self.roots:
            if is_below_any(real, [root]):
                return self._handles[root], real[len(root) :].lstrip("/")
        return self._handles["/"], real.lstrip("/")


class CallFiles:
    """Reads and writes files that one call may open.

    Every path is resolved anew at each use, must lead to an approved place, and is then opened
    without following any link: only the judged file is opened.
    """

    def __init__(
        self,
        workspace: Workspace,
        allowed: Callable[[], Collection[str]],
        shown: Callable[[], ApprovedChanges | None] = lambda: None,
    ) -> None:
        self._workspace = workspace
        self._allowed = allowed
        self._shown = shown

    @property
    def roots(self) -> Sequence[str]:
        """The physical folders of the workspace."""
        return self._workspace.roots

    @property
    def ledger(self) -> ReadLog:
        """The versions of files known in this session."""
        return self._workspace.ledger

    def locate(self, path: str) -> LocatedPath:
        """Call `Workspace.locate`, and reject a path that this call may not open.

        Raises FileError if it leads nowhere, or outside of what was approved.
        """
        located = self._workspace.locate(path)
        if not is_below_any(located.real, self._allowed()):
            raise FileError(
                f"{path} leads to {located.real}, which this call may not open.",
                hint="Use that path itself, so that it can be approved.",
            )
        return located

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[tuple[BinaryIO, LocatedPath, os.stat_result]]:
        """Open a regular file for reading. Raises FileError, also in the block."""
        located = self.locate(path)
        descriptor, status = open_regular(*self._workspace.anchor(located.real), path)
        with os.fdopen(descriptor, "rb") as stream:
            try:
                yield stream, located, status
            except OSError as error:
                raise FileError(f"{path} cannot be read: {reason_of(error)}.") from error

    def read(self, path: str) -> FileContent:
        """Return the whole file. Does not count as having read it: see `ReadLog.remember`.

        Raises FileError as `open`, or if it is above `WHOLE_FILE_LIMIT` or not as it was shown.
        """
        with self.open(path) as (stream, located, status):
            content = b""
            if status.st_size <= WHOLE_FILE_LIMIT:
                # System files and growing files contain more than their size says.
                content = stream.read(WHOLE_FILE_LIMIT + 1) or b""
            if max(status.st_size, len(content)) > WHOLE_FILE_LIMIT:
                raise FileError(
                    f"{path} is larger than {WHOLE_FILE_LIMIT // (1 << 20)} MiB.",
                    hint="Use a command that works on it as a stream.",
                )
            status = os.fstat(stream.fileno())
        identity = FileIdentity.of(status, sha256_of(content))
        found = FileContent(real=located.real, content=content, identity=identity)
        self._check_shown(located, found)
        return found

    def read_if_there(self, path: str) -> FileContent | None:
        """Return the result of `read`; None if there is no file. Raises as `read`."""
        located = self.locate(path)
        if located.exists:
            return self.read(path)
        self._check_shown(located, None)
        return None

    def chosen(self, path: str) -> FileChange | None:
        """Return the user's version of the file's change; None if they accepted it as shown."""
        shown = self._shown()
        return None if shown is None else shown.chosen(path)

    def _check_shown(self, located: LocatedPath, found: FileContent | None) -> None:
        shown = self._shown()
        if shown is not None:
            shown.check(located.path, located.real, found)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return everything in a folder, sorted by name. Raises FileError."""
        return list_directory(self._workspace, self.locate(path).real, path)

    def names_beside(self, located: LocatedPath) -> list[str]:
        """Return the names beside a missing file; empty if it is outside the workspace."""
        folder = os.path.dirname(located.real)
        with contextlib.suppress(FileError):
            if is_below_any(folder, self._workspace.roots):
                return [entry.name for entry in list_directory(self._workspace, folder, folder)]
        return []

    def walk(self, search: FileSearch) -> Iterator[FoundFile]:
        """Yield the wanted files below `search.root`, as `walk.walk` does. Raises as `locate`."""
        self.locate(search.root)
        return walk(self._workspace, search)

    def write_all(self, targets: Sequence[WriteTarget]) -> None:
        """Write all of `targets`, or none; no two of them are the same file.

        Missing folders are created. Counts as having read what was written. Raises FileError if one
        of them has another version now, or cannot be written.
        """
        reals = [self.locate(target.path).real for target in targets]
        pairs = list(zip(reals, targets, strict=True))
        with contextlib.ExitStack() as stack:
            # Always in the same order, so that two changes never wait for each other.
            for real in sorted(set(reals)):
                stack.enter_context(self.ledger.lock(real))
            places: dict[str, FileLocation] = {}
            for real, target in pairs:
                anchor, relative = self._workspace.anchor(real)
                folder = stack.enter_context(make_folders(anchor, relative, target.path))
                places[real] = FileLocation(folder, os.path.basename(real), target.path)
            steps = []
            for real, target in pairs:
                place, expected, source = places[real], target.expected, target.moved_from
                before = None if expected is None else expected.sha256
                step = TransactionStep(
                    place=place,
                    content=target.content,
                    entry=RollbackEntry.of(real, before, target.content),
                    check=partial(_check_version, place, expected),
                    moved_from=places.get(self.locate(source).real) if source else None,
                )
                steps.append(step)
            for step in steps:
                if step.entry.before is not None:
                    self._workspace.originals.keep(step.entry.real, step.place.read)
            statuses = run_transaction(steps, self._workspace.journals)
        for step, status in zip(steps, statuses, strict=True):
            if status is None:
                self.ledger.forget(step.entry.real)
            else:
                self.ledger.remember(step.entry.real, FileIdentity.of(status, step.entry.after))


def _check_version(place: FileLocation, expected: FileIdentity | None) -> None:
    if place.status() is None:
        if expected is not None:
            raise FileError(f"{place.shown} was deleted since it was read; nothing was written.")
        return
    if expected is None:
        raise FileError(
            f"{place.shown} exists now; nothing was written.", hint="Use `read` on it first."
        )
    descriptor, status = open_regular(place.folder, place.name, place.shown)
    with os.fdopen(descriptor, "rb") as stream:
        now = FileIdentity.of(status, sha256_of(stream.read()))
    if not now.same_version(expected):
        raise changed_since_read(place.shown)


def _physical_folder(root: Path | str, cwd: str) -> str:
    resolved = resolve(absolute(os.fspath(root), cwd))
    if resolved.kind != "dir":
        raise FileError(f"{root} is not a folder.", hint="Name a folder that exists.")
    return resolved.real
