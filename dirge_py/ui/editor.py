"""Writing in `$VISUAL` or `$EDITOR`, with the screen handed over meanwhile."""

import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from dirge_py.processes.programs import run_in_foreground
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


async def edit_in_editor(app: "DirgeApp", text: str) -> str | None:
    """What the person made of `text`; None if they left it as it was. A run goes on meanwhile.

    Raises:
        ProcessError: there is no editor, it failed, or this terminal cannot be handed over. What
            was written with an editor that failed stays in a file, which the hint names.
    """
    edited = await _edit(app, text.encode("utf-8", "replace"), suffix=".md")
    shown = edited.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    return shown if shown != text else None


async def edit_file_text(app: "DirgeApp", text: str, path: str) -> str | None:
    """What the person made of the text of a file, byte for byte; None if they left it as it was.

    The editor is given a copy that only they can read, named as files of its kind are.

    Raises:
        ProcessError: as above, or what the editor left is not UTF-8.
    """
    suffix = Path(path).suffix
    is_plain = suffix.isascii() and suffix[1:].isalnum()
    try:
        edited = await _edit(app, text.encode(), suffix=suffix if is_plain else ".txt")
        shown = edited.decode()
    except UnicodeError as error:
        raise ProcessError("The text is not UTF-8; nothing was taken.") from error
    return shown if shown != text else None


async def _edit(app: "DirgeApp", text: bytes, *, suffix: str) -> bytes:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise ProcessError(f"{editor!r} is no command: {error}.") from error
    draft = write_draft(text, suffix)
    try:
        code = await hand_over(app, [*command, str(draft)])
        edited = draft.read_bytes()
    except OSError as error:
        raise ProcessError(f"{editor} left no text behind: {error.strerror}.") from error
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if code == 0 or edited == text:
        draft.unlink(missing_ok=True)
    if code != 0:
        kept = "Nothing was changed." if edited == text else f"What it wrote is in {draft}."
        raise ProcessError(f"{editor} ended with exit code {code}.", hint=kept)
    return edited


def write_draft(text: bytes, suffix: str) -> Path:
    """A file of its own that only the person reads, for another program to open."""
    descriptor, name = tempfile.mkstemp(prefix="dirge-", suffix=suffix)
    with os.fdopen(descriptor, "wb") as draft:
        draft.write(text)
    return Path(name)


async def hand_over(app: "DirgeApp", command: list[str]) -> int:
    """Run a program that takes over the screen; returns its exit code. Raises ProcessError."""
    # Drawing waits, Ctrl+C is the editor's: the screen is not ours until it ends.
    app.is_handed_over = True
    try:
        with app.batch_update(), app.suspend():
            return await run_in_foreground(command)
    except SuspendNotSupported as error:
        raise ProcessError("this terminal cannot be handed to another program.") from error
    finally:
        await app.take_back()
