"""What the loop says while it runs. Sinks watch; nothing is answered through an event.

Order, with the grammar of a run (`→` reads "then"):

    run    := AgentStart TurnStart prompt* turn (TurnStart turn)* RepairStats? AgentEnd
    prompt := MessageStart(user) MessageEnd(user)
    turn   := injected* assistant Usage? tools TurnEnd
    assistant := RetryNotice* MessageStart MessageUpdate* MessageEnd

Notices, questions, compactions and phases come anywhere between. Every TurnStart has one TurnEnd,
every tool call one ToolExecutionStart, one ToolExecutionEnd and one result message. AgentEnd is
last on every path out. A plan has events besides those of its runs: its phases, the commands that
were its evidence, and what happens in the forks that its phases run in.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, Usage
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import LoopToolResult

Phase = Literal[
    "text_start",
    "text_delta",
    "text_end",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "toolcall_start",
    "toolcall_delta",
    "toolcall_end",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStart:
    type: ClassVar[str] = "agent_start"
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """The last event. `messages` is everything the run added to history, in order."""

    type: ClassVar[str] = "agent_end"
    messages: tuple[Message, ...]
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    type: ClassVar[str] = "turn_start"
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """`message` is None when the turn was ended before its model call."""

    type: ClassVar[str] = "turn_end"
    message: AssistantMessage | None
    tool_results: tuple[ToolResultMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageStart:
    type: ClassVar[str] = "message_start"
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUpdate:
    """A piece of the assistant message being written.

    `index` is the block it belongs to, `delta` the new text only. Deltas of one block, joined, are
    its text; an `*_end` that carries `text` replaces it.
    """

    type: ClassVar[str] = "message_update"
    phase: Phase
    index: int
    delta: str = ""
    text: str | None = None
    tool_call_id: str = ""
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class MessageEnd:
    type: ClassVar[str] = "message_end"
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStart:
    """`args` as the model wrote them."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionUpdate:
    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: LoopToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionEnd:
    """`deferred` ends have no result message yet: the call waits for a decision."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: LoopToolResult
    is_error: bool
    duration_ms: int = 0
    deferred: bool = False


OF_TURNS = ("", "escalate", "fallback")
"""The roles in which a model answers a turn; in all others it is asked on the side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """Tokens of one model call. `cost_usd` is None when the price is unknown.

    `role` says what a model was asked for on the side, or that another than the main one answered a
    turn ("escalate", "fallback"); "" for a turn of the main model. `changed` says in words what the
    request of a turn said differently at its beginning than the one before, None if nobody looked.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    model: str = ""
    cost_usd: float | None = None
    role: str = ""
    changed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryNotice:
    type: ClassVar[str] = "retry_notice"
    attempt: int
    delay_ms: int
    error: str


CompactionKind = Literal[
    "prune",
    "summary",
    "failed_summary",
    "summary_off",
    "overflow",
    "server",
    "shown_again",
    "undone",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A model is being asked to summarise; `tokens_before` is the estimated size of the context."""

    type: ClassVar[str] = "compaction_started"
    tokens_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """From now on less is sent. Messages before `first_kept_index` are replaced in the view.

    `kind`: results shortened only, summarised, a summary that failed, the summariser switched off
    after failures, made to fit without a model, or done by the service. The last two send more: a
    message that a person wanted back, or a compaction that they took back.
    """

    type: ClassVar[str] = "context_compacted"
    tokens_before: int
    tokens_after: int
    first_kept_index: int
    kind: CompactionKind
    summary: str = ""
    summary_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReplaced:
    """A hook put another history in the place of the run's; what is stored stays as it is."""

    type: ClassVar[str] = "context_replaced"
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMoved:
    """The person went to another point of the session, between runs; `messages` lead up to it.

    `compactions` are those that count there, as they were recorded. `why` says what was asked for:
    rewind, redo, fork, clone, retry, or a branch that was chosen.
    """

    type: ClassVar[str] = "history_moved"
    messages: tuple[Message, ...]
    compactions: tuple[Mapping[str, Any], ...] = ()
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationActivated:
    """The next model call goes to a stronger model (`alias/id`)."""

    type: ClassVar[str] = "escalation_activated"
    provider: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStats:
    """How often each kind of repair was made to arguments in this run, and how many stayed wrong.

    One call counts once for each kind. Told before `agent_end`, if there is anything to tell.
    """

    type: ClassVar[str] = "repair_stats"
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SystemNotice:
    """A line from the harness for the person; never sent to a model."""

    type: ClassVar[str] = "system_notice"
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAsked:
    """A question was put to whoever answers. `claims` are `op:resource` lines."""

    type: ClassVar[str] = "permission_asked"
    tool_call_id: str
    tool_name: str
    claims: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswered:
    """A call was decided. `policy` is the one that decided, or `answer`: somebody was asked.

    `suggestion` is the `--allow` rule that would have allowed a denied call, where there is one.
    """

    type: ClassVar[str] = "permission_answered"
    tool_call_id: str
    tool_name: str
    effect: Literal["allow", "deny", "defer", "abort"]
    policy: str
    reason: str
    suggestion: str = ""
    tool_input: Any = None


PhaseName: TypeAlias = Literal["explore", "plan", "implement", "review"]

EvidenceOutcome: TypeAlias = Literal["passed", "failed", "denied", "timeout", "stopped"]
"""How a verification went: exit code 0; another one; it was not allowed to run; it took too long;
it was stopped by somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPhase:
    """A plan has begun or ended one of its phases; `step` counts the cycles through them from 1.

    `summary`: what came of a phase that ended, in a line. `text`: what it hands on, whole: the
    findings, the plan, the verdict with its reasons. `shut_in` says, in words for a person, what
    keeps its commands from changing the project; "" where nothing does. `duration_ms`, `usage` and
    `cost_usd` (None: a price is unknown) are those of this phase, once it ended.
    """

    type: ClassVar[str] = "phase"
    phase: PhaseName
    step: int
    state: Literal["started", "ended"]
    summary: str = ""
    text: str = ""
    shut_in: str = ""
    duration_ms: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceTaken:
    """A command was run, or was to be run, while a plan was implemented or reviewed.

    `id` (`E1`, …) is unique in the plan. `exit_code` is None where it never ended by itself.
    `output_sha256` and `tree` (hex SHA-256) are those of what it printed and of the files that it
    was run on.
    """

    type: ClassVar[str] = "evidence"
    id: str
    phase: PhaseName
    step: int
    command: str
    outcome: EvidenceOutcome
    exit_code: int | None
    output_sha256: str
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEvent:
    """What happens in the fork that a phase runs in, for whoever shows it. Never history here."""

    type: ClassVar[str] = "fork_event"
    phase: PhaseName
    step: int
    event: "LoopEvent"


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
