"""History as every strict service accepts it, before it takes a service's own shape.

Healing is done elsewhere and earlier; this is the last line, so that a request is valid whatever
history holds: every call has one result right behind it, every id is used once, ids and names are
spelt in letters that all services take, nothing is empty.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)

SendableMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage

NO_RESULT = "No result of this call was recorded. It may have run in part or not at all."

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def drop_foreign_blocks(messages: Sequence[Message], alias: str, model: str = "") -> list[Message]:
    """`messages` without the sealed blocks that another service made; the same objects otherwise.

    A signature, hidden thinking and a fold of history mean something only to the service that wrote
    them; any other refuses the whole request. `AssistantMessage.model` (`alias/id`) tells who that
    was; where it is empty, nobody else is known to have been. With `model`, the id of one, what
    other models of the service sealed stays away, too: behind a router each is somebody else's.
    """
    return [_drop_foreign(message, alias, model) for message in messages]


def _drop_foreign(message: Message, alias: str, model: str) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    whose, is_told, made_by = message.model.partition("/")
    if not is_told or (whose == alias and model in ("", made_by)):
        return message
    content = tuple(
        block for block in message.content if not isinstance(block, ThinkingBlock | CompactionBlock)
    )
    return message if content == message.content else replace(message, content=content)


def normalize_history(
    messages: Sequence[Message], *, unsigned: bool = False, call_id_chars: int | None = None
) -> list[SendableMessage]:
    """`messages` without what cannot be sent, in order; the same input gives the same output.

    What need not be changed is the same object, for whoever remembers what came of it.

    System messages become user messages at their place: hoisted into the system prompt they would
    change the cached prefix. A result without its call becomes a user message, a call without its
    result gets one that says so. Assistant messages that hold nothing but thinking are left out.
    Thinking without a signature is left out, too, unless `unsigned` says that it can go back. What
    a model made up as a tool's name is spelt as a name. `call_id_chars` is the length that every
    call id gets, of letters and digits only.
    """
    ids = _CallIdRenamer(call_id_chars)
    prepared: list[SendableMessage] = []
    start = 0
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and position > start:
            prepared += _normalize_turn(messages[start:position], ids, unsigned)
            start = position
    prepared += _normalize_turn(messages[start:], ids, unsigned)
    return prepared


class _CallIdRenamer:
    """Ids as services take them: short, plain, and each for one call of the whole history."""

    def __init__(self, chars: int | None) -> None:
        self._used: set[str] = set()
        self._chars = chars
        self._plain = _ID if chars is None else re.compile(f"[A-Za-z0-9]{{{chars}}}")

    def fresh(self, call_id: str) -> str:
        plain = call_id if self._plain.fullmatch(call_id) else self._made_of(call_id)
        if plain in self._used:
            repeats = (self._made_of(f"{call_id} {n}") for n in count(2))
            plain = next(name for name in repeats if name not in self._used)
        self._used.add(plain)
        return plain

    def _made_of(self, text: str) -> str:
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
        return f"call_{digest[:16]}" if self._chars is None else digest[: self._chars]


def _normalize_turn(
    messages: Sequence[Message], ids: _CallIdRenamer, unsigned: bool
) -> Iterator[SendableMessage]:
    """An assistant message, if there is one, with what follows it up to the next."""
    first = messages[0] if messages else None
    answers = _first_answers(messages)
    if isinstance(first, AssistantMessage):
        content = tuple(block for block in first.content if _is_sendable(block, unsigned))
        if any(not isinstance(block, ThinkingBlock) for block in content):
            wire_ids = [ids.fresh(b.id) for b in content if isinstance(b, ToolCallBlock)]
            renamed = _renamed(content, iter(wire_ids))
            yield first if renamed == first.content else replace(first, content=renamed)
            calls = (block for block in content if isinstance(block, ToolCallBlock))
            for call, wire_id in zip(calls, wire_ids, strict=True):
                yield _answer(call, wire_id, answers.pop(call.id, None))
    orphans = {id(result) for result in answers.values()}
    yield from _other_messages(messages, orphans)


def _first_answers(messages: Iterable[Message]) -> dict[str, ToolResultMessage]:
    answers: dict[str, ToolResultMessage] = {}
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answers.setdefault(message.tool_call_id, message)
    return answers


def _renamed(
    content: tuple[AssistantBlock, ...], wire_ids: Iterator[str]
) -> tuple[AssistantBlock, ...]:
    return tuple(
        _with_call_id(next(wire_ids), block) if isinstance(block, ToolCallBlock) else block
        for block in content
    )


def _with_call_id(wire_id: str, call: ToolCallBlock) -> ToolCallBlock:
    name = plain_name(call.name)
    is_same = (call.id, call.name) == (wire_id, name)
    return call if is_same else replace(call, id=wire_id, name=name)


def plain_name(name: str) -> str:
    """`name` as every service takes it: one that a model made up may be a whole command."""
    return name if _NAME.fullmatch(name) else _NO_NAME.sub("_", name)[:64]


def _answer(
    call: ToolCallBlock, wire_id: str, result: ToolResultMessage | None
) -> ToolResultMessage:
    name = plain_name(call.name)
    if result is None:
        return ToolResultMessage(
            tool_call_id=wire_id,
            tool_name=name,
            content=(TextBlock(NO_RESULT),),
            is_error=True,
        )
    is_same = (result.tool_call_id, result.tool_name) == (wire_id, name)
    return result if is_same else replace(result, tool_call_id=wire_id, tool_name=name)


def _other_messages(messages: Sequence[Message], orphans: set[int]) -> Iterator[SendableMessage]:
    for message in messages:
        match message:
            case UserMessage() if _has_content(message):
                yield message
            case SystemMessage() if message.text.strip():
                yield user_text(message.text, origin="harness")
            case ToolResultMessage() if id(message) in orphans:
                yield user_text(f"Result of {message.tool_name}:\n{message.text}", "harness")
            case UserMessage() | SystemMessage() | ToolResultMessage():
                pass
            case AssistantMessage() | CustomMessage():
                pass


def _has_content(message: UserMessage) -> bool:
    return any(not isinstance(b, TextBlock) or b.text.strip() for b in message.content)


def _is_sendable(block: AssistantBlock, unsigned: bool) -> bool:
    if isinstance(block, TextBlock):
        return bool(block.text.strip())
    if isinstance(block, ThinkingBlock):
        return bool(block.signature or block.redacted or (unsigned and block.text))
    if isinstance(block, CompactionBlock):
        return bool(block.data)
    return bool(block.name)
