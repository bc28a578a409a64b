"""A tree of files, cut to what can be shown: upper levels first, every folder its fair share."""

from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import fair_shares


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A file, or a folder with the number of files below it. `path` counts from the top."""

    path: str
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """`entries` in the order of a tree, folders before files; `left_out` files are not in it.

    `folders` is the number of all folders with files, shown or not.
    """

    entries: Sequence[OutlineEntry]
    folders: int
    left_out: int


def outline_of(paths: Sequence[str], *, max_depth: int, max_nodes: int) -> Outline:
    """The tree that these relative paths of files make, `max_depth` levels of it."""
    files: dict[str, list[str]] = {"": []}
    counts: dict[str, int] = {}
    for path in sorted(paths):
        folder = path.rpartition("/")[0]
        files.setdefault(folder, []).append(path)
        while folder:
            counts[folder] = counts.get(folder, 0) + 1
            folder = folder.rpartition("/")[0]
    # By depth: what stands high is what a reader wants first.
    folders = sorted((each for each in counts if _depth(each) <= max_depth), key=_by_depth)
    shown = folders[:max_nodes]
    open_ones = ["", *(each for each in shown if _depth(each) < max_depth)]
    shares = fair_shares([len(files.get(each, ())) for each in open_ones], max_nodes - len(shown))
    listed = {
        folder: files.get(folder, [])[:share]
        for folder, share in zip(open_ones, shares, strict=True)
    }
    entries = _in_tree_order(shown, counts, listed)
    total = sum(len(each) for each in listed.values())
    return Outline(entries=entries, folders=len(counts), left_out=len(paths) - total)


def _depth(path: str) -> int:
    return path.count("/") + 1


def _by_depth(path: str) -> tuple[int, str]:
    return _depth(path), path


def _in_tree_order(
    folders: Sequence[str], counts: dict[str, int], listed: dict[str, list[str]]
) -> list[OutlineEntry]:
    inner: dict[str, list[str]] = {}
    for folder in sorted(folders):
        inner.setdefault(folder.rpartition("/")[0], []).append(folder)
    entries: list[OutlineEntry] = []
    waiting = [OutlineEntry("", 0)]
    while waiting:
        entry = waiting.pop()
        if entry.path:
            entries.append(entry)
        if entry.files is None:
            continue
        below = [OutlineEntry(path, counts[path]) for path in inner.get(entry.path, ())]
        below += [OutlineEntry(path) for path in listed.get(entry.path, ())]
        waiting += reversed(below)
    return entries
