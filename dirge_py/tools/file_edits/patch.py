"""A patch: operations on files, hunks within one, and their text form.

Models write `*** Begin Patch` to `*** End Patch` slightly wrong: inside a shell command or a code
fence, without an end, indented as a whole, with raw lines in a new file. Such a patch is accepted
if its meaning is unambiguous.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import dropwhile
from typing import Literal, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.text_edits import TextEdit

PatchAction = Literal["create", "update", "delete", "rename"]


@dataclass(slots=True, kw_only=True)
class PatchHunk:
    """Consecutive lines of a file, and their changes."""

    lines: list[str] = field(default_factory=list)
    """The lines, each behind its sign: `+` is added, `-` is removed, a blank is context."""
    anchors: list[str] = field(default_factory=list)
    """Lines above them, such as the header of a function, outermost first."""
    at_end: bool = False
    """Whether they are the last lines of the file."""
    line: int | None = None
    """The number of the first line, from 1, as the patch's author assumed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchOperation:
    """One operation. An `update` has edits, hunks or the whole content, and may also move."""

    action: PatchAction
    path: str
    content: str | None = None
    new_path: str | None = None
    edits: Sequence[TextEdit] = ()
    hunks: Sequence[PatchHunk] = ()

    def __str__(self) -> str:
        return f"{self.action} {self.path}" + (f" to {self.new_path}" if self.new_path else "")


_EDGE = late_pattern(r"\*\*\* ?(Begin|End) Patch(?: ?\*\*\*)?\s*")
_HEADER = late_pattern(r"\*\*\* ?(Add|Update|Delete) File: ?(.*)")
_MOVE = late_pattern(r"\*\*\* ?Move to: ?(.*)")
_END_OF_FILE = "*** End of File"
_PLACES = late_pattern(r"-(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")
_HEREDOC = late_pattern(r"<<-?\s*['\"]?(\w+)['\"]?")
_FENCE = late_pattern(r"```\w*")
FORM = (
    "Write `*** Begin Patch`, then for every file `*** Add File: PATH`, `*** Update File: PATH` or "
    "`*** Delete File: PATH` and its lines, then `*** End Patch`."
)


_Line: TypeAlias = tuple[int, str]
"""The number of a line in the patch, and its text."""


def parse_patch(text: str) -> list[PatchOperation]:
    """Parse a patch into its operations. Raises ValueError, naming the line, if it is invalid."""
    operations = list(_operations(_body(text)))
    if not operations:
        raise ValueError(f"the patch names no file. {FORM}")
    return operations


def _body(text: str) -> list[_Line]:
    """Return the lines from the first marker on, without the text around the patch."""
    lines = list(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
    texts = [line.strip() for _, line in lines]
    begins = (n for n, text in enumerate(texts) if (m := _EDGE.fullmatch(text)) and m[1] == "Begin")
    headers = (n for n, text in enumerate(texts) if _HEADER.match(text))
    start = next(begins, None)
    if start is None and (start := next(headers, None)) is None:
        raise ValueError(f"there is no `*** Begin Patch`. {FORM}")
    wrapping = {"", *(m[1] for _, line in lines[:start] if (m := _HEREDOC.search(line)))}
    if any(_FENCE.fullmatch(text) for text in texts[:start]):
        wrapping.add("```")
    rest = _dedent(lines[start:])
    while rest and rest[-1][1].strip() in wrapping:
        rest.pop()
    return rest


def _dedent(lines: list[_Line]) -> list[_Line]:
    first = lines[0][1]
    indent = first[: len(first) - len(first.lstrip())]
    if all(line.startswith(indent) or not line.strip() for _, line in lines):
        return [(number, line[len(indent) :]) for number, line in lines]
    return [(lines[0][0], first.strip()), *lines[1:]]


def _operations(lines: Sequence[_Line]) -> Iterator[PatchOperation]:
    """Yield the operation of each file: its header, and the lines up to the next header."""
    current: tuple[str, str, int] | None = None
    inside: list[_Line] = []
    for number, line in (*lines, (0, "*** End Patch")):
        # Within a section a marker is not indented: with a leading blank it is a context line.
        text = line if current else line.strip()
        header, edge = _HEADER.fullmatch(text.rstrip()), _EDGE.fullmatch(text)
        if not header and not edge:
            inside.append((number, line))
            continue
        if current:
            yield _operation(*current, inside)
            inside = []
        for at, stray in ((at, line.strip()) for at, line in inside):
            # After the end only what was wrapped around the patch may follow.
            if stray and not re.fullmatch(r"\w+", stray) and not _FENCE.fullmatch(stray):
                raise ValueError(f"line {at}: {stray[:60]!r} belongs to no file. {FORM}")
        inside = []
        current = (header[1], _path(header[2], number), number) if header else None


def _operation(action: str, path: str, number: int, lines: Sequence[_Line]) -> PatchOperation:
    if action == "Add":
        return PatchOperation(action="create", path=path, content=_added_text(lines))
    lines = list(dropwhile(lambda line: not line[1].strip(), lines))
    if action == "Delete":
        if lines and not lines[0][1].startswith("-"):
            raise ValueError(f"line {lines[0][0]}: `Delete File` takes no lines")
        return PatchOperation(action="delete", path=path)
    move = _MOVE.fullmatch(lines[0][1].rstrip()) if lines else None
    new_path = _path(move[1], lines[0][0]) if move else None
    hunks = _hunks([line for _, line in (lines[1:] if move else lines)])
    if any(not line.startswith(" ") for hunk in hunks for line in hunk.lines):
        return PatchOperation(action="update", path=path, new_path=new_path, hunks=hunks)
    if new_path is None:
        raise ValueError(f"line {number}: the update of {path} changes nothing")
    return PatchOperation(action="rename", path=path, new_path=new_path)


def _added_text(lines: Sequence[_Line]) -> str:
    lines = list(lines)
    if lines and lines[0][1].startswith("@@"):
        lines.pop(0)
    while lines and not lines[-1][1]:
        lines.pop()
    if not any(line.startswith("+") for _, line in lines):
        return "".join(f"{line}\n" for _, line in lines)
    for number, line in lines:
        if line and not line.startswith("+"):
            raise ValueError(f"line {number}: every line of a new file begins with `+`")
    return "".join(f"{line[1:]}\n" for _, line in lines)


def _hunks(lines: Sequence[str]) -> list[PatchHunk]:
    """Parse the hunks of an update. The first one needs no `@@`."""
    hunks = [PatchHunk()]
    if len(lines) > 1 and lines[0].startswith("--- ") and lines[1].startswith("+++ "):
        lines = lines[2:]
    for line in lines:
        is_place = line.startswith("@@")
        if line.rstrip() == _END_OF_FILE:
            hunks[-1].at_end = True
            continue
        if line.startswith("\\ No newline"):
            continue
        if hunks[-1].at_end or (is_place and hunks[-1].lines):
            hunks.append(PatchHunk())
        if not is_place:
            # Without a sign it can only be a context line, which must be in the file anyway.
            hunks[-1].lines.append(line if line.startswith(_SIGNS) else f" {line}")
            continue
        anchor = line[2:].strip().removesuffix("@@")
        if places := _PLACES.fullmatch(line[2:].strip()):
            hunks[-1].line, anchor = int(places[1]), places[2]
        hunks[-1].anchors += [anchor.strip()] if anchor.strip() else []
    for hunk in hunks:
        while hunk.lines and hunk.lines[-1] == " ":
            hunk.lines.pop()
    return [hunk for hunk in hunks if hunk.lines]


_SIGNS = ("+", "-", " ")


def _path(text: str, number: int) -> str:
    if not text.strip():
        raise ValueError(f"line {number}: the path is missing")
    return text.strip()
