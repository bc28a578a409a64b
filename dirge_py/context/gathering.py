"""Reading instruction files and what they import: each once, none from outside, not too much."""

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from dirge_py.context.imports import imported_paths, reads_like_a_file
from dirge_py.files.beneath import FILE, open_beneath, open_folder_handle
from dirge_py.files.regular_file import read_regular
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any

MAX_TOTAL_BYTES = 128 * 1024
MAX_DEPTH = 5
"""How many imports may stand between a file that is looked for and one that is read."""

_MAX_READ_BYTES = 8 * MAX_TOTAL_BYTES
_MAX_IMPORTS = 200
"""Names of imports that are looked at; each costs a look at the disk, whatever comes of it."""

_MAX_NOTICES = 10
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a file and all that it imports must lie: physically below `root`.

    The person's own file (`is_own`) may itself be a link to anywhere, and may say `~`.
    """

    root: str
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file to read if there is one. `path` is absolute, links not yet followed.

    `named` is the word that imports it, in the file `imported_by`.
    """

    path: str
    shown: str
    scope: Scope
    depth: int = 0
    named: str = ""
    imported_by: str = ""

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be no file at all: nobody is told if there is none."""
        return not reads_like_a_file(self.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The text of one file, cleaned, and what of it did not fit."""

    shown: str
    text: str
    left_off_bytes: int
    imported_by: str


class Gathering:
    """One pass. `marks` tell files and texts that were met, `room_bytes` how much still fits."""

    def __init__(
        self,
        *,
        max_bytes: int,
        room_bytes: int,
        marks: Collection[str],
        withholds: Callable[[str], bool],
    ) -> None:
        self.marks = set(marks)
        self.room_bytes = room_bytes
        self._max_bytes = max_bytes
        self._withholds = withholds
        self._notices: list[str] = []
        self._imports_left = _MAX_IMPORTS

    @property
    def notices(self) -> tuple[str, ...]:
        """What the person should know, the first ten of it."""
        more = len(self._notices) - _MAX_NOTICES
        told = self._notices[:_MAX_NOTICES]
        return (*told, f"and {more} more about instruction files.") if more > 0 else (*told,)

    def gather(self, candidates: Sequence[Candidate]) -> Iterator[Gathered]:
        """What is to be sent of them and their imports, level by level.

        So every file is met by the shortest way to it, and no cycle is gone round.
        """
        waiting = deque(candidates)
        while waiting:
            candidate = waiting.popleft()
            content = self._content(candidate)
            if content is None:
                continue
            taken = self._taken(candidate, content)
            if taken is None:
                continue
            gathered, is_new = taken
            if is_new:
                yield gathered
            waiting.extend(self._imports(candidate, gathered.text))

    def _content(self, candidate: Candidate) -> bytes | None:
        """The bytes of a file that may be sent and was not met before."""
        try:
            real = os.path.realpath(candidate.path, strict=True)
            if real in self.marks:
                return None
            refusal = self._refusal(candidate, real)
            if refusal:
                self._left_out(candidate, refusal)
                return None
            self.marks.add(real)
            content = _read(candidate, real)
        except (OSError, ValueError) as error:
            self._unreadable(candidate, error)
            return None
        if candidate.depth and not _is_text(content):
            self._left_out(candidate, "it is no text")
            return None
        return content

    def _refusal(self, candidate: Candidate, real: str) -> str:
        scope = candidate.scope
        is_looked_for = not candidate.depth
        if not is_below_any(real, [scope.root]) and not (scope.is_own and is_looked_for):
            place = "your settings folder" if scope.is_own else "the repository"
            if is_looked_for:
                return f"it is a link that leads out of {place}"
            return f"it lies outside of {place}"
        if candidate.depth > MAX_DEPTH:
            return f"more than {MAX_DEPTH} imports lead to it"
        if not (scope.is_own and is_looked_for) and self._withholds(real):
            return "reading it needs your permission"
        return ""

    def _taken(self, candidate: Candidate, content: bytes) -> tuple[Gathered, bool] | None:
        """What fits of it, and whether it says something new; None if it says nothing."""
        digest = hashlib.sha256(content.strip()).hexdigest()
        is_new = digest not in self.marks
        limit = min(self._max_bytes, self.room_bytes) if is_new else self._max_bytes
        kept = content[:limit]
        left_off = len(content) - len(kept)
        text = kept.decode("utf-8-sig", "ignore" if left_off else "replace")
        if is_new:
            self.marks.add(digest)
            self.room_bytes -= len(kept)
            if left_off:
                self._notices.append(
                    f"{candidate.shown} is long: its last {left_off} bytes were left off."
                )
        text = clean(text).strip()
        if not text:
            return None
        gathered = Gathered(
            shown=candidate.shown,
            text=text,
            left_off_bytes=left_off,
            imported_by=candidate.imported_by,
        )
        return gathered, is_new

    def _imports(self, candidate: Candidate, text: str) -> Iterator[Candidate]:
        scope = candidate.scope
        # A link within a repository stands for its target, also for what is relative to it; the
        # person's own may lead to wherever they keep such files, which is none of our business.
        is_link_of_theirs = scope.is_own and not candidate.depth
        path = candidate.path if is_link_of_theirs else os.path.realpath(candidate.path)
        for named in imported_paths(text):
            if named.startswith("~") and not scope.is_own:
                if reads_like_a_file(named):
                    self._notices.append(
                        f"{candidate.shown} imports {named}, which was left out: only your own "
                        "AGENTS.md may name your home folder."
                    )
                continue
            if not self._imports_left:
                return
            self._imports_left -= 1
            if not self._imports_left:
                self._notices.append(
                    f"More than {_MAX_IMPORTS} imports are named; the rest is left out."
                )
            wanted = os.path.join(os.path.dirname(path), os.path.expanduser(named))
            yield Candidate(
                path=wanted,
                shown=_shown(wanted, scope),
                scope=scope,
                depth=candidate.depth + 1,
                named=named,
                imported_by=candidate.shown,
            )

    def _unreadable(self, candidate: Candidate, error: OSError | ValueError) -> None:
        number = error.errno if isinstance(error, OSError) else None
        if candidate.is_doubtful and (candidate.depth or number in _ABSENT):
            return
        reason = error.strerror if isinstance(error, OSError) else ""
        self._left_out(candidate, reason or "it cannot be read")

    def _left_out(self, candidate: Candidate, reason: str) -> None:
        if candidate.imported_by:
            self._notices.append(
                f"{candidate.imported_by} imports {candidate.shown}, which was left out: {reason}."
            )
        else:
            self._notices.append(f"{candidate.shown} was not read: {reason}.")


def _read(candidate: Candidate, real: str) -> bytes:
    """At most `_MAX_READ_BYTES` of a regular file, with no link on the way from its root."""
    root = candidate.scope.root
    if not is_below_any(real, [root]):
        return read_regular(Path(real), _MAX_READ_BYTES, follow=False)
    handle = open_folder_handle(root)
    try:
        descriptor = open_beneath(handle, real[len(root) :].lstrip("/"), FILE)
    finally:
        os.close(handle)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return stream.read(_MAX_READ_BYTES) or b""


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return len(content) == _MAX_READ_BYTES and error.start > len(content) - 4
    return True


def _shown(path: str, scope: Scope) -> str:
    """As seen from the root of a repository, where it lies below that as written."""
    plain = os.path.normpath(path)
    if not scope.is_own and is_below_any(plain, [scope.root]):
        plain = os.path.relpath(plain, scope.root)
    return clean(plain)
