"""Finds the files below a folder, and formats their paths, number and size for the model."""

import os
from collections.abc import Sequence

from dirge_py.files.walk import FileSearch, FoundFile
from dirge_py.lib.text import plural
from dirge_py.tools.base import ToolContext
from dirge_py.types.errors import FileError


def path_below(asked: str, path: str) -> str:
    """Return `path`, found below the folder `asked`, in a form that other tools accept."""
    path = printable_name(path)
    folder = asked.rstrip("/")
    return path if folder in ("", ".") and not asked.startswith("/") else f"{folder}/{path}"


def require_folder(asked: str, ctx: ToolContext) -> str:
    """Return the physical path of the folder `asked`. Raises FileError if it is no folder."""
    located = ctx.files.locate(ctx.absolute(asked))
    if located.kind == "missing":
        raise FileError(f"{asked} does not exist.", hint="Give the path of a folder.")
    if located.kind != "dir":
        raise FileError(f"{asked} is not a folder.", hint="Give a folder, or `read` the file.")
    return located.real


def walk_folder(asked: str, search: FileSearch, ctx: ToolContext) -> list[FoundFile]:
    """Return the files below the folder `asked`, the root of `search`; stop if aborted."""
    search.root, search.is_aborted = require_folder(asked, ctx), lambda: ctx.signal.aborted
    return list(ctx.files.walk(search))


def list_found(title: str, asked: str, shown: Sequence[str], total: int) -> str:
    """Return the found paths below the folder `asked`, with a title and the number missing."""
    more = total - len(shown)
    lines = [f"{title} ({len(shown)} shown):" if more else f"{title}:"]
    lines += [path_below(asked, path) for path in shown]
    if more:
        lines.append(f"… {more} more; narrow the pattern or the path.")
    return "\n".join(lines)


def printable_name(name: str) -> str:
    """Return a file name that can be sent: invalid UTF-8 bytes become U+FFFD."""
    return os.fsencode(name).decode(errors="replace")


def withheld_note(files: int) -> str:
    """Return a line that says how many files the rules hide from the model; "" for none."""
    if not files:
        return ""
    them = "it" if files == 1 else "them"
    left_out = f"{plural(files, 'file')} left out"
    return f"\n({left_out}: permission rules keep {them} from being read.)"


def human_size(size: int) -> str:
    """Return `size` in the largest unit that leaves at least 1, such as `1.5 KiB`."""
    if size < 1024:
        return f"{size} B"
    value, units = size / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.1f} {units[0]}"
