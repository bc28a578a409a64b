"""A patch: operations on files, hunks within one, and their text form.

Models write `*** Begin Patch` to `*** End Patch` slightly wrong: inside a shell command or a code
fence, without an end, indented as a whole, with raw lines in a new file. Such a patch is accepted
if its meaning is unambiguous.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Literal, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.text_edits import TextEdit

PatchAction = Literal["create", "update", "delete", "rename"]
LineSign = Literal["+", "-", " "]


@dataclass(frozen=True, slots=True)
class PatchLine:
    """A line of a hunk: added, removed, or context."""

    sign: LineSign
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchHunk:
    """Consecutive lines of a file, and their changes."""

    lines: Sequence[PatchLine]
    """The context lines, and the lines to remove and to add."""
    anchors: Sequence[str] = ()
    """Lines above them, such as the header of a function, outermost first."""
    at_end: bool = False
    """Whether they are the last lines of the file."""
    line: int | None = None
    """The number of the first line, from 1, as the patch's author assumed it."""

    @property
    def changes(self) -> bool:
        """Whether any line is added or removed."""
        return any(each.sign != " " for each in self.lines)


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


_EDGE = re.compile(r"\*\*\* ?(Begin|End) Patch(?: ?\*\*\*)?\s*")
_HEADER = re.compile(r"\*\*\* ?(Add|Update|Delete) File: ?(.*)")
_MOVE = re.compile(r"\*\*\* ?Move to: ?(.*)")
_END_OF_FILE = "*** End of File"
_PLACES = re.compile(r"-(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_FENCE = re.compile(r"```\w*")
FORM = (
    "Write `*** Begin Patch`, then for every file `*** Add File: PATH`, `*** Update File: PATH` or "
    "`*** Delete File: PATH` and its lines, then `*** End Patch`."
)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    """The section of one file: its header, and the lines up to the next header."""

    action: str
    path: str
    number: int
    lines: Sequence[_Line]


def parse_patch(text: str) -> list[PatchOperation]:
    """Parse a patch into its operations. Raises ValueError, naming the line, if it is invalid."""
    operations = [_operation(section) for section in _sections(_body(text))]
    if not operations:
        raise ValueError(f"the patch names no file. {FORM}")
    return operations


def _body(text: str) -> list[_Line]:
    """Return the lines from the first marker on, without the text around the patch."""
    lines = [_Line(n, line) for n, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1)]
    texts = [line.text.strip() for line in lines]
    begins = (n for n, text in enumerate(texts) if (m := _EDGE.fullmatch(text)) and m[1] == "Begin")
    headers = (n for n, text in enumerate(texts) if _HEADER.match(text))
    start = next(begins, None)
    if start is None and (start := next(headers, None)) is None:
        raise ValueError(f"there is no `*** Begin Patch`. {FORM}")
    wrapping = {"", *(m[1] for line in lines[:start] if (m := _HEREDOC.search(line.text)))}
    if any(_FENCE.fullmatch(text) for text in texts[:start]):
        wrapping.add("```")
    rest = _dedent(lines[start:])
    while rest and rest[-1].text.strip() in wrapping:
        rest.pop()
    return rest


def _dedent(lines: list[_Line]) -> list[_Line]:
    first = lines[0].text
    indent = first[: len(first) - len(first.lstrip())]
    if indent and all(line.text.startswith(indent) or not line.text.strip() for line in lines):
        return [_Line(line.number, line.text[len(indent) :]) for line in lines]
    return [_Line(lines[0].number, first.strip()), *lines[1:]]


def _sections(lines: Sequence[_Line]) -> Iterator[_Section]:
    current: tuple[str, str, int] | None = None
    inside: list[_Line] = []
    for line in (*lines, _Line(0, "*** End Patch")):
        # Within a section a marker is not indented: with a leading blank it is a context line.
        text = line.text if current else line.text.strip()
        header, edge = _HEADER.fullmatch(text.rstrip()), _EDGE.fullmatch(text)
        if not header and not edge:
            inside.append(line)
            continue
        if current:
            yield _Section(*current, inside)
        else:
            _refuse_stray(inside)
        inside = []
        current = (header[1], _path(header[2], line), line.number) if header else None


def _refuse_stray(lines: Sequence[_Line]) -> None:
    """Reject lines after the end, except those wrapped around the patch."""
    for line in lines:
        text = line.text.strip()
        if text and not re.fullmatch(r"\w+", text) and not _FENCE.fullmatch(text):
            raise ValueError(f"line {line.number}: {text[:60]!r} belongs to no file. {FORM}")


def _operation(section: _Section) -> PatchOperation:
    if section.action == "Add":
        return PatchOperation(action="create", path=section.path, content=_added_text(section))
    if section.action == "Delete":
        stray = next((line for line in section.lines if line.text.strip()), None)
        if stray is not None and not re.fullmatch(r"-.*", stray.text):
            raise ValueError(f"line {stray.number}: `Delete File` takes no lines")
        return PatchOperation(action="delete", path=section.path)
    lines = list(dropwhile(lambda line: not line.text.strip(), section.lines))
    move = _MOVE.fullmatch(lines[0].text.rstrip()) if lines else None
    new_path = _path(move[1], lines[0]) if move else None
    hunks = _hunks(lines[1:] if move else lines)
    if any(hunk.changes for hunk in hunks):
        return PatchOperation(
            action="update", path=section.path, new_path=new_path, hunks=tuple(hunks)
        )
    if new_path is None:
        raise ValueError(f"line {section.number}: the update of {section.path} changes nothing")
    return PatchOperation(action="rename", path=section.path, new_path=new_path)


def _added_text(section: _Section) -> str:
    lines = [*section.lines]
    if lines and lines[0].text.startswith("@@"):
        lines.pop(0)
    while lines and not lines[-1].text:
        lines.pop()
    if not any(line.text.startswith("+") for line in lines):
        return "".join(f"{line.text}\n" for line in lines)
    for line in lines:
        if line.text and not line.text.startswith("+"):
            raise ValueError(f"line {line.number}: every line of a new file begins with `+`")
    return "".join(f"{line.text[1:]}\n" for line in lines)


def _hunks(lines: Sequence[_Line]) -> list[PatchHunk]:
    """Parse the hunks of an update. The first one needs no `@@`."""
    drafts: list[_Draft] = []
    rest = list(lines)
    if len(rest) > 1 and rest[0].text.startswith("--- ") and rest[1].text.startswith("+++ "):
        del rest[:2]
    for line in rest:
        text = line.text
        if text.startswith("@@"):
            if not drafts or drafts[-1].lines or drafts[-1].at_end:
                drafts.append(_Draft())
            drafts[-1].add_anchor(text[2:])
        elif text.rstrip() == _END_OF_FILE:
            if drafts:
                drafts[-1].at_end = True
        elif not text.startswith("\\ No newline"):
            if not drafts or drafts[-1].at_end:
                drafts.append(_Draft())
            drafts[-1].lines.append(_hunk_line(line))
    return [hunk for draft in drafts if (hunk := draft.hunk()).lines]


class _Draft:
    """A hunk whose lines are still being read."""

    def __init__(self) -> None:
        self.anchors: list[str] = []
        self.lines: list[PatchLine] = []
        self.at_end = False
        self.line: int | None = None

    def add_anchor(self, text: str) -> None:
        places = _PLACES.fullmatch(text.strip())
        if places:
            self.line = int(places[1])
        anchor = places[2] if places else text.strip().removesuffix("@@")
        if anchor.strip():
            self.anchors.append(anchor.strip())

    def hunk(self) -> PatchHunk:
        lines = [*self.lines]
        while lines and lines[-1] == _BARE:
            lines.pop()
        anchors = tuple(self.anchors)
        return PatchHunk(anchors=anchors, lines=tuple(lines), at_end=self.at_end, line=self.line)


def _hunk_line(line: _Line) -> PatchLine:
    if not line.text:
        return _BARE
    for sign in get_args(LineSign):
        if line.text.startswith(sign):
            return PatchLine(sign, line.text[1:])
    # Without a sign it can only be a context line, which must be in the file anyway.
    return PatchLine(" ", line.text)


_BARE = PatchLine(" ", "")


def _path(text: str, line: _Line) -> str:
    if not text.strip():
        raise ValueError(f"line {line.number}: the path is missing")
    return text.strip()
