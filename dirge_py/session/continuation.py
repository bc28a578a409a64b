"""A run that waits for a decision, as a file: what waits, and whether it can still be decided.

The file is for whoever decides, in whatever program. What is run in the end is what the journal
holds; a file that says anything else, or anything more, is refused.
"""

import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import Json, decode_usage
from dirge_py.session.history import replay
from dirge_py.session.names import check_session_id
from dirge_py.session.record import Record, json_text
from dirge_py.types.errors import FileError, SessionError
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
)

VERSION = 1

_MOST_BYTES = 32 * 1024 * 1024
_TITLE_LENGTH = 80
# Records that move a conversation on. Choices and notices do not: a look at it costs nothing.
_MOVES = frozenset({"message", "tool_started", "context", "branch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Where a run stopped. `calls` are those of its last answer, with `id, name, args, title` each.

    `awaiting` is the call to decide, `completed` are those that have their result, in order; the
    rest comes after. `project` is the folder of sessions it belongs to, `cwd` where it was begun.
    Up to the record `journal_seq` it knows the session; `turn` and `usage` are the session's.
    """

    session_id: str
    project: str = ""
    cwd: str = ""
    journal_seq: int = 0
    turn: int = 0
    usage: Usage = Usage()
    calls: tuple[Mapping[str, Any], ...]
    awaiting: str
    completed: tuple[str, ...] = ()
    description: str = ""

    @property
    def call(self) -> Mapping[str, Any]:
        """The call to decide."""
        return next(call for call in self.calls if call["id"] == self.awaiting)

    def as_json(self) -> Json:
        usage = self.usage
        return {
            "v": VERSION,
            "session_id": self.session_id,
            "project": self.project,
            "cwd": self.cwd,
            "journal_seq": self.journal_seq,
            "turn": self.turn,
            "usage": {
                "input": usage.input,
                "output": usage.output,
                "cache_read": usage.cache_read,
                "cache_write": usage.cache_write,
            },
            "calls": [dict(call) for call in self.calls],
            "awaiting": self.awaiting,
            "completed": list(self.completed),
            "description": self.description,
        }


def title_of_call(call: ToolCallBlock) -> str:
    """The call on one line of at most 80 characters, as `bash: make test`."""
    return _title(call.name, _first_text(call.arguments))


def _title(name: str, text: str) -> str:
    line = f"{name}: {' '.join(text.split())}" if text else name
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"


def _texts(arguments: Any) -> Mapping[str, str]:
    """The arguments that are texts and say something, in their order."""
    named = arguments if isinstance(arguments, Mapping) else {"": arguments}
    return {name: each for name, each in named.items() if isinstance(each, str) and each.strip()}


def _first_text(arguments: Any) -> str:
    """The command, with the folder that it starts in, else the first text that says something."""
    texts = _texts(arguments)
    if "command" in texts and "workdir" in texts:
        return f"({texts['workdir']}) {texts['command']}"
    return texts.get("command") or next(iter(texts.values()), "")


def continuation_at(messages: Sequence[Message], **facts: Any) -> Continuation | None:
    """What the last answer of `messages` waits for, None if nothing; `facts` are further fields."""
    completed: list[str] = []
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            completed.insert(0, message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            return _waiting(message, completed, facts)
        else:
            return None
    return None


def continuation_of(records: Sequence[Record], *, session_id: str, project: str) -> Continuation:
    """What the session told by `records` waits for.

    Raises:
        SessionError: it waits for nothing.
    """
    loaded = replay(records)
    found = continuation_at(loaded.messages) if loaded.open_calls else None
    if found is None:
        raise SessionError(
            f"Session {session_id} waits for no decision.",
            hint=f"`dirge --session {session_id}` goes on in it.",
        )
    told = [record.data for record in records if record.type == "deferred"]
    return Continuation(
        session_id=session_id,
        project=project,
        cwd=loaded.cwd,
        journal_seq=records[-1].seq,
        turn=loaded.turns,
        usage=loaded.usage,
        calls=found.calls,
        awaiting=found.awaiting,
        completed=found.completed,
        description=str(told[-1].get("description", "")) if told else "",
    )


def save_continuation(continuation: Mapping[str, Any], folder: Path) -> Path:
    """Write it to a new file of `folder`, whole and readable by its owner only; returns the path.

    Raises:
        SessionError: it cannot be written.
    """
    name = f"{continuation['session_id']}-{secrets.token_hex(4)}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(folder / name, json_text(dict(continuation)).encode() + b"\n", mode=0o600)
    except (OSError, FileError) as error:
        raise SessionError(
            f"The continuation could not be written to {str(folder)!r}: {error}.",
            hint="Make the state folder writable, or set DIRGE_STATE_DIR.",
        ) from error
    return folder / name


def load_continuation(path: Path) -> Continuation:
    """The continuation in a file.

    Raises:
        SessionError: there is none, it is somebody else's, or no continuation this dirge knows.
    """
    shown = f"The continuation {str(path)!r}"
    try:
        content = _content(path)
    except (OSError, SessionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SessionError(
            f"{shown} cannot be read: {why}.",
            hint="Name the file that the paused run told as `continuation`.",
        ) from error
    try:
        return parse_continuation(json.loads(content, object_pairs_hook=_without_doubles))
    except (ValueError, RecursionError) as error:
        raise SessionError(
            f"{shown} cannot be used: it is cut off, or was never one ({error}).",
            hint="Name the file that the paused run told as `continuation`.",
        ) from error


def parse_continuation(value: Any) -> Continuation:
    """The continuation that a JSON value stands for.

    Raises:
        ValueError: it stands for none.
        SessionError: another version of dirge wrote it.
    """
    if not isinstance(value, Mapping) or type(value.get("v")) is not int:
        raise ValueError("it has no version")
    if value["v"] != VERSION:
        raise SessionError(
            f"The continuation has the format {value['v']}; this dirge reads {VERSION}.",
            hint="Resume it with the dirge that wrote it, or update this one.",
        )
    calls = tuple(_call(call) for call in _listed(value, "calls"))
    awaiting = _told(value, "awaiting", str)
    if awaiting not in [call["id"] for call in calls]:
        raise ValueError(f"the call {awaiting!r} is not among its calls")
    continuation = Continuation(
        session_id=check_session_id(_told(value, "session_id", str)),
        project=_told(value, "project", str),
        cwd=_told(value, "cwd", str),
        journal_seq=_told(value, "journal_seq", int),
        turn=_told(value, "turn", int),
        usage=decode_usage(value.get("usage")),
        calls=calls,
        awaiting=awaiting,
        completed=tuple(map(str, _listed(value, "completed"))),
        description=_told(value, "description", str),
    )
    # What is left out here could still be shown by the program in which somebody decides.
    if continuation.as_json() != value:
        raise ValueError("it has content that dirge did not write")
    return continuation


def check_call(continuation: Continuation, tool_call_id: str) -> None:
    """Raise SessionError unless this is the call that waits."""
    if tool_call_id != continuation.awaiting:
        raise SessionError(
            f"The continuation waits for a decision about {continuation.awaiting!r}, "
            f"not about {tool_call_id!r}.",
            hint="Nothing was run. Decide the call that waits, or leave --tool-call-id out.",
        )


def check_continuation(continuation: Continuation, records: Sequence[Record]) -> None:
    """Raise SessionError unless the session still stands where the continuation left it."""
    name = continuation.session_id
    since = [r for r in records if r.seq > continuation.journal_seq and r.type in _MOVES]
    # Later calls may have the same id: some services begin to count anew in every answer.
    at_once = takewhile(_is_no_word, since)
    if any(_is_about(record, continuation.awaiting) for record in at_once):
        raise SessionError(
            f"The continuation was used already: {continuation.call['title']!r} has been decided.",
            hint=f"`dirge --session {name}` goes on in the session.",
        )
    if since:
        raise SessionError(
            f"The continuation is stale: session {name} has gone on without it.",
            hint="Nothing was run. What waits in it now, if anything, has a file of its own.",
        )
    if not _fits(continuation, records):
        raise SessionError(
            f"The continuation does not fit session {name}: it was changed, or its calls are not "
            "those that wait.",
            hint="Nothing was run. Use the file as it was written.",
        )


def _fits(continuation: Continuation, records: Sequence[Record]) -> bool:
    """Whether the journal tells the same, word for word: a person decides by any of it."""
    known = [record for record in records if record.seq <= continuation.journal_seq]
    try:
        told = continuation_of(
            known, session_id=continuation.session_id, project=continuation.project
        )
    except SessionError:
        return False
    return continuation == told or (
        _waits_since_an_earlier_version(known, told.awaiting)
        and continuation == replace(told, calls=tuple(map(_with_earlier_title, told.calls)))
    )


def _waits_since_an_earlier_version(records: Sequence[Record], call_id: str) -> bool:
    """Whether the call was left to wait before what it would run was recorded with it."""
    return not any(
        record.type == "decision"
        and isinstance(record.data, Mapping)
        and (record.data.get("call_id"), record.data.get("effect")) == (call_id, "defer")
        and "files" in record.data
        for record in records
    )


def _with_earlier_title(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The call titled as earlier versions did: by its first text, whichever that is."""
    return {**call, "title": _title(call["name"], next(iter(_texts(call["args"]).values()), ""))}


def _without_doubles(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Of two members with one name, readers take different ones."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("it has a duplicate key")
    return found


def _is_no_word(record: Record) -> bool:
    """Whether neither a person nor a model said anything with it."""
    is_told = record.type == "message" and isinstance(record.data, Mapping)
    return not is_told or record.data.get("role") not in ("user", "assistant")


def _is_about(record: Record, call_id: str) -> bool:
    """Whether the record tells that the call was run, or answered because somebody decided."""
    match record.type, record.data:
        case "tool_started", {"call_id": str(started)}:
            return started == call_id
        case "message", {"role": "toolResult", "tool_call_id": str(answered), **rest}:
            details = rest.get("details")
            made_up = isinstance(details, Mapping) and details.get("synthetic") == "undecided"
            return answered == call_id and not made_up
        case _:
            return False


def _waiting(
    message: AssistantMessage, completed: Sequence[str], facts: Mapping[str, Any]
) -> Continuation | None:
    waiting = [call.id for call in message.calls if call.id not in completed]
    if not waiting:
        return None
    calls = tuple(
        {"id": c.id, "name": c.name, "args": c.arguments, "title": title_of_call(c)}
        for c in message.calls
    )
    given = {"session_id": "", **facts}
    return Continuation(calls=calls, awaiting=waiting[0], completed=tuple(completed), **given)


def _content(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise SessionError("it is no regular file")
        if status.st_uid != os.geteuid():
            raise SessionError("it belongs to another user")
        if status.st_size > _MOST_BYTES:
            raise SessionError("it is larger than 32 MiB")
        return file.read()


def _call(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or "args" not in value:
        raise ValueError("one of its calls is none")
    names = {name: _told(value, name, str) for name in ("id", "name", "title")}
    return {**names, "args": value["args"]}


def _listed(value: Mapping[str, Any], name: str) -> list[Any]:
    found: list[Any] = _told(value, name, list)
    return found


def _told(value: Mapping[str, Any], name: str, kind: type) -> Any:
    found = value.get(name)
    if type(found) is not kind:
        raise ValueError(f"its {name!r} is missing or wrong")
    return found
