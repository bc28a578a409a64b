"""Placing the hunks of a patch in a file."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.blocks import Block, Run, ViewLines
from dirge_py.tools.editing.document import Document, Replacement, plain
from dirge_py.tools.editing.matching import EXACT, STRATEGIES, Found, Strategy, find_block
from dirge_py.tools.editing.missed import Missed
from dirge_py.tools.editing.nearest import nearest_line, numbered
from dirge_py.tools.editing.operations import Hunk
from dirge_py.tools.editing.plan import MAX_LINES_SHOWN, line_numbers


@dataclass(frozen=True, slots=True)
class _Placed:
    """A hunk's changes, in positions of the view; `line` is its first, `end` behind its last."""

    line: int
    end: int
    changes: Sequence[Replacement]
    strategy: Strategy


def apply_hunks(
    content: bytes, hunks: Sequence[Hunk], *, path: str
) -> tuple[bytes, list[Strategy]]:
    """The new content, and the forgiving strategies that were needed.

    Every hunk is looked for in the file as it is, behind the one before it.

    Raises:
        Missed: a hunk has not the one place it needs.
        FileError: the file is no text.
    """
    document = Document.parse(content, path)
    lines = ViewLines(document.view)
    placed: list[_Placed] = []
    for number, hunk in enumerate(hunks, 1):
        after = max((each.end for each in placed), default=0)
        name = f"Hunk {number}" if len(hunks) > 1 else "The hunk"
        placed.append(_Placing(document.view, lines, hunk, f"{name} for {path}").place(after))
    placed.sort(key=lambda each: (each.line, each.end))
    changes = [each for one in placed for each in one.changes]
    if any(one.end > other.start for one, other in pairwise(changes)):
        raise Missed(
            f"Two hunks for {path} change the same lines; nothing was changed.",
            hint="Make one hunk of them.",
            view=document.view,
            line=placed[0].line,
        )
    used = dict.fromkeys(each.strategy for each in placed if each.strategy != EXACT)
    return document.replaced(changes), list(used)


class _Placing:
    def __init__(self, view: bytes, lines: ViewLines, hunk: Hunk, name: str) -> None:
        self._view = view
        self._lines = lines
        self._hunk = hunk
        self._name = name
        self._block = _block_of(hunk)

    def place(self, after: int) -> _Placed:
        """Where the hunk belongs; `after` is the line behind the hunk before it."""
        if not self._block.old:
            return self._insertion(after)
        strategy, found = find_block(self._lines, self._block, STRATEGIES)
        if not found:
            raise self._not_found()
        chosen = self._choose(found, after)
        start = self._lines.start(chosen.line)
        changes = [each.moved(start) for each in chosen.changes]
        return _Placed(chosen.line, chosen.line + len(self._block.old), changes, strategy)

    def _choose(self, found: Sequence[Found], after: int) -> Found:
        if len(found) == 1:
            return found[0]
        for few in self._narrowed(found, after):
            if len(few) == 1:
                return few[0]
        starts = [self._lines.start(each.line) for each in found]
        raise Missed(
            f"{self._name} fits {len(found)} places: lines {line_numbers(self._view, starts)}; "
            "nothing was changed.",
            hint="Add context lines, or an `@@` line that says what it is in.",
            view=self._view,
            line=found[0].line,
        )

    def _narrowed(self, found: Sequence[Found], after: int) -> Iterator[list[Found]]:
        """What is left of the places by each thing that the hunk says of its own."""
        count = len(self._block.old)
        ahead = [each for each in found if each.line >= after]
        if self._hunk.at_end:
            ends = (len(self._lines.lines), len(self._lines.lines) - 1)
            yield [each for each in found if each.line + count in ends][-1:]
        if behind := self._anchored(after):
            # Behind an anchor the first place is meant, whatever follows further down.
            first = {next((each.line for each in ahead if each.line >= n), None) for n in behind}
            yield [each for each in ahead if each.line in first]
            return
        if self._hunk.line is not None:
            yield [each for each in found if each.line == self._hunk.line - 1]
        yield ahead

    def _anchored(self, after: int) -> list[int]:
        """The lines behind each chain of anchors, from `after` on; none if one is not there."""
        behind: list[int] = []
        for number, anchor in enumerate(self._hunk.anchors):
            places = self._like(_normal(plain(anchor)), min(behind, default=after))
            if number == 0:
                behind = [line + 1 for line in places]
            else:
                first = {next((each for each in places if each >= line), None) for line in behind}
                behind = sorted(each + 1 for each in first if each is not None)
            if not behind:
                return []
        return behind

    def _like(self, anchor: bytes, start: int) -> list[int]:
        """The lines that are the anchor, else begin with it, else hold it."""
        lines = [_normal(line) for line in self._lines.lines[start:]]
        tests: Sequence[Callable[[bytes], bool]] = (
            lambda line: line == anchor,
            lambda line: line.startswith(anchor),
            lambda line: anchor in line,
        )
        for test in tests:
            places = [start + n for n, line in enumerate(lines) if test(line)]
            if places:
                return places
        return []

    def _insertion(self, after: int) -> _Placed:
        """A hunk of nothing but new lines: behind its anchor, or at the end of the file."""
        lines = self._lines.lines
        behind = self._anchored(after)
        if len(behind) == 1:
            line = behind[0]
        elif self._hunk.at_end or lines == [b""]:
            line = len(lines)
        else:
            raise Missed(
                f"{self._name} has no lines that tell its place; nothing was changed.",
                hint="Add context lines, an `@@` line of which there is one, or `*** End of File`.",
                view=self._view,
                line=None,
            )
        text = b"\n".join(self._block.new)
        if line < len(lines) - 1 or (line < len(lines) and lines[-1]):
            start = self._lines.start(line)
            return _Placed(line, line, [Replacement(start, start, text + b"\n")], EXACT)
        end = len(self._view)
        text = b"\n" + text if lines[-1] else text + b"\n"
        return _Placed(line, line, [Replacement(end, end, text)], EXACT)

    def _not_found(self) -> Missed:
        old = b"\n".join(self._block.old)
        line = nearest_line(self._view, old)
        hint = "Nothing in the file resembles it."
        if line is not None:
            end = line + min(len(self._block.old), MAX_LINES_SHOWN)
            hint = f"The nearest lines are:\n{numbered(self._view, line, end)}"
        return Missed(
            f"{self._name} was not found (tried: {', '.join(STRATEGIES)}); nothing was changed.",
            hint=hint,
            view=self._view,
            line=line,
        )


def _block_of(hunk: Hunk) -> Block:
    """The hunk's old and new lines; what it calls context is no part of any run."""
    old: list[bytes] = []
    new: list[bytes] = []
    runs: list[Run] = []
    for each in hunk.lines:
        text = plain(each.text)
        at, new_at = len(old), len(new)
        old += [text] if each.sign != "+" else []
        new += [text] if each.sign != "-" else []
        if each.sign == " ":
            continue
        if runs and runs[-1].old_end == at and runs[-1].new_end == new_at:
            at, new_at = runs[-1].old_start, runs[-1].new_start
            runs.pop()
        runs.append(Run(at, len(old), new_at, len(new)))
    return Block(old, new, runs)


def _normal(line: bytes) -> bytes:
    return b" ".join(line.split())
