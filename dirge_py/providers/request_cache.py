"""Requests of a growing history: each message is converted and serialized once.

A request costs as much as what was added since the last one. Messages are recognized by identity,
so neither they nor what was made of them may change.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from dirge_py.types.history import GrowingHistory, HistoryNormalizer, WireFormat
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

T = TypeVar("T")
SendableMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
KeepBlock: TypeAlias = Callable[[AssistantMessage, AssistantBlock], bool]
EncodeTurn: TypeAlias = Callable[[Sequence[SendableMessage]], Iterable[dict[str, Any]]]
"""Encodes an answer and the messages up to the next one, or those before the first answer."""

_MOST_PARTS = 12


def filter_blocks(messages: Sequence[Message], keep: KeepBlock) -> list[Message]:
    """`messages` with the blocks of answers that `keep` accepts; the same objects if all are."""
    filtered: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            content = tuple(filter(partial(keep, message), message.content))
            message = message if content == message.content else replace(message, content=content)
        filtered.append(message)
    return filtered


class SendableHistory:
    """A growing history as a service accepts it; equal input gives equal output.

    Messages that need no change stay the same objects. Blocks that `keep` refuses are left out.
    """

    def __init__(self, keep: KeepBlock, wire: WireFormat) -> None:
        self._keep = keep
        self._history = GrowingHistory[Message]()
        self._normalizer = HistoryNormalizer(result_chars=None, wire=wire)

    def of(self, messages: Sequence[Message]) -> Sequence[SendableMessage]:
        """Return `messages` as the service accepts them."""
        new = self._history.new(messages)
        self._history.add(new, filter_blocks(new, self._keep))
        normalized = self._normalizer.normalize(tuple(self._history.made)).messages
        # System messages became user messages, and custom ones were left out.
        return cast("Sequence[SendableMessage]", normalized)


class EncodedObject(dict[str, Any]):
    """A JSON object of a request, which must not be changed: it is serialized once."""

    __slots__ = ("_json",)

    @property
    def json(self) -> bytes:
        """Its JSON."""
        try:
            return self._json
        except AttributeError:
            self._json: bytes = _serialized(self)
            return self._json


def request_json(body: Mapping[str, Any]) -> bytes:
    """The JSON of a request; encoded objects in the lists of `body` are not serialized again."""
    members = (_serialized(name) + b":" + _member_json(body[name]) for name in body)
    return b"{" + b",".join(members) + b"}"


def _member_json(value: Any) -> bytes:
    if not isinstance(value, list):
        return _serialized(value)
    items = (each.json if type(each) is EncodedObject else _serialized(each) for each in value)
    return b"[" + b",".join(items) + b"]"


def _serialized(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, from a file with odd bytes, is not UTF-8: it becomes a question mark.
    return text.encode("utf-8", errors="replace")


_EncodedPart: TypeAlias = EncodedObject | Sequence[SendableMessage]


class EncodedHistory:
    """The messages of a service's format for a growing history; only new turns are encoded.

    Turns with images or documents are encoded for each request: the file may be gone, and is too
    large to keep.
    """

    def __init__(self, encode: EncodeTurn) -> None:
        self._encode = encode
        self._history: GrowingHistory[_EncodedPart] = GrowingHistory()
        self._last: tuple[Sequence[SendableMessage], Sequence[_EncodedPart]] = ((), ())
        """The turn that could still grow in the last request, and what was made of it."""

    def of(self, history: Sequence[SendableMessage]) -> list[dict[str, Any]]:
        """Return the encoded messages; those of the last request are the same objects."""
        known = len(history) - len(self._history.new(history))
        if known < len(history) and not _begins_turn(history, known):
            # Messages were removed, and others follow in the turn before them.
            self._history, known = GrowingHistory(), 0
        *complete, last = _turns(history[known:])
        for turn in complete:
            self._history.add(turn, self._parts(turn))
        self._last = last, self._parts(last)
        encoded: list[dict[str, Any]] = []
        for part in (*self._history.made, *self._last[1]):
            if isinstance(part, EncodedObject):
                encoded.append(part)
            else:
                encoded += self._encode(part)
        return encoded

    def _parts(self, turn: Sequence[SendableMessage]) -> Sequence[_EncodedPart]:
        if turn == self._last[0]:
            return self._last[1]
        is_text = all(type(b) is TextBlock for m in turn for b in _input_blocks(m))
        return [*map(EncodedObject, self._encode(turn))] if is_text else [turn]


def _turns(messages: Sequence[SendableMessage]) -> Iterator[Sequence[SendableMessage]]:
    """Yield the turns; the last may still grow."""
    begin = 0
    for position in range(1, len(messages)):
        if _begins_turn(messages, position):
            yield messages[begin:position]
            begin = position
    yield messages[begin:]


def _begins_turn(messages: Sequence[SendableMessage], position: int) -> bool:
    """Whether a turn begins here: with an answer, unless it continues another one.

    An answer without text and calls begins none, since some formats leave it out.
    """
    message, is_first = messages[position], position == 0
    if not isinstance(message, AssistantMessage) or is_first:
        return is_first
    follows_answer = isinstance(messages[position - 1], AssistantMessage)
    return not follows_answer and bool(message.text or message.calls)


def _input_blocks(message: SendableMessage) -> Sequence[Any]:
    return () if isinstance(message, AssistantMessage) else message.content


class RequestCache:
    """The parts of requests that can be used again, such as `EncodedHistory`.

    Several conversations may use one provider, so there is a part for each history; those that were
    not used for long are dropped.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[int, Hashable], tuple[object, Any]] = {}

    def part(self, owner: object, key: Hashable, make: Callable[[], T]) -> T:
        """Return the part of `owner` with this key, made on first use.

        `owner` is told apart by identity: the first message of a history, or a tuple of tools.
        """
        at = id(owner), key
        # The owner is kept, so that no other object gets its id.
        entry = self._parts.pop(at, None) or (owner, make())
        self._parts[at] = entry
        if len(self._parts) > _MOST_PARTS:
            del self._parts[next(iter(self._parts))]
        part: T = entry[1]
        return part
