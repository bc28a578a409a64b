"""The instruction files of a start: those of the system prompt, and those of folders touched.

The instruction files of a repository, AGENTS.md and CLAUDE.md, and the files they import.

A word `@path` in such a file imports another one. Every file is read once, none from outside the
repository, and all together only up to a limit.
"""

import asyncio
import errno
import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.files.resolve import FILE, is_beneath, open_beneath, open_folder_handle
from dirge_py.files.safe_read import read_regular
from dirge_py.files.walk import is_work_of_others
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.lib.text import clean
from dirge_py.types.events import ContextReplaced, HistoryMoved, LoopEvent
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import Message, ToolResultMessage, user_text
from pathlib import Path
from typing import TypeAlias


MAX_TOTAL_BYTES = 128 * 1024
MAX_DEPTH = 5
"""How many imports may stand between a file that is looked for and one that is read."""
_MAX_READ_BYTES = 8 * MAX_TOTAL_BYTES
_MAX_IMPORTS = 200
"""Names of imports that are looked at; each costs a look at the disk, whatever comes of it."""
_MAX_NOTICES = 10
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportScope:
    """Where a file and all that it imports must lie: physically below `root`.

    The person's own file (`is_own`) may itself be a link to anywhere, and may say `~`.
    """

    root: str
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCandidate:
    """A file to read if there is one. `path` is absolute, links not yet followed.

    `named` is the word that imports it, in the file `imported_by`.
    """

    path: str
    shown: str
    scope: ImportScope
    depth: int = 0
    named: str = ""
    imported_by: str = ""

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be no file at all: nobody is told if there is none."""
        return not reads_like_a_file(self.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredFile:
    """The text of one file, cleaned, and what of it did not fit."""

    shown: str
    text: str
    left_off_bytes: int
    imported_by: str


class FileGatherer:
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

    def gather(self, candidates: Sequence[FileCandidate]) -> Iterator[GatheredFile]:
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

    def _content(self, candidate: FileCandidate) -> bytes | None:
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

    def _refusal(self, candidate: FileCandidate, real: str) -> str:
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

    def _taken(self, candidate: FileCandidate, content: bytes) -> tuple[GatheredFile, bool] | None:
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
        gathered = GatheredFile(
            shown=candidate.shown,
            text=text,
            left_off_bytes=left_off,
            imported_by=candidate.imported_by,
        )
        return gathered, is_new

    def _imports(self, candidate: FileCandidate, text: str) -> Iterator[FileCandidate]:
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
            yield FileCandidate(
                path=wanted,
                shown=_shown(wanted, scope),
                scope=scope,
                depth=candidate.depth + 1,
                named=named,
                imported_by=candidate.shown,
            )

    def _unreadable(self, candidate: FileCandidate, error: OSError | ValueError) -> None:
        number = error.errno if isinstance(error, OSError) else None
        if candidate.is_doubtful and (candidate.depth or number in _ABSENT):
            return
        reason = error.strerror if isinstance(error, OSError) else ""
        self._left_out(candidate, reason or "it cannot be read")

    def _left_out(self, candidate: FileCandidate, reason: str) -> None:
        if candidate.imported_by:
            self._notices.append(
                f"{candidate.imported_by} imports {candidate.shown}, which was left out: {reason}."
            )
        else:
            self._notices.append(f"{candidate.shown} was not read: {reason}.")


def _read(candidate: FileCandidate, real: str) -> bytes:
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


def _shown(path: str, scope: ImportScope) -> str:
    """As seen from the root of a repository, where it lies below that as written."""
    plain = os.path.normpath(path)
    if not scope.is_own and is_below_any(plain, [scope.root]):
        plain = os.path.relpath(plain, scope.root)
    return clean(plain)


INSTRUCTION_FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
_MAX_LEVELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """One file that is sent. `path` as it is shown, `left_off_bytes` what did not fit.

    `imported_by` is the file that names it, as shown; empty for those that are looked for.
    """

    path: str
    text: str
    left_off_bytes: int = 0
    imported_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """What was found, outermost folder first, then what those import, nearest first.

    `notices` are for the person. `marks` tell what was met, `taken_bytes` how much room it took.
    """

    files: tuple[ProjectFile, ...] = ()
    notices: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    taken_bytes: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def find_project_files(
    cwd: Path,
    *,
    config_dir: Path | None = None,
    max_bytes: int = 32 * 1024,
    withholds: Callable[[str], bool] = lambda real: False,
) -> ProjectFiles:
    """The project files from the git root down to `cwd`, after the person's own `AGENTS.md`.

    Outside a repository only `cwd` itself is looked at: what lies above belongs to somebody else.
    Each of them may import others (`@path`), which come after all of them. The same file or text
    twice is sent once. A link that leads out of the repository is not followed, and what
    `withholds` names (physical paths) is not read: a stranger's choice of file would be sent to a
    model.
    """
    folders = folders_down_to(cwd)
    candidates = [*_own(config_dir), *_looked_for(folders, folders[0])]
    return _gathered(candidates, ProjectFiles(), max_bytes, withholds)


def find_in_folders(
    folders: Sequence[Path],
    *,
    root: Path,
    sent: ProjectFiles,
    max_bytes: int = 32 * 1024,
    withholds: Callable[[str], bool] = lambda real: False,
) -> ProjectFiles:
    """What these folders beneath `root` have besides what was `sent`; both are physical paths.

    There is one limit for all of it together, so what was sent leaves that much less room.
    `marks` and `taken_bytes` of the answer count `sent`, too.
    """
    return _gathered(list(_looked_for(folders, root)), sent, max_bytes, withholds)


def folders_down_to(cwd: Path) -> list[Path]:
    """The physical folders from the git root, at most 16 levels up, down to `cwd`."""
    real = cwd.resolve()
    upward = [real, *real.parents][:_MAX_LEVELS]
    for level, folder in enumerate(upward):
        if os.path.lexists(folder / ".git"):
            return upward[level::-1]
    return [real]


def format_project_files(files: Sequence[ProjectFile], *, heading: str = "project_files") -> str:
    """A section of the system prompt, or with another `heading` a message; empty without files.

    Each text stands between lines with a digest of it, so no text can end its own quotation.
    """
    if not files:
        return ""
    return "\n\n".join([prompt_text(heading), *map(_quotation, files)])


def _quotation(file: ProjectFile) -> str:
    note = f"\n[{file.left_off_bytes} bytes left off]" if file.left_off_bytes else ""
    by = f", imported by {file.imported_by}" if file.imported_by else ""
    return quote_text(f"{file.path}{by}", f"{file.text}{note}")


def _gathered(
    candidates: Sequence[FileCandidate],
    sent: ProjectFiles,
    max_bytes: int,
    withholds: Callable[[str], bool],
) -> ProjectFiles:
    gathering = FileGatherer(
        max_bytes=max_bytes,
        room_bytes=max(0, MAX_TOTAL_BYTES - sent.taken_bytes),
        marks=sent.marks,
        withholds=withholds,
    )
    files = tuple(
        ProjectFile(
            path=text.shown,
            text=text.text,
            left_off_bytes=text.left_off_bytes,
            imported_by=text.imported_by,
        )
        for text in gathering.gather(candidates)
    )
    return ProjectFiles(
        files=files,
        notices=gathering.notices,
        marks=frozenset(gathering.marks),
        taken_bytes=MAX_TOTAL_BYTES - gathering.room_bytes,
    )


def _own(config_dir: Path | None) -> Iterator[FileCandidate]:
    if config_dir is not None:
        path = config_dir / INSTRUCTION_FILE_NAMES[0]
        scope = ImportScope(root=os.path.realpath(config_dir), is_own=True)
        yield FileCandidate(path=str(path), shown=clean(str(path)), scope=scope)


def _looked_for(folders: Sequence[Path], root: Path) -> Iterator[FileCandidate]:
    scope = ImportScope(root=str(root))
    for folder in folders:
        for name in INSTRUCTION_FILE_NAMES:
            path = folder / name
            yield FileCandidate(
                path=str(path), shown=clean(str(path.relative_to(root))), scope=scope
            )


_FENCE = re.compile(r"[\s>]*(?:[-*+]\s+|\d{1,9}[.)]\s+)?(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
_BACKTICKS = re.compile(r"`+")
_IMPORT = re.compile(r"(?:^|(?<=[\s(]))@((?:[^\s\\`]|\\.)+)", re.MULTILINE)
_TRAILING = ".,;:!?)]}>'\"*_"
"""What may stand right behind a path and belongs to the sentence around it."""


def imported_paths(text: str) -> list[str]:
    """The paths that are written as `@path`, each once and in order, as they are written.

    Code is passed over: spans in backticks, and blocks between fences. A space within a path is
    written `\\ `; what stands behind a `#` is left off.
    """
    found: dict[str, None] = {}
    for prose in _prose(text):
        for match in _IMPORT.finditer(_without_spans(prose)):
            path = match[1].partition("#")[0].replace("\\ ", " ").rstrip(_TRAILING)
            if path and "\0" not in path:
                found.setdefault(path)
    return list(found)


def reads_like_a_file(path: str) -> bool:
    """Whether it can hardly be meant as anything else: no name of a person or of a decorator."""
    return path.startswith(("./", "../", "/", "~/")) or path.lower().endswith(
        (".md", ".mdc", ".markdown", ".txt", ".rst")
    )


def _prose(text: str) -> Iterator[str]:
    """The paragraphs outside of fenced blocks; a fence that is never closed holds the rest."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found and found["marks"].startswith(fence) and not found["rest"].strip():
                fence = ""
            continue
        # In a line of code between backticks there is no fence.
        opens = found is not None and not (found["marks"][0] == "`" and "`" in found["rest"])
        if opens or not line.strip():
            yield "\n".join(lines)
            lines = []
            fence = found["marks"] if opens and found else ""
        else:
            lines.append(line)
    yield "\n".join(lines)


def _without_spans(text: str) -> str:
    """The text with its code spans left out: from a run of backticks to the next one as long."""
    runs = [(match.start(), match.end()) for match in _BACKTICKS.finditer(text)]
    closing: dict[int, int] = {}
    next_of: list[int | None] = [None] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        next_of[at] = closing.get(length)
        closing[length] = at
    kept: list[str] = []
    position = at = 0
    while at < len(runs):
        closes = next_of[at]
        if closes is None:
            at += 1
            continue
        # A blank would let the word behind a span begin there.
        kept += [text[position : runs[at][0]], "`"]
        position, at = runs[closes][1], closes + 1
    return "".join([*kept, text[position:]])


_MOST_FOLDERS = 16
"""Folders looked at for one path: as many as upwards."""


ReadGuard: TypeAlias = Callable[[Path], AbstractContextManager[Callable[[str], bool]]]
"""Opens, for a repository, the test whether a physical path must not be read without asking."""


class Instructions:
    """The instruction files that the settings let be sent.

    `guard` opens the permission test for the files of a repository: they are imported by whoever
    wrote it, so no mode loosens it.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        config_dir: Path,
        guard: ReadGuard,
        is_on: bool = True,
        max_bytes: int = 32 * 1024,
    ) -> None:
        self.is_on = is_on
        """Whether instruction files are sent at all."""
        self._cwd = cwd
        self._config_dir = config_dir
        self._guard = guard
        self._max_bytes = max_bytes
        self._files: ProjectFiles | None = None

    @property
    def files(self) -> ProjectFiles:
        """Those of the system prompt, read when first asked for and again at each `reread`."""
        if self._files is None:
            self._files = self._read()
        return self._files

    def reread(self) -> None:
        """Read the files of the system prompt again."""
        self._files = self._read()

    def root(self) -> Path:
        """The physical folder that project files must lie beneath."""
        return folders_down_to(self._cwd)[0]

    def in_folders(self, folders: Sequence[Path], sent: ProjectFiles) -> ProjectFiles:
        """What these folders of the repository have besides what was sent."""
        root = self.root()
        with self._guard(root) as withholds:
            return find_in_folders(
                folders, root=root, sent=sent, max_bytes=self._max_bytes, withholds=withholds
            )

    def _read(self) -> ProjectFiles:
        if not self.is_on:
            return ProjectFiles()
        with self._guard(self.root()) as withholds:
            return find_project_files(
                self._cwd,
                config_dir=self._config_dir,
                max_bytes=self._max_bytes,
                withholds=withholds,
            )


class TouchedFolders:
    """Tells the model of instruction files in folders that a call has read or changed.

    One for each conversation. Each file is told once; what was told is forgotten when the model no
    longer has it before its eyes. `workspace` gives the physical folders that the person works in.
    What lies outside of them, and the work of others within them (dependencies, what git ignores,
    other repositories), is read like any file and never told by itself.
    """

    def __init__(
        self,
        instructions: Instructions,
        notify: Callable[[str], None],
        workspace: Callable[[], Sequence[str]],
    ) -> None:
        self._instructions = instructions
        self._notify = notify
        self._workspace = workspace
        self._looked_at: set[Path] = set()
        self._told: ProjectFiles | None = None

    def bundle(self) -> Hooks:
        if not self._instructions.is_on:
            return Hooks(name="instructions")
        return Hooks(name="instructions", get_steering_messages=self._tell)

    def forget(self) -> None:
        """Tell again what was told, when it is touched again."""
        self._looked_at = set()
        self._told = None

    def sink(self, event: LoopEvent) -> None:
        """Hear that another history took the place of the one in which it was told."""
        if isinstance(event, ContextReplaced | HistoryMoved):
            self.forget()

    async def _tell(self, info: TurnInfo) -> Sequence[Message]:
        is_opening = info.message is None
        results = _last_results(info.context.messages) if is_opening else info.tool_results
        paths = _touched_paths(results)
        if not paths or not (is_opening or info.wants_more):
            return ()
        text = await asyncio.to_thread(self._words_about, paths)
        return [user_text(text, "harness")] if text else ()

    def _words_about(self, paths: Sequence[str]) -> str:
        folders = self._new_folders(paths)
        if not folders:
            return ""
        self._looked_at.update(folders)
        sent = self._told or self._instructions.files
        found = self._instructions.in_folders([one for one in folders if self._is_ours(one)], sent)
        self._told = found
        for notice in found.notices:
            self._notify(notice)
        return format_project_files(found.files, heading="folder_files")

    def _is_ours(self, folder: Path) -> bool:
        """Whether its instruction files, if there are any, were written for this project."""
        if not any(os.path.lexists(folder / name) for name in INSTRUCTION_FILE_NAMES):
            return False
        root = str(self._instructions.root())
        bases = [one for one in self._workspace() if is_beneath(str(folder), [one])]
        if not bases:
            return False
        # The innermost: an ignored folder that was added to the workspace was added on purpose.
        base = max(*bases, root, key=len)
        return str(folder) == base or not is_work_of_others(str(folder), base=base, top=root)

    def _new_folders(self, paths: Sequence[str]) -> list[Path]:
        """The folders from the root of the repository down to each path, outermost first."""
        root = self._instructions.root()
        found: dict[Path, None] = {}
        for path in paths:
            real = Path(os.path.realpath(path))
            folder = real if real.is_dir() else real.parent
            if not folder.is_relative_to(root):
                continue
            between = [folder, *folder.parents][: len(folder.parts) - len(root.parts)]
            for each in between[::-1][:_MOST_FOLDERS]:
                if each not in self._looked_at:
                    found.setdefault(each)
        return list(found)


def _last_results(messages: Sequence[Message]) -> Sequence[ToolResultMessage]:
    """The results that a history ends with: nobody has gone on from them yet."""
    results: list[ToolResultMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResultMessage):
            break
        results.append(message)
    return results[::-1]


def _touched_paths(results: Iterable[ToolResultMessage]) -> list[str]:
    """The absolute paths that these calls read or changed, each once."""
    found: dict[str, None] = {}
    for result in results:
        if result.is_error:
            continue
        several = result.details.get("paths")
        named = several if isinstance(several, list | tuple) else ()
        for path in (result.details.get("path"), *named):
            if isinstance(path, str) and os.path.isabs(path) and "\0" not in path:
                found.setdefault(path)
    return list(found)
