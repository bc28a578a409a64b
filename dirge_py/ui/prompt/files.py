"""The files of the project, for the `@` list: names only, nothing is opened."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

_MOST = 20_000
_NEVER = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__", ".mypy_cache"})


def list_files(root: Path) -> Sequence[str]:
    """Files and folders (with a `/`) below `root`, near ones first, at most 20,000.

    What the `.gitignore` of a folder leaves out is left out; links to folders are not followed.
    """
    found: list[str] = []
    for path in _walk(root):
        found.append(path)
        if len(found) >= _MOST:
            break
    return found


def _walk(root: Path) -> Iterator[str]:
    folders: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", ())]
    for folder, specs in folders:
        specs = _with_ignores(root, folder, specs)
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = folder + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            shown = path + "/" if is_folder else path
            if entry.name in _NEVER or _is_ignored(shown, specs):
                continue
            if is_folder:
                folders.append((shown, specs))
            yield shown


def _with_ignores(
    root: Path, folder: str, specs: tuple[tuple[str, GitIgnoreSpec], ...]
) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    try:
        text = (root / folder / ".gitignore").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return specs
    return (*specs, (folder, GitIgnoreSpec.from_lines(text.splitlines())))


def _is_ignored(path: str, specs: Sequence[tuple[str, GitIgnoreSpec]]) -> bool:
    """The deepest `.gitignore` that says anything about the path decides."""
    for folder, spec in reversed(specs):
        verdict = spec.check_file(path.removeprefix(folder)).include
        if verdict is not None:
            return verdict
    return False
