"""What a view leaves out of a history, for people who may want some of it back."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dirge_py.context.shape import Shape, shown_message
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, ToolResultMessage

_BEGINNING_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A message that is not sent as it is. `number` counts the messages of the history from 1.

    `how`: folded into the summary, a result that is a placeholder now, or cut shorter. `chars` is
    its whole text, `beginning` one line of it.
    """

    number: int
    how: Literal["folded", "cleared", "shortened"]
    author: str
    chars: int
    beginning: str


def dropped(messages: Sequence[Message], shape: Shape) -> Iterator[Dropped]:
    """What is left out, in order. Messages that were asked back are not among it."""
    for position, message in enumerate(messages):
        if position in shape.kept or not _text(message).strip():
            continue
        if position < shape.last:
            yield _dropped(position, message, "folded")
        elif shown_message(message, position, shape) is not message:
            is_cleared = position < shape.clear_before
            yield _dropped(position, message, "cleared" if is_cleared else "shortened")


def with_kept(shape: Shape, position: int) -> Shape:
    """The shape that shows this message whole."""
    return replace(shape, kept=tuple(sorted({*shape.kept, position})))


def _dropped(
    position: int, message: Message, how: Literal["folded", "cleared", "shortened"]
) -> Dropped:
    text = _text(message)
    line = " ".join(text[: 4 * _BEGINNING_CHARS].split())
    is_long = len(line) > _BEGINNING_CHARS
    return Dropped(
        number=position + 1,
        how=how,
        author=message.tool_name if isinstance(message, ToolResultMessage) else message.role,
        chars=len(text),
        beginning=line[: _BEGINNING_CHARS - 1] + "…" if is_long else line,
    )


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = " ".join(f"{call.name}({call.arguments})" for call in message.calls)
        return f"{message.text} {calls}".strip()
    return "" if isinstance(message, CustomMessage) else message.text
