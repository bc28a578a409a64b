"""Instruction files, AGENTS.md, CLAUDE.md and the like, of a repository and of touched folders.

A word `@path` imports another file. Each is read once, none from outside the repository.
"""

import asyncio
import errno
import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeAlias

from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle
from dirge_py.files.safe_read import read_regular
from dirge_py.files.walk import ignored_by, is_work_of_others, parse_ignore_file
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, is_below_any
from dirge_py.lib.text import clean
from dirge_py.types.events import ContextReplaced, HistoryMoved, LoopEvent
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import Message, ToolResultMessage, user_text

INSTRUCTION_FILE_NAMES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md")
_WITHOUT_TRUST = INSTRUCTION_FILE_NAMES[:2]
"""The names that are sent even if the user declined to trust the project."""
_RULES = ".claude/rules"
_MAX_RULES = 100
_MAX_RULE_ENTRIES = 2_000
"""How many files and folders of the rules are looked at: they may be a link to any folder."""
_RULE_HEAD_BYTES = 8 * 1024
_OWN_CLAUDE = ".claude/CLAUDE.md"
MAX_TOTAL_BYTES = 128 * 1024
MAX_DEPTH = 5
"""How many imports may lead from an instruction file to a file that is read."""
_MAX_FILE_BYTES = 32 * 1024
_MAX_READ_BYTES = 8 * MAX_TOTAL_BYTES
_MAX_IMPORTS = 200
"""How many imports are looked up; each is a file system access, even if there is no such file."""
_MAX_NOTICES = 10
_MAX_LEVELS = 16
"""How many folders are searched: upwards, and for one touched path."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR)

Withholds: TypeAlias = Callable[[str], bool]
"""Whether a physical path must not be read without asking."""
ReadGuard: TypeAlias = Callable[[Path], AbstractContextManager[Withholds]]
"""Opens the permission test for the files of a repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """An instruction file that is sent."""

    path: str
    """Its display path."""
    text: str
    """Its text, cleaned."""
    left_off_bytes: int = 0
    """How many bytes didn't fit."""
    imported_by: str = ""
    """The display path of the file that imports it; empty if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """The instruction files that were found."""

    files: tuple[ProjectFile, ...] = ()
    """The files, outermost folder first, then their imports, nearest first."""
    notices: tuple[str, ...] = ()
    """Notices for the user about them."""
    marks: frozenset[str] = frozenset()
    """The physical paths and digests of the files that were read."""
    taken_bytes: int = 0
    """How much of the total limit is used."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def find_project_files(
    cwd: Path,
    *,
    config_dir: Path | None = None,
    home: Path | None = None,
    max_bytes: int = _MAX_FILE_BYTES,
    withholds: Withholds = lambda real: False,
    is_declined: bool = False,
) -> ProjectFiles:
    """Return the user's own files, then the instruction files from the git root to `cwd`.

    The user's own are `AGENTS.md` in `config_dir` and `.claude/CLAUDE.md` in `home`. Outside a
    repository only `cwd` is searched, as others may own the folders above. Links that lead out of
    the repository and paths that `withholds` names aren't read. `is_declined`: the user doesn't
    trust the project, so only `AGENTS.md` and `CLAUDE.md` are.
    """
    folders = folders_down_to(cwd)
    names = _WITHOUT_TRUST if is_declined else INSTRUCTION_FILE_NAMES
    reader = _FileReader(ProjectFiles(), max_bytes, withholds)
    candidates = list(_candidates(folders, folders[0], names))
    if not is_declined:
        rules = _rules_of(folders[0], reader.note)
        candidates += [rule for rule, patterns in rules if not patterns]
    own = [config_dir / INSTRUCTION_FILE_NAMES[0]] if config_dir is not None else []
    own += [home / _OWN_CLAUDE] if home is not None else []
    for path in reversed(own):
        root = os.path.realpath(path.parent)
        shown = clean(str(path))
        candidates.insert(0, _Candidate(path=str(path), shown=shown, root=root, is_own=True))
    return reader.read_all(candidates)


def folders_down_to(cwd: Path) -> list[Path]:
    """Return the physical folders from the git root, at most 16 levels up, down to `cwd`."""
    real = cwd.resolve()
    upward = [real, *real.parents][:_MAX_LEVELS]
    for level, folder in enumerate(upward):
        if os.path.lexists(folder / ".git"):
            return upward[level::-1]
    return [real]


def format_project_files(files: Sequence[ProjectFile], *, heading: str = "project_files") -> str:
    """Return the files as a section of the system prompt, or as a message; empty without files.

    Lines with its digest enclose each text, so that no text can end its own quotation.
    """
    quotes = []
    for file in files:
        by = f", imported by {file.imported_by}" if file.imported_by else ""
        note = f"\n[{file.left_off_bytes} bytes left off]" if file.left_off_bytes else ""
        quotes.append(quote_text(f"{file.path}{by}", f"{file.text}{note}"))
    return "\n\n".join([prompt_text(heading), *quotes]) if quotes else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A file to read if it exists."""

    path: str
    """Its absolute path; links aren't followed yet."""
    shown: str
    """Its display path."""
    root: str
    """The physical folder that must contain it and all its imports."""
    is_own: bool = False
    """Whether it is the user's own file (which may use `~` and be any link) or its import."""
    depth: int = 0
    """How many imports lead to it."""
    named: str = ""
    """The path in the import, as written."""
    imported_by: str = ""
    """The display path of the importing file."""
    is_rule: bool = False
    """Whether it is a rule file, whose head isn't sent."""

    @property
    def is_root_of_own(self) -> bool:
        return self.is_own and not self.depth


def _rules_of(
    root: Path, note: Callable[[str], None] = lambda notice: None
) -> Iterator[tuple[_Candidate, Sequence[str]]]:
    """Yield the rule files of the repository, each with the patterns of the paths it is about.

    `note` gets a notice if there are more than are read.
    """
    files, are_all = _rule_files(root / _RULES)
    if not are_all:
        note(
            f"{_RULES} is too large: dirge looks at {_MAX_RULE_ENTRIES:,} of its files and folders "
            f"and uses at most {_MAX_RULES} rules."
        )
    for path in files:
        try:
            head = read_regular(path, _RULE_HEAD_BYTES, follow=False)
        except OSError:
            continue
        shown = clean(str(path.relative_to(root)))
        candidate = _Candidate(path=str(path), shown=shown, root=str(root), is_rule=True)
        yield candidate, rule_paths(head.decode("utf-8-sig", "replace"))


def _rule_files(folder: Path) -> tuple[Sequence[Path], bool]:
    """Return the rule files below a folder, and whether these are all; if not, the nearest."""
    files: list[Path] = []
    waiting, left = deque([str(folder)]), _MAX_RULE_ENTRIES
    while waiting and left:
        try:
            with os.scandir(waiting.popleft()) as entries:
                listed = sorted(islice(entries, left), key=lambda entry: entry.name)
        except OSError:
            continue
        left -= len(listed)
        waiting += [entry.path for entry in listed if entry.is_dir(follow_symlinks=False)]
        files += [Path(entry.path) for entry in listed if entry.name.endswith(".md")]
    return sorted(files[:_MAX_RULES]), bool(left) and len(files) <= _MAX_RULES


_HEAD = late_pattern(r"---[ \t]*\r?\n(?P<head>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PATHS = late_pattern(
    r"^paths:[ \t]*(?P<same>[^\r\n]*)(?P<rows>(?:\r?\n[ \t]*-[^\r\n]*)*)", re.MULTILINE
)
_BRACES = late_pattern(r"\{([^{}]*)\}")


def rule_paths(text: str) -> Sequence[str]:
    """Return the patterns under `paths:` in the head of a rule file; empty: it always applies."""
    head = _HEAD.match(text)
    match = _PATHS.search(head["head"]) if head else None
    if match is None:
        return ()
    inline = match["same"].strip().removeprefix("[").removesuffix("]")
    rows = [row.strip().removeprefix("-") for row in match["rows"].splitlines()]
    # A comma within braces separates alternatives of one pattern.
    named = [*re.split(r",(?![^{]*\})", inline), *rows]
    return [path for each in named if (path := each.strip().strip("'\""))]


def _alternatives(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for part in match[1].split(","):
        yield from _alternatives(pattern[: match.start()] + part.strip() + pattern[match.end() :])


def _is_about(patterns: Sequence[str], root: str, paths: Sequence[str]) -> bool:
    """Whether one of the physical paths matches one of the patterns, which are as in .gitignore."""
    every = islice((one for each in patterns for one in _alternatives(each)), _MAX_RULES)
    rules = [parse_ignore_file(root, "\n".join(every).encode())]
    below = (path for path in paths if is_below(path, root))
    return any(ignored_by(rules, path, is_folder=False) for path in below)


def _candidates(
    folders: Sequence[Path], root: Path, names: Sequence[str] = INSTRUCTION_FILE_NAMES
) -> Iterator[_Candidate]:
    for folder in folders:
        for name in names:
            path = folder / name
            shown = clean(str(path.relative_to(root)))
            yield _Candidate(path=str(path), shown=shown, root=str(root))


class _FileReader:
    """Reads files and their imports, each once, without those that were sent before."""

    def __init__(self, sent: ProjectFiles, max_bytes: int, withholds: Withholds) -> None:
        self._marks = set(sent.marks)
        self._left_bytes = max(0, MAX_TOTAL_BYTES - sent.taken_bytes)
        self._max_bytes = max_bytes
        self._withholds = withholds
        self._notices: list[str] = []
        self._imports_left = _MAX_IMPORTS

    def note(self, notice: str) -> None:
        self._notices.append(notice)

    def read_all(self, candidates: Iterable[_Candidate]) -> ProjectFiles:
        """Read the candidates and their imports, level by level."""
        files: list[ProjectFile] = []
        waiting = deque(candidates)
        while waiting:
            candidate = waiting.popleft()
            content = self._content(candidate)
            if content is None:
                continue
            digest = hashlib.sha256(content.strip()).hexdigest()
            is_new = digest not in self._marks
            file = self._cut(candidate, content, is_new=is_new)
            self._marks.add(digest)
            if file.text and is_new:
                files.append(file)
            waiting.extend(self._imports(candidate, file.text))
        notices = self._notices[:_MAX_NOTICES]
        if (more := len(self._notices) - _MAX_NOTICES) > 0:
            notices.append(f"and {more} more about instruction files.")
        return ProjectFiles(
            files=tuple(files),
            notices=tuple(notices),
            marks=frozenset(self._marks),
            taken_bytes=MAX_TOTAL_BYTES - self._left_bytes,
        )

    def _content(self, candidate: _Candidate) -> bytes | None:
        """Return the bytes of a file that may be sent and wasn't read before; else None."""
        try:
            real = os.path.realpath(candidate.path, strict=True)
            if real in self._marks:
                return None
            if refusal := self._refusal(candidate, real):
                self._note_left_out(candidate, refusal)
                return None
            self._marks.add(real)
            content = _read(candidate, real)
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else None
            # A word such as a person's name or a decorator may not mean a file at all.
            if reads_like_a_file(candidate.named) or not (candidate.depth or number in _ABSENT):
                reason = error.strerror if isinstance(error, OSError) else ""
                self._note_left_out(candidate, reason or "it cannot be read")
            return None
        if candidate.is_rule:
            content = _HEAD.sub("", content.decode("utf-8-sig", "replace"), count=1).encode()
        if candidate.depth and not _is_text(content):
            self._note_left_out(candidate, "it is not text")
            return None
        return content

    def _refusal(self, candidate: _Candidate, real: str) -> str:
        if not is_below(real, candidate.root) and not candidate.is_root_of_own:
            place = "your settings folder" if candidate.is_own else "the repository"
            if candidate.depth:
                return f"it is outside {place}"
            return f"it is a link that points outside {place}"
        if candidate.depth > MAX_DEPTH:
            return f"more than {MAX_DEPTH} imports lead to it"
        if not candidate.is_root_of_own and self._withholds(real):
            return "reading it needs your permission"
        return ""

    def _cut(self, candidate: _Candidate, content: bytes, *, is_new: bool) -> ProjectFile:
        """Return the part of the file that fits; a text that was sent before doesn't count."""
        limit = min(self._max_bytes, self._left_bytes) if is_new else self._max_bytes
        start = content[:limit]
        left_off = len(content) - len(start)
        if is_new:
            self._left_bytes -= len(start)
            if left_off:
                notice = f"{candidate.shown} is long: its last {left_off} bytes were left off."
                self._notices.append(notice)
        return ProjectFile(
            path=candidate.shown,
            text=clean(start.decode("utf-8-sig", "ignore" if left_off else "replace")).strip(),
            left_off_bytes=left_off,
            imported_by=candidate.imported_by,
        )

    def _imports(self, candidate: _Candidate, text: str) -> Iterator[_Candidate]:
        # Imports of a link within a repository are relative to its target; the user's own file may
        # be a link to anywhere.
        path = candidate.path if candidate.is_root_of_own else os.path.realpath(candidate.path)
        for named in imported_paths(text):
            if named.startswith("~") and not candidate.is_own:
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
                notice = f"More than {_MAX_IMPORTS} imports are named; the rest is left out."
                self._notices.append(notice)
            wanted = os.path.join(os.path.dirname(path), os.path.expanduser(named))
            shown = os.path.normpath(wanted)
            if not candidate.is_own and is_below(shown, candidate.root):
                shown = os.path.relpath(shown, candidate.root)
            yield _Candidate(
                path=wanted,
                shown=clean(shown),
                root=candidate.root,
                is_own=candidate.is_own,
                depth=candidate.depth + 1,
                named=named,
                imported_by=candidate.shown,
            )

    def _note_left_out(self, candidate: _Candidate, reason: str) -> None:
        notice = f"{candidate.shown} was not read: {reason}."
        if importer := candidate.imported_by:
            notice = f"{importer} imports {candidate.shown}, which was left out: {reason}."
        self._notices.append(notice)


def _read(candidate: _Candidate, real: str) -> bytes:
    """Return at most `_MAX_READ_BYTES` of a regular file, with no link on the way from its root."""
    if not is_below(real, candidate.root):
        return read_regular(Path(real), _MAX_READ_BYTES, follow=False)
    handle = open_folder_handle(candidate.root)
    try:
        descriptor = open_beneath(handle, real[len(candidate.root) :].lstrip("/"), FILE)
    finally:
        os.close(handle)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it isn't a regular file")
        return stream.read(_MAX_READ_BYTES) or b""


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return len(content) == _MAX_READ_BYTES and error.start > len(content) - 4
    return True


_FENCE = late_pattern(r"[\s>]*(?:[-*+]\s+|\d{1,9}[.)]\s+)?(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
_SPAN = late_pattern(r"(?<!`)(`++).*?(?<!`)\1(?!`)", re.DOTALL)
_IMPORT = late_pattern(r"(?:^|(?<=[\s(]))@((?:[^\s\\`]|\\.)+)", re.MULTILINE)
_TRAILING = ".,;:!?)]}>'\"*_"
"""What may follow a path directly and belongs to the sentence around it."""


def imported_paths(text: str) -> list[str]:
    """Return the paths that are written as `@path`, each once, in order and as written.

    Code is skipped. A space within a path is written `\\ `; a `#` and what follows is left off.
    """
    paths: dict[str, None] = {}
    for prose in _prose(text):
        # Replacing a code span by a blank could make the word after it an import.
        for match in _IMPORT.finditer(_SPAN.sub("`", prose)):
            path = match[1].partition("#")[0].replace("\\ ", " ").rstrip(_TRAILING)
            if path and "\0" not in path:
                paths.setdefault(path)
    return list(paths)


def reads_like_a_file(path: str) -> bool:
    """Whether `path` can only be a file, and not the name of a person or a decorator."""
    return path.startswith(("./", "../", "/", "~/")) or path.lower().endswith(
        (".md", ".mdc", ".markdown", ".txt", ".rst")
    )


def _prose(text: str) -> Iterator[str]:
    """Yield the paragraphs outside of fenced blocks; an open fence reaches to the end."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if fence:
            if match and match["marks"].startswith(fence) and not match["rest"].strip():
                fence = ""
            continue
        # A line of code between backticks opens no fence.
        if match and not (match["marks"][0] == "`" and "`" in match["rest"]):
            fence = match["marks"]
        if fence or not line.strip():
            yield "\n".join(lines)
            lines = []
        else:
            lines.append(line)
    yield "\n".join(lines)


class Instructions:
    """The instruction files that the settings allow to send.

    `guard` opens the permission test for files of a repository, whose authors choose the imports.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        config_dir: Path,
        guard: ReadGuard,
        home: Path | None = None,
        is_on: bool = True,
        is_declined: bool = False,
        max_bytes: int = _MAX_FILE_BYTES,
    ) -> None:
        self._home = home
        self._is_declined = is_declined
        self.is_on = is_on
        """Whether instruction files are sent at all."""
        self._cwd = cwd
        self._config_dir = config_dir
        self._guard = guard
        self._max_bytes = max_bytes
        self._files: ProjectFiles | None = None

    @property
    def files(self) -> ProjectFiles:
        """The files of the system prompt, read on first use and again by `reread`."""
        return self._files if self._files is not None else self.reread()

    def reread(self) -> ProjectFiles:
        """Read the files of the system prompt again."""
        files = ProjectFiles()
        if self.is_on:
            with self._guard(self.root()) as withholds:
                files = find_project_files(
                    self._cwd,
                    config_dir=self._config_dir,
                    home=self._home,
                    is_declined=self._is_declined,
                    max_bytes=self._max_bytes,
                    withholds=withholds,
                )
        self._files = files
        return files

    def root(self) -> Path:
        """Return the physical folder that instruction files must lie in."""
        return folders_down_to(self._cwd)[0]

    def in_folders(
        self, folders: Sequence[Path], sent: ProjectFiles, paths: Sequence[str] = ()
    ) -> ProjectFiles:
        """Return the files of these folders of the repository, without those that were sent.

        Rule files about one of the `paths` come after them. All paths are physical.
        `marks` and `taken_bytes` of the result include those of `sent`.
        """
        root = self.root()
        with self._guard(root) as withholds:
            reader = _FileReader(sent, self._max_bytes, withholds)
            names = _WITHOUT_TRUST if self._is_declined else INSTRUCTION_FILE_NAMES
            rules = () if self._is_declined else _rules_of(root)
            about = (rule for rule, named in rules if named and _is_about(named, str(root), paths))
            return reader.read_all([*_candidates(folders, root, names), *about])


class TouchedFolders:
    """Sends one conversation the instruction files of folders that its calls read or change.

    Each file is sent once, until `forget`. `workspace` returns the physical folders it covers.
    Other people's files in them (dependencies, ignored files, other repositories) are never sent.
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
        self._seen_paths: set[str] = set()
        self._sent: ProjectFiles | None = None

    def bundle(self) -> Hooks:
        steer = self._steering_messages if self._instructions.is_on else None
        return Hooks(name="instructions", get_steering_messages=steer)

    def forget(self) -> None:
        """Send the files again when their folders are touched again."""
        self._looked_at = set()
        self._seen_paths = set()
        self._sent = None

    def sink(self, event: LoopEvent) -> None:
        """Forget what was sent when another history replaces the current one."""
        if isinstance(event, ContextReplaced | HistoryMoved):
            self.forget()

    async def _steering_messages(self, info: TurnInfo) -> Sequence[Message]:
        is_opening = info.message is None
        backwards = reversed(info.context.messages)
        newest_first = takewhile(lambda each: isinstance(each, ToolResultMessage), backwards)
        paths = _touched_paths([*newest_first][::-1] if is_opening else info.tool_results)
        if not paths or not (is_opening or info.wants_more):
            return ()
        text = await asyncio.to_thread(self._read_for, paths)
        return [user_text(text, "harness")] if text else ()

    def _read_for(self, paths: Sequence[str]) -> str:
        folders = self._new_folders(paths)
        real = [path for path in map(os.path.realpath, paths) if path not in self._seen_paths]
        if not folders and not real:
            return ""
        self._looked_at.update(folders)
        self._seen_paths.update(real)
        sent = self._sent or self._instructions.files
        ours = list(filter(self._is_ours, folders))
        self._sent = self._instructions.in_folders(ours, sent, real)
        for notice in self._sent.notices:
            self._notify(notice)
        return format_project_files(self._sent.files, heading="folder_files")

    def _is_ours(self, folder: Path) -> bool:
        """Whether instruction files in the folder belong to this project."""
        if not any(os.path.lexists(folder / name) for name in INSTRUCTION_FILE_NAMES):
            return False
        root = str(self._instructions.root())
        bases = [base for base in self._workspace() if is_below_any(str(folder), [base])]
        if not bases:
            return False
        # The innermost: an ignored folder that is in the workspace was added on purpose.
        base = max(*bases, root, key=len)
        return str(folder) == base or not is_work_of_others(str(folder), base=base, top=root)

    def _new_folders(self, paths: Sequence[str]) -> list[Path]:
        """Return the folders from the root of the repository down to each path, outermost first."""
        root = self._instructions.root()
        new: dict[Path, None] = {}
        for path in paths:
            real = Path(os.path.realpath(path))
            folder = real if real.is_dir() else real.parent
            if folder.is_relative_to(root):
                between = [folder, *folder.parents][: len(folder.parts) - len(root.parts)]
                new |= dict.fromkeys(between[::-1][:_MAX_LEVELS])
        return [folder for folder in new if folder not in self._looked_at]


def _touched_paths(messages: Iterable[Message]) -> list[str]:
    """Return the absolute paths that the calls with these results read or changed, each once."""
    touched: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, ToolResultMessage) or message.is_error:
            continue
        several = message.details.get("paths")
        named = several if isinstance(several, list | tuple) else ()
        for path in (message.details.get("path"), *named):
            if isinstance(path, str) and os.path.isabs(path) and "\0" not in path:
                touched.setdefault(path)
    return list(touched)
