"""How found files are named to the model."""

from dirge_py.files.walk import Search


def shown_under(asked: str, path: str) -> str:
    """`path`, found below the folder `asked`, so that it can be given to another tool."""
    folder = asked.rstrip("/")
    return path if folder in ("", ".") and not asked.startswith("/") else f"{folder}/{path}"


def withheld_note(search: Search) -> str:
    """A line about files the rules keep from the model; empty if there were none."""
    if not search.withheld:
        return ""
    return f"\n({search.withheld} files were left out: permission rules keep them from being read.)"
