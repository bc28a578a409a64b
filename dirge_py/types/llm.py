"""One model call: what goes in (`LlmContext`, `StreamOptions`), what comes out (`StreamEvent`).

A provider adapter is a `StreamFn`. It sends deltas only, never raises through its stream, and ends
with exactly one `StreamDone` or `StreamError`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.messages import AssistantMessage, Message, StopReason, Usage

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudgets:
    """Thinking tokens per level, for providers that want a number; None = the provider's table."""

    minimal: int | None = None
    low: int | None = None
    medium: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool that the model must call."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSchema:
    """What the answer's text must be: JSON after this JSON Schema, held to it by the service."""

    name: str
    schema: Mapping[str, Any]


class SystemText(str):
    """A system prompt; its first `stable_chars` are the same on another day, in another folder.

    Where a service is told what to cache, it is told of these. Any other string has none.
    """

    stable_chars: int

    def __new__(cls, text: str, stable_chars: int) -> "SystemText":
        made = super().__new__(cls, text)
        made.stable_chars = stable_chars
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmContext:
    """What one model call sees. Images are read from `asset_dir` at the provider boundary."""

    system_prompt: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    asset_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How one model call is made. `model` is `alias/id`; an `api_key` beats the provider's own.

    `response_schema` is only for models whose service can hold an answer to one. `chunk_timeout_s`:
    how long the service may be silent within its answer, where that is not as its settings say.
    """

    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    thinking_level: ThinkingLevel = "off"
    thinking_budgets: ThinkingBudgets = field(default_factory=ThinkingBudgets)
    max_output_tokens: int | None = None
    tool_choice: ToolChoice = "auto"
    response_schema: ResponseSchema | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_s: float | None = None
    chunk_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The service began to answer. `model` is its own name of the model, if it told.

    `stand_in` is the model (`alias/id`) that answers where the one that was asked cannot.
    """

    model: str = ""
    stand_in: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingEnd:
    """Closes the open thinking block. `text` is the whole of it, if the service repeats it."""

    text: str | None = None
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A piece of a call. `key` tells calls of one answer apart; id and name come at least once."""

    key: str
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnd:
    """The call is whole. `arguments`, if given, replaces what the deltas built up."""

    key: str
    id: str = ""
    name: str = ""
    arguments: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDone:
    """The service folded older history into one block of its own (`messages.CompactionBlock`)."""

    data: Mapping[str, Any]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDone:
    """The answer is whole. A `message`, if given, replaces what the deltas built up."""

    stop_reason: StopReason = "stop"
    usage: Usage | None = None
    message: AssistantMessage | None = None


@dataclass(frozen=True, slots=True)
class StreamError:
    """The call failed; text and thinking so far stay, calls are dropped: they never ran."""

    error: ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRetry:
    """The call is made again after `delay_ms`; what came so far is void."""

    attempt: int
    delay_ms: int
    error: str


StreamEvent: TypeAlias = (
    StreamStart
    | TextDelta
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallDelta
    | ToolCallEnd
    | CompactionDone
    | StreamDone
    | StreamError
    | StreamRetry
)

StreamFn: TypeAlias = Callable[[LlmContext, StreamOptions, AbortSignal], AsyncIterator[StreamEvent]]


@asynccontextmanager
async def closing(events: AsyncIterator[StreamEvent]) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """`events`, closed on every way out if they can be."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOption:
    """A model that could be switched to. `price` is for people.

    Where nobody knows, `window_tokens` is 0 and `price` empty.
    """

    spec: str
    window_tokens: int
    price: str = ""


class Models(Protocol):
    """The models that are configured. Specs are `[alias/]id[:level]`; resolved ones `alias/id`."""

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        """The model and the thinking level it asks for. Raises ConfigError for an unknown alias."""

    def choices(self) -> Sequence[ModelOption]: ...
    def services(self) -> Sequence[str]:
        """The aliases of those that can be asked for all their models."""

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        """All models that the service of `alias` says it has, the known ones first.

        Raises:
            ConfigError: there is no such service, or it cannot be used.
            ProviderError: it could not be reached, refused, or lists none.
        """

    def window_tokens(self, model: str) -> int: ...
    def cost_usd(self, model: str, usage: Usage) -> float | None: ...
    def holds_schema(self, model: str) -> bool:
        """Whether the model's service holds an answer to a JSON Schema when asked."""

    def sees_pictures(self, model: str) -> bool | None:
        """Whether the model can look at pictures; None where nobody knows."""
