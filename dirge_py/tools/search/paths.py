"""How found files, their number and their size are written for the model."""

import os

from dirge_py.files.walk import FileSearch


def path_below(asked: str, path: str) -> str:
    """`path`, found below the folder `asked`, so that it can be given to another tool."""
    path = printable_name(path)
    folder = asked.rstrip("/")
    return path if folder in ("", ".") and not asked.startswith("/") else f"{folder}/{path}"


def printable_name(name: str) -> str:
    """A file name that can be sent: bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(name).decode(errors="replace")


def withheld_note(search: FileSearch) -> str:
    """A line about files the rules keep from the model; empty if there were none."""
    return withheld_count(search.withheld)


def withheld_count(files: int) -> str:
    """A line that says how many files the rules keep from the model; empty for none."""
    if not files:
        return ""
    them = "it" if files == 1 else "them"
    return (
        f"\n({count_noun(files, 'file')} left out: permission rules keep {them} from being read.)"
    )


def count_noun(number: int, noun: str) -> str:
    """Such as `1 file` and `2 files`, `2 matches`."""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}{ending}"


def human_size(size: int) -> str:
    """`size` in the largest unit that leaves at least 1, such as `1.5 KiB`."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"
