"""A session as it is handed out: its messages with their times, and what is told above them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import Json, encode_message, encode_usage
from dirge_py.session.history import Loaded
from dirge_py.session.record import Record, json_text
from dirge_py.types.messages import Message, Usage

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A session to write out. `times` has one entry per message, "" where it is unknown.

    `messages` are those of the current branch; `records` are the whole journal, all branches.
    """

    id: str
    title: str = ""
    cwd: str = ""
    model: str = ""
    created: str = ""
    updated: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    messages: Sequence[Message] = ()
    times: Sequence[str] = ()
    records: Sequence[Record] = ()

    def timed(self) -> list[tuple[Message, str]]:
        """Each message and when it was recorded."""
        times = [*map(clean, self.times), *[""] * (len(self.messages) - len(self.times))]
        return list(zip(self.messages, times, strict=False))


def document_of(session_id: str, loaded: Loaded, records: Sequence[Record]) -> Document:
    """The document of a session that was read; `records` are those `loaded` was made of."""
    times = {record.id: record.ts for record in records}
    return Document(
        id=session_id,
        title=loaded.title,
        cwd=loaded.cwd,
        model=loaded.model,
        created=loaded.created,
        updated=loaded.updated,
        usage=loaded.usage,
        cost_usd=loaded.cost_usd,
        messages=loaded.messages,
        times=[times.get(record_id, "") for record_id in loaded.record_ids],
        records=records,
    )


def as_json(document: Document) -> str:
    """One JSON object; see docs/cli.md. Everything beyond ASCII is escaped."""
    value: Json = {
        "format": "dirge-session",
        "v": VERSION,
        "id": document.id,
        "title": document.title,
        "cwd": document.cwd,
        "model": document.model,
        "created": document.created,
        "updated": document.updated,
        "usage": encode_usage(document.usage),
        "cost_usd": document.cost_usd,
        "messages": [
            {**encode_message(message), **({"at": at} if at else {})}
            for message, at in document.timed()
        ],
        "records": [_record(record) for record in document.records],
    }
    # By way of `json_text`, which knows what to make of what JSON cannot say.
    return json.dumps(json.loads(json_text(value)), indent=1) + "\n"


def _record(record: Record) -> Mapping[str, Any]:
    return {
        "seq": record.seq,
        "ts": record.ts,
        "type": record.type,
        "id": record.id,
        "parent": record.parent,
        "data": record.data,
    }
