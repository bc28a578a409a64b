"""Stores unsent input: drafts, the queue, a new title, and the history of prompts.

Most of it goes into the journal. A draft without a session, or one too long for a journal, goes
into a file beside it; the prompts of a project go into a file that all its sessions share.
"""

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from dirge_py.files.atomic import write_all
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.file_lock import hold_lock, try_lock
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.record import text_member
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import APPEND_FLAGS, make_folders, open_regular
from dirge_py.types.errors import DirgeError, SessionError
from dirge_py.types.messages import UserMessage

QueueKind = Literal["steering", "follow_up"]
MAX_DRAFT_CHARS = 100_000
"""A longer draft doesn't go into the journal, which would store it again at every pause."""


class SessionDrafts:
    """Stores unsent input in the session's journal, each time it changes.

    Before the first message (`has_begun`), input goes into a file in the folder of `set_folder`.
    """

    def __init__(self, recorder: Recorder | None, *, has_begun: bool) -> None:
        self._recorder = recorder
        self._has_begun = has_begun
        self._queue: list[dict[str, Any]] = []
        self._title = ""
        self._in_journal: str | None = None
        self._file: DraftFile | None = None
        self.draft = ""
        """The content of the input when it was last saved."""
        self.stash: Sequence[str] = ()
        """The stashed drafts, the newest last."""
        self.prompts: PromptHistory | None = None
        """The prompts of this project, of all sessions; None if they aren't stored."""

    @property
    def is_stored(self) -> bool:
        """Whether unsent input is stored with the session, and restored when it is resumed."""
        return self._begun is not None

    @property
    def _begun(self) -> Recorder | None:
        """The recorder, once the session has a message."""
        return self._recorder if self._has_begun else None

    def set_folder(self, folder: Path, redact: Callable[[str], str]) -> None:
        """Store prompts, and drafts that stay out of the journal, in this folder after `redact`."""
        if self._recorder is not None:
            self.prompts = PromptHistory(folder / "prompts.jsonl", redact)
            self._file = DraftFile(folder, redact)

    def adopt_abandoned(self) -> None:
        """Adopt the draft files of ended processes, in a front end that shows drafts."""
        if self._file is None:
            return
        if self._in_journal is None:
            self._in_journal = self.draft
        left = self._file.adopt_abandoned(self._begun.session_id if self._begun else "")
        self.draft = left.draft or self.draft
        self.stash = [*self.stash, *left.stash]

    def save_draft(self, text: str) -> None:
        """Store the content of the input."""
        if self._begun is None and self._file is None:
            return
        # Until it is stored for the first time, the draft is the one in the journal.
        before = self.draft if self._in_journal is None else self._in_journal
        self.draft = text
        self._save_file()
        stored = text if len(text) <= MAX_DRAFT_CHARS else ""
        if self._begun is not None and stored != before:
            self._in_journal = stored
            self._begun.note_setting("draft", stored)

    def save_stash(self, texts: Sequence[str]) -> None:
        """Store the stashed drafts; very long ones last only as long as this process."""
        if (self._begun is None and self._file is None) or list(texts) == list(self.stash):
            return
        self.stash = list(texts)
        self._save_file()
        self._note_stash()

    def release(self) -> None:
        """Stop storing: the input moves to another conversation."""
        if self._file is not None:
            (self._file.close if self._has_begun else self._file.clear)()

    def save_queue(self, waiting: Iterable[tuple[QueueKind, UserMessage]]) -> None:
        """Store the messages that wait to be sent."""
        if self._begun is not None and (stored := encode_queue(waiting)) != self._queue:
            self._queue = stored
            self._begun.note_setting("queue", stored)

    def rename(self, title: str) -> str:
        """Store a new title; returns it on one line. Raises DirgeError: empty, or not stored."""
        name = " ".join(title.split())
        if not name:
            raise DirgeError("a session needs a name.", hint="/rename NAME")
        if self._recorder is None:
            raise DirgeError("this session isn't stored, so you cannot rename it.")
        self._title = name
        self._save_title()
        return name

    @property
    def title(self) -> str:
        """The title of the session; "" if it has none, or isn't stored."""
        if self._title or self._recorder is None:
            return self._title
        titles = [record.data for record in self._recorder.records() if record.type == "title"]
        return text_member(titles[-1], "title") if titles else ""

    def close(self) -> None:
        """Stop storing; the stored input stays for the next start."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_message(self) -> None:
        """Store the input in the journal, now that the session has a message."""
        is_first, self._has_begun = not self._has_begun, True
        self._save_title()
        if is_first and self.stash:
            self._note_stash()
            self._save_file()

    def _save_file(self) -> None:
        """Store in the file what doesn't go into the journal."""
        if self._file is None:
            return
        if self._begun is None:
            self._file.save(DraftState(draft=self.draft, stash=tuple(self.stash)))
        else:
            long_draft = self.draft if len(self.draft) > MAX_DRAFT_CHARS else ""
            self._file.save(DraftState(draft=long_draft, session=self._begun.session_id))

    def _note_stash(self) -> None:
        if self._begun is not None:
            short = [text for text in self.stash if len(text) <= MAX_DRAFT_CHARS]
            self._begun.note_setting("stash", short)

    def _save_title(self) -> None:
        # The automatic title comes with the first message, and would replace this one.
        if self._title and self._begun is not None:
            self._begun.note("title", {"title": self._title}, sync=True)
            self._title = ""


def encode_queue(waiting: Iterable[tuple[QueueKind, UserMessage]]) -> list[dict[str, Any]]:
    """The queue as JSON values, oldest first."""
    return [{"kind": kind, "message": encode_message(message)} for kind, message in waiting]


def decode_queue(value: Any) -> list[tuple[QueueKind, UserMessage]]:
    """The queue that `encode_queue` encoded, without invalid messages."""
    queue: list[tuple[QueueKind, UserMessage]] = []
    for entry in value if isinstance(value, list | tuple) else ():
        kind = text_member(entry, "kind")
        with contextlib.suppress(ValueError):
            message = decode_message(entry.get("message")) if kind in get_args(QueueKind) else None
            if isinstance(message, UserMessage):
                queue.append((cast(QueueKind, kind), message))
    return queue


_DRAFT_ENDING = ".unsent"
_MAX_FILE_BYTES = 8_388_608
"""A larger draft file is rewritten from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """The unsent input at one moment."""

    draft: str = ""
    """The content of the input."""
    stash: tuple[str, ...] = ()
    """The stashed drafts, the newest last."""
    session: str = ""
    """The id of its session; "" if that hasn't begun."""


class DraftFile:
    """The draft file of this process: one state per line, of which the last whole one counts.

    The process holds a lock on it, so that others adopt it only when it ended. Errors of writing
    are ignored. `redact` is applied to every text.
    """

    def __init__(self, folder: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._folder = folder
        self._redact = redact
        self._path: Path | None = None
        self._fd = -1
        self._saved = DraftState()

    def save(self, typed: DraftState) -> None:
        """Write the state; removes the file if there is no input."""
        if not (typed.draft or typed.stash):
            self.clear()
        elif typed != self._saved:
            with contextlib.suppress(OSError):
                self._write(typed)
                self._saved = typed

    def clear(self) -> None:
        """Remove the file."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file, which a later process may adopt."""
        if self._path is not None:
            os.close(self._fd)
        self._path, self._saved = None, DraftState()

    def adopt_abandoned(self, session: str) -> DraftState:
        """Take over the input that ended processes left: the newest draft, others as stash."""
        oldest_first: list[Path] = []
        with contextlib.suppress(OSError):
            paths = [path for path in self._folder.glob(f"*{_DRAFT_ENDING}") if path != self._path]
            oldest_first = sorted(paths, key=lambda path: path.lstat().st_mtime)
        with contextlib.ExitStack() as locks:
            left = {
                path: typed
                for path in oldest_first
                if (typed := _read_abandoned(path, session, locks)) is not None
            }
            drafts = [typed.draft for typed in left.values() if typed.draft]
            stash = [text for typed in left.values() for text in typed.stash]
            found = DraftState(
                draft=drafts[-1] if drafts else "", stash=(*drafts[:-1], *stash), session=session
            )
            self.save(found)
            if self._saved == found or not (found.draft or found.stash):
                # Remove the others only once this file holds their drafts.
                for path in left:
                    with contextlib.suppress(OSError):
                        path.unlink()
        return found

    def _write(self, typed: DraftState) -> None:
        state = {
            "session": typed.session,
            "draft": _encodable(self._redact(typed.draft)),
            "stash": [_encodable(self._redact(text)) for text in typed.stash],
        }
        line = b"\n" + json.dumps(state, ensure_ascii=False).encode() + b"\n"
        before = self._path, self._fd
        if self._path is None or os.fstat(self._fd).st_size + len(line) > _MAX_FILE_BYTES:
            make_folders(self._folder)
            path = self._folder / f"{secrets.token_hex(8)}{_DRAFT_ENDING}"
            fd = os.open(path, APPEND_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            if not try_lock(fd):
                # Another process looks whether it is abandoned, and removes it as it is empty.
                os.close(fd)
                raise OSError(errno.EBUSY, "another process reads it")
            self._path, self._fd = path, fd
        write_all(self._fd, line)
        if before[0] is not None and before[0] != self._path:
            before[0].unlink()
            os.close(before[1])


def _read_abandoned(path: Path, session: str, locks: contextlib.ExitStack) -> DraftState | None:
    """The state in an ended process's file, which `locks` keeps locked; None if it still runs."""
    try:
        fd = open_regular(path, APPEND_FLAGS)
        file = locks.enter_context(os.fdopen(fd, "rb"))
        if not try_lock(fd):
            return None  # Its process still runs.
    except (OSError, SessionError):
        return None
    typed = next(_decode_states(file.read(2 * _MAX_FILE_BYTES)), DraftState())
    return None if typed.session != session and (typed.draft or typed.stash) else typed


def _decode_states(content: bytes) -> Iterator[DraftState]:
    """The readable states, the newest first."""
    for line in reversed(content.splitlines()):
        try:
            state: Any = json.loads(line)
            texts = [state["draft"], state["session"], *state["stash"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if all(isinstance(text, str) for text in texts):
            yield DraftState(draft=texts[0], session=texts[1], stash=tuple(texts[2:]))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


MAX_PROMPTS = 500
"""How many of the newest prompts are loaded."""
MAX_HISTORY_BYTES = 4_194_304
"""The size at which the file is rotated; only one earlier file is kept."""
_LOCK_TIMEOUT_S = 0.5


class PromptHistory:
    """The history of prompts: an append-only file of JSON lines, private to its owner.

    `redact` removes secrets. Several processes may append. Errors are ignored.
    """

    def __init__(self, path: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._path = path
        self._before = path.with_suffix(".before" + path.suffix)
        self._lock = path.with_suffix(".lock")
        self._redact = redact

    def load(self) -> list[str]:
        """The newest prompts, oldest first, without damaged lines."""
        with contextlib.suppress(OSError), self._locked():
            return [*_read_prompts(self._before), *_read_prompts(self._path)][-MAX_PROMPTS:]
        return []

    def add(self, text: str) -> None:
        """Store a prompt of any length, unless it is blank."""
        if not text.strip():
            return
        prompt = _encodable(self._redact(text))
        line = json.dumps({"prompt": prompt}, ensure_ascii=False).encode() + b"\n"
        with contextlib.suppress(OSError), self._locked():
            with contextlib.suppress(FileNotFoundError):
                if self._path.lstat().st_size + len(line) > MAX_HISTORY_BYTES:
                    self._path.replace(self._before)
            with open(os.open(self._path, APPEND_FLAGS | os.O_CREAT, 0o600), "r+b", 0) as file:
                size = os.fstat(file.fileno()).st_size
                is_torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
                write_all(file.fileno(), b"\n" + line if is_torn else line)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        make_folders(self._path.parent)
        with hold_lock(self._lock, _LOCK_TIMEOUT_S):
            yield


def _read_prompts(path: Path) -> Iterator[str]:
    try:
        content = read_regular(path, 2 * MAX_HISTORY_BYTES, follow=False)
    except OSError:
        return
    for line in content.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            prompt = text_member(json.loads(line), "prompt")
            if prompt.strip():
                yield prompt
