"""What an edit will write: decided from bytes alone, so it can be shown before it is done."""

from collections.abc import Sequence

from dirge_py.errors import FileError
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.diff import Diff, diff_of_replacements
from dirge_py.tools.editing.document import Document, plain
from dirge_py.tools.editing.matching import STRATEGIES, Matches, Strategy, find, has_overlap
from dirge_py.tools.editing.nearest import nearest_region

MAX_LINES_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """The new bytes of the file, how the place was found, and the difference."""

    content: bytes
    strategy: Strategy
    places: int
    first_line: int
    diff: Diff


def plan_edit(
    content: bytes, old_text: str, new_text: str, *, replace_all: bool, path: str
) -> EditPlan:
    """Replace `old_text` by `new_text` in `content`, where it occurs once or everywhere.

    Raises:
        FileError: it is not found, found more than once, changes nothing, or the file is no text.
    """
    document = Document.parse(content, path)
    old, new = plain(old_text), plain(new_text)
    if not old:
        raise FileError(
            "old_text is empty.", hint="To create a file or fill an empty one, use `write`."
        )
    if old == new:
        raise FileError("old_text and new_text are the same; nothing was changed.")
    matches = find(document.view, old, new)
    if matches is None:
        raise _not_found(document.view, old, path)
    _require_one(document.view, matches, old, path=path, replace_all=replace_all)
    changed = document.replaced(matches.replacements())
    first = next(matches.replacements()).start
    return EditPlan(
        content=changed,
        strategy=matches.strategy,
        places=len(matches.starts),
        first_line=document.view.count(b"\n", 0, first) + 1,
        diff=diff_of_replacements(
            document.view,
            Document.parse(changed, path).view,
            matches.replacements(),
            path=path,
        ),
    )


def _require_one(
    view: bytes, matches: Matches, old: bytes, *, path: str, replace_all: bool
) -> None:
    places = matches.starts
    if matches.strategy == "exact":
        if replace_all:
            return
        if len(places) == 1 and not has_overlap(view, old, view.find(old)):
            return
        advice = "Add surrounding lines so that it occurs once, or set replace_all."
    else:
        if len(places) == 1:
            return
        advice = "Copy the lines exactly as `read` shows them."
    raise FileError(
        f"old_text occurs {max(2, len(places))} times in {path} ({matches.strategy}): "
        f"lines {_line_numbers(view, matches.starts)}; nothing was changed.",
        hint=advice,
    )


def _line_numbers(view: bytes, starts: Sequence[int]) -> str:
    lines: list[int] = []
    line, position = 1, 0
    for start in starts[:MAX_LINES_NAMED]:
        line += view.count(b"\n", position, start)
        position = start
        lines.append(line)
    more = len(starts) - len(lines)
    return ", ".join(map(str, lines)) + (f" … and {more} more" if more else "")


def _not_found(view: bytes, old: bytes, path: str) -> FileError:
    near = nearest_region(view, old)
    hint = f"The nearest lines are:\n{near}" if near else "Nothing in the file resembles it."
    return FileError(
        f"old_text was not found in {path} (tried: {', '.join(STRATEGIES)}); nothing was changed.",
        hint=hint,
    )
