"""What a list of sessions tells of one: gathered record by record, so that it can be carried on."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from dataclasses import dataclass as mutable
from typing import Any

from dirge_py.session.codec import decode_message
from dirge_py.session.history import title_of
from dirge_py.session.record import Record, json_text
from dirge_py.session.spending import Spending
from dirge_py.types.messages import Usage, UserMessage

_LONGEST_WORDS = 200_000
_LONGEST_CALL = 1_000
_LONGEST_RESULT = 1_000
_BLANKS = dict.fromkeys(range(32), " ")


@mutable(slots=True, kw_only=True)
class Tally:
    """The sums and newest choices of the records taken in so far."""

    title: str = ""
    first_prompt: str | None = None
    created: str = ""
    updated: str = ""
    cwd: str = ""
    model: str = ""
    forked_from: str = ""
    messages: int = 0
    spending: Spending = field(default_factory=Spending)
    last_seq: int = 0

    def take(self, record: Record) -> None:
        """Count one more record. Never raises, whatever the record holds."""
        self.last_seq = record.seq
        self.updated = record.ts
        self.spending = self.spending.after(record)
        data = record.data if isinstance(record.data, dict) else {}
        match record.type:
            case "session":
                self.created = _text(data, "created")
                self.cwd = _text(data, "cwd")
                self.forked_from = _text(data, "forked_from")
            case "title":
                self.title = _text(data, "title")
            case "model" | "run_end":
                self.model = _text(data, "model") or self.model
            case "message":
                self.messages += 1
                self._take_prompt(data)

    def as_json(self) -> str:
        return json_text(asdict(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Tally":
        """Raises TypeError or LookupError for what `as_json` never wrote."""
        spent = value["spending"]
        usages = {name: Usage(**spent[name]) for name in ("usage", "unpriced")}
        return cls(**{**value, "spending": Spending(**{**spent, **usages})})

    def _take_prompt(self, data: Mapping[str, Any]) -> None:
        if data.get("role") == "user" and self.first_prompt is None:
            message = decode_message(data)
            if isinstance(message, UserMessage) and message.origin == "user":
                self.first_prompt = title_of(message)


def texts_of(record: Record) -> Iterator[tuple[str, str]]:
    """What can be found of a record: `(kind, text)`, each text on one line.

    Kinds are prompt, answer, call, result, title and summary. Calls and results count with their
    first thousand characters: the words people remember, not every line of every file read.
    """
    data = record.data if isinstance(record.data, dict) else {}
    match record.type, data:
        case "title", {"title": str(title)}:
            yield "title", _line(title)
        case "message", _:
            yield from _texts_of_message(data)
        case "compaction", {"compaction": {"summary": str(summary)}}:
            yield "summary", _line(summary[:_LONGEST_WORDS])


def _texts_of_message(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    role, content = data.get("role"), data.get("content")
    kind = {"user": "prompt", "assistant": "answer", "toolResult": "result", "tool": "result"}.get(
        role if isinstance(role, str) else ""
    )
    if kind is None:
        return
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = [_text(b, "text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    words = "\n".join(filter(None, said))
    if words:
        yield kind, _line(words[: _LONGEST_RESULT if kind == "result" else _LONGEST_WORDS])
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "toolCall":
            yield "call", _line(_call_text(block)[:_LONGEST_CALL])


def _call_text(block: Mapping[str, Any]) -> str:
    arguments = block.get("arguments")
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    said = [value if isinstance(value, str) else json_text(value) for value in values]
    return " ".join([_text(block, "name"), *said])


def _line(text: str) -> str:
    # Half a surrogate pair cannot be stored in UTF-8; control characters mark matches later on.
    return " ".join(text.translate(_BLANKS).encode(errors="replace").decode().split())


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
