"""Commands that read whole folders, and those of their files that need a question."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice, takewhile

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, is_below_any
from dirge_py.lib.shell_lexer import Word, word_set
from dirge_py.permission.facts import PathFact, ResolvedPath
from dirge_py.permission.git.commands import GREP
from dirge_py.permission.git.files import UNREADABLE
from dirge_py.permission.git.repository import indexes_above, links_of
from dirge_py.permission.ignore_files import (
    IgnoreFiles,
    IgnoreLine,
    listing_of,
    pattern_line,
    plain_name,
    unbraced,
)
from dirge_py.permission.path_resolver import PathResolver, entries_beneath, is_public
from dirge_py.permission.patterns import program_of
from dirge_py.permission.program_options import (
    NotReadOnly,
    ParsedOptions,
    names_in_text,
    parse_options,
)
from dirge_py.permission.programs import PROGRAMS
from dirge_py.permission.protected import why_secret
from dirge_py.permission.rules import PolicySet, anchored, forbids

_ALWAYS = word_set("rg ag ack ripgrep tar zip rsync 7z")
_WITH_FLAG = word_set("grep egrep fgrep zgrep bzgrep xzgrep cp scp diff")
_SEARCHES = word_set("rg ag ack ripgrep grep egrep fgrep zgrep bzgrep xzgrep")
_RECURSIVE = late_pattern(
    r"-[A-Za-z]*[rRa][A-Za-z]*|--recursive|--dereference-recursive|--archive|-d|--directories=.*"
)
_PATHSPEC = late_pattern(r"[A-Za-z0-9_./*?@ -]+")
_SAYABLE = late_pattern(r"[A-Za-z0-9_.@/-]+")
_LEAVES_OUT = {"grep": "--exclude{dir}={name}", "rg": "-g '!{name}'", "git grep": "':!{path}'"}
_LIKE_A_REVISION = late_pattern(r"[:^]|\.\.|@\{")
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
"""ripgrep's file types, with endings that cover at least the names of each type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveRead:
    """A command that reads whole folders."""

    program: str
    """The name of the program: `grep`, `rg`, `git grep` and the like."""
    starts: tuple[Word, ...] = ()
    """The words that may name these folders; empty: it reads the folder it runs in."""
    options: tuple[tuple[str, str], ...] = ()
    """Its options with their values, in order."""
    paths: tuple[str, ...] = ()
    """The pathspecs of a `git grep`."""
    unsure: tuple[str, ...] = ()
    """Words of a `git grep` that name a commit unless a file of that name exists."""
    is_known: bool = True
    """Whether dirge knows which files it skips."""
    is_linked: bool = False
    """Whether it reaches its folder through a link."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Return the pathspecs of a `git grep` that name what it does not read."""
        return tuple(one for one in self.paths if one.startswith(":"))

    def leaving_out(self, paths: Sequence[tuple[str, bool]]) -> str:
        """Return the words that would make this search skip these paths, or "" if there are none.

        `paths` are relative to the folder it runs in, each with whether it is a folder.
        """
        if not all(_SAYABLE.fullmatch(path) for path, _ in paths):
            return ""
        template = _LEAVES_OUT.get(self.program, "")
        words = [
            template.format(path=path, name=path.rpartition("/")[2], dir="-dir" * is_folder)
            for path, is_folder in paths
        ]
        return " ".join(["--"] * (self.program == "git grep") + list(dict.fromkeys(words)))


class FileFilter:
    """What a search skips: nothing, unless a subclass overrides this. Paths are physical."""

    @property
    def suspects(self) -> list[str] | None:
        """Return the only files that could be secret, if the filter knows them; else None."""
        return None

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        return False

    def reaches(self, path: str, start: str) -> bool:
        """Whether a search below `start` reads this file, or files in this folder."""
        at = start.rstrip("/")
        if not path.startswith(at + "/"):
            return path == at
        *folders, last = path[len(at) + 1 :].split("/")
        for name in folders:
            at = f"{at}/{name}"
            if self.leaves_out(at, is_folder=True):
                return False
        return not self.leaves_out(f"{at}/{last}", is_folder=os.path.isdir(path))


def recursive_read_of(words: Sequence[Word]) -> RecursiveRead | None:
    """Return what this command searches, if anything. Raises NotReadOnly."""
    program = words[0].text
    if program == "git":
        rest = words[2:] if words[1:] and words[1].text in ("--no-pager", "-P") else words[1:]
        return _git_grep(rest[1:]) if rest and rest[0].text == "grep" else None
    if program not in ("grep", "rg"):
        return None
    given = parse_options(PROGRAMS[program], words[1:])
    # With the options of `rg` it lists names and reads nothing.
    if program == "grep" and not given.names & {"r", "recursive"}:
        return None
    if program == "rg" and given.names & {"files", "type-list"}:
        return None
    lead = 0 if given.names & names_in_text(PROGRAMS[program].lead_options) else 1
    return RecursiveRead(
        program=program,
        starts=tuple(word for word in given.operands[lead:] if word.text != "-"),
        options=_options_of(given),
    )


def possible_recursive_read(words: Sequence[str]) -> RecursiveRead | None:
    """Return what an unknown command may search; None: it reads no whole folders."""
    name = program_of(words)
    if name == "git":
        return RecursiveRead(program="git", is_known=False) if "grep" in words[1:3] else None
    if name not in _ALWAYS and not (
        name in _WITH_FLAG and any(_RECURSIVE.fullmatch(word) for word in words[1:])
    ):
        return None
    named = [Word(word) for word in words[1:] if word and not word.startswith("-")]
    # The pattern of a search comes first. That it may also be a folder's name does no harm.
    starts = named if len(named) > 1 or name not in _SEARCHES else ()
    return RecursiveRead(program=name, starts=tuple(starts), is_known=False)


def file_filter(search: RecursiveRead, cwd: str, start: str) -> FileFilter:
    """Return what a search in `cwd` skips below the physical `start`. Raises NotReadOnly."""
    if not search.is_known:
        return FileFilter()
    match search.program:
        case "grep":
            return _GrepFilter(search)
        case "rg":
            return _RgFilter(search, cwd, start)
        case _:
            return _TrackedFilter(search, cwd)


class _GrepFilter(FileFilter):
    def __init__(self, search: RecursiveRead) -> None:
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
            # A pattern that dirge can't read counts as making grep search the file.
            if kind == "include" and (regex is None or regex.match(name)):
                return False
            if kind == "exclude" and regex is not None and regex.match(name):
                return True
        return not self._is_included


class _RgFilter(FileFilter):
    def __init__(self, search: RecursiveRead, cwd: str, start: str) -> None:
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
            # Outside of that folder it is unclear what a pattern with slashes is compared with.
            if line.is_anchored and not is_inside:
                if not line.leaves_out:
                    return False
            elif line.matches(relative, is_folder=is_folder):
                return line.leaves_out
        return True if self._has_includes and not is_folder else None


def _globs(search: RecursiveRead) -> Iterator[IgnoreLine]:
    """Yield the patterns of `-g` and `--iglob`, in ripgrep's order of comparison."""
    ignores_case = search.has("glob-case-insensitive")
    for names, ignore_case in ((("g", "glob"), ignores_case), (("iglob",), True)):
        for name, value in search.options:
            if name not in names:
                continue
            leaves_out = value.startswith("!")
            for pattern in unbraced(value.removeprefix("!")):
                if line := pattern_line(pattern, leaves_out=leaves_out, ignore_case=ignore_case):
                    yield line


def _endings(search: RecursiveRead) -> tuple[str, ...] | None:
    """Return the endings of the chosen file types; None: names do not matter."""
    types = [value for name, value in search.options if name in ("t", "type")]
    if not types:
        return None
    if search.has("type-add") or not set(types) <= set(_TYPES):
        return ("",)
    return tuple(ending for one in types for ending in _TYPES[one].split())


class _TrackedFilter(FileFilter):
    """Selects the files that git tracks, and with `--untracked` all others."""

    def __init__(self, search: RecursiveRead, cwd: str) -> None:
        self._cwd = cwd.rstrip("/")
        self._excluded = [one[2:] for one in search.excluded]
        wanted = [one for one in search.paths if not one.startswith(":")]
        # A pathspec that leads out of the folder is not compared: all files count then.
        is_inner = not any(one.startswith("/") or ".." in one.split("/") for one in wanted)
        self._wanted = wanted if is_inner else []
        self._is_whole = search.has("untracked")
        try:
            self._trees = [(top.rstrip("/"), index) for top, index in indexes_above(cwd)]
            # Links that replaced folders with tracked files.
            moved = [
                link
                for top, index in self._trees
                for parent in {folder.rpartition("/")[0] for folder in index.folders}
                for link in links_of(f"{top}/{parent}")
                if link[len(top) + 1 :] in index.folders
            ]
        except UNREADABLE as error:
            raise NotReadOnly(f"dirge cannot read git's index here: {error}") from None
        if moved:
            raise NotReadOnly(f"git tracks files in {moved[0]}, which is a link")
        self._sparse = [f"{top}/{one}" for top, index in self._trees for one in index.sparse]
        if self._sparse and search.has("cached"):
            raise NotReadOnly(f"the files of {self._sparse[0]} are only in the git repository")

    @property
    def suspects(self) -> list[str] | None:
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
    """Whether git selects the path by this pathspec; its star also matches slashes."""
    spec = os.path.normpath(pathspec)
    is_named = spec == "." or relative == spec or relative.startswith(spec + "/")
    # A pattern is compared with files only: a match with a folder's name means nothing.
    return is_named or (not is_folder and fnmatchcase(relative, spec))


def _git_grep(words: Sequence[Word]) -> RecursiveRead:
    """Parse a `git grep` whose options were already checked."""
    given = parse_options(GREP, words)
    has_pattern = "e" in given.names
    operands, behind = given.operands, None
    if given.guarded is not None:
        operands, behind = given.operands[: given.guarded], given.operands[given.guarded :]
        if not operands and not has_pattern:
            # The `--` only ends the options: the pattern comes next, and then possibly commits.
            at = next((at for at, one in enumerate(behind) if one.text == "--"), None)
            operands, behind = behind[:at], None if at is None else behind[at + 1 :]
    operands = operands[0 if has_pattern else 1 :]
    paths = [*(operands if behind is None else ()), *(behind or ())]
    revisions = operands if behind is not None else [
        word for word in operands if _LIKE_A_REVISION.search(word.text)
    ]  # fmt: skip
    if revisions:
        raise NotReadOnly(f"{revisions[0].text} may be a commit, whose files dirge cannot check")
    for word in paths:
        text = word.text[2:] if word.text.startswith((":!", ":^")) else word.text
        if not _PATHSPEC.fullmatch(text) or (text.startswith("/") and text != word.text):
            raise NotReadOnly(f"{word.text} is a git pathspec")
    return RecursiveRead(
        program="git grep",
        starts=tuple(word for word in paths if word.text.startswith(("/", ".."))),
        options=_options_of(given),
        paths=tuple(word.text for word in paths),
        unsure=tuple(
            word.text
            for word in (paths if behind is None else ())
            if not re.search(r"[*?\[:]", word.text)
        ),
    )


def _options_of(given: ParsedOptions) -> tuple[tuple[str, str], ...]:
    return tuple((name, value.text if value else "") for name, value in given.seen)


MAX_ENTRIES = 20_000
"""The most paths that are compared with rules."""
MAX_NAMES = 400_000
"""The most names that are checked for secrets: about half a second the first time."""
MAX_SECONDS = 1.0
"""The longest time of a walk, whatever a repository's ignore files contain."""
MAX_FOUND = 16
NARROWER = "name the files or a smaller folder, or use the `grep` tool, which leaves secrets out"
_MOST_NAMED = 3


def kept_beneath(
    search: RecursiveRead,
    cwd: str,
    start: str,
    *,
    places: PathResolver,
    policy: PolicySet,
    roots: Sequence[str],
) -> Sequence[ResolvedPath] | None:
    """Return the places below the physical folder `start` that this search reads although reading
    them needs a question: dirge's own state, places that rules protect, and secrets.

    None: there are too many files to check. Raises NotReadOnly if it is unclear what it reads.
    """
    leaving = file_filter(search, cwd, start)
    state = [one for one in places.state if is_below_any(one, [start]) and os.path.lexists(one)]
    found = [places.find(one) for one in state if leaving.reaches(one, start)]
    by_rules = _kept_by_rules(leaving, start, policy)
    if by_rules is None:
        return found or None
    found += map(places.find, by_rules)
    is_denied = any(place.forbidden for place in found)
    if is_denied or policy.mode == "yolo":
        return found
    secrets = _secrets(leaving, start, places.state, tuple(roots))
    if secrets is None:
        return found or None
    for path in secrets:
        place = places.find(path)
        # A folder of secrets, and a link to one, has no reason yet.
        found.append(replace(place, secret=place.secret or f"{path} may contain secrets"))
    return found


def with_reasons(
    found: Sequence[ResolvedPath], search: RecursiveRead, cwd: str
) -> Sequence[ResolvedPath]:
    """Return the places with a reason that names them all and an alternative; `cwd` is physical."""
    forbidden = [place for place in found if place.forbidden]
    kept = forbidden or [place for place in found if place.secret]
    if not kept:
        return found
    paths = [os.path.relpath(place.real, cwd) for place in kept]
    named = ", ".join(paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    option = ""
    if len(paths) <= _MOST_NAMED:
        option = search.leaving_out([(one, os.path.isdir(os.path.join(cwd, one))) for one in paths])
    instead = "use the `grep` tool, which leaves such files out" + (
        f", or add {option}" if option else ", or search a smaller folder"
    )
    what = "which is dirge's own state or keys" if forbidden else "which may contain secrets"
    reason = f"it would also read {named}, {what}: {instead}"
    return [
        replace(place, forbidden=reason)
        if place.forbidden
        else replace(place, secret=place.secret and reason)
        for place in found
    ]


def _secrets(
    leaving: FileFilter, start: str, passed_over: Sequence[str], roots: tuple[str, ...]
) -> list[str] | None:
    suspects = leaving.suspects
    if suspects is not None:
        inner = (one for one in suspects if one.startswith(start.rstrip("/") + "/"))
        found = (one for one in inner if _is_secret(one, roots) and leaving.reaches(one, start))
        return list(islice(found, MAX_FOUND))
    secrets: list[str] = []
    leaves_out = leaving.leaves_out
    left = MAX_NAMES
    deadline = time.monotonic() + MAX_SECONDS
    pending = [start]
    while pending and len(secrets) < MAX_FOUND:
        folder = pending.pop()
        listing = listing_of(folder)
        left -= listing.entries
        if left < 0 or time.monotonic() > deadline:
            return secrets or None
        base = folder.rstrip("/")
        for name in listing.suspects:
            path = f"{base}/{name}"
            if _is_secret(path, roots) and not leaves_out(path, is_folder=False):
                secrets.append(path)
        for name in listing.folders:
            path = f"{base}/{name}"
            if path in passed_over or leaves_out(path, is_folder=True):
                continue
            # Test whether everything in this folder is secret, whatever its name.
            if name in listing.suspect_folders and why_secret(f"{path}/x", roots):
                secrets.append(path)
            else:
                pending.append(path)
    return secrets[:MAX_FOUND]


def _is_secret(path: str, roots: tuple[str, ...]) -> bool:
    return bool(why_secret(path, roots)) and not is_public(path)


def _kept_by_rules(leaving: FileFilter, start: str, policy: PolicySet) -> list[str] | None:
    """Return paths in reach that a rule forbids or asks to read; None: too many to check."""
    rules = [
        rule
        for rule in policy.rules + policy.project_rules
        if rule.effect != "allow" and rule.op in ("read", "*")
    ]
    if not rules:
        return []
    patterns = (one for rule in rules for one in anchored(rule.pattern, policy.anchors))
    found: list[str] = []
    budget = MAX_ENTRIES
    for fixed in _starts_of(patterns, policy.anchors.copies):
        begin = _deeper(start, fixed)
        paths: Iterator[str] = filter(os.path.lexists, [begin])
        if os.path.isdir(begin) and not os.path.islink(begin):
            paths = (entry.path for entry in entries_beneath([begin]))
        for path in paths:
            budget -= 1
            if budget < 0:
                return None
            fact = PathFact("read", ResolvedPath(asked=path, real=path, inside=True))
            if any(forbids(rule, fact, policy.anchors) for rule in rules) and leaving.reaches(
                path, start
            ):
                found.append(path)
                if len(found) >= MAX_FOUND:
                    return found
    return found


def _starts_of(patterns: Iterable[str], copies: Sequence[tuple[str, str]]) -> list[str]:
    """Return where to search for matches of absolute patterns, also in the copies of folders."""
    # The folder or file before the first wildcard of the pattern.
    plain = (
        takewhile(lambda name: not re.search(r"[*?\\]", name), pattern.split("/"))
        for pattern in patterns
    )
    fixed = list(dict.fromkeys("/".join(names) or "/" for names in plain))
    in_copies = [
        copy + deeper[len(original) :]
        for part in fixed
        for copy, original in copies
        if (deeper := _deeper(original, part))
    ]
    return list(dict.fromkeys((*fixed, *in_copies)))


def _deeper(one: str, other: str) -> str:
    """Return the deeper of two places if one lies in the other, else ""."""
    if is_below(other, one):
        return other
    return one if is_below(one, other) else ""
