"""Nobody changes a file whose content they do not know; who gets it wrong is shown more of it."""

from collections.abc import Callable, Sequence

from dirge_py.files.identity import FileContent
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.editing.document import Document
from dirge_py.tools.editing.missed import Missed
from dirge_py.tools.editing.nearest import numbered
from dirge_py.types.errors import FileError

MAX_LINES = 60
_CONTEXT = 3

Spans = Sequence[tuple[int, int]]
"""Stretches of lines, from 0, each without its end."""


def require_known(
    files: CallFiles, shown: str, content: FileContent, places: Callable[[], Spans]
) -> None:
    """Return if the model knows this version of the file.

    If it knows another, and `places` says which lines it would change in this one, the refusal
    shows these, and they count as read.

    Raises:
        FileError: it was not read, or has changed since.
    """
    try:
        files.check_fresh(shown, content)
    except FileError as stale:
        if not files.ledger.knows(content.real):
            raise
        try:
            lines = _around(Document.parse(content.content, shown).view, places())
        except FileError:
            raise stale from None
        files.remember_read(content.real, content.identity)
        raise FileError(
            f"{stale.message} The place you mean now reads:\n{lines}\n",
            hint="This counts as read: make the call again if it is still right.",
        ) from None


def told_more(miss: Missed, shown: str, times: int) -> FileError:
    """What to answer the `times`-th change in a row that found no place in the file."""
    if times < 2:
        return miss
    start = 0 if miss.line is None else max(0, miss.line - MAX_LINES // 3)
    lines = numbered(miss.view, start, start + MAX_LINES)
    now = f"{shown} now reads, from line {start + 1}:\n{lines}\n"
    if times == 2:
        advice = "Copy what is to be replaced from these lines, or `read` the part you mean."
    else:
        advice = (
            f"This failed {times} times. Take another way: replace the whole function, with its "
            "first and last lines copied from above, or the whole file with `write`."
        )
    return FileError(miss.message, hint=f"{now}{advice}")


def _around(view: bytes, spans: Spans) -> str:
    """The lines of these stretches with some around them, as `read` shows them."""
    pieces: list[str] = []
    shown = left = 0
    left = MAX_LINES
    for start, end in spans:
        start, end = max(shown, start - _CONTEXT), min(end + _CONTEXT, start + left)
        if left <= 0 or end <= start:
            continue
        pieces.append(numbered(view, start, end))
        shown, left = end, left - (end - start)
    return "\n…\n".join(pieces)
