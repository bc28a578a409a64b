"""Planned file changes of a tool: preview, the user's choices, checks, writing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dirge_py.files.versions import FileContent, sha256_of
from dirge_py.files.workspace import CallFiles, WriteTarget
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import REDACTED
from dirge_py.tools.base import ToolContext
from dirge_py.tools.file_edits.diff import FileDiff, diff_of_texts
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import FileChange, LoopToolResult, Preview, text_result

_CHANGED = "The user changed this edit before accepting it. This is what was written."
_PARTLY = "The user did not accept all of it. This is what was written."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """What a call does to one file."""

    path: str
    """Its absolute path."""
    shown: str
    """Its path as the model wrote it."""
    before: FileContent | None
    """The current file; None: the call creates it."""
    after: bytes | None
    """The new content; None: the call deletes the file."""
    diff: FileDiff
    """The difference between the two."""
    moved_from: str | None = None
    """The absolute path that the content comes from, if the file was renamed."""
    is_chosen: bool = False
    """Whether `after` comes from the user instead of the model."""

    @property
    def old(self) -> bytes | None:
        """Return the content before the call; None if there is no file."""
        return None if self.before is None else self.before.content


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChanges:
    """The changes that were written."""

    files: Sequence[PlannedChange]
    """The files, with the user's changes."""
    notes: Sequence[str]
    """Sentences that the model must read first."""

    def result(self, text: str, *, with_diff: bool = True, **details: Any) -> LoopToolResult:
        """Return the result of the call: the notes, `text`, and the diff."""
        # The content of a deleted file is of no use to the model.
        left = [each for each in self.files if each.after is not None]
        shown = f"\n\n{_join_diffs(left)}" if with_diff else ""
        return text_result(
            "\n".join([*self.notes, text]) + shown.rstrip("\n"),
            **details,
            diff=_join_diffs(self.files),
            added=sum(each.diff.added for each in self.files),
            removed=sum(each.diff.removed for each in self.files),
        )


def _join_diffs(files: Sequence[PlannedChange]) -> str:
    return "\n".join(each.diff.text for each in files if each.diff.text)


def preview_changes(files: Sequence[PlannedChange]) -> Preview:
    """Return the diff of all files, for the user's decision."""
    return Preview(
        kind="diff",
        text=_join_diffs(files),
        path=files[0].path if files else "",
        changes=tuple(
            FileChange(
                path=each.path,
                before=_text(each.old),
                after=_text(each.after),
                before_sha256=(each.before and each.before.identity.sha256) or "",
                moved_from=each.moved_from or "",
            )
            for each in files
        ),
    )


def apply_changes(files: Sequence[PlannedChange], ctx: ToolContext) -> AppliedChanges:
    """Write all files, with the user's changes, or raise FileError or ToolFailed and write none."""
    wanted, notes = _apply_choices(files, ctx.files)
    notes += _check(wanted, ctx)
    ctx.stop_if_aborted()
    ctx.files.write_all(
        [
            WriteTarget(
                path=each.path,
                content=each.after,
                expected=each.before.identity if each.before else None,
                moved_from=each.moved_from,
            )
            for each in wanted
        ]
    )
    for each in wanted:
        ctx.files.ledger.landed(ctx.files.locate(each.path).real)
    return AppliedChanges(files=wanted, notes=notes)


def _apply_choices(
    files: Sequence[PlannedChange], access: CallFiles
) -> tuple[list[PlannedChange], list[str]]:
    """Return the files with the user's choices, and a sentence about them for the model."""
    wanted: list[PlannedChange] = []
    notes: set[str] = set()
    for each in files:
        if _is_move_declined(each, files, access):
            continue
        chosen = access.chosen(each.path)
        text = None if chosen is None else chosen.after
        after = None if text is None else text.encode(errors="surrogateescape")
        if chosen is None or (after is not None and after == each.after):
            wanted.append(each)
            continue
        source = _source_of(each, files)
        is_part = after is None or _is_part(source.old, each.after, after)
        notes.add(_PARTLY if is_part else _CHANGED)
        if after is not None and after != each.old:
            diff = diff_of_texts(source.old, after, path=source.shown, new_path=each.shown)
            wanted.append(replace(each, after=after, diff=diff, is_chosen=True))
    return wanted, [_CHANGED] if _CHANGED in notes else sorted(notes)


def _is_move_declined(
    planned: PlannedChange, files: Sequence[PlannedChange], access: CallFiles
) -> bool:
    """Whether this file would be deleted although the user declined the file it moves to."""
    targets = [each.path for each in files if each.moved_from == planned.path]
    chosen = map(access.chosen, targets if planned.after is None else ())
    return any(each is not None and each.after is None for each in chosen)


def _source_of(planned: PlannedChange, files: Sequence[PlannedChange]) -> PlannedChange:
    """Return the file that the content comes from: this one, or the one it was moved from."""
    return next((each for each in files if each.path == planned.moved_from), planned)


def _is_part(before: bytes | None, planned: bytes | None, after: bytes) -> bool:
    """Whether `after` adds only lines that the plan adds, and removes only those it removes."""
    old, new, got = (Counter((each or b"").split(b"\n")) for each in (before, planned, after))
    return got - old <= new - old and old - got <= old - new


def _check(files: Sequence[PlannedChange], ctx: ToolContext) -> list[str]:
    """Return notes on problems that the model insists on. Raises ToolFailed for new ones."""
    written = [each for each in files if each.after is not None and not each.is_chosen]
    # For each file the text before and after, without bytes that are not text.
    texts = {
        each.path: (_decode_text(_source_of(each, files).old), _decode_text(each.after))
        for each in written
    }
    check = ctx.services.syntax or (lambda path, old, new: "")
    broken = {path: fault for path, each in texts.items() if (fault := check(path, *each))}
    lost = [each for each in written if _loses_secret(*texts[each.path], ctx)]
    # A check can be wrong, so the same change is accepted when it is made again.
    insisted = [
        ctx.files.ledger.insists(ctx.files.locate(each.path).real, sha256_of(each.after or b""))
        for each in written
        if each.path in broken or each in lost
    ]
    wrong = [f"{each.shown}: {broken[each.path]}" for each in written if each.path in broken]
    names = ", ".join(each.shown for each in lost)
    if all(insisted):
        notes = [f"Written as you insist, though the syntax looks broken: {w}." for w in wrong]
        return notes + ([f"Written as you insist, with `{REDACTED}` in {names}."] if lost else [])
    problems: list[str] = []
    if lost:
        problems.append(
            f"This would put `{REDACTED}` into {names}, where the file has a secret that you were "
            "not shown. Nothing was written. Change only the lines around it."
        )
    if wrong:
        problems.append(
            f"This would break the syntax of {'; '.join(wrong)}. Nothing was written. Repair it."
        )
    raise ToolFailed(
        " ".join([*problems, "Only if it is right this way, make the same call again."]),
        details={"syntax_error": next(iter(broken))} if broken else {},
    )


def _loses_secret(old: str, new: str, ctx: ToolContext) -> bool:
    """Whether the redaction mark would overwrite a secret."""
    redact, marks = ctx.services.redact, old.count(REDACTED)
    # In files that only mention the mark, it may occur more often.
    return (
        redact is not None and new.count(REDACTED) > marks and redact(old).count(REDACTED) > marks
    )


def _text(content: bytes | None) -> str | None:
    # Surrogate escapes restore every byte, also of a file that is not text.
    return None if content is None else content.decode(errors="surrogateescape")


def _decode_text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace").removeprefix("\ufeff")
