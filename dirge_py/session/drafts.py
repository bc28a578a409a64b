"""What a person typed that is no message yet: drafts, the queue, a new title, earlier prompts.

The journal takes what it can. A draft without a session, or one too long for a journal, goes into a
file beside it; the prompts of a project go into a file that all its sessions share.
"""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from dirge_py.files.atomic import write_all
from dirge_py.lib.file_lock import hold_lock
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import APPEND_FLAGS, READ_FLAGS, make_folders, open_regular
from dirge_py.types.errors import DirgeError, SessionError
from dirge_py.types.messages import UserMessage

QueueKind = Literal["steering", "follow_up"]
MAX_DRAFT_CHARS = 100_000
"""A longer draft does not go into the journal: it would be written again at every pause."""


class SessionDrafts:
    """Keeps it in the session's journal, each time it changes; not before something was said.

    `has_begun`: the session has messages. Without a recorder nothing is kept. What the journal does
    not take is kept in a file beside it, if `keep_beside` named a folder.
    """

    def __init__(self, recorder: Recorder | None, *, has_begun: bool) -> None:
        self._recorder = recorder
        self._has_begun = has_begun
        self._queue: Sequence[Any] = ()
        self._title = ""
        self._in_journal: str | None = None
        self._beside: DraftFile | None = None
        self.draft = ""
        """What stood in the input when it was last kept."""
        self.stash: Sequence[str] = ()
        """Drafts that were put aside, the last one on top."""
        self.prompts: PromptHistory | None = None
        """What was sent in this project, also in other sessions; None where that is not kept."""

    @property
    def is_kept(self) -> bool:
        """Whether what is typed is kept with the session, so that it comes back with it."""
        return self._recorder is not None and self._has_begun

    def keep_beside(self, folder: Path, redact: Callable[[str], str]) -> None:
        """Keep earlier prompts in this folder, and what the journal does not take.

        `redact` takes secrets out.
        """
        if self._recorder is not None:
            self.prompts = PromptHistory(folder / "prompts.jsonl", redact)
            self._beside = DraftFile(folder, redact)

    def take_over(self) -> None:
        """What processes that are gone left beside the journal of this session is ours now.

        For whoever shows a draft: it would be lost on others.
        """
        if self._beside is None:
            return
        if self._in_journal is None:
            self._in_journal = self.draft
        left = self._beside.take_over(self._beside_of)
        self.draft = left.draft or self.draft
        self.stash = [*self.stash, *left.stash]

    def keep_draft(self, text: str) -> None:
        if self._recorder is None or not (self._has_begun or self._beside):
            return
        # Before it was kept for the first time, it is what the journal had.
        before = self.draft if self._in_journal is None else self._in_journal
        self.draft = text
        self._keep_beside()
        stored = text if len(text) <= MAX_DRAFT_CHARS else ""
        if self._has_begun and stored != before:
            self._in_journal = stored
            self._recorder.note_setting("draft", stored)

    def keep_stash(self, texts: Sequence[str]) -> None:
        """Keep the drafts that were put aside; the long ones of them not beyond this process."""
        is_kept = self._has_begun or self._beside is not None
        if self._recorder is None or not is_kept or list(texts) == list(self.stash):
            return
        self.stash = list(texts)
        self._keep_beside()
        if self._has_begun:
            self._note_stash(self._recorder)

    def let_go(self) -> None:
        """What is typed goes on elsewhere."""
        if self._beside is not None:
            (self._beside.close if self._has_begun else self._beside.clear)()

    def keep_queue(self, waiting: Iterable[tuple[QueueKind, UserMessage]]) -> None:
        stored = encode_queue(waiting) if self._recorder is not None else ()
        if self._recorder is not None and self._has_begun and list(stored) != list(self._queue):
            self._queue = stored
            self._recorder.note_setting("queue", stored)

    def rename(self, title: str) -> str:
        """The name as it is kept, on one line. Raises DirgeError: it is empty, nothing is kept."""
        name = " ".join(title.split())
        if not name:
            raise DirgeError("a session needs a name.", hint="/rename NAME")
        if self._recorder is None:
            raise DirgeError("this conversation keeps no session, so there is nothing to name.")
        self._title = name
        self._keep_title()
        return name

    @property
    def title(self) -> str:
        """What the session is called by now; "" if it has no name, or keeps nothing."""
        if self._title or self._recorder is None:
            return self._title
        named = [r.data for r in self._recorder.records() if r.type == "title"]
        newest = named[-1].get("title") if named and isinstance(named[-1], Mapping) else ""
        return newest if isinstance(newest, str) else ""

    def close(self) -> None:
        """Nothing more is typed; what was stays for the next start."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None

    def message_came(self) -> None:
        """There is a message now: what waited for one can be kept."""
        is_first, self._has_begun = not self._has_begun, True
        self._keep_title()
        if is_first and self.stash and self._recorder is not None:
            self._note_stash(self._recorder)
            self._keep_beside()

    @property
    def _beside_of(self) -> str:
        return self._recorder.session_id if self._recorder and self._has_begun else ""

    def _keep_beside(self) -> None:
        """Beside the journal is only what it does not take."""
        if self._beside is None:
            return
        is_long = len(self.draft) > MAX_DRAFT_CHARS
        draft = self.draft if is_long or not self._has_begun else ""
        stash = () if self._has_begun else tuple(self.stash)
        self._beside.keep(DraftState(draft=draft, stash=stash, session=self._beside_of))

    def _note_stash(self, recorder: Recorder) -> None:
        short = [text for text in self.stash if len(text) <= MAX_DRAFT_CHARS]
        recorder.note_setting("stash", short)

    def _keep_title(self) -> None:
        # The session's own first title comes with its first message, and would cover it.
        if self._title and self._has_begun and self._recorder is not None:
            self._recorder.note("title", {"title": self._title}, sync=True)
            self._title = ""


def encode_queue(waiting: Iterable[tuple[QueueKind, UserMessage]]) -> list[dict[str, Any]]:
    """The queue as JSON values, oldest first."""
    return [{"kind": kind, "message": encode_message(message)} for kind, message in waiting]


def decode_queue(value: Any) -> list[tuple[QueueKind, UserMessage]]:
    """What `encode_queue` gave once; what is none of it is left out."""
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    found: list[tuple[QueueKind, UserMessage]] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("kind") not in ("steering", "follow_up"):
            continue
        try:
            message = decode_message(entry.get("message"))
        except ValueError:
            continue
        if isinstance(message, UserMessage):
            found.append((cast(QueueKind, entry["kind"]), message))
    return found


def decode_draft(value: Any) -> str:
    return value if isinstance(value, str) else ""


def decode_stash(value: Any) -> list[str]:
    """The drafts put aside, as `note_setting` had them."""
    texts = value if isinstance(value, list) else ()
    return [text for text in texts if isinstance(text, str)]


_DRAFT_ENDING = ".unsent"
_MAX_FILE_BYTES = 8_388_608
"""A file that grew beyond is begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """A draft and those put aside, the last one on top. `session`: "" for one not begun."""

    draft: str = ""
    stash: tuple[str, ...] = ()
    session: str = ""


class DraftFile:
    """A file of this process: each state is a line, the last whole one counts.

    The kernel holds its lock as long as we live, so that others know when to take over what is in
    it. What cannot be written is not kept. `redact` is applied to every text.
    """

    def __init__(self, folder: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._folder = folder
        self._redact = redact
        self._path: Path | None = None
        self._fd = -1
        self._kept = DraftState()

    def keep(self, typed: DraftState) -> None:
        """Write it down; nothing typed leaves no file."""
        if not (typed.draft or typed.stash):
            self.clear()
        elif typed != self._kept:
            with contextlib.suppress(OSError):
                self._write(typed)
                self._kept = typed

    def clear(self) -> None:
        """Remove the file: what was in it is elsewhere, or nowhere."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self.close()

    def close(self) -> None:
        """Leave the file to whoever comes next."""
        if self._path is not None:
            os.close(self._fd)
        self._path, self._kept = None, DraftState()

    def take_over(self, session: str) -> DraftState:
        """What processes that are gone have left for this session, which is ours from now on.

        Of several drafts the newest is the draft, the others are put on the stash.
        """
        with contextlib.ExitStack() as held:
            left = {
                path: typed
                for path in self._oldest_first()
                if (typed := _take_abandoned(path, session, held)) is not None
            }
            drafts = [typed.draft for typed in left.values() if typed.draft]
            stash = [text for typed in left.values() for text in typed.stash]
            found = DraftState(
                draft=drafts[-1] if drafts else "", stash=(*drafts[:-1], *stash), session=session
            )
            self.keep(found)
            if self._kept == found or not (found.draft or found.stash):
                # Not before it is written down here.
                for path in left:
                    with contextlib.suppress(OSError):
                        path.unlink()
        return found

    def _oldest_first(self) -> list[Path]:
        with contextlib.suppress(OSError):
            paths = [path for path in self._folder.glob(f"*{_DRAFT_ENDING}") if path != self._path]
            return sorted(paths, key=lambda path: path.lstat().st_mtime)
        return []

    def _write(self, typed: DraftState) -> None:
        state = {
            "session": typed.session,
            "draft": _encodable(self._redact(typed.draft)),
            "stash": [_encodable(self._redact(text)) for text in typed.stash],
        }
        line = b"\n" + json.dumps(state, ensure_ascii=False).encode() + b"\n"
        before = self._path, self._fd
        if self._path is None or os.fstat(self._fd).st_size + len(line) > _MAX_FILE_BYTES:
            self._begin()
        write_all(self._fd, line)
        if before[0] is not None and before[0] != self._path:
            before[0].unlink()
            os.close(before[1])

    def _begin(self) -> None:
        make_folders(self._folder)
        path = self._folder / f"{secrets.token_hex(8)}{_DRAFT_ENDING}"
        fd = os.open(path, APPEND_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path, self._fd = path, fd


def _take_abandoned(path: Path, session: str, held: contextlib.ExitStack) -> DraftState | None:
    """What is in the file of a process that is gone; `held` keeps it locked."""
    try:
        fd = open_regular(path, APPEND_FLAGS)
    except SessionError:
        return None
    file = held.enter_context(os.fdopen(fd, "rb"))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None  # It is alive.
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
"""A file that would grow beyond is put aside, in the place of the one put aside before."""
_LOCK_TIMEOUT_S = 0.5


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
            return [*_read_prompts(self._before), *_read_prompts(self._path)][-MAX_PROMPTS:]
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
        with hold_lock(self._lock, _LOCK_TIMEOUT_S):
            yield

    def _make_room(self, needed: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.lstat().st_size + needed > MAX_HISTORY_BYTES:
                self._path.replace(self._before)

    def _append(self, line: bytes) -> None:
        fd = os.open(self._path, APPEND_FLAGS | os.O_CREAT, 0o600)
        try:
            size = os.fstat(fd).st_size
            is_torn = size and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, b"\n" + line if is_torn else line)
        finally:
            os.close(fd)


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
