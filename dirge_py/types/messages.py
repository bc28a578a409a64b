"""The recorded units of history: messages, and the blocks they are made of.

All are immutable values. The stored form (session/codec.py) and the provider forms (providers/) are
derived from these; role and block names on the wire are `user`, `assistant`, `toolResult`,
`system`, `custom` and `text`, `thinking`, `toolCall`, `image`, `document`,
`compaction`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

StopReason = Literal["stop", "toolUse", "length", "error", "aborted", "compaction", "pause_turn"]
"""Why an answer ended. After `compaction` and `pause_turn` the service expects to be asked again
with the same history: such a turn is not final, and is not counted (`UNFINISHED`)."""

UNFINISHED: frozenset[StopReason] = frozenset({"compaction", "pause_turn"})

Origin = Literal["user", "steering", "follow_up", "shell", "harness", "plugin"]
"""Who put a user message into history; only `user` opens a run. `shell`: a command that the person
ran with `!`, and what it wrote. See `UserMessage.origin`."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """What the model said to itself. `signature` and `redacted` go back to the provider unread."""

    text: str
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallBlock:
    """One tool call as the model wrote it.

    `arguments` is an object once it parsed, else the raw text as it arrived.
    """

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBlock:
    """A picture by reference: `asset_id` (`[A-Za-z0-9_-]+`) names a file of the session."""

    asset_id: str
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBlock:
    """A document by reference, as a picture is; `name` is what the person knows it by."""

    asset_id: str
    media_type: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBlock:
    """What a service put in the place of older history. `data` is its own block, sent back as it
    came, to that service only; `text` is the summary in it, as far as people may read it.
    """

    data: Mapping[str, Any]
    text: str = ""


UserBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock
AssistantBlock: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | CompactionBlock
ResultBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model call. `input` includes `cache_read` and `cache_write`.

    `charged_usd` is what the service itself says that the call cost; a sum of calls has none.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    charged_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )

    def __bool__(self) -> bool:
        return bool(self.input or self.output or self.cache_read or self.cache_write)

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What a person (or the harness in their name: see `origin`) said.

    `attached` names what was attached, for the screen; its content is among `content`.
    """

    content: tuple[UserBlock, ...]
    origin: Origin = "user"
    attached: tuple[str, ...] = ()
    role: Literal["user"] = "user"

    @property
    def text(self) -> str:
        return joined_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One answer of a model, or the harness' own closing words (`origin="harness"`).

    `withheld` says which guardrail kept its words back; no model is shown such a message again.
    """

    content: tuple[AssistantBlock, ...] = ()
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    error_kind: str | None = None
    model: str = ""
    usage: Usage | None = None
    origin: Literal["model", "harness"] = "model"
    withheld: str = ""
    role: Literal["assistant"] = "assistant"

    @property
    def text(self) -> str:
        return joined_text(self.content)

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultMessage:
    """The one answer to a tool call. `details["outcome"]` is a `calls.ToolOutcome`."""

    tool_call_id: str
    tool_name: str
    content: tuple[ResultBlock, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    role: Literal["toolResult"] = "toolResult"

    @property
    def text(self) -> str:
        return joined_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Reference material inside the transcript; sent to models as user text at its place."""

    content: tuple[TextBlock, ...]
    role: Literal["system"] = "system"

    @property
    def text(self) -> str:
        return joined_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMessage:
    """Something an application keeps in history that no model sees."""

    kind: str
    payload: Any = None
    role: Literal["custom"] = "custom"


Message: TypeAlias = (
    UserMessage | AssistantMessage | ToolResultMessage | SystemMessage | CustomMessage
)


def joined_text(blocks: tuple[Any, ...]) -> str:
    """The text blocks among `blocks`, joined by newlines."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def user_text(text: str, origin: Origin = "user") -> UserMessage:
    """A user message of one text block."""
    return UserMessage(content=(TextBlock(text),), origin=origin)
