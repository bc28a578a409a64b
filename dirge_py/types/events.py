"""The events of a run. Sinks watch them; nothing is answered through an event.

The grammar of a run:

    run    := AgentStart TurnStart prompt* turn (TurnStart turn)* RepairStats? AgentEnd
    prompt := MessageStart(user) MessageEnd(user)
    turn   := injected* assistant Usage? tools TurnEnd
    assistant := RetryNotice* MessageStart MessageUpdate* MessageEnd

Notices, questions, compactions and phases come anywhere between. Every TurnStart has one TurnEnd,
every tool call one ToolExecutionStart, one ToolExecutionEnd and one result message. AgentEnd is
always last. A plan has events besides those of its runs: its phases, the commands that are its
evidence, and the events of the forks that its phases run in.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, Usage
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import LoopToolResult

Phase = (
    Literal["text_start", "text_delta", "text_end"]
    | Literal["thinking_start", "thinking_delta", "thinking_end"]
    | Literal["toolcall_start", "toolcall_delta", "toolcall_end"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStart:
    """A run has begun."""

    type: ClassVar[str] = "agent_start"
    run_id: str
    """The id of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """A run is over: its last event."""

    type: ClassVar[str] = "agent_end"
    messages: tuple[Message, ...]
    """Everything the run added to history, in order."""
    outcome: Outcome
    """How the run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """A turn has begun."""

    type: ClassVar[str] = "turn_start"
    turn: int
    """The number of the turn in its run, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """A turn is over."""

    type: ClassVar[str] = "turn_end"
    message: AssistantMessage | None
    """The model's answer; None when the turn ended before its model call."""
    tool_results: tuple[ToolResultMessage, ...] = ()
    """The results of the turn's tool calls."""


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message is about to enter history."""

    type: ClassVar[str] = "message_start"
    message: Message
    """The message; for a model's answer, what is known so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUpdate:
    """A piece of the assistant message that is being written."""

    type: ClassVar[str] = "message_update"
    phase: Phase
    """The kind of piece: start, delta or end of a text, of thinking or of a tool call."""
    index: int
    """The position of the block it belongs to."""
    delta: str = ""
    """Only the new text. The joined deltas of a block are its text."""
    text: str | None = None
    """At an `*_end`, the whole text of the block, which replaces the joined deltas; else None."""
    tool_call_id: str = ""
    """The id of the tool call the piece belongs to."""
    tool_name: str = ""
    """The name of the tool that is called."""


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """A message is complete and in the history."""

    type: ClassVar[str] = "message_end"
    message: Message
    """The complete message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStart:
    """A tool call has begun."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    args: Any
    """The arguments as the model wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionUpdate:
    """A running tool call has a partial result."""

    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    args: Any
    """The arguments as the model wrote them."""
    partial_result: LoopToolResult
    """The result so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionEnd:
    """A tool call has ended, or was deferred."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    result: LoopToolResult
    """The result of the call."""
    is_error: bool
    """Whether the result is an error."""
    duration_ms: int = 0
    """How long the call took."""
    deferred: bool = False
    """The call waits for a decision, so it has no result message yet."""


OF_TURNS = ("", "escalate", "fallback")
"""The roles of calls that answer a turn; all other calls are side calls."""
EMBED = "embed"
"""The role of requests for embeddings: a command asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """The tokens of one model call."""

    type: ClassVar[str] = "usage"
    usage: Usage
    """The tokens."""
    model: str = ""
    """The model, as `alias/id`."""
    cost_usd: float | None = None
    """The cost of the call; None when its price is unknown."""
    role: str = ""
    """The purpose of a side call; `escalate` or `fallback` if another model answered a turn; empty
    for a turn of the main model."""
    changed: tuple[str, ...] | None = None
    """How the beginning of the request differs from that of the previous request, as text; None if
    they weren't compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryNotice:
    """A model call failed and is retried."""

    type: ClassVar[str] = "retry_notice"
    attempt: int
    """The number of the failed attempt, from 1."""
    delay_ms: int
    """How long dirge waits before the next attempt."""
    error: str
    """Why the attempt failed."""


CompactionKind = (
    Literal["prune", "summary", "failed_summary", "summary_off", "overflow", "server"]
    | Literal["shown_again", "undone"]
)
"""How the context was compacted: only results were shortened; summarised; the summary failed;
summaries are off after failures; shortened without a model; by the service. The last two send more:
the user asked for a message again, or undid a compaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A model is being asked for a summary of the history."""

    type: ClassVar[str] = "compaction_started"
    tokens_before: int
    """The estimated size of the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """From now on another part of the history is sent; most often less."""

    type: ClassVar[str] = "context_compacted"
    tokens_before: int
    """The estimated size of the context before."""
    tokens_after: int
    """The estimated size of the context after."""
    first_kept_index: int
    """The index of the first message that is sent as it is; those before it are replaced."""
    kind: CompactionKind
    """How it was compacted."""
    summary: str = ""
    """The summary of the replaced messages; empty if there is none."""
    summary_model: str = ""
    """The model that wrote the summary; empty if there is none."""
    problem: str = ""
    """Why there is no summary, if one was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReplaced:
    """A hook has replaced the run's history; what is stored stays as it is."""

    type: ClassVar[str] = "context_replaced"
    messages: tuple[Message, ...]
    """The new history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMoved:
    """The user moved to another point of the session, between runs."""

    type: ClassVar[str] = "history_moved"
    messages: tuple[Message, ...]
    """The messages that lead up to that point."""
    compactions: tuple[Mapping[str, Any], ...] = ()
    """The compactions that apply there, as recorded."""
    why: str
    """What the user asked for: rewind, redo, fork, clone, retry, or a branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationActivated:
    """The next model call goes to a stronger model."""

    type: ClassVar[str] = "escalation_activated"
    provider: str
    """The stronger model, as `alias/id`."""
    reason: str
    """Why it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStats:
    """The repairs made to tool arguments in a run; sent before `agent_end` if there were any."""

    type: ClassVar[str] = "repair_stats"
    counts: Mapping[str, int]
    """How many calls had each kind of repair, and how many stayed wrong. One call counts once for
    each kind."""


@dataclass(frozen=True, slots=True)
class SystemNotice:
    """A message from dirge to the user; it is never sent to a model."""

    type: ClassVar[str] = "system_notice"
    content: str
    """The text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAsked:
    """The user is asked whether a call may run."""

    type: ClassVar[str] = "permission_asked"
    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    claims: tuple[str, ...]
    """What the call would do, as `op:resource` lines."""
    reason: str
    """Why dirge asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswered:
    """A permission decision about a call."""

    type: ClassVar[str] = "permission_answered"
    tool_call_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    effect: Literal["allow", "deny", "defer", "abort"]
    """The decision."""
    policy: str
    """The name of the policy that decided; `answer` if the user was asked."""
    reason: str
    """The reason for the decision."""
    suggestion: str = ""
    """The `--allow` rule that would have allowed a denied call; empty if there is none."""
    tool_input: Any = None
    """The arguments of the call."""


PhaseName: TypeAlias = Literal["explore", "plan", "implement", "review"]

EvidenceOutcome: TypeAlias = Literal["passed", "failed", "denied", "timeout", "stopped"]
"""How a verification ended: exit code 0; another exit code; not allowed to run; timed out; stopped
by the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPhase:
    """A plan has begun or ended one of its phases."""

    type: ClassVar[str] = "phase"
    phase: PhaseName
    """The phase."""
    step: int
    """The number of the cycle of implementing and reviewing, from 1."""
    state: Literal["started", "ended"]
    """Whether the phase began or ended."""
    summary: str = ""
    """The result of a phase that ended, in one line."""
    text: str = ""
    """The full result of the phase: the findings, the plan, or the verdict with its reasons."""
    shut_in: str = ""
    """What keeps the commands of the phase from changing the project, as text for people; empty if
    nothing does."""
    duration_ms: int = 0
    """How long a phase that ended took."""
    usage: Usage = field(default_factory=Usage)
    """The tokens of a phase that ended."""
    cost_usd: float | None = 0.0
    """The cost of a phase that ended; None when a price is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceTaken:
    """A command was run, or should have been, while a plan was implemented or reviewed."""

    type: ClassVar[str] = "evidence"
    id: str
    """The id of the evidence, `E1` and so on; unique in the plan."""
    phase: PhaseName
    """The phase it belongs to."""
    step: int
    """The number of the cycle it belongs to, from 1."""
    command: str
    """The command line."""
    outcome: EvidenceOutcome
    """How the command ended."""
    exit_code: int | None
    """The exit code; None if the command did not end by itself."""
    output_sha256: str
    """The SHA-256 of the command's output, in hex."""
    tree: str
    """The SHA-256 of the files the command ran on, in hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEvent:
    """An event of the fork that a plan phase runs in, for display only."""

    type: ClassVar[str] = "fork_event"
    phase: PhaseName
    """The phase that runs in the fork."""
    step: int
    """The number of the cycle, from 1."""
    event: "LoopEvent"
    """The event."""


LoopEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | UsageReported
    | RetryNotice
    | CompactionStarted
    | ContextCompacted
    | ContextReplaced
    | HistoryMoved
    | EscalationActivated
    | PlanPhase
    | EvidenceTaken
    | ForkEvent
    | RepairStats
    | SystemNotice
    | PermissionAsked
    | PermissionAnswered
)
Sink: TypeAlias = Callable[[LoopEvent], None]
"""Called synchronously, in order; quick, never raising."""
