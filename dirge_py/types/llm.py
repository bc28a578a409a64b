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
from dirge_py.types.sampling import Sampling

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudgets:
    """How many tokens each thinking level may use, for providers that want a number."""

    minimal: int | None = None
    """Tokens for `minimal`; None means the provider's own number."""
    low: int | None = None
    """Tokens for `low`; None means the provider's own number."""
    medium: int | None = None
    """Tokens for `medium`; None means the provider's own number."""
    high: int | None = None
    """Tokens for `high`; None means the provider's own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is described to a model."""

    name: str
    """The name the model calls it by."""
    description: str
    """What the tool does, for the model."""
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments."""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool that the model must call."""

    name: str
    """The name of the tool."""


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSchema:
    """A JSON Schema that the service enforces for the answer."""

    name: str
    """The name of the schema, for services that need one."""
    schema: Mapping[str, Any]
    """The JSON Schema."""


class SystemText(str):
    """A system prompt whose first `stable_chars` are the same on other days and in other folders.

    Services that need to know what to cache get that part. Other strings have no stable part.
    """

    stable_chars: int

    def __new__(cls, text: str, stable_chars: int) -> "SystemText":
        made = super().__new__(cls, text)
        made.stable_chars = stable_chars
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmContext:
    """The content of one model call."""

    system_prompt: str
    """The system prompt; a `SystemText` also says which part of it is stable."""
    messages: Sequence[Message]
    """The messages, ready to send."""
    tools: Sequence[ToolSpec] = ()
    """The tools that the model may call."""
    asset_dir: str | None = None
    """The folder from which the provider reads images; None if they aren't stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """The settings of a run's requests besides the model and its thinking level."""

    api_key: str | None = field(default=None, repr=False)
    """The key to use instead of the provider's own. Of a run: the key for the provider of
    `LoopConfig.model`, if no `get_api_key` hook returns one."""
    thinking_budgets: ThinkingBudgets = field(default_factory=ThinkingBudgets)
    """How many tokens each thinking level may use."""
    max_output_tokens: int | None = None
    """The most tokens of one answer; None means the model's own limit."""
    sampling: Sampling = Sampling()
    """How the model chooses its words; replaces what the settings say."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further HTTP headers. Of a run: sent to the provider of `LoopConfig.model` alone."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Values that the service stores with a request, such as a user id."""
    request_timeout_s: float | None = None
    """How long one request may take; None: as the provider's settings say."""
    chunk_timeout_s: float | None = None
    """How long the service may be silent within an answer; None: as its settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(RequestSettings):
    """The options of one model call."""

    model: str = ""
    """The model, as `alias/id`."""
    thinking_level: ThinkingLevel = "off"
    """How much the model thinks."""
    tool_choice: ToolChoice = "auto"
    """Whether the model may, must or must not call a tool, or which one it must call."""
    response_schema: ResponseSchema | None = None
    """The schema of the answer; only for services that can enforce one."""


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The service has begun to answer."""

    model: str = ""
    """The service's name of the model; empty if it gives none."""
    stand_in: str = ""
    """The model (`alias/id`) that answers instead of the requested one; empty if none does."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str
    """The new text."""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str
    """The new text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingEnd:
    """The open thinking block is complete."""

    text: str | None = None
    """The whole text of the block, if the service repeats it."""
    signature: str | None = None
    """The service's signature of the block, to be sent back unchanged."""
    redacted: str | None = None
    """The block as the service encrypted it, if it hides the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A piece of a tool call."""

    key: str
    """Tells the calls of one answer apart."""
    id: str = ""
    """The id of the call; at least one piece has it."""
    name: str = ""
    """The name of the tool; at least one piece has it."""
    arguments: str = ""
    """The next piece of the arguments, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnd:
    """A tool call is complete."""

    key: str
    """The key of its deltas."""
    id: str = ""
    """The id of the call; empty if a delta had it."""
    name: str = ""
    """The name of the tool; empty if a delta had it."""
    arguments: Any = None
    """All arguments, which replace those of the deltas; None keeps those of the deltas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDone:
    """The service has folded older history into one block (`messages.CompactionBlock`)."""

    data: Mapping[str, Any]
    """The block as the service sent it."""
    text: str = ""
    """Its summary, if the service shows one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDone:
    """The answer is complete."""

    stop_reason: StopReason = "stop"
    """Why the model stopped."""
    usage: Usage | None = None
    """The tokens of the call; None if the service didn't report them."""
    message: AssistantMessage | None = None
    """The complete answer, which replaces the deltas; None keeps the deltas."""


@dataclass(frozen=True, slots=True)
class StreamError:
    """The call failed. Text and thinking are kept; tool calls are dropped: they never ran."""

    error: ProviderError
    """What went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRetry:
    """The call is retried. Discard what came so far."""

    attempt: int
    """The number of the failed attempt, from 1."""
    delay_ms: int
    """How long dirge waits before the next attempt."""
    error: str
    """Why the attempt failed."""


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
    """Return `events`, closed on every way out if they can be."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOption:
    """A model that can be selected."""

    spec: str
    """How to name the model: `[alias/]id[:level]`."""
    window_tokens: int
    """The size of its context window; 0 if unknown."""
    price: str = ""
    """The price as text for people; empty if unknown."""


class Models(Protocol):
    """The models that are configured. Specs are `[alias/]id[:level]`; resolved ones `alias/id`."""

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        """Return the model and the thinking level of `spec`. Raises ConfigError: unknown alias."""

    def choices(self) -> Sequence[ModelOption]: ...
    def services(self) -> Sequence[str]:
        """Return the aliases of services that can list their models."""

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        """Return all models that the service of `alias` lists, the known ones first.

        Raises:
            ConfigError: there is no such service, or it cannot be used.
            ProviderError: the service can't be reached, refuses, or lists none.
        """

    def window_tokens(self, model: str) -> int: ...
    def cost_usd(self, model: str, usage: Usage) -> float | None: ...
    def holds_schema(self, model: str) -> bool:
        """Whether the model's service can enforce a JSON Schema."""

    def sees_pictures(self, model: str) -> bool | None:
        """Whether the model accepts images; None if unknown."""
