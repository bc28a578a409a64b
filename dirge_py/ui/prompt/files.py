"""The files of the project, for the `@` list: names only, nothing but ignore files is opened."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from pathspec import GitIgnoreSpec

from dirge_py.lib.lean_dataclass import dataclass

MOST = 100_000
"""Files and folders that are listed at all."""

IGNORE_FILES = (".gitignore", ".ignore", ".agentignore")
"""What leaves files out; of two in one folder the later one here has the last word."""

_NEVER = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__", ".mypy_cache"})

_Specs: TypeAlias = tuple[tuple[str, GitIgnoreSpec], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder (with a `/`), relative to the root; `folded` is its path in small letters.

    `modified` is in seconds since 1970, 0 for a folder. `is_hidden`: it, or a folder it is in,
    begins with a dot.
    """

    path: str
    folded: str
    modified: float
    is_hidden: bool


def list_files(root: Path) -> Sequence[str]:
    """Files and folders (with a `/`) below `root`, near ones first, at most `MOST`.

    What the ignore files of a folder leave out is left out; links to folders are not followed.
    """
    return [found.path for found in FileTree(root).listed()]


class FileTree:
    """The names below a folder, read once and then kept up by what is said to have changed.

    Nothing here waits for anybody but the disk; call it in a thread, one call at a time.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, list[Found]] = {}
        self._specs: dict[str, _Specs] = {}
        self._count = 0
        self._walk("", ())

    @property
    def folders(self) -> Sequence[str]:
        """The folders that are listed, relative, each with a `/`, the root as ""."""
        return list(self._folders)

    def listed(self) -> Sequence[Found]:
        """Everything, near ones first."""
        near_first = sorted(self._folders, key=lambda folder: folder.count("/"))
        return [found for folder in near_first for found in self._folders[folder]]

    def reread(self, changed: Iterable[str]) -> bool:
        """Look again at the folders of these absolute paths; whether there are other folders now.

        An ignore file that changed has all that is below it looked at again.
        """
        before = set(self._folders)
        for folder in sorted({self._folder_of(path) for path in changed}):
            if folder in self._folders:
                self._read_again(folder)
        for path in changed:
            folder = self._folder_of(path)
            if os.path.basename(path) in IGNORE_FILES and folder in self._folders:
                specs = self._specs[self._above(folder)] if folder else ()
                self._forget(folder)
                self._walk(folder, specs)
        return set(self._folders) != before

    def _walk(self, top: str, specs: _Specs) -> None:
        waiting: list[tuple[str, _Specs]] = [(top, specs)]
        for folder, above in waiting:
            if self._count >= MOST:
                return
            own = _with_ignores(self.root, folder, above)
            self._specs[folder] = own
            self._folders[folder] = listed = list(self._read(folder, own))
            self._count += len(listed)
            waiting += [(found.path, own) for found in listed if found.path.endswith("/")]
            # Whoever waits for the interpreter, such as the screen, goes first.
            time.sleep(0)

    def _read(self, folder: str, specs: _Specs) -> Iterator[Found]:
        try:
            entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            shown = f"{folder}{entry.name}/" if is_folder else folder + entry.name
            if entry.name in _NEVER or _is_ignored(shown, specs):
                continue
            is_hidden = entry.name.startswith(".") or f"/{folder}".find("/.") >= 0
            yield Found(shown, shown.lower(), 0 if is_folder else _modified(entry), is_hidden)

    def _read_again(self, folder: str) -> None:
        known = {found.path for found in self._folders[folder]}
        now = list(self._read(folder, self._specs[folder]))
        self._count += len(now) - len(known)
        self._folders[folder] = now
        there = {found.path for found in now}
        for gone in known - there:
            if gone.endswith("/"):
                self._forget(gone)
        for new in sorted(there - known):
            if new.endswith("/"):
                self._walk(new, self._specs[folder])

    def _forget(self, top: str) -> None:
        for folder in [folder for folder in self._folders if folder.startswith(top)]:
            self._count -= len(self._folders.pop(folder))
            del self._specs[folder]

    def _folder_of(self, path: str) -> str:
        folder = os.path.relpath(os.path.dirname(path), self.root)
        return "" if folder == "." else f"{folder}/"

    def _above(self, folder: str) -> str:
        return folder[: folder.rstrip("/").rfind("/") + 1]


def _modified(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _with_ignores(root: Path, folder: str, specs: _Specs) -> _Specs:
    for name in IGNORE_FILES:
        try:
            text = (root / folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        specs = (*specs, (folder, GitIgnoreSpec.from_lines(text.splitlines())))
    return specs


def _is_ignored(path: str, specs: _Specs) -> bool:
    """The deepest ignore file that says anything about the path decides."""
    for folder, spec in reversed(specs):
        verdict = spec.check_file(path.removeprefix(folder)).include
        if verdict is not None:
            return verdict
    return False
