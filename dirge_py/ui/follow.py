"""Opening what the agent changed in the person's own editor, as `editor_open_command` says."""

import shlex
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dirge_py.lib.lazy import late
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.processes.programs import start_detached
else:
    start_detached = late("dirge_py.processes.programs", "start_detached")

MOST_AT_ONCE = 4
_MOST_WAITING = 64


class Start(Protocol):
    """`processes.detached.start_detached`."""

    def __call__(
        self, arguments: Sequence[str], *, cwd: Path, ended: Callable[[int], object]
    ) -> None: ...


def editor_words(command: str, path: Path, line: int) -> list[str]:
    """The words of `command` with `{path}` and `{line}` filled in; no shell reads them.

    Raises:
        ProcessError: it is no command, or has no place for the path.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ProcessError(f"[ui] editor_open_command: {error}.") from error
    if not any("{path}" in word for word in words):
        raise ProcessError(
            "[ui] editor_open_command has no {path}.", hint='Such as "code -g {path}:{line}".'
        )
    # One pass, so that a path with `{line}` in it stays as it is.
    filled = [
        [part.replace("{line}", str(line)) for part in word.split("{path}")] for word in words
    ]
    return [str(path).join(parts) for parts in filled]


class Following:
    """Never more than `MOST_AT_ONCE` programs at a time; what goes wrong is told once."""

    def __init__(self, complain: Callable[[str], object], start: Start = start_detached) -> None:
        self.command = ""
        self._complain = complain
        self._start = start
        self._has_complained = False
        self._running = 0
        self._waiting: deque[tuple[Path, int, Path]] = deque(maxlen=_MOST_WAITING)

    def open(self, path: Path, line: int, *, cwd: Path) -> None:
        """Open this file at this line, now or when there is room."""
        if self.command and not self._has_complained and path.is_file():
            self._waiting.append((path, line, cwd))
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._running < MOST_AT_ONCE:
            path, line, cwd = self._waiting.popleft()
            try:
                words = editor_words(self.command, path, line)
                self._start(words, cwd=cwd, ended=self._ended)
            except ProcessError as error:
                self._give_up(f"{error.message} {error.hint}".strip())
            else:
                self._running += 1

    def _ended(self, exit_code: int) -> None:
        self._running -= 1
        if exit_code:
            self._give_up(f"[ui] editor_open_command ended with exit code {exit_code}.")
        self._go_on()

    def _give_up(self, why: str) -> None:
        self._waiting.clear()
        if not self._has_complained:
            self._has_complained = True
            self._complain(f"{why} No further file is opened.")
