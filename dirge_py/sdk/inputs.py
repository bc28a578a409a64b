"""What an agent can be given."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import UserBlock, UserMessage, user_text


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt of plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """A prompt of several blocks: text, and images of the thread."""

    blocks: tuple[UserBlock, ...]


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on from where the thread stands, after `NeedsMoreTurns` or a run that was stopped."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after `AwaitingConfirmation`, with what was decided about the call that waits.

    `continuation` is the one of that outcome. Without `confirmed` the model is told `reason`.
    """

    continuation: Mapping[str, Any]
    tool_call_id: str
    confirmed: bool
    reason: str | None = None


Prompt: TypeAlias = str | Text | Blocks
AgentInput: TypeAlias = Text | Blocks | Continue | Resume


def as_message(prompt: Prompt) -> UserMessage:
    if isinstance(prompt, Blocks):
        return UserMessage(content=tuple(prompt.blocks))
    return user_text(prompt if isinstance(prompt, str) else prompt.text)
