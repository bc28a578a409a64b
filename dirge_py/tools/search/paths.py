"""Formats found files, their number and their size for the model."""

import os
from collections.abc import Sequence

from dirge_py.files.walk import FileSearch
from dirge_py.types.errors import FileError


def path_below(asked: str, path: str) -> str:
    """Return `path`, found below the folder `asked`, in a form that other tools accept."""
    path = printable_name(path)
    folder = asked.rstrip("/")
    return path if folder in ("", ".") and not asked.startswith("/") else f"{folder}/{path}"


def folder_error(path: str, kind: str) -> FileError:
    """Return the error for a `path` that should be a folder, but is of another kind or missing."""
    problem = "does not exist" if kind == "missing" else "is not a folder; use `read`"
    return FileError(f"{path} {problem}.")


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


def withheld_note(search: FileSearch) -> str:
    """Return a line about files that the rules hide from the model; "" if there are none."""
    return withheld_count(search.withheld)


def withheld_count(files: int) -> str:
    """Return a line that says how many files the rules hide from the model; "" for none."""
    if not files:
        return ""
    them = "it" if files == 1 else "them"
    return (
        f"\n({count_noun(files, 'file')} left out: permission rules keep {them} from being read.)"
    )


def count_noun(number: int, noun: str) -> str:
    """Return texts such as `1 file` and `2 files`, `2 matches`."""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}{ending}"


def human_size(size: int) -> str:
    """Return `size` in the largest unit that leaves at least 1, such as `1.5 KiB`."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"
