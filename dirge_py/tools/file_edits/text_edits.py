"""Plans edits of a file's content, so that they can be shown before anything is written.

Only a model that knows a file's content may change it. If the text of an edit is not found, the
error shows lines of the file.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence

from dirge_py.files.versions import FileContent
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.diff import FileDiff, diff_of_replacements, diff_of_texts
from dirge_py.tools.file_edits.document import TextDocument, normalize_newlines
from dirge_py.tools.file_edits.matches import (
    EXACT,
    STRATEGIES,
    Strategy,
    find_text,
    has_overlap,
)
from dirge_py.types.errors import FileError


class TextNotFound(FileError):
    """The text to be replaced does not match exactly one place; `line` (from 0) is the nearest."""

    def __init__(self, message: str, *, hint: str, view: bytes, line: int | None) -> None:
        super().__init__(message, hint=hint)
        self.view = view
        self.line = line


_MAX_LINES_NAMED = 20
_MAX_LINES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit:
    """One replacement of text in a file."""

    old: str
    """The text as it is in the file."""
    new: str
    """The text that takes its place."""
    replace_all: bool = False
    """Replace it wherever it occurs; otherwise it must occur once."""
    prefix: str = ""
    """What errors about it begin with, such as `edits[0]: `; "" for the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """The result of edits to a file."""

    content: bytes
    """The new bytes of the file."""
    diff: FileDiff
    """The difference to the original file."""
    strategies: Sequence[Strategy] = ()
    """The tolerant strategies that were needed to find the texts."""
    places: int = 1
    """The number of changed places."""
    first_line: int = 1
    """The number of the first line of the first edit."""


def plan_edits(content: bytes, edits: Sequence[TextEdit], *, path: str) -> EditPlan:
    """Plan `edits` of `content`, each applied to the result of the previous one.

    Raises:
        TextNotFound: a text is not found, or found more than once.
        FileError: an edit changes nothing, or the file is not text.
    """
    plans: list[EditPlan] = []
    changed = content
    for each in edits:
        plans.append(_plan_one(changed, each, path=path))
        changed = plans[-1].content
    if len(plans) == 1:
        return plans[0]
    return EditPlan(
        content=changed,
        strategies=list(dict.fromkeys(each for plan in plans for each in plan.strategies)),
        places=sum(plan.places for plan in plans),
        first_line=plans[0].first_line,
        diff=diff_of_texts(_view_of(content, path), _view_of(changed, path), path=path),
    )


def _plan_one(content: bytes, edit: TextEdit, *, path: str) -> EditPlan:
    document = TextDocument.parse(content, path)
    old, new = normalize_newlines(edit.old), normalize_newlines(edit.new)
    view = document.view
    if not old:
        raise FileError(
            f"{edit.prefix}old_text is empty; nothing was changed.",
            hint="To create a file or fill an empty one, use `write`.",
        )
    if old == new:
        raise FileError(f"{edit.prefix}old_text and new_text are the same; nothing was changed.")
    matches = find_text(view, old, new)
    if matches is None:
        raise text_not_found(f"{edit.prefix}old_text was not found in {path}", view, old)
    changed = document.replaced(matches.replacements()) if matches.changes else content
    if changed == content:
        raise FileError(f"{edit.prefix}{path} has new_text there already; nothing was changed.")
    places, is_exact = matches.starts, matches.strategy == EXACT
    overlaps = is_exact and has_overlap(view, old, places[0])
    if (len(places) > 1 or overlaps) and not (is_exact and edit.replace_all):
        raise TextNotFound(
            f"{edit.prefix}old_text occurs {max(2, len(places))} times in {path} "
            f"({matches.strategy}): lines {line_numbers(view, places)}; nothing was changed.",
            hint="Add surrounding lines so that it occurs once, or set replace_all."
            if is_exact
            else "Copy the lines exactly as `read` shows them.",
            view=view,
            line=view.count(b"\n", 0, places[0]),
        )
    first, new_view = next(matches.replacements()).start, _view_of(changed, path)
    return EditPlan(
        content=changed,
        strategies=[] if matches.strategy == EXACT else [matches.strategy],
        places=len(matches.starts),
        first_line=view.count(b"\n", 0, first) + 1,
        diff=diff_of_replacements(view, new_view, matches.replacements(), path=path),
    )


def _view_of(content: bytes, path: str) -> bytes:
    return TextDocument.parse(content, path).view


def line_numbers(view: bytes, starts: Sequence[int]) -> str:
    """Return the numbers of the first lines at these positions of `view`, as text."""
    lines = [view.count(b"\n", 0, start) + 1 for start in starts[:_MAX_LINES_NAMED]]
    more = len(starts) - len(lines)
    return ", ".join(map(str, lines)) + (f" … and {more} more" if more else "")


def text_not_found(problem: str, view: bytes, old: bytes) -> TextNotFound:
    """Return the error for a text that no strategy found, with the most similar lines."""
    lines = view.split(b"\n")
    wanted = [line.strip() for line in old.strip(b"\n").split(b"\n")]
    line = _by_equal_lines(lines, wanted)
    if line is None:
        line = _by_similarity(lines, wanted)
    hint = "Nothing in the file resembles it."
    if line is not None:
        end = line + min(len(wanted), _MAX_LINES_SHOWN)
        hint = f"The nearest lines are:\n{_number_lines(view, line, end)}"
    return TextNotFound(
        f"{problem} (tried: {', '.join(STRATEGIES)}); nothing was changed.",
        hint=hint,
        view=view,
        line=line,
    )


_MAX_LINES_REVEALED = 60
_CONTEXT = 3


def plan_for_model(
    files: CallFiles,
    shown: str,
    base: FileContent | None,
    plan: Callable[[], EditPlan],
    *,
    real: str,
    is_call: bool,
) -> EditPlan:
    """Return the plan of a change to the file at `real`, whose content comes from `base` on disk.

    Raises FileError: the model has not read this version of it, or a text is not found. The preview
    of a call (not `is_call`) reports that to the model before the user is asked; the call itself
    shows lines of the file as well.
    """
    if base is not None and is_call:
        _require_known(files, shown, base, plan)
    elif base is not None:
        files.ledger.check_fresh(shown, base)
    try:
        return plan()
    except TextNotFound as miss:
        times = files.ledger.missed(real) if is_call else 1
        raise _explain_repeated_miss(miss, shown, times) from None


def _require_known(
    files: CallFiles, shown: str, content: FileContent, plan: Callable[[], EditPlan]
) -> None:
    """Check that the model has read this version of the file. Raises FileError if it hasn't.

    If it has read another version, the error shows the lines that it would change in this one. The
    file then counts as read.
    """
    try:
        files.ledger.check_fresh(shown, content)
    except FileError as stale:
        if not files.ledger.knows(content.real):
            raise
        try:
            view = TextDocument.parse(content.content, shown).view
            lines = _lines_around(view, plan().diff.spans)
        except FileError:
            raise stale from None
        files.ledger.remember(content.real, content.identity)
        raise FileError(
            f"{stale.message} The place you mean now reads:\n{lines}\n",
            hint="This counts as read: make the call again if it is still right.",
        ) from None


def _explain_repeated_miss(miss: TextNotFound, shown: str, times: int) -> FileError:
    """Return the error for the `times`-th change in a row whose text was not found in the file."""
    if times < 2:
        return miss
    start = 0 if miss.line is None else max(0, miss.line - _MAX_LINES_REVEALED // 3)
    lines = _number_lines(miss.view, start, start + _MAX_LINES_REVEALED)
    advice = "Copy the text to replace from these lines, or `read` the part you mean."
    if times > 2:
        advice = (
            f"This failed {times} times. Take another way: replace the whole function, with its "
            "first and last lines copied from above, or the whole file with `write`."
        )
    now = f"{shown} now reads, from line {start + 1}:\n{lines}\n"
    return FileError(miss.message, hint=f"{now}{advice}")


def _lines_around(view: bytes, spans: Sequence[tuple[int, int]]) -> str:
    """Return the lines of these stretches with context, as `read` shows them."""
    pieces: list[str] = []
    shown, left = 0, _MAX_LINES_REVEALED
    for start, end in spans:
        start, end = max(shown, start - _CONTEXT), min(end + _CONTEXT, start + left)
        if left <= 0 or end <= start:
            continue
        pieces.append(_number_lines(view, start, end))
        shown, left = end, left - (end - start)
    return "\n…\n".join(pieces)


_MAX_LINES_COMPARED = 4000
_MIN_LINE_SIMILARITY = 0.6
_MAX_LINE_CHARS = 200


def _number_lines(view: bytes, start: int, end: int) -> str:
    """Return the lines of `view` from `start` (from 0) to before `end`, as `read` shows them."""
    lines = view.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    start, end = max(0, start), min(end, len(lines))
    width = len(str(end))
    return "\n".join(
        f"{number:>{width}}: {line[:_MAX_LINE_CHARS].decode(errors='replace')}"
        for number, line in enumerate(lines[start:end], start + 1)
    )


def _by_equal_lines(lines: Sequence[bytes], wanted: Sequence[bytes]) -> int | None:
    """Return the line (from 0) at which most of the wanted lines match, in order."""
    places = {line: index for index, line in reversed(list(enumerate(wanted))) if len(line) > 3}
    votes = Counter(
        index - places[line.strip()]
        for index, line in enumerate(lines)
        if line.strip() in places and index >= places[line.strip()]
    )
    return votes.most_common(1)[0][0] if votes else None


def _by_similarity(lines: Sequence[bytes], wanted: Sequence[bytes]) -> int | None:
    """Return the line most similar to the first wanted one; in a long file, of the first lines."""
    first = next((line for line in wanted if line), b"")[:_MAX_LINE_CHARS]
    matcher = difflib.SequenceMatcher(None, "", first.decode(errors="replace"), autojunk=False)
    best, nearest = _MIN_LINE_SIMILARITY, None
    for index, line in enumerate(lines[:_MAX_LINES_COMPARED]):
        matcher.set_seq1(line.strip()[:_MAX_LINE_CHARS].decode(errors="replace"))
        # The exact ratio is slow, so it is computed only for lines that may be the best so far.
        is_candidate = matcher.real_quick_ratio() > best and matcher.quick_ratio() > best
        if is_candidate and (ratio := matcher.ratio()) > best:
            best, nearest = ratio, index
    return nearest
