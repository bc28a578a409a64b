"""The nine hooks, what they are told, what they may answer, and `LoopConfig`, which holds them.

Every hook gets one frozen first argument and may be `None`, which means the loop's own behaviour.
Any of them may return or raise `StopRun`. A plain function will do where nothing is awaited.
"""

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import Sink
from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel
from dirge_py.types.messages import AssistantMessage, Message, ResultBlock, ToolResultMessage, Usage
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import (
    Interceptor,
    LoopTool,
    LoopToolResult,
    ToolCall,
    ToolExecutionMode,
    ToolValidator,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a conversation consists of. The loop copies it at the start and never writes to it."""

    system_prompt: str = ""
    messages: Sequence[Message] = ()
    tools: Sequence[LoopTool] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDecision:
    """What somebody decided about a call that was left open.

    `allow` lets it pass where a hook would defer it again; a hook that answers it still wins.
    `arguments`, if given, replace the model's. Without `allow`, `reason` is told to the model.
    `answer` is the result of the call where it does not run: without `allow` at once, in the place
    of `reason`; with it, when the run ends before its turn comes.
    """

    tool_call_id: str
    allow: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    answer: LoopToolResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo:
    """Where the run stands: the first argument of every hook. Turns are counted from 1.

    `calls` is the whole batch, also while one call of it is looked at. `wants_more`: the model will
    be asked again. `ended_by` is `natural`, a guard's `stopped_by`, `limit` or `stop`.
    `usage_total` is this run's. `decisions` are those given to a continued run, by call id, for the
    calls that it begins with.
    """

    run_id: str
    outer_turn: int
    turn: int
    context: Context
    new_messages: Sequence[Message]
    signal: AbortSignal
    emit: Sink
    message: AssistantMessage | None = None
    tool_results: tuple[ToolResultMessage, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    wants_more: bool = False
    ended_by: str = "natural"
    usage_total: Usage = field(default_factory=Usage)
    decisions: Mapping[str, CallDecision] = field(default_factory=dict)


class StopRun(Exception):
    """Ends the run with `outcome`; returned or raised by any hook.

    `say` becomes a closing turn in the agent's name. With `finalize`, waiting follow-ups are still
    delivered, and then the run goes on after all. `undelivered` are messages that had been taken
    from their queue when the stop came: they enter history, so that nothing typed is lost. `change`
    is what other hooks made of the tool result after which it came.
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


@dataclass(frozen=True, slots=True)
class ToolOverride:
    """Do not run the call: this is its result. Empty content becomes a generic refusal.

    `details["outcome"]` defaults to what `is_error` and the call's problem suggest.
    """

    content: str | Sequence[ResultBlock] = ""
    is_error: bool = True
    details: Mapping[str, Any] = field(default_factory=dict)
    terminate: bool = False


@dataclass(frozen=True, slots=True)
class Defer:
    """Leave this call and those after it open, and end the run: nobody here can decide."""

    description: str = ""


Answer = ToolOverride
"""The former name of `ToolOverride`; it goes in the next release."""

BeforeToolCallResult: TypeAlias = EditArgs | ToolOverride | Defer


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterToolCallResult:
    """Each field that is not None replaces the executed value in full."""

    content: Sequence[ResultBlock] | None = None
    details: Mapping[str, Any] | None = None
    is_error: bool | None = None
    terminate: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUpdate:
    """What changes before the next turn; None leaves a field as it is.

    `continue_with`, even empty, makes the run go on where it would have rested, or after an error.
    `role` is what the next turn's model is asked as, and for that turn alone; "" is the main one.
    """

    context: Context | None = None
    model: str | None = None
    thinking_level: ThinkingLevel | None = None
    role: str | None = None
    continue_with: Sequence[Message] | None = None


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
    """Hooks that belong together; `name` is what people read when one of them fails.

    `only_watches`: its `after_tool_call` waits or takes notes and judges nothing. Of any other, a
    result is withheld that it had not let pass before the run was aborted.
    """

    name: str = "config"
    only_watches: bool = False
    transform_context: TransformContext | None = None
    convert_to_llm: ConvertToLlm | None = None
    before_tool_call: BeforeToolCall | None = None
    after_tool_call: AfterToolCall | None = None
    prepare_next_turn: PrepareNextTurn | None = None
    should_stop_after_turn: ShouldStopAfterTurn | None = None
    get_steering_messages: GetSteeringMessages | None = None
    get_followup_messages: GetFollowupMessages | None = None
    get_api_key: GetApiKey | None = None


Bundle = Hooks
"""The former name of `Hooks`; it goes in the next release."""

HOOK_NAMES = (
    "transform_context",
    "convert_to_llm",
    "before_tool_call",
    "after_tool_call",
    "prepare_next_turn",
    "should_stop_after_turn",
    "get_steering_messages",
    "get_followup_messages",
    "get_api_key",
)


def _new_id() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig(Hooks):
    """Everything a run needs besides its context: hooks of its own, and plain settings.

    `model` is `alias/id`. `interceptors` go around each tool call, the first is the outermost.
    `clock` counts seconds; `new_id` names the run and calls that came without an id. `repair` mends
    arguments that do not fit where it is plain what was meant; `scavenge` looks for calls that a
    model wrote as text. `check_aborted` is asked what to keep of an answer that an abort cut short;
    where it does not come back in time, nothing of its text is kept.
    """

    model: str = ""
    provider: str = ""
    api_key: str | None = None
    thinking_level: ThinkingLevel = "off"
    thinking_budgets: ThinkingBudgets = field(default_factory=ThinkingBudgets)
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_s: float | None = None
    chunk_timeout_s: float | None = None
    max_output_tokens: int | None = None
    asset_dir: str | None = None
    tool_execution: ToolExecutionMode = "parallel"
    max_parallel: int = 8
    validate: ToolValidator | None = None
    repair: bool = True
    scavenge: bool = False
    check_aborted: CheckAborted | None = None
    interceptors: Sequence[Interceptor] = ()
    new_id: Callable[[], str] = _new_id
    clock: Callable[[], float] = time.monotonic
