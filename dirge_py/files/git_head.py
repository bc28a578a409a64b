"""Which branch is checked out, read without git."""

from pathlib import Path

from dirge_py.files.regular_file import read_regular

_MOST_BYTES = 4096


def branch_of(folder: Path) -> str:
    """The branch of the repository around `folder`, or the start of a commit; "" without one."""
    for above in (folder, *folder.parents):
        place = above / ".git"
        if not place.exists():
            continue
        try:
            if not place.is_dir():
                place = above / _first_line(place).removeprefix("gitdir:").strip()
            head = _first_line(place / "HEAD")
        except (OSError, ValueError):
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""


def _first_line(file: Path) -> str:
    """Whoever made the repository may have put anything there, a pipe as well."""
    return read_regular(file, _MOST_BYTES).decode().strip().partition("\n")[0]
