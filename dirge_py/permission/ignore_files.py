"""Ignore patterns and folder listings, read so that a searched file never counts as ignored.

Only patterns of plain characters ignore a file here, because programs disagree about the others. A
negated pattern that is not plain counts for every file. A folder is listed again only if it
changed.
"""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from dirge_py.files.safe_read import read_regular
from dirge_py.files.versions import StampCache
from dirge_py.git.repository import UnreadableRepository
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, upwards
from dirge_py.permission.git.repository import git_dir_of
from dirge_py.permission.patterns import regex_with_gaps
from dirge_py.permission.protected import may_be_secret

MAX_IGNORE_BYTES = 1 << 20
MAX_IGNORE_LINES = 5_000
MAX_IGNORE_FILES = 4096
MAX_DEPTH = 3
_MOST_BRACED = 64
_PLAIN = late_pattern(r"[ -Z^-z|~]+")
_BRACES = late_pattern(r"\{([^{}]*)\}")
_EVERY_FILE = late_pattern("", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreLine:
    """One pattern of an ignore file."""

    regex: re.Pattern[str]
    """What the pattern matches, as a regular expression."""
    leaves_out: bool
    """Whether matching files are ignored; False for a negated pattern."""
    is_anchored: bool = False
    """Whether it is compared with whole paths; otherwise only with the last name of a path."""
    is_for_folders: bool = False
    """Whether it matches folders only."""

    def matches(self, relative: str, *, is_folder: bool) -> bool:
        if self.is_for_folders and not is_folder:
            return False
        text = relative if self.is_anchored else relative.rpartition("/")[2]
        return self.regex.match(text) is not None


_Rules: TypeAlias = Sequence[tuple[int, Sequence[IgnoreLine]]]
"""Lines of ignore files, each with the offset of the path part that it is compared with."""


def pattern_line(pattern: str, *, leaves_out: bool, ignore_case: bool = False) -> IgnoreLine | None:
    """Parse a pattern of an ignore file; None if it is not plain and would ignore files."""
    trimmed = pattern.removesuffix("/")
    regex = _regex(trimmed, re.IGNORECASE if ignore_case else 0)
    if regex is None:
        return None if leaves_out else IgnoreLine(regex=_EVERY_FILE, leaves_out=False)
    return IgnoreLine(
        regex=regex,
        leaves_out=leaves_out,
        is_anchored="/" in trimmed,
        is_for_folders=pattern.endswith("/"),
    )


def plain_name(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern for one name with `*` and `?`; None if it contains other syntax."""
    is_plain = _PLAIN.fullmatch(pattern) and "/" not in pattern
    return re.compile(_component(pattern) + r"\Z", re.DOTALL) if is_plain else None


def unbraced(pattern: str) -> list[str]:
    """Return the patterns that its `{a,b}` expands to; `pattern` itself if they are too many."""
    done, waiting = [], [pattern]
    while waiting:
        current = waiting.pop()
        found = _BRACES.search(current)
        if found is None:
            done.append(current)
            continue
        before, after = current[: found.start()], current[found.end() :]
        waiting += [before + choice + after for choice in found[1].split(",")]
        if len(done) + len(waiting) > _MOST_BRACED:
            return [pattern]
    return done


class IgnoreFiles:
    """What the ignore files around a search exclude, in ripgrep's order of precedence.

    `start` is the physical folder where the search begins. `is_named`: the command names it; then
    ripgrep does not obey all files above it. `uses_git`: `.gitignore` files count, too.
    """

    def __init__(self, start: str, *, is_named: bool, uses_git: bool, uses_above: bool) -> None:
        self._start = start
        self._uses_git = uses_git
        self._uses_above = uses_above
        self._of, self._rules_in = cache(self._read_lines), cache(self._find_rules)
        self._is_top = cache(lambda folder: os.path.exists(os.path.join(folder, ".git")))
        self._above = "anchored" if uses_above and not is_named else "names"
        if not uses_above or any(
            self.verdict(folder, is_folder=True) for folder in upwards(start) if folder != "/"
        ):
            self._above = "nothing"
        # Discard the rules that were read before this was known.
        self._of.cache_clear()
        self._rules_in.cache_clear()

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return True if the path is ignored, False if it is excepted, None if no line matches."""
        for offset, lines in self._rules_in(path.rpartition("/")[0] or "/"):
            relative = path[offset:]
            for line in lines:
                if line.matches(relative, is_folder=is_folder):
                    return line.leaves_out
        return None

    def _find_rules(self, folder: str) -> _Rules:
        """Return the lines that apply to names in this folder, in the order of comparison."""
        is_inner = folder != self._start and folder.startswith(self._start.rstrip("/") + "/")
        if is_inner and not listing_of(folder).has_rules:
            return self._rules_in(os.path.dirname(folder))
        return tuple(self._collected(upwards(folder)))

    def _collected(self, folders: Sequence[str]) -> Iterator[tuple[int, Sequence[IgnoreLine]]]:
        has_git = self._uses_git and any(map(self._is_top, folders))
        # Folders in which a repository certainly makes `.gitignore` files count.
        looked_for = (f for f in folders if self._uses_above or is_below(f, self._start))
        is_sure = has_git and any(map(self._is_top, looked_for))
        kinds = (".rgignore", ".ignore", *((".gitignore", ".git/info/exclude") if has_git else ()))
        for kind in kinds:
            is_of_git = kind.startswith(".git")
            for folder in folders:
                lines = self._of(folder, kind)
                if is_of_git and not is_sure:
                    lines = [line for line in lines if not line.leaves_out]
                if lines:
                    yield len(folder.rstrip("/")) + 1, lines
                if is_of_git and self._is_top(folder):
                    break

    def _read_lines(self, folder: str, kind: str) -> Sequence[IgnoreLine]:
        """Return the lines of one file, the last one first; none if it does not exist."""
        try:
            lines = _FILES.get(_place_of(folder, kind), _read_file)
        except OSError:
            return ()
        if folder == self._start or not is_below(self._start, folder):
            return lines
        return [
            line
            for line in lines
            if not line.leaves_out
            or self._above == "anchored"
            or (self._above == "names" and not line.is_anchored)
        ]


def _place_of(folder: str, kind: str) -> str:
    path = os.path.join(folder, kind)
    if kind == ".git/info/exclude" and os.path.isfile(os.path.join(folder, ".git")):
        try:
            return f"{git_dir_of(folder)}/info/exclude"
        except (OSError, UnreadableRepository):
            return path
    return path


_FILES: StampCache[Sequence[IgnoreLine]] = StampCache(MAX_IGNORE_FILES)


def _read_file(path: str) -> Sequence[IgnoreLine]:
    content = read_regular(Path(path), MAX_IGNORE_BYTES + 1)
    # Only some programs accept a link as an ignore file.
    is_trusted = len(content) <= MAX_IGNORE_BYTES and not os.path.islink(path)
    return tuple(_read_lines(content, is_trusted=is_trusted))


def _read_lines(content: bytes, *, is_trusted: bool) -> Iterator[IgnoreLine]:
    """Yield the lines of an ignore file, the last one first."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text, is_trusted = content.decode("latin-1"), False
    lines = text.split("\n")
    if len(lines) > MAX_IGNORE_LINES:
        yield IgnoreLine(regex=_EVERY_FILE, leaves_out=False)
        return
    for raw in reversed(lines):
        pattern = raw.removesuffix("\r").rstrip(" ")
        if not pattern.strip() or pattern.startswith("#"):
            continue
        line = pattern_line(pattern.removeprefix("!"), leaves_out=not pattern.startswith("!"))
        if line is not None and (is_trusted or not line.leaves_out):
            yield line


def _regex(pattern: str, flags: int) -> re.Pattern[str] | None:
    """Compile a regex for a path relative to the pattern's folder; None if it is not plain."""
    components = pattern.removeprefix("/").split("/")
    if not _PLAIN.fullmatch(pattern) or components.count("**") > MAX_DEPTH:
        return None
    if any(one in ("", ".", "..") or ("**" in one and one != "**") for one in components):
        return None
    pieces = []
    for index, one in enumerate(components):
        is_last = index == len(components) - 1
        if one != "**":
            pieces.append(_component(one) + ("" if is_last else "/"))
        elif is_last and index:
            pieces.append(".+")
        else:
            pieces.append("(?:[^/]+/)*" if not is_last else "[^/]+")
    return re.compile("".join(pieces) + r"\Z", re.DOTALL | flags)


def _component(text: str) -> str:
    pieces = [re.escape(piece).replace(r"\?", "[^/]") for piece in text.split("*")]
    return regex_with_gaps(pieces, "[^/]")


MAX_FOLDERS_KNOWN = 100_000
_RULING = frozenset((".rgignore", ".ignore", ".gitignore", ".git"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """The relevant contents of a folder."""

    entries: int = 1
    """The number of names in it, plus one for the folder itself."""
    folders: Sequence[str] = ()
    """The folders in it."""
    suspects: Sequence[str] = ()
    """Files with names that may be secret."""
    suspect_folders: frozenset[str] = frozenset()
    """Folders with names that may be secret."""
    has_rules: bool = False
    """Whether it contains files that say what searches ignore."""


_KNOWN: StampCache[FolderListing] = StampCache(MAX_FOLDERS_KNOWN)


def listing_of(folder: str) -> FolderListing:
    """Return the contents of a folder; empty if it cannot be listed."""
    try:
        return _KNOWN.get(folder, _listed)
    except OSError:
        return FolderListing()


def _listed(folder: str) -> FolderListing:
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    folders = tuple(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    likely = (entry for entry in entries if may_be_secret(entry.name))
    return FolderListing(
        entries=len(entries) + 1,
        folders=folders,
        suspects=tuple(entry.name for entry in likely if entry.is_file(follow_symlinks=False)),
        suspect_folders=frozenset(filter(may_be_secret, folders)),
        has_rules=any(entry.name in _RULING for entry in entries),
    )
