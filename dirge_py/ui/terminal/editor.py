"""The person's editor (`$VISUAL`, `$EDITOR`), `$PAGER`, and opening of files the agent changed."""

import os
import shlex
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

from textual.app import SuspendNotSupported

from dirge_py.lib.text import clean
from dirge_py.processes.programs import find_program, run_in_foreground, start_detached
from dirge_py.types.errors import ProcessError
from dirge_py.ui.terminal.app_base import TerminalApp


async def edit_in_editor(app: TerminalApp, text: str) -> str | None:
    """Edit `text` in the person's editor; return None if it wasn't changed. Raises ProcessError."""
    edited = await _edit(app, text.encode("utf-8", "replace"), suffix=".md")
    shown = edited.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    return shown if shown != text else None


async def edit_file_text(app: TerminalApp, text: str, path: str) -> str | None:
    """Edit a private copy of a file; return None if it wasn't changed. Raises ProcessError."""
    suffix = Path(path).suffix
    is_plain = suffix.isascii() and suffix[1:].isalnum()
    try:
        edited = await _edit(app, text.encode(), suffix=suffix if is_plain else ".txt")
        shown = edited.decode()
    except UnicodeError as error:
        raise ProcessError("The text is not UTF-8, so the change was dropped.") from error
    return shown if shown != text else None


async def _edit(app: TerminalApp, text: bytes, *, suffix: str) -> bytes:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise ProcessError(f"{editor!r} isn't a command: {error}.") from error
    draft = write_draft(text, suffix)
    try:
        code = await hand_over(app, [*command, str(draft)])
        edited = draft.read_bytes()
    except OSError as error:
        raise ProcessError(f"the text from {editor} cannot be read: {error.strerror}.") from error
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if code == 0 or edited == text:
        draft.unlink(missing_ok=True)
    if code != 0:
        hint = "Nothing was changed." if edited == text else f"What it wrote is in {draft}."
        raise ProcessError(f"{editor} ended with exit code {code}.", hint=hint)
    return edited


def write_draft(text: bytes, suffix: str) -> Path:
    """Write a temporary file that only the person can read, for another program to open."""
    descriptor, name = tempfile.mkstemp(prefix="dirge-", suffix=suffix)
    with os.fdopen(descriptor, "wb") as draft:
        draft.write(text)
    return Path(name)


async def hand_over(app: TerminalApp, command: list[str]) -> int:
    """Run a program that takes over the screen; return its exit code. Raises ProcessError."""
    # Until it ends, drawing waits and Ctrl+C is for the program.
    app.is_handed_over = True
    try:
        with app.batch_update(), app.suspend():
            return await run_in_foreground(command)
    except SuspendNotSupported as error:
        raise ProcessError("this terminal cannot be handed to another program.") from error
    finally:
        await app.reclaim_screen()


async def read_in_pager(app: TerminalApp, text: str) -> None:
    """Show `text` in `$PAGER`, else `less`, else `more`. Raises ProcessError."""
    command = pager_command(os.environ.get("PAGER", ""))
    if not command:
        raise ProcessError("No pager was found.", hint="Install less, or set PAGER.")
    page = write_draft(f"{clean(text)}\n".encode("utf-8", "replace"), ".txt")
    try:
        code = await hand_over(app, [*command, str(page)])
    except ProcessError as error:
        raise ProcessError(error.message, hint="Set PAGER to your pager.") from error
    finally:
        page.unlink(missing_ok=True)
    if code != 0:
        raise ProcessError(f"{command[0]} ended with exit code {code}.")


def pager_command(wanted: str) -> list[str]:
    """Return the command of the pager, if there is one; `cat` doesn't wait, so it isn't one."""
    try:
        command = shlex.split(wanted)
    except ValueError as error:
        raise ProcessError(f"{wanted!r} isn't a command: {error}.", hint="Set PAGER.") from error
    if command and os.path.basename(command[0]) != "cat":
        return command
    if find_program("less"):
        return ["less", "-R"]
    return ["more"] if find_program("more") else []


MOST_AT_ONCE = 4
_MOST_WAITING = 64


def editor_command(command: str, path: Path, line: int) -> list[str]:
    """Return the words of `command` with `{path}` and `{line}` filled in. Raises ProcessError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ProcessError(f"[ui] editor_open_command: {error}.") from error
    if not any("{path}" in word for word in words):
        hint = 'Such as "code -g {path}:{line}".'
        raise ProcessError("[ui] editor_open_command has no {path}.", hint=hint)
    # The path comes last, so that a `{line}` in it isn't replaced.
    return [word.replace("{line}", str(line)).replace("{path}", str(path)) for word in words]


class EditorFollower:
    """Opens changed files in up to `MOST_AT_ONCE` programs; stops after the first problem."""

    def __init__(
        self, complain: Callable[[str], object], start: Callable[..., None] = start_detached
    ) -> None:
        self.command = ""
        self._complain = complain
        self._start = start
        self._has_complained = False
        self._running = 0
        self._waiting: deque[tuple[Path, int, Path]] = deque(maxlen=_MOST_WAITING)

    def open(self, path: Path, line: int, *, cwd: Path) -> None:
        """Open this file at this line, now or after another program."""
        if self.command and not self._has_complained and path.is_file():
            self._waiting.append((path, line, cwd))
            self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._running < MOST_AT_ONCE:
            path, line, cwd = self._waiting.popleft()
            try:
                self._start(editor_command(self.command, path, line), cwd=cwd, ended=self._ended)
            except ProcessError as error:
                self._give_up(error.in_one_line())
            else:
                self._running += 1

    def _ended(self, exit_code: int) -> None:
        self._running -= 1
        if exit_code:
            self._give_up(f"[ui] editor_open_command ended with exit code {exit_code}.")
        self._start_waiting()

    def _give_up(self, why: str) -> None:
        self._waiting.clear()
        if not self._has_complained:
            self._has_complained = True
            self._complain(f"{why} dirge opens no more files.")
