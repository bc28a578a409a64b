"""What an edit will write: decided from bytes alone, so it can be shown before it is done."""

from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.diff import Diff, diff_of_replacements, diff_of_texts
from dirge_py.tools.editing.document import Document, plain
from dirge_py.tools.editing.matching import (
    EXACT,
    STRATEGIES,
    Matches,
    Strategy,
    find,
    has_overlap,
)
from dirge_py.tools.editing.missed import Missed
from dirge_py.tools.editing.nearest import nearest_line, numbered
from dirge_py.types.errors import FileError

MAX_LINES_NAMED = 20
MAX_LINES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class OneEdit:
    """`old` becomes `new`. `name` is how errors call it: empty where it is the only one."""

    old: str
    new: str
    replace_all: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """The new bytes of the file, how the places were found, and the difference.

    `first_line` is that of the first edit. `strategies` are the forgiving ones that were needed.
    """

    content: bytes
    strategies: Sequence[Strategy]
    places: int
    first_line: int
    diff: Diff


def plan_edits(content: bytes, edits: Sequence[OneEdit], *, path: str) -> EditPlan:
    """What `edits` make of `content`, each of what the one before has made.

    Raises:
        Missed: a text is not found, or found more than once.
        FileError: one changes nothing, or the file is no text.
    """
    plans: list[EditPlan] = []
    for each in edits:
        plans.append(_plan_one(plans[-1].content if plans else content, each, path=path))
    if len(plans) == 1:
        return plans[0]
    changed = plans[-1].content
    return EditPlan(
        content=changed,
        strategies=list(dict.fromkeys(each for plan in plans for each in plan.strategies)),
        places=sum(plan.places for plan in plans),
        first_line=plans[0].first_line,
        diff=diff_of_texts(Document.parse(content, path).view, _view(changed, path), path=path),
    )


def _plan_one(content: bytes, edit: OneEdit, *, path: str) -> EditPlan:
    document = Document.parse(content, path)
    old, new = plain(edit.old), plain(edit.new)
    prefix = f"{edit.name}: " if edit.name else ""
    if not old:
        raise FileError(
            f"{prefix}old_text is empty; nothing was changed.",
            hint="To create a file or fill an empty one, use `write`.",
        )
    if old == new:
        raise FileError(f"{prefix}old_text and new_text are the same; nothing was changed.")
    matches = find(document.view, old, new)
    if matches is None:
        raise _not_found(document.view, old, path, prefix)
    _require_one(document.view, matches, old, path=path, edit=edit)
    changed = document.replaced(matches.replacements())
    first = next(matches.replacements()).start
    return EditPlan(
        content=changed,
        strategies=[] if matches.strategy == EXACT else [matches.strategy],
        places=len(matches.starts),
        first_line=document.view.count(b"\n", 0, first) + 1,
        diff=diff_of_replacements(
            document.view, _view(changed, path), matches.replacements(), path=path
        ),
    )


def _view(content: bytes, path: str) -> bytes:
    return Document.parse(content, path).view


def _require_one(view: bytes, matches: Matches, old: bytes, *, path: str, edit: OneEdit) -> None:
    places = matches.starts
    if matches.strategy == EXACT:
        if edit.replace_all:
            return
        if len(places) == 1 and not has_overlap(view, old, view.find(old)):
            return
        advice = "Add surrounding lines so that it occurs once, or set replace_all."
    else:
        if len(places) == 1:
            return
        advice = "Copy the lines exactly as `read` shows them."
    prefix = f"{edit.name}: " if edit.name else ""
    raise Missed(
        f"{prefix}old_text occurs {max(2, len(places))} times in {path} ({matches.strategy}): "
        f"lines {line_numbers(view, matches.starts)}; nothing was changed.",
        hint=advice,
        view=view,
        line=view.count(b"\n", 0, places[0]),
    )


def line_numbers(view: bytes, starts: Sequence[int]) -> str:
    """The numbers of the lines at these positions of `view`, the first of them."""
    lines: list[int] = []
    line, position = 1, 0
    for start in starts[:MAX_LINES_NAMED]:
        line += view.count(b"\n", position, start)
        position = start
        lines.append(line)
    more = len(starts) - len(lines)
    return ", ".join(map(str, lines)) + (f" … and {more} more" if more else "")


def _not_found(view: bytes, old: bytes, path: str, prefix: str) -> Missed:
    line = nearest_line(view, old)
    hint = "Nothing in the file resembles it."
    if line is not None:
        count = min(old.strip(b"\n").count(b"\n") + 1, MAX_LINES_SHOWN)
        hint = f"The nearest lines are:\n{numbered(view, line, line + count)}"
    return Missed(
        f"{prefix}old_text was not found in {path} (tried: {', '.join(STRATEGIES)}); "
        "nothing was changed.",
        hint=hint,
        view=view,
        line=line,
    )
