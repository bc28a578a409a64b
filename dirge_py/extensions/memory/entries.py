"""A store as a list of entries: an item with the indented lines below it, or any other line."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_ITEM = re.compile(r"[-*+] ")
_OPENING = re.compile(r"[-*+] |#")
_MOST_NEAR = 3
_COMPARED_ENTRIES = 500
_NEAR_CHARS = 120


def entries_of(text: str) -> list[str]:
    """The entries in order, line ends included; joined they are `text` again."""
    entries: list[str] = []
    for line in _LINES.findall(text):
        is_deeper = line[0] in " \t" and not line.isspace()
        if is_deeper and entries and _ITEM.match(entries[-1]):
            entries[-1] += line
        else:
            entries.append(line)
    return entries


def as_entry(content: str) -> str:
    """`content` as it is written down: an item of a list, unless it is a heading or one already."""
    lines = [line.rstrip() for line in content.strip().split("\n") if line.strip()]
    if not lines or _OPENING.match(lines[0]):
        return "\n".join(lines)
    return "\n  ".join([f"- {lines[0]}", *lines[1:]])


def with_entry(text: str, content: str) -> str:
    """`text` with an entry more at its end; unchanged if it has that one already."""
    entry = as_entry(content)
    if entry in (old.rstrip() for old in entries_of(text)):
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{entry}\n"


def matching(text: str, match: str) -> list[int]:
    """The positions of the entries that hold `match`."""
    return [at for at, entry in enumerate(entries_of(text)) if match in entry]


def with_replaced(text: str, match: str, content: str) -> str:
    """`content` in the place of the first entry that holds `match`; the others that do are gone."""
    found = matching(text, match)
    entries = entries_of(text)
    kept = [entry for at, entry in enumerate(entries) if at not in found[1:]]
    kept[found[0]] = f"{as_entry(content)}\n"
    return "".join(kept)


def without(text: str, match: str) -> str:
    """`text` without the entries that hold `match`."""
    return "".join(entry for entry in entries_of(text) if match not in entry)


def near(text: str, match: str) -> Sequence[str]:
    """Up to three entries that are most like what was looked for, shortened, the nearest first."""
    wanted = match.lower()
    rated = []
    for entry in entries_of(text)[-_COMPARED_ENTRIES:]:
        line = " ".join(entry.split())[:_NEAR_CHARS]
        likeness = _likeness(wanted, line.lower())
        if likeness > 0:
            rated.append((-likeness, line))
    return [line for _, line in sorted(rated)[:_MOST_NEAR]]


def _likeness(wanted: str, line: str) -> float:
    """The share of the words of `wanted` that the line has, or nearly the whole line."""
    words = set(re.findall(r"\w+", wanted))
    shared = len(words & set(re.findall(r"\w+", line))) / len(words) if words else 0.0
    whole = SequenceMatcher(None, wanted[:_NEAR_CHARS], line).ratio()
    return max(shared, whole if whole >= 0.5 else 0.0)
