"""The prompts of a project, kept from one session to the next."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dirge_py.lib.file_lock import held
from dirge_py.session.disk import APPEND_FLAGS, READ_FLAGS, make_folders, open_regular, write_all
from dirge_py.types.errors import SessionError

MOST_PROMPTS = 500
"""As many of the newest are loaded."""

LARGEST_BYTES = 4_194_304
"""A file that would grow beyond is put aside, in the place of the one put aside before."""

_PATIENCE_S = 0.5


class PromptHistory:
    """A file of JSON lines, only added to; closed to others, secrets taken out by `redact`.

    Several processes may add at the same time. What cannot be written or read is left out: nobody
    is kept from working because an earlier prompt is missing.
    """

    def __init__(self, path: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._path = path
        self._before = path.with_suffix(".before" + path.suffix)
        self._lock = path.with_suffix(".lock")
        self._redact = redact

    def load(self) -> list[str]:
        """The newest prompts, oldest first; lines that are damaged are skipped."""
        with contextlib.suppress(OSError), self._alone():
            return [*_read(self._before), *_read(self._path)][-MOST_PROMPTS:]
        return []

    def add(self, text: str) -> None:
        """Keep a prompt, as long as it may be; one of spaces only is not worth it."""
        if not text.strip():
            return
        text = self._redact(text).encode("utf-8", "replace").decode()
        line = json.dumps({"prompt": text}, ensure_ascii=False).encode() + b"\n"
        with contextlib.suppress(OSError, SessionError), self._alone():
            self._make_room(len(line))
            self._append(line)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        make_folders(self._path.parent)
        with held(self._lock, _PATIENCE_S):
            yield

    def _make_room(self, needed: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.lstat().st_size + needed > LARGEST_BYTES:
                self._path.replace(self._before)

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, APPEND_FLAGS | os.O_CREAT, 0o600)
        try:
            size = os.fstat(fd).st_size
            is_torn = size and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, b"\n" + line if is_torn else line)
        finally:
            os.close(fd)


def _read(path: Path) -> Iterator[str]:
    try:
        fd = open_regular(path, READ_FLAGS)
    except SessionError:
        return
    with os.fdopen(fd, "rb") as file:
        lines = file.read(2 * LARGEST_BYTES).splitlines()
    for line in lines:
        try:
            prompt = json.loads(line)["prompt"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(prompt, str) and prompt.strip():
            yield prompt
