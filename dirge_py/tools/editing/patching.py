"""What a patch makes of all its files: planned one operation after the other, and then done."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from dirge_py.files.identity import FileContent
from dirge_py.files.resolve import absolute, resolve
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.editing.diff import Diff, diff_of_texts
from dirge_py.tools.editing.document import encoded
from dirge_py.tools.editing.hunks import apply_hunks
from dirge_py.tools.editing.knowledge import require_known, told_more
from dirge_py.tools.editing.landing import Planned
from dirge_py.tools.editing.missed import Missed
from dirge_py.tools.editing.operations import Operation
from dirge_py.tools.editing.plan import plan_edits
from dirge_py.types.errors import DirgeError, FileError, ToolFailed

_SNIFFED = 8192


@dataclass(slots=True, kw_only=True)
class _File:
    """A file as the operations before have left it. `content` None: it is not there.

    `base` is the version on disk its content comes from, which the model must know to change it.
    """

    path: str
    shown: str
    real: str
    before: FileContent | None
    content: bytes | None
    base: FileContent | None
    moved_from: "_File | None" = None
    is_moved: bool = False
    failed_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPlan:
    """All files of a patch, and a line for each operation: what it will have done."""

    files: Sequence[Planned]
    lines: Sequence[str]


@dataclass(slots=True)
class PatchPlanner:
    """`is_call`: it will be done. Then it counts what found no place, and stale lines are shown."""

    access: CallFiles
    cwd: str
    is_call: bool
    _files: dict[str, _File] = field(default_factory=dict)

    def plan(self, operations: Sequence[Operation]) -> PatchPlan:
        """What the operations come to, each after the ones before.

        Raises:
            ToolFailed: one of them cannot be done; the words list all.
        """
        lines: list[str] = []
        failures = 0
        for number, operation in enumerate(operations, 1):
            try:
                lines.append(self._planned(operation))
            except DirgeError as error:
                failures += 1
                lines.append(f"{operation}: FAILED: {error.message} {error.hint}".strip())
                self._spoil(operation, number)
        if failures:
            raise _refusal(operations, lines, failures)
        files = [each for file in self._files.values() for each in _final(file)]
        return PatchPlan(files=files, lines=lines)

    def _planned(self, operation: Operation) -> str:
        file = self._file(operation.path)
        match operation.action:
            case "create":
                if file.content is not None:
                    raise FileError(f"{file.shown} exists already.", hint="Update it instead.")
                file.content = encoded(operation.content or "")
                return f"created {file.shown} ({_lines(file.content)} lines)"
            case "update":
                return self._update(file, operation)
            case "delete":
                self._require_movable(file, operation.path)
                file.content = file.base = None
                return f"deleted {file.shown}"
            case "rename":
                return self._move(file, operation.new_path or "")

    def _update(self, file: _File, operation: Operation) -> str:
        self._require_there(file)
        old = file.content or b""
        if file.base is not None and not self.is_call:
            # Words about what fails go to the model before anybody is asked.
            self.access.check_fresh(file.shown, file.base)
        elif file.base is not None:
            # Where it is stale, the lines are shown that it would change.
            require_known(
                self.access,
                file.shown,
                file.base,
                lambda: diff_of_texts(old, _updated(old, operation, file.shown)[0], path="").spans,
            )
        try:
            file.content, how = _updated(old, operation, file.shown)
        except Missed as miss:
            times = self.access.ledger.missed(file.real) if self.is_call else 1
            raise told_more(miss, file.shown, times) from None
        if file.content == old:
            raise FileError(f"This changes nothing in {file.shown}.")
        diff = diff_of_texts(old, file.content, path=file.shown)
        matched = f"; matched with {', '.join(how)}" if how else ""
        said = f"updated {file.shown} (+{diff.added} -{diff.removed} lines{matched})"
        if operation.new_path is None:
            return said
        return f"{said}, {self._move(file, operation.new_path)}"

    def _move(self, file: _File, new_path: str) -> str:
        self._require_movable(file, file.shown)
        target = self._file(new_path)
        if target.content is not None:
            raise FileError(f"{target.shown} exists already.", hint="Delete it first if so meant.")
        target.content, target.base = file.content, file.base
        target.moved_from = file.moved_from or file
        file.content = file.base = None
        file.is_moved = True
        return f"renamed {file.shown} to {target.shown}"

    def _require_there(self, file: _File) -> None:
        if file.content is None:
            raise FileError(f"{file.shown} does not exist.")

    def _require_movable(self, file: _File, shown: str) -> None:
        self._require_there(file)
        path = absolute(shown, self.cwd)
        if (
            resolve(os.path.dirname(path)).real.rstrip("/") + "/" + os.path.basename(path)
            != file.real
        ):
            raise FileError(
                f"{shown} is a link to {file.real}.", hint="Name that file, or use a command."
            )
        # What goes must be known as well as what changes: nothing else says what is lost.
        if file.base is not None:
            self.access.check_fresh(shown, file.base)

    def _file(self, shown: str) -> _File:
        """The file as it is by now.

        Raises:
            FileError: it is a folder or a link that would be moved, or cannot be read.
            ToolFailed: an operation on it has failed before.
        """
        path = absolute(shown, self.cwd)
        located = self.access.locate(path)
        if located.kind == "dir":
            raise FileError(f"{shown} is a folder.", hint="Give the path of a file.")
        file = self._files.get(located.real)
        if file is None:
            before = self.access.read_if_there(path)
            content = before.content if before else None
            file = _File(
                path=path,
                shown=shown,
                real=located.real,
                before=before,
                content=content,
                base=before,
            )
            self._files[located.real] = file
        if file.failed_at:
            raise ToolFailed(f"not tried, because operation {file.failed_at} failed.")
        return file

    def _spoil(self, operation: Operation, number: int) -> None:
        for path in (operation.path, operation.new_path):
            for file in self._files.values():
                if path is not None and file.path == absolute(path, self.cwd):
                    file.failed_at = file.failed_at or number


def _updated(old: bytes, operation: Operation, shown: str) -> tuple[bytes, Sequence[str]]:
    if operation.hunks:
        return apply_hunks(old, operation.hunks, path=shown)
    if operation.edits:
        plan = plan_edits(old, operation.edits, path=shown)
        return plan.content, plan.strategies
    return encoded(operation.content or ""), []


def _final(file: _File) -> list[Planned]:
    """What is to be done about one file after all operations; nothing if it is as it was."""
    old = file.before.content if file.before else None
    if file.content == old:
        return []
    source = file.moved_from if file.before is None else None
    return [
        Planned(
            path=file.path,
            shown=file.shown,
            before=file.before,
            after=file.content,
            diff=_diff(file, source),
            moved_from=source.path if source is not None else None,
        )
    ]


def _diff(file: _File, source: _File | None) -> Diff:
    origin = source or file
    old = origin.before.content if origin.before else None
    if file.is_moved and file.content is None:
        return Diff(text="", added=0, removed=0)
    if source is not None and old == file.content:
        return Diff(text=f"rename from {source.shown}\nrename to {file.shown}", added=0, removed=0)
    if b"\0" in (old or b"")[:_SNIFFED] + (file.content or b"")[:_SNIFFED]:
        return Diff(text=f"Binary file {file.shown} differs", added=0, removed=0)
    return diff_of_texts(old, file.content, path=origin.shown, new_path=file.shown)


def _refusal(operations: Sequence[Operation], lines: Sequence[str], failures: int) -> ToolFailed:
    listed = [
        f"{number}. {line if 'FAILED' in line else f'{operation}: could be done'}"
        for number, (operation, line) in enumerate(zip(operations, lines, strict=True), 1)
    ]
    few = "The operation" if len(lines) == 1 else f"{failures} of {len(lines)} operations"
    return ToolFailed("\n".join([f"Nothing was changed: {few} cannot be done.", *listed]))


def _lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
