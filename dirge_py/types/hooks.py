"""The nine hooks of a run, their arguments and answers, and `LoopConfig`, which holds them.

Every hook gets one frozen first argument. `None` as a hook means the loop's own behaviour.
Each may return or raise `StopRun`, and may be a plain function if it awaits nothing.
"""

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import Sink
from dirge_py.types.llm import RequestSettings, ThinkingLevel
from dirge_py.types.messages import AssistantMessage, Message, ResultBlock, ToolResultMessage, Usage
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import (
    Interceptor,
    LoopTool,
    LoopToolResult,
    ShellCommand,
    ToolCall,
    ToolExecutionMode,
    ToolValidator,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of a run. The loop copies it at the start and never writes to it."""

    system_prompt: str = ""
    """The system prompt."""
    messages: Sequence[Message] = ()
    """The history so far."""
    tools: Sequence[LoopTool] = ()
    """The tools that the model may call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDecision:
    """A decision about a call that was left open."""

    tool_call_id: str
    """The id of the open call."""
    allow: bool
    """Let it run even if a hook would defer it again. A hook may still answer it."""
    reason: str = ""
    """Without `allow`: the reason for the model."""
    arguments: Mapping[str, Any] | None = None
    """Arguments to use instead of the model's; None keeps the model's."""
    answer: LoopToolResult | None = None
    """The result if the call doesn't run: because it is not allowed (then instead of `reason`), or
    because the run ends first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo:
    """The state of the run: the first argument of every hook."""

    run_id: str
    """The id of the run."""
    outer_turn: int
    """The number of the outer turn, from 1; follow-ups open another one."""
    turn: int
    """The number of the turn in the run, from 1."""
    context: Context
    """The current context; never change it."""
    new_messages: Sequence[Message]
    """The messages that the run has added to the history so far."""
    signal: AbortSignal
    """Ends the run when set."""
    emit: Sink
    """Emits an event of the run."""
    message: AssistantMessage | None = None
    """The model's answer in this turn, once there is one."""
    error: ProviderError | None = None
    """Why that answer broke off, or why there is none."""
    tool_results: tuple[ToolResultMessage, ...] = ()
    """The results of this turn's calls, once the turn is over."""
    calls: tuple[ToolCall, ...] = ()
    """All calls of the answer, also for hooks that judge one of them."""
    wants_more: bool = False
    """Whether the model will be called again."""
    ended_by: str = "natural"
    """Why the agent rests: `natural`, a guard's `stopped_by`, `limit` or `stop`."""
    usage_total: Usage = field(default_factory=Usage)
    """The tokens of this run's turns so far."""
    decisions: Mapping[str, CallDecision] = field(default_factory=dict)
    """The decisions about the calls that a continued run begins with, by call id."""


class StopRun(Exception):
    """Ends the run with `outcome`; returned or raised by any hook.

    `say` is added as a last answer. With `finalize`, waiting follow-ups are still delivered, and
    the run continues if there are any. `undelivered` are messages that enter history before the
    end, such as those that were taken from their queue before the stop, so that nothing typed is
    lost. `change` is how other hooks changed the tool result that the hook was called for.
    """

    def __init__(
        self,
        outcome: Outcome,
        say: str | None = None,
        finalize: bool = False,
        *,
        undelivered: Sequence[Message] = (),
    ) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.say = say
        self.finalize = finalize
        self.undelivered = tuple(undelivered)
        self.change: AfterToolCallResult | None = None


@dataclass(frozen=True, slots=True)
class EditArgs:
    """Run the call with these arguments instead; they are validated again."""

    args: Mapping[str, Any]
    """The new arguments, in place of the model's."""
    note: str = ""
    """What the model reads about it, in front of the result."""


@dataclass(frozen=True, slots=True)
class ToolOverride:
    """A result to use instead of running the call."""

    content: str | Sequence[ResultBlock] = ""
    """What the model gets; empty content becomes a generic refusal."""
    is_error: bool = True
    """Whether the result is an error."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Data for programs; `outcome` defaults to what `is_error` and the call's problem suggest."""
    terminate: bool = False
    """Whether the inner loop may end after this turn."""


@dataclass(frozen=True, slots=True)
class Defer:
    """End the run with this call and the later ones open, because nobody here can decide."""

    description: str = ""
    """What has to be decided, as text."""


Answer = ToolOverride
"""The former name of `ToolOverride`; the next release removes it."""

BeforeToolCallResult: TypeAlias = EditArgs | ToolOverride | Defer


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterToolCallResult:
    """Each field that is not None replaces the executed value in full."""

    content: Sequence[ResultBlock] | None = None
    """What the model gets."""
    details: Mapping[str, Any] | None = None
    """Data of the result for programs."""
    is_error: bool | None = None
    """Whether the result is an error."""
    terminate: bool | None = None
    """Whether the inner loop may end after this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUpdate:
    """What changes before the next turn; None leaves a field as it is."""

    context: Context | None = None
    """The context from now on."""
    model: str | None = None
    """The model from now on, as `alias/id`."""
    thinking_level: ThinkingLevel | None = None
    """The thinking level from now on."""
    role: str | None = None
    """The role of the model in the next turn only; "" is the main one."""
    continue_with: Sequence[Message] | None = None
    """Messages to add. Even if empty, the run continues instead of resting or failing."""


HookResult: TypeAlias = T | StopRun | Awaitable[T | StopRun]

TransformContext: TypeAlias = Callable[[TurnInfo], HookResult[Context | None]]
ConvertToLlm: TypeAlias = Callable[[TurnInfo, Sequence[Message]], HookResult[Sequence[Message]]]
BeforeToolCall: TypeAlias = Callable[[TurnInfo, ToolCall], HookResult[BeforeToolCallResult | None]]
AfterToolCall: TypeAlias = Callable[
    [TurnInfo, ToolCall, LoopToolResult], HookResult[AfterToolCallResult | None]
]
PrepareNextTurn: TypeAlias = Callable[[TurnInfo], HookResult[TurnUpdate | None]]
ShouldStopAfterTurn: TypeAlias = Callable[[TurnInfo], HookResult[bool]]
GetSteeringMessages: TypeAlias = Callable[[TurnInfo], HookResult[Sequence[Message]]]
GetFollowupMessages: TypeAlias = Callable[
    [TurnInfo, Sequence[Message]], HookResult[Sequence[Message]]
]
CheckAborted: TypeAlias = Callable[[AssistantMessage], Coroutine[Any, Any, AssistantMessage]]
GetApiKey: TypeAlias = Callable[[str], HookResult[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Hooks that belong together, each at one of the nine points of a run; None does nothing."""

    name: str = "config"
    """The name in messages about a failure of its hooks."""
    only_watches: bool = False
    """Whether its `after_tool_call` never changes a result. If the run is aborted before
    all other `after_tool_call` hooks have seen a result, that result is withheld."""
    transform_context: TransformContext | None = None
    """Changes the context of one model call only."""
    convert_to_llm: ConvertToLlm | None = None
    """Converts the history to messages for a model."""
    before_tool_call: BeforeToolCall | None = None
    """Edits, answers or defers a call before it runs; asked for every call."""
    after_tool_call: AfterToolCall | None = None
    """Replaces fields of a result before anybody sees it."""
    prepare_next_turn: PrepareNextTurn | None = None
    """Changes the context or the model after a turn, or makes the run continue."""
    should_stop_after_turn: ShouldStopAfterTurn | None = None
    """Ends the run after a turn."""
    get_steering_messages: GetSteeringMessages | None = None
    """Input that enters before the next turn."""
    get_followup_messages: GetFollowupMessages | None = None
    """Input for an agent that would rest; gets the messages that earlier hooks added."""
    get_api_key: GetApiKey | None = None
    """The key for a provider, by its name."""


Bundle = Hooks
"""The former name of `Hooks`; the next release removes it."""

HOOK_NAMES = tuple(name for name in Hooks.__slots__ if name not in ("name", "only_watches"))


def _new_id() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig(Hooks):
    """Everything a run needs besides its context: its own hooks, and plain settings."""

    model: str = ""
    """The model, as `alias/id`."""
    provider: str = ""
    """The name of the provider of `model`, as `get_api_key` hooks get it."""
    thinking_level: ThinkingLevel = "off"
    """How much the model thinks."""
    request: RequestSettings = field(default_factory=RequestSettings)
    """The settings of each request to the model."""
    asset_dir: str | None = None
    """The folder with the images of the history; None if they aren't stored."""
    tool_execution: ToolExecutionMode = "parallel"
    """Whether calls of one answer that only look may run at the same time."""
    max_parallel: int = 8
    """The most calls that run at the same time."""
    only_reads: Callable[[ShellCommand], bool] | None = None
    """Whether a command line changes nothing, so that calls of it may run at the same time; never
    raises. None: every command changes something."""
    validate: ToolValidator | None = None
    """Checks the arguments of a call against its tool; None accepts all."""
    repair: bool = True
    """Whether arguments that do not fit are repaired where their meaning is clear."""
    scavenge: bool = False
    """Whether calls that a model wrote as text are run, if they only read."""
    check_aborted: CheckAborted | None = None
    """Returns the part to keep of an answer that an abort cut short. None keeps all of it. If the
    check takes too long, the text is withheld."""
    interceptors: Sequence[Interceptor] = ()
    """Run around each tool call; the first is the outermost."""
    new_id: Callable[[], str] = _new_id
    """Makes the id of the run, and of calls without one."""
    clock: Callable[[], float] = time.monotonic
    """The time in seconds."""
