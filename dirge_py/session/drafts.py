"""What a person typed that is no message yet: drafts, the queue, a new title, earlier prompts.

The journal takes what it can. A draft without a session, or one too long for a journal, goes into a
file beside it; the prompts of a project go into a file that all its sessions share.
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
from dirge_py.lib.file_lock import hold_lock, try_lock
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.record import text_member
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import APPEND_FLAGS, READ_FLAGS, make_folders, open_regular
from dirge_py.types.errors import DirgeError, SessionError
from dirge_py.types.messages import UserMessage

QueueKind = Literal["steering", "follow_up"]
MAX_DRAFT_CHARS = 100_000
"""A longer draft does not go into the journal: it would be written again at every pause."""


class SessionDrafts:
    """Stores what was typed in the session's journal, each time it changes.

    Nothing goes there before something was said (`has_begun`: the session has messages), and
    nothing at all without a recorder. What the journal does not take is stored in a file beside it,
    if `set_folder` named a folder.
    """

    def __init__(self, recorder: Recorder | None, *, has_begun: bool) -> None:
        self._recorder = recorder
        self._has_begun = has_begun
        self._queue: Sequence[Any] = ()
        self._title = ""
        self._in_journal: str | None = None
        self._file: DraftFile | None = None
        self.draft = ""
        """What stood in the input when it was last saved."""
        self.stash: Sequence[str] = ()
        """Drafts that were put aside, the last one on top."""
        self.prompts: PromptHistory | None = None
        """What was sent in this project, also in other sessions; None where that is not stored."""

    @property
    def is_stored(self) -> bool:
        """Whether what is typed is stored with the session, so that it comes back with it."""
        return self._recorder is not None and self._has_begun

    def set_folder(self, folder: Path, redact: Callable[[str], str]) -> None:
        """Store earlier prompts in this folder, and what the journal does not take.

        `redact` takes secrets out.
        """
        if self._recorder is not None:
            self.prompts = PromptHistory(folder / "prompts.jsonl", redact)
            self._file = DraftFile(folder, redact)

    def adopt_abandoned(self) -> None:
        """Take over what processes that are gone left beside the journal of this session.

        Only for a front end that shows a draft: with others it would be lost.
        """
        if self._file is None:
            return
        if self._in_journal is None:
            self._in_journal = self.draft
        left = self._file.adopt_abandoned(self._session_begun)
        self.draft = left.draft or self.draft
        self.stash = [*self.stash, *left.stash]

    def save_draft(self, text: str) -> None:
        """Store what stands in the input now."""
        if self._recorder is None or not (self._has_begun or self._file):
            return
        # Before it was stored for the first time, it is what the journal had.
        before = self.draft if self._in_journal is None else self._in_journal
        self.draft = text
        self._save_file()
        stored = text if len(text) <= MAX_DRAFT_CHARS else ""
        if self._has_begun and stored != before:
            self._in_journal = stored
            self._recorder.note_setting("draft", stored)

    def save_stash(self, texts: Sequence[str]) -> None:
        """Store the drafts that were put aside; the long ones of them not beyond this process."""
        is_stored = self._recorder is not None and (self._has_begun or self._file is not None)
        if not is_stored or list(texts) == list(self.stash):
            return
        self.stash = list(texts)
        self._save_file()
        self._note_stash()

    def release(self) -> None:
        """What is typed continues in another conversation."""
        if self._file is not None:
            (self._file.close if self._has_begun else self._file.clear)()

    def save_queue(self, waiting: Iterable[tuple[QueueKind, UserMessage]]) -> None:
        """Store the messages that wait to be sent."""
        stored = encode_queue(waiting) if self._recorder is not None else ()
        if self._recorder is not None and self._has_begun and list(stored) != list(self._queue):
            self._queue = stored
            self._recorder.note_setting("queue", stored)

    def rename(self, title: str) -> str:
        """The name as it is stored, on one line. Raises DirgeError: empty, or nothing is stored."""
        name = " ".join(title.split())
        if not name:
            raise DirgeError("a session needs a name.", hint="/rename NAME")
        if self._recorder is None:
            raise DirgeError("this conversation keeps no session, so there is nothing to name.")
        self._title = name
        self._save_title()
        return name

    @property
    def title(self) -> str:
        """What the session is called by now; "" if it has no name, or nothing is stored."""
        if self._title or self._recorder is None:
            return self._title
        titles = [record.data for record in self._recorder.records() if record.type == "title"]
        return text_member(titles[-1], "title") if titles else ""

    def close(self) -> None:
        """Stop storing what is typed; what was typed stays for the next start."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_message(self) -> None:
        """Store what waited for the first message; the session has one now."""
        is_first, self._has_begun = not self._has_begun, True
        self._save_title()
        if is_first and self.stash and self._recorder is not None:
            self._note_stash()
            self._save_file()

    @property
    def _session_begun(self) -> str:
        return self._recorder.session_id if self._recorder and self._has_begun else ""

    def _save_file(self) -> None:
        """Store in the file what the journal does not take."""
        if self._file is None:
            return
        is_long = len(self.draft) > MAX_DRAFT_CHARS
        draft = self.draft if is_long or not self._has_begun else ""
        stash = () if self._has_begun else tuple(self.stash)
        self._file.save(DraftState(draft=draft, stash=stash, session=self._session_begun))

    def _note_stash(self) -> None:
        if self._has_begun and self._recorder is not None:
            short = [text for text in self.stash if len(text) <= MAX_DRAFT_CHARS]
            self._recorder.note_setting("stash", short)

    def _save_title(self) -> None:
        # The session's own first title comes with its first message, and would cover it.
        if self._title and self._has_begun and self._recorder is not None:
            self._recorder.note("title", {"title": self._title}, sync=True)
            self._title = ""


def encode_queue(waiting: Iterable[tuple[QueueKind, UserMessage]]) -> list[dict[str, Any]]:
    """The queue as JSON values, oldest first."""
    return [{"kind": kind, "message": encode_message(message)} for kind, message in waiting]


def decode_queue(value: Any) -> list[tuple[QueueKind, UserMessage]]:
    """The queue that `encode_queue` encoded; what is no message of one is left out."""
    found: list[tuple[QueueKind, UserMessage]] = []
    for entry in value if isinstance(value, list | tuple) else ():
        kind = text_member(entry, "kind")
        with contextlib.suppress(ValueError):
            message = decode_message(entry.get("message")) if kind in get_args(QueueKind) else None
            if isinstance(message, UserMessage):
                found.append((cast(QueueKind, kind), message))
    return found


def decode_draft(value: Any) -> str:
    return value if isinstance(value, str) else ""


def decode_stash(value: Any) -> list[str]:
    """The drafts that were put aside, from their setting."""
    texts = value if isinstance(value, list) else ()
    return [text for text in texts if isinstance(text, str)]


_DRAFT_ENDING = ".unsent"
_MAX_FILE_BYTES = 8_388_608
"""A file that grew beyond is begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """What was typed at one moment."""

    draft: str = ""
    """What stood in the input."""
    stash: tuple[str, ...] = ()
    """The drafts that were put aside, the last one on top."""
    session: str = ""
    """The session it belongs to; "" for one not begun."""


class DraftFile:
    """A file of this process: each state is a line, the last whole one counts.

    The kernel holds its lock as long as the process lives, so that others know when to adopt what
    is in it. What cannot be written is lost. `redact` is applied to every text.
    """

    def __init__(self, folder: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._folder = folder
        self._redact = redact
        self._path: Path | None = None
        self._fd = -1
        self._saved = DraftState()

    def save(self, typed: DraftState) -> None:
        """Write the state; nothing typed leaves no file."""
        if not (typed.draft or typed.stash):
            self.clear()
        elif typed != self._saved:
            with contextlib.suppress(OSError):
                self._write(typed)
                self._saved = typed

    def clear(self) -> None:
        """Remove the file: what was in it is elsewhere, or nowhere."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self.close()

    def close(self) -> None:
        """Leave the file to the process that comes next."""
        if self._path is not None:
            os.close(self._fd)
        self._path, self._saved = None, DraftState()

    def adopt_abandoned(self, session: str) -> DraftState:
        """What processes that are gone have left for this session, which is ours from now on.

        Of several drafts the newest is the draft, the others are put on the stash.
        """
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
                # Not before it is written down here.
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
    """What is in the file of a process that is gone; `locks` keeps it locked."""
    try:
        fd = open_regular(path, APPEND_FLAGS)
        file = locks.enter_context(os.fdopen(fd, "rb"))
        if not try_lock(fd):
            return None  # Its process lives.
    except (OSError, SessionError):
        return None
    typed = next(_decode_states(file.read(2 * _MAX_FILE_BYTES)), DraftState())
    return None if typed.session != session and (typed.draft or typed.stash) else typed


def _decode_states(content: bytes) -> Iterator[DraftState]:
    """The states that can be read, the newest first."""
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
"""As many of the newest are loaded."""
MAX_HISTORY_BYTES = 4_194_304
"""A file that would grow beyond replaces the one of earlier prompts."""
_LOCK_TIMEOUT_S = 0.5


class PromptHistory:
    """A file of JSON lines, only added to; closed to others, secrets taken out by `redact`.

    Several processes may add at the same time. What cannot be written or read is left out: a
    missing prompt must not stop anybody's work.
    """

    def __init__(self, path: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._path = path
        self._before = path.with_suffix(".before" + path.suffix)
        self._lock = path.with_suffix(".lock")
        self._redact = redact

    def load(self) -> list[str]:
        """The newest prompts, oldest first; lines that are damaged are skipped."""
        with contextlib.suppress(OSError), self._locked():
            return [*_read_prompts(self._before), *_read_prompts(self._path)][-MAX_PROMPTS:]
        return []

    def add(self, text: str) -> None:
        """Store a prompt of any length, unless it is of spaces only."""
        if not text.strip():
            return
        prompt = _encodable(self._redact(text))
        line = json.dumps({"prompt": prompt}, ensure_ascii=False).encode() + b"\n"
        with contextlib.suppress(OSError), self._locked():
            with contextlib.suppress(FileNotFoundError):
                if self._path.lstat().st_size + len(line) > MAX_HISTORY_BYTES:
                    self._path.replace(self._before)
            fd = os.open(self._path, APPEND_FLAGS | os.O_CREAT, 0o600)
            try:
                size = os.fstat(fd).st_size
                is_torn = size and os.pread(fd, 1, size - 1) != b"\n"
                write_all(fd, b"\n" + line if is_torn else line)
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        make_folders(self._path.parent)
        with hold_lock(self._lock, _LOCK_TIMEOUT_S):
            yield


def _read_prompts(path: Path) -> Iterator[str]:
    try:
        fd = open_regular(path, READ_FLAGS)
    except SessionError:
        return
    with os.fdopen(fd, "rb") as file:
        lines = file.read(2 * MAX_HISTORY_BYTES).splitlines()
    for line in lines:
        try:
            prompt = json.loads(line)["prompt"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(prompt, str) and prompt.strip():
            yield prompt
