"""Plans a patch over all its files: each operation builds on the previous ones."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from dirge_py.files.resolve import absolute, resolve
from dirge_py.files.versions import FileContent
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.hunks import Stretch
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.diff import FileDiff, diff_of_texts
from dirge_py.tools.file_edits.document import (
    Replacement,
    TextDocument,
    count_lines,
    encode_text,
    normalize_newlines,
)
from dirge_py.tools.file_edits.file_changes import PlannedChange
from dirge_py.tools.file_edits.matches import (
    EXACT,
    LineBlock,
    Strategy,
    TextMatch,
    ViewLines,
    find_block,
)
from dirge_py.tools.file_edits.patch import PatchHunk, PatchOperation
from dirge_py.tools.file_edits.text_edits import (
    EditPlan,
    TextNotFound,
    line_numbers,
    plan_edits,
    plan_for_model,
    text_not_found,
)
from dirge_py.types.errors import DirgeError, FileError, ToolFailed

_SNIFFED = 8192


@dataclass(slots=True, kw_only=True)
class _PlannedFile:
    """The state of a file after the operations so far."""

    path: str
    """Its absolute path."""
    shown: str
    """Its path as the patch names it."""
    real: str
    """Its physical path."""
    before: FileContent | None
    """The file on disk; None where there is none."""
    base: FileContent | None
    """The version on disk that `content` comes from, which the model must have read."""
    content: bytes | None = None
    """The content after the operations; None if the file does not exist then."""
    moved_from: "_PlannedFile | None" = None
    """The file that was renamed to this one."""
    is_moved: bool = False
    """Whether it was renamed to another one."""
    failed_at: int = 0
    """The number of the operation that failed on it; 0 if none did."""

    @property
    def old(self) -> bytes | None:
        return self.before.content if self.before else None


@dataclass(slots=True)
class PatchPlanner:
    """Plans the operations of one patch, each on the result of the previous ones."""

    access: CallFiles
    """The files of the call, or of its preview."""
    cwd: str
    """The folder that relative paths start from."""
    is_call: bool
    """Whether the patch will be applied: then failed searches count and stale lines are shown."""
    _files: dict[str, _PlannedFile] = field(default_factory=dict)

    def plan(self, operations: Sequence[PatchOperation]) -> tuple[list[PlannedChange], list[str]]:
        """Return the changes of all files, and a line for each operation that says what it does.

        Raises ToolFailed if some can't be done; the message lists all.
        """
        lines: list[str] = []
        listed: list[str] = []
        for number, operation in enumerate(operations, 1):
            try:
                lines.append(self._plan_operation(operation))
                listed.append(f"{number}. {operation}: could be done")
            except DirgeError as error:
                problem = f"{operation}: FAILED: {error.message} {error.hint}".strip()
                listed.append(f"{number}. {problem}")
                failed = (operation.path, operation.new_path)
                paths = [absolute(path, self.cwd) for path in failed if path]
                for file in self._files.values():
                    if file.path in paths:
                        file.failed_at = file.failed_at or number
        if failures := len(operations) - len(lines):
            which = f"{failures} of {len(listed)} operations" if listed[1:] else "The operation"
            raise ToolFailed("\n".join([f"Nothing was changed: {which} cannot be done.", *listed]))
        changed = (file for file in self._files.values() if file.content != file.old)
        return [_final_change(file) for file in changed], lines

    def _plan_operation(self, operation: PatchOperation) -> str:
        file = self._file(operation.path)
        match operation.action:
            case "create":
                if file.content is not None:
                    raise FileError(f"{file.shown} exists already.", hint="Update it instead.")
                file.content = encode_text(operation.content or "")
                return f"created {file.shown} ({count_lines(file.content)} lines)"
            case "update":
                return self._update(file, operation)
            case "delete":
                self._require_movable(file, operation.path)
                file.content = file.base = None
                return f"deleted {file.shown}"
            case "rename":
                return self._move(file, operation.new_path or "")

    def _update(self, file: _PlannedFile, operation: PatchOperation) -> str:
        _require_existing(file)
        old = file.content or b""

        def plan_update() -> EditPlan:
            if operation.edits:
                return plan_edits(old, operation.edits, path=file.shown)
            content, strategies = encode_text(operation.content or ""), list[Strategy]()
            if operation.hunks:
                content, strategies = apply_hunks(old, operation.hunks, path=file.shown)
            diff = diff_of_texts(old, content, path=file.shown)
            return EditPlan(content=content, diff=diff, strategies=strategies)

        plan = plan_for_model(
            self.access, file.shown, file.base, plan_update, real=file.real, is_call=self.is_call
        )
        if plan.content == old:
            raise FileError(f"This changes nothing in {file.shown}.")
        file.content, diff = plan.content, plan.diff
        matched = f"; matched with {', '.join(plan.strategies)}" if plan.strategies else ""
        summary = f"updated {file.shown} (+{diff.added} -{diff.removed} lines{matched})"
        if operation.new_path is None:
            return summary
        return f"{summary}, {self._move(file, operation.new_path)}"

    def _move(self, file: _PlannedFile, new_path: str) -> str:
        self._require_movable(file, file.shown)
        target = self._file(new_path)
        if target.content is not None:
            raise FileError(f"{target.shown} exists already.", hint="Delete it first if so meant.")
        target.content, target.base = file.content, file.base
        target.moved_from = file.moved_from or file
        file.content = file.base = None
        file.is_moved = True
        return f"renamed {file.shown} to {target.shown}"

    def _require_movable(self, file: _PlannedFile, shown: str) -> None:
        _require_existing(file)
        path = absolute(shown, self.cwd)
        if os.path.join(resolve(os.path.dirname(path)).real, os.path.basename(path)) != file.real:
            raise FileError(
                f"{shown} is a link to {file.real}.", hint="Name that file, or use a command."
            )
        # A deleted file must be known like a changed one: otherwise a loss goes unnoticed.
        if file.base is not None:
            self.access.ledger.check_fresh(shown, file.base)

    def _file(self, shown: str) -> _PlannedFile:
        """Return the state of the file. Raises ToolFailed if an earlier operation on it failed."""
        path = absolute(shown, self.cwd)
        located = self.access.locate(path)
        if located.kind == "dir":
            raise FileError(f"{shown} is a folder.", hint="Give the path of a file.")
        file = self._files.get(located.real)
        if file is None:
            before, real = self.access.read_if_there(path), located.real
            file = _PlannedFile(path=path, shown=shown, real=real, before=before, base=before)
            file.content = file.old
            self._files[real] = file
        if file.failed_at:
            raise ToolFailed(f"not tried, because operation {file.failed_at} failed.")
        return file


def _final_change(file: _PlannedFile) -> PlannedChange:
    source = file.moved_from if file.before is None else None
    origin = source or file
    old, new = origin.old, file.content
    if file.is_moved and new is None:
        diff = FileDiff(text="", added=0, removed=0)
    elif source is not None and old == new:
        text = f"rename from {source.shown}\nrename to {file.shown}"
        diff = FileDiff(text=text, added=0, removed=0)
    elif b"\0" in (old or b"")[:_SNIFFED] + (new or b"")[:_SNIFFED]:
        diff = FileDiff(text=f"Binary file {file.shown} differs", added=0, removed=0)
    else:
        diff = diff_of_texts(old, new, path=origin.shown, new_path=file.shown)
    return PlannedChange(
        path=file.path,
        shown=file.shown,
        before=file.before,
        after=new,
        diff=diff,
        moved_from=source.path if source is not None else None,
    )


def _require_existing(file: _PlannedFile) -> None:
    if file.content is None:
        raise FileError(f"{file.shown} does not exist.")


def apply_hunks(
    content: bytes, hunks: Sequence[PatchHunk], *, path: str
) -> tuple[bytes, list[Strategy]]:
    """Return the new content, and the tolerant strategies that were needed."""
    document = TextDocument.parse(content, path)
    lines = ViewLines(document.view)
    placed: list[TextMatch] = []
    for number, hunk in enumerate(hunks, 1):
        after = max((each.end for each in placed), default=0)
        name = f"Hunk {number}" if len(hunks) > 1 else "The hunk"
        placed.append(_HunkPlacer(lines, hunk, _block_of(hunk), f"{name} for {path}").place(after))
    placed.sort(key=lambda each: (each.line, each.end))
    changes = [each.moved(lines.start(match.line)) for match in placed for each in match.changes]
    if any(change.end > following.start for change, following in pairwise(changes)):
        raise TextNotFound(
            f"Two hunks for {path} change the same lines; nothing was changed.",
            hint="Make one hunk of them.",
            view=document.view,
            line=placed[0].line,
        )
    used = dict.fromkeys(each.strategy for each in placed if each.strategy != EXACT)
    return document.replaced(changes), list(used)


@dataclass(frozen=True, slots=True)
class _HunkPlacer:
    """Finds the place of one hunk; its `name` is for errors."""

    lines: ViewLines
    hunk: PatchHunk
    block: LineBlock
    name: str

    def place(self, after: int) -> TextMatch:
        """Return where the hunk belongs; `after` is the line after the previous hunk."""
        if not self.block.old:
            return self._insertion(after)
        matches = find_block(self.lines, self.block)
        if not matches:
            old = b"\n".join(self.block.old)
            raise text_not_found(f"{self.name} was not found", self.lines.view, old)
        for candidates in (matches, *self._candidates(matches, after)):
            if len(candidates) == 1:
                return candidates[0]
        view, starts = self.lines.view, [self.lines.start(each.line) for each in matches]
        numbers = line_numbers(view, starts)
        raise TextNotFound(
            f"{self.name} fits {len(matches)} places: lines {numbers}; nothing was changed.",
            hint="Add context lines, or an `@@` line of the function it is in.",
            view=view,
            line=matches[0].line,
        )

    def _candidates(self, matches: Sequence[TextMatch], after: int) -> Iterator[list[TextMatch]]:
        """Yield the matches that fit each hint in the patch: end, anchors, line number, order."""
        following = [each for each in matches if each.line >= after]
        if self.hunk.at_end:
            ends = (len(self.lines.lines), len(self.lines.lines) - 1)
            yield [each for each in matches if each.end in ends][-1:]
        if anchored := self._lines_after_anchors(after):
            # After an anchor, the first place is meant, even if there are more further down.
            first = {next((m.line for m in following if m.line >= n), None) for n in anchored}
            yield [each for each in following if each.line in first]
            return
        if self.hunk.line is not None:
            yield [each for each in matches if each.line == self.hunk.line - 1]
        yield following

    def _lines_after_anchors(self, after: int) -> list[int]:
        """Return the lines after each chain of anchors; empty if one is missing."""
        starts = [after]
        for number, anchor in enumerate(self.hunk.anchors):
            places = self._lines_like(_normalize_line(normalize_newlines(anchor)), min(starts))
            if number > 0:
                nearest = (next((n for n in places if n >= line), None) for line in starts)
                places = sorted({place for place in nearest if place is not None})
            starts = [place + 1 for place in places]
            if not starts:
                return []
        return starts if self.hunk.anchors else []

    def _lines_like(self, anchor: bytes, start: int) -> list[int]:
        """Return the lines that equal the anchor, else start with it, else contain it."""
        lines = [_normalize_line(line) for line in self.lines.lines[start:]]
        for test in (bytes.__eq__, bytes.startswith, bytes.__contains__):
            if places := [start + n for n, line in enumerate(lines) if test(line, anchor)]:
                return places
        return []

    def _insertion(self, after: int) -> TextMatch:
        """Place a hunk with only new lines: after its anchor, or at the end of the file."""
        lines = self.lines.lines
        anchored = self._lines_after_anchors(after)
        if len(anchored) == 1:
            line = anchored[0]
        elif self.hunk.at_end or lines == [b""]:
            line = len(lines)
        else:
            raise TextNotFound(
                f"{self.name} has no lines that show its place; nothing was changed.",
                hint="Add context lines, an `@@` line that occurs once, or `*** End of File`.",
                view=self.lines.view,
                line=None,
            )
        text = b"\n".join(self.block.new)
        if line < len(lines) - 1 or (line < len(lines) and lines[-1]):
            place, text = self.lines.start(line), text + b"\n"
        else:
            place = len(self.lines.view)
            text = b"\n" + text if lines[-1] else text + b"\n"
        at = place - self.lines.start(line)
        return TextMatch(line, line, [Replacement(at, at, text)])


def _block_of(hunk: PatchHunk) -> LineBlock:
    """Return the hunk's old and new lines; its context lines are in no run."""
    old: list[bytes] = []
    new: list[bytes] = []
    runs: list[Stretch] = []
    for each in hunk.lines:
        text = normalize_newlines(each[1:])
        at, new_at = len(old), len(new)
        old += [text] if each[0] != "+" else []
        new += [text] if each[0] != "-" else []
        if each[0] == " ":
            continue
        if runs and runs[-1].before_end == at and runs[-1].after_end == new_at:
            at, new_at = runs[-1].before_at, runs[-1].after_at
            runs.pop()
        runs.append(Stretch(at, len(old), new_at, len(new)))
    return LineBlock(old, new, runs)


def _normalize_line(line: bytes) -> bytes:
    return b" ".join(line.split())
