"""What a person typed that is no message: their draft, the queue of a busy conversation, a name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.prompt_history import PromptHistory
from dirge_py.session.recorder import Recorder
from dirge_py.session.unsent_file import Typed, UnsentFile
from dirge_py.types.errors import DirgeError
from dirge_py.types.messages import UserMessage

Kind = Literal["steering", "follow_up"]

MOST_DRAFT_CHARS = 100_000
"""A longer draft does not go into the journal: it would be written again at every pause."""


class Unsent:
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
        self._beside: UnsentFile | None = None
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
            self._beside = UnsentFile(folder, redact)

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
        stored = text if len(text) <= MOST_DRAFT_CHARS else ""
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

    def keep_queue(self, waiting: Iterable[tuple[Kind, UserMessage]]) -> None:
        stored = as_stored(waiting) if self._recorder is not None else ()
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
        is_long = len(self.draft) > MOST_DRAFT_CHARS
        draft = self.draft if is_long or not self._has_begun else ""
        stash = () if self._has_begun else tuple(self.stash)
        self._beside.keep(Typed(draft=draft, stash=stash, session=self._beside_of))

    def _note_stash(self, recorder: Recorder) -> None:
        short = [text for text in self.stash if len(text) <= MOST_DRAFT_CHARS]
        recorder.note_setting("stash", short)

    def _keep_title(self) -> None:
        # The session's own first title comes with its first message, and would cover it.
        if self._title and self._has_begun and self._recorder is not None:
            self._recorder.note("title", {"title": self._title}, sync=True)
            self._title = ""


def as_stored(waiting: Iterable[tuple[Kind, UserMessage]]) -> list[dict[str, Any]]:
    """The queue as JSON values, oldest first."""
    return [{"kind": kind, "message": encode_message(message)} for kind, message in waiting]


def stored_queue(value: Any) -> list[tuple[Kind, UserMessage]]:
    """What `as_stored` gave once; what is none of it is left out."""
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    found: list[tuple[Kind, UserMessage]] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("kind") not in ("steering", "follow_up"):
            continue
        try:
            message = decode_message(entry.get("message"))
        except ValueError:
            continue
        if isinstance(message, UserMessage):
            found.append((cast(Kind, entry["kind"]), message))
    return found


def stored_draft(value: Any) -> str:
    return value if isinstance(value, str) else ""


def stored_stash(value: Any) -> list[str]:
    """The drafts put aside, as `note_setting` had them."""
    texts = value if isinstance(value, list) else ()
    return [text for text in texts if isinstance(text, str)]
