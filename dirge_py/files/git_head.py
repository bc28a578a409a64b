"""Which branch is checked out, read without git."""

from pathlib import Path


def branch_of(folder: Path) -> str:
    """The branch of the repository around `folder`, or the start of a commit; "" without one."""
    for above in (folder, *folder.parents):
        place = above / ".git"
        if not place.exists():
            continue
        try:
            if place.is_file():
                target = place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
                place = above / target
            head = (place / "HEAD").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""
