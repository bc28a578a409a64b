"""The recorded units of history: messages, and the blocks they are made of.

All are immutable values. The stored form (session/codec.py) and the provider forms (providers/) are
derived from these; role and block names on the wire are `user`, `assistant`, `toolResult`,
`system`, `custom` and `text`, `thinking`, `toolCall`, `image`, `document`, `compaction`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

StopReason = Literal["stop", "toolUse", "length", "error", "aborted", "compaction", "pause_turn"]
"""Why an answer ended. After `compaction` and `pause_turn` the service expects to be asked again
with the same history: such a turn is not final, and is not counted (`UNFINISHED`)."""

UNFINISHED: frozenset[StopReason] = frozenset({"compaction", "pause_turn"})

Origin = Literal["user", "steering", "follow_up", "shell", "harness", "plugin"]
"""The source of a user message; only `user` opens a run. `shell` is a command that the user ran
with `!`, and its output."""

TYPED_ORIGINS: frozenset[Origin] = frozenset({"user", "steering", "follow_up"})
"""The origins of messages that the user typed for the agent."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A block of text."""

    text: str
    """The text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """The model's thinking."""

    text: str
    """The text, as far as the service shows it."""
    signature: str | None = None
    """The service's signature, sent back unchanged."""
    redacted: str | None = None
    """The thinking as the service encrypted it, sent back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallBlock:
    """One tool call as the model wrote it."""

    id: str
    """The id of the call."""
    name: str
    """The name of the tool."""
    arguments: Any
    """An object if the arguments could be parsed, else their text as it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBlock:
    """An image by reference."""

    asset_id: str
    """The id of its file in the session (`[A-Za-z0-9_-]+`)."""
    media_type: str
    """Its media type, such as `image/png`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBlock:
    """A document by reference."""

    asset_id: str
    """The id of its file in the session (`[A-Za-z0-9_-]+`)."""
    media_type: str
    """Its media type, such as `application/pdf`."""
    name: str = ""
    """Its file name, for display."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBlock:
    """A block that a service put in place of older history."""

    data: Mapping[str, Any]
    """The service's block; it is sent back unchanged, to that service only."""
    text: str = ""
    """Its summary, if the service shows one."""


UserBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock
AssistantBlock: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | CompactionBlock
ResultBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one model call, or of several."""

    input: int = 0
    """Input tokens, including `cache_read` and `cache_write`."""
    output: int = 0
    """Output tokens."""
    cache_read: int = 0
    """Input tokens that the service read from its cache."""
    cache_write: int = 0
    """Input tokens that the service wrote to its cache."""
    reasoning: int = 0
    """Output tokens that the model thought with; they are part of `output`. 0 if not reported."""
    charged_usd: float | None = None
    """The cost that the service reported; None for a sum of calls."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )

    def __bool__(self) -> bool:
        return bool(self.input or self.output or self.cache_read or self.cache_write)

    @property
    def total(self) -> int:
        return self.input + self.output


def joined_text(blocks: tuple[Any, ...]) -> str:
    """Return the text blocks among `blocks`, joined by newlines."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


class TextContent:
    """A record whose `content` holds blocks, some of them text."""

    __slots__ = ()
    content: Any

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return joined_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(TextContent):
    """A message from the user, or from dirge in the user's role."""

    content: tuple[UserBlock, ...]
    """The blocks, including those of attachments."""
    origin: Origin = "user"
    """The source of the message."""
    attached: tuple[str, ...] = ()
    """The names of the attachments, for display."""
    role: Literal["user"] = "user"
    """The kind of message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(TextContent):
    """An answer of a model, or a closing message of dirge."""

    content: tuple[AssistantBlock, ...] = ()
    """The blocks, in order."""
    stop_reason: StopReason = "stop"
    """Why the answer ended."""
    error_message: str | None = None
    """What went wrong, as text; None without an error."""
    error_kind: str | None = None
    """The `errors.ErrorKind`; None without an error."""
    model: str = ""
    """The model that answered."""
    usage: Usage | None = None
    """The tokens of the call; None if the service didn't report them."""
    origin: Literal["model", "harness"] = "model"
    """Whether a model answered, or dirge itself."""
    withheld: str = ""
    """The guardrail that withheld the text, and why; such a message is never sent to a model."""
    role: Literal["assistant"] = "assistant"
    """The kind of message."""

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultMessage(TextContent):
    """The result of a tool call."""

    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    content: tuple[ResultBlock, ...]
    """What the model gets."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Data of the result for programs; `outcome` is a `tools.ToolOutcome`."""
    is_error: bool = False
    """Whether the call failed."""
    role: Literal["toolResult"] = "toolResult"
    """The kind of message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage(TextContent):
    """Reference material in the history, sent to models as user text at its place."""

    content: tuple[TextBlock, ...]
    """The text."""
    role: Literal["system"] = "system"
    """The kind of message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMessage:
    """A value that an application stores in the history; it is never sent to a model."""

    kind: str
    """The application's name for this kind of value."""
    payload: Any = None
    """The value."""
    role: Literal["custom"] = "custom"
    """The kind of message."""


Message: TypeAlias = (
    UserMessage | AssistantMessage | ToolResultMessage | SystemMessage | CustomMessage
)


def text_sizes(result: ToolResultMessage) -> list[int]:
    """Return the characters of each block of a result; 0 for one that is not text."""
    return [len(block.text) if isinstance(block, TextBlock) else 0 for block in result.content]


def cut_texts(
    result: ToolResultMessage, shares: Sequence[int], cut: Callable[[str, int], str]
) -> ToolResultMessage:
    """Return `result` with each of its texts replaced by `cut(text, share)`; other blocks stay."""
    content = tuple(
        TextBlock(cut(block.text, share)) if isinstance(block, TextBlock) else block
        for block, share in zip(result.content, shares, strict=True)
    )
    return replace(result, content=content)


def user_text(text: str, origin: Origin = "user") -> UserMessage:
    """Return a user message of one text block."""
    return UserMessage(content=(TextBlock(text),), origin=origin)
