"""The files that were worked on in a folded stretch, to be shown again behind its summary."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dirge_py.context.shape import RestoredFile
from dirge_py.lib.cut import cut_middle
from dirge_py.types.messages import Message, ToolResultMessage

ReadFile: TypeAlias = Callable[[str], Awaitable[str | None]]
"""The text of a file as it is now; None if it cannot or may not be read, or is too large."""

MOST_FILE_BYTES = 2 * 1024 * 1024
"""Readers return None for a file larger than this."""

_FILE_TOOLS = frozenset({"read", "edit", "write", "apply_patch"})
_FILE_TOKENS = 5_000
_CHARS_PER_TOKEN = 4


def files_of(messages: Sequence[Message]) -> list[str]:
    """Paths of the files that tools opened, newest first, each once."""
    paths: dict[str, None] = {}
    for message in reversed(messages):
        if not isinstance(message, ToolResultMessage) or message.is_error:
            continue
        if message.tool_name not in _FILE_TOOLS:
            continue
        named = message.details.get("paths") or [message.details.get("path")]
        for path in named:
            if isinstance(path, str):
                paths.setdefault(path)
    return list(paths)


async def restored(
    folded: Sequence[Message], kept: Sequence[Message], *, read: ReadFile, most: int, room: int
) -> tuple[RestoredFile, ...]:
    """At most `most` files of `folded` that `kept` does not show, in `room` characters in all."""
    still_shown = set(files_of(kept))
    files: list[RestoredFile] = []
    for path in files_of(folded):
        if len(files) == most:
            break
        if path in still_shown:
            continue
        text = await _read(read, path)
        if not text:
            continue
        text = cut_middle(text, _FILE_TOKENS * _CHARS_PER_TOKEN, "\n[…]\n", tail=0.3)
        if len(text) > room:
            break
        room -= len(text)
        files.append(RestoredFile(path=path, text=text))
    return tuple(files)


async def _read(read: ReadFile, path: str) -> str | None:
    try:
        return await read(path)
    except Exception:
        # A file that is gone or forbidden by now is no reason to lose the summary.
        return None
