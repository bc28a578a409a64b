"""History as one service accepts it: only its own sealed blocks, spelled for its wire format."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from dirge_py.types.history import WireFormat, normalize_history
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    Message,
    SystemMessage,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
)

SendableMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


def sendable_history(
    messages: Sequence[Message], *, unsigned: bool = False, call_id_chars: int | None = None
) -> list[SendableMessage]:
    """`messages` without what cannot be sent, in order; the same input gives the same output.

    What need not be changed is the same object, for whoever remembers what came of it. `unsigned`:
    thinking without a signature goes back. `call_id_chars`: the length that every call id gets.
    """
    wire = WireFormat(unsigned_thinking=unsigned, call_id_chars=call_id_chars)
    normalized = normalize_history(messages, result_chars=None, wire=wire).messages
    # It makes user messages of system messages, and leaves out custom ones.
    return [m for m in normalized if not isinstance(m, SystemMessage | CustomMessage)]


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
