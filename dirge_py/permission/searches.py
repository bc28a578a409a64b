"""Commands that read whole folders: where they begin, and which files they leave out."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git_config import indexes_above
from dirge_py.permission.git_index import UNREADABLE
from dirge_py.permission.git_links import links_of
from dirge_py.permission.ignoring import IgnoreFiles, Line, pattern_line, plain_name, unbraced
from dirge_py.permission.options import Given, Refused, read_options
from dirge_py.permission.programs import PROGRAMS
from dirge_py.permission.words import Word, listed

_ALWAYS = listed("rg ag ack ripgrep tar zip rsync 7z")
_WITH_FLAG = listed("grep egrep fgrep zgrep bzgrep xzgrep cp scp diff")
_SEARCHES = listed("rg ag ack ripgrep grep egrep fgrep zgrep bzgrep xzgrep")
_RECURSIVE = re.compile(
    r"-[A-Za-z]*[rRa][A-Za-z]*|--recursive|--dereference-recursive|--archive|-d|--directories=.*"
)
_GIT_GREP_VALUED = "ABCem"
_PATHSPEC = re.compile(r"[A-Za-z0-9_./*?@ -]+")
_SAYABLE = re.compile(r"[A-Za-z0-9_.@/-]+")
_LIKE_A_REVISION = re.compile(r"[:^]|\.\.|@\{")

_TYPES = {
    "cpp": ".C .H .cc .cpp .cxx .h .hh .hpp .hxx .inl .in .ino .cppm", "css": ".css .scss",
    "go": ".go", "html": ".htm .html .ejs", "java": ".java .jsp .jspx .properties",
    "js": ".js .jsx .mjs .cjs .vue", "kotlin": ".kt .kts",
    "markdown": ".markdown .md .mdown .mdwn .mdx .mkd .mkdn",
    "md": ".markdown .md .mdown .mdwn .mdx .mkd .mkdn", "py": ".py .pyi", "python": ".py .pyi",
    "rust": ".rs", "sql": ".sql .psql", "swift": ".swift", "ts": ".ts .tsx .cts .mts",
    "typescript": ".ts .tsx .cts .mts", "cs": ".cs", "csharp": ".cs", "vue": ".vue",
    "svelte": ".svelte .svelte.ts", "zig": ".zig",
}  # fmt: skip
"""Types of ripgrep, and endings that cover at least the names each stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A command that reads whole folders.

    `starts` are the words that may name these folders; none: it reads the folder it runs in. Of a
    command that is not `is_known` nothing says which files it leaves out. `options` are as given,
    in their order. Of a `git grep`, `paths` are its pathspecs, and `unsure` those of its words that
    name a commit unless a file has that name. `is_linked`: it comes to its folder through a link.
    """

    program: str
    starts: tuple[Word, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    is_known: bool = True
    is_linked: bool = False

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The pathspecs of a `git grep` that name what it does not read."""
        return tuple(one for one in self.paths if one.startswith(":"))

    def leaving_out(self, paths: Sequence[tuple[str, bool]]) -> str:
        """The words by which this search would leave these out, or "" if they are none to tell.

        `paths` count from the folder it runs in, each with whether it is a folder.
        """
        if not all(_SAYABLE.fullmatch(path) for path, _ in paths):
            return ""
        names = [(path.rpartition("/")[2], is_folder) for path, is_folder in paths]
        match self.program:
            case "grep":
                words = [f"--exclude{'-dir' * is_folder}={name}" for name, is_folder in names]
            case "rg":
                words = [f"-g '!{name}'" for name, _ in names]
            case "git grep":
                words = ["--", *(f"':!{path}'" for path, _ in paths)]
            case _:
                words = []
        return " ".join(dict.fromkeys(words))


class Filter(Protocol):
    """What one search leaves out. Paths are physical and lie below the place where it begins."""

    def leaves_out(self, path: str, *, is_folder: bool) -> bool: ...


def searched(words: Sequence[Word]) -> Search | None:
    """What this command searches, if it is one that may run unasked; None: it is no search.

    Raises:
        Refused: it reads what cannot be looked at from here.
    """
    match words[0].text:
        case "grep":
            given = read_options(PROGRAMS["grep"], words[1:])
            return _given("grep", given) if given.names & {"r", "recursive"} else None
        case "rg":
            given = read_options(PROGRAMS["rg"], words[1:])
            # These list names, and read nothing.
            return None if given.names & {"files", "type-list"} else _given("rg", given)
        case "git":
            rest = words[2:] if words[1:] and words[1].text in ("--no-pager", "-P") else words[1:]
            return _git_grep(rest[1:]) if rest and rest[0].text == "grep" else None
    return None


def searched_loosely(words: Sequence[str]) -> Search | None:
    """What a command may search that nothing is known about; None: it reads no whole folders."""
    name = words[0].rsplit("/", 1)[-1]
    if name == "git":
        return Search(program="git", is_known=False) if "grep" in words[1:3] else None
    if name not in _ALWAYS and not (
        name in _WITH_FLAG and any(_RECURSIVE.fullmatch(word) for word in words[1:])
    ):
        return None
    named = [Word(word) for word in words[1:] if word and not word.startswith("-")]
    # A search takes its pattern first; that it could be a folder's name, too, does no harm.
    starts = named if len(named) > 1 or name not in _SEARCHES else ()
    return Search(program=name, starts=tuple(starts), is_known=False)


def filter_of(search: Search, cwd: str, start: str) -> Filter:
    """What this search leaves out below the physical folder `start`; it runs in `cwd`.

    Raises:
        Refused: it cannot be told.
    """
    if not search.is_known:
        return _Nothing()
    match search.program:
        case "grep":
            return _GrepFilter(search)
        case "rg":
            return _RgFilter(search, cwd, start)
        case _:
            return _TrackedFilter(search, cwd)


class _Nothing:
    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        return False


class _GrepFilter:
    def __init__(self, search: Search) -> None:
        files = [(name, value) for name, value in search.options if name in ("include", "exclude")]
        self._files = [(name, plain_name(value)) for name, value in files]
        self._is_included = not files or files[0][0] == "exclude"
        values = (value.rstrip("/") for name, value in search.options if name == "exclude-dir")
        self._folders = [regex for value in values if (regex := plain_name(value))]

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        if is_folder and not self._folders:
            return False
        name = path.rpartition("/")[2]
        if is_folder:
            return any(regex.match(name) for regex in self._folders)
        for kind, regex in reversed(self._files):
            # What cannot be read is taken for a pattern that lets the file be searched.
            if kind == "include" and (regex is None or regex.match(name)):
                return False
            if kind == "exclude" and regex is not None and regex.match(name):
                return True
        return not self._is_included


class _RgFilter:
    def __init__(self, search: Search, cwd: str, start: str) -> None:
        self._cwd = cwd.rstrip("/")
        self._is_linked = search.is_linked
        unrestricted = sum(name in ("u", "unrestricted") for name, _ in search.options)
        self._skips_hidden = unrestricted < 2 and not search.has(".", "hidden")
        self._globs = list(_globs(search))[::-1]
        self._has_includes = any(not line.leaves_out for line in self._globs)
        self._endings = _endings(search)
        self._ignoring: IgnoreFiles | None = None
        if not unrestricted and not search.has("no-ignore"):
            self._ignoring = IgnoreFiles(
                start,
                is_named=bool(search.starts),
                uses_git=not search.has("no-ignore-vcs"),
                uses_above=not search.has("no-ignore-parent"),
            )

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        verdict = self._by_globs(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
        ignored = self._ignoring and self._ignoring.verdict(path, is_folder=is_folder)
        if ignored:
            return True
        if self._endings is not None and not is_folder:
            return not path.endswith(self._endings)
        return self._skips_hidden and ignored is None and path.rpartition("/")[2].startswith(".")

    def _by_globs(self, path: str, *, is_folder: bool) -> bool | None:
        is_inside = path.startswith(self._cwd + "/") and not self._is_linked
        relative = path[len(self._cwd) + 1 :] if is_inside else path
        for line in self._globs:
            # Elsewhere nobody can tell what a pattern with slashes is compared with.
            if line.is_anchored and not is_inside:
                if not line.leaves_out:
                    return False
            elif line.matches(relative, is_folder=is_folder):
                return line.leaves_out
        return True if self._has_includes and not is_folder else None


def _globs(search: Search) -> Iterator[Line]:
    """The patterns of `-g` and `--iglob`, in the order in which ripgrep compares them."""
    ignores_case = search.has("glob-case-insensitive")
    for names, ignore_case in ((("g", "glob"), ignores_case), (("iglob",), True)):
        for name, value in search.options:
            if name not in names:
                continue
            leaves_out = value.startswith("!")
            for pattern in unbraced(value.removeprefix("!")):
                line = pattern_line(pattern, leaves_out=leaves_out, ignore_case=ignore_case)
                if line is not None:
                    yield line


def _endings(search: Search) -> tuple[str, ...] | None:
    """What the files of the chosen types end in; None: their names do not matter."""
    types = [value for name, value in search.options if name in ("t", "type")]
    if not types:
        return None
    if search.has("type-add") or not set(types) <= set(_TYPES):
        return ("",)
    return tuple(ending for one in types for ending in _TYPES[one].split())


class _TrackedFilter:
    """The files that git tracks, and with `--untracked` all others."""

    def __init__(self, search: Search, cwd: str) -> None:
        self._cwd = cwd.rstrip("/")
        self._excluded = [one[2:] for one in search.excluded]
        wanted = [one for one in search.paths if not one.startswith(":")]
        # One that leads out of the folder is not compared: everything is wanted then.
        is_inner = not any(one.startswith("/") or ".." in one.split("/") for one in wanted)
        self._wanted = wanted if is_inner else []
        self._is_whole = search.has("untracked")
        try:
            self._trees = [(top.rstrip("/"), index) for top, index in indexes_above(cwd)]
            moved = next(self._moved_folders(), "")
        except UNREADABLE as error:
            raise Refused(f"dirge can't read git's index here: {error}") from None
        if moved:
            raise Refused(f"git tracks files in {moved}, which is a link")
        self._sparse = [f"{top}/{one}" for top, index in self._trees for one in index.sparse]
        if self._sparse and search.has("cached"):
            raise Refused(f"git has the files of {self._sparse[0]} in its repository only")

    def _moved_folders(self) -> Iterator[str]:
        """Links that took the place of folders with tracked files."""
        for top, index in self._trees:
            for parent in {folder.rpartition("/")[0] for folder in index.folders}:
                links = links_of(f"{top}/{parent}")
                yield from (link for link in links if link[len(top) + 1 :] in index.folders)

    @property
    def suspects(self) -> list[str] | None:
        """Tracked files that could be secret; None: others are searched, too."""
        if self._is_whole or not self._trees or any(map(os.path.lexists, self._sparse)):
            return None
        return [f"{top}/{one.path}" for top, index in self._trees for one in index.secrets]

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        relative = path[len(self._cwd) + 1 :] if path.startswith(self._cwd + "/") else None
        if relative is not None and any(
            _is_meant(one, relative, is_folder=is_folder) for one in self._excluded
        ):
            return True
        if is_folder or self._is_whole or not self._trees:
            return False
        if self._wanted and (
            relative is None or not any(_is_meant(one, relative) for one in self._wanted)
        ):
            return True
        if any(path.startswith(folder) for folder in self._sparse):
            return False
        return not any(path[len(top) + 1 :] in index.files for top, index in self._trees)


def _is_meant(pathspec: str, relative: str, *, is_folder: bool = False) -> bool:
    """Whether git takes the path for one that the pathspec names; its star spans folders."""
    spec = os.path.normpath(pathspec)
    is_named = spec == "." or relative == spec or relative.startswith(spec + "/")
    # A pattern is compared with files only: that it fits a folder's name says nothing.
    return is_named or (not is_folder and fnmatchcase(relative, spec))


def suspects_of(found: Filter) -> list[str] | None:
    """The only files worth looking at, where the filter knows them all; else None."""
    return found.suspects if isinstance(found, _TrackedFilter) else None


def _given(program: str, given: Given) -> Search:
    lead = 0 if given.names & PROGRAMS[program].lead_options else 1
    return Search(
        program=program,
        starts=tuple(word for word in given.operands[lead:] if word.text != "-"),
        options=tuple((name, value.text if value else "") for name, value in given.seen),
    )


def _git_grep(words: Sequence[Word]) -> Search:
    """A `git grep` whose options were already found harmless."""
    options, operands, behind = _git_options(words)
    operands = operands[0 if any(name == "e" for name, _ in options) else 1 :]
    paths = [*(operands if behind is None else ()), *(behind or ())]
    revisions = operands if behind is not None else [
        word for word in operands if _LIKE_A_REVISION.search(word.text)
    ]  # fmt: skip
    for word in revisions:
        raise Refused(f"{word.text} may be a commit, whose files cannot be looked at from here")
    for word in paths:
        text = word.text[2:] if word.text.startswith((":!", ":^")) else word.text
        if not _PATHSPEC.fullmatch(text) or (text.startswith("/") and text != word.text):
            raise Refused(f"{word.text} is a pattern of git's own")
    outward = [word for word in paths if word.text.startswith(("/", ".."))]
    return Search(
        program="git grep",
        starts=tuple(outward),
        options=tuple(options),
        paths=tuple(word.text for word in paths),
        unsure=tuple(
            word.text
            for word in (paths if behind is None else ())
            if not re.search(r"[*?\[:]", word.text)
        ),
    )


def _git_options(
    words: Sequence[Word],
) -> tuple[list[tuple[str, str]], list[Word], list[Word] | None]:
    """Options, what stands before `--`, and what behind it; None: there is no `--`."""
    options: list[tuple[str, str]] = []
    operands: list[Word] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--":
            behind = list(rest)
            if operands or any(name == "e" for name, _ in options):
                return options, operands, behind
            # It only ends the options: the pattern comes next, and then commits may.
            at = next((at for at, one in enumerate(behind) if one.text == "--"), None)
            return options, behind[:at], None if at is None else behind[at + 1 :]
        if text.startswith("--"):
            options.append((text[2:].partition("=")[0], ""))
        elif text.startswith("-") and len(text) > 1:
            valued = next((at for at, one in enumerate(text) if one in _GIT_GREP_VALUED), 0)
            if valued:
                options.append((text[valued], ""))
                if valued == len(text) - 1:
                    next(rest, None)
        else:
            operands.append(word)
    return options, operands, None
