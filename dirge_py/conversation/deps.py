"""What a conversation is made of, and what it asks of whoever builds it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from dirge_py.agent_loop.queues import QueueMode
from dirge_py.conversation.broadcaster import BackpressurePolicy
from dirge_py.conversation.durable import DurableContext
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.decision import Decision
from dirge_py.permission.engine import PermissionEngine
from dirge_py.session.recorder import Recorder, SessionMetadata
from dirge_py.session.store import SessionSummary
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ContextCompacted, LoopEvent, Sink
from dirge_py.types.extensions import PromptCheck, RunContext
from dirge_py.types.hooks import Hooks, LoopConfig
from dirge_py.types.llm import Models, StreamFn, ThinkingLevel
from dirge_py.types.messages import Message, Usage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.context.prompts import PromptBook
    from dirge_py.context.shape import OmittedMessage
    from dirge_py.context.system_prompt import CachePrefixMonitor
    from dirge_py.context.view import ContextReport
    from dirge_py.processes.shells import Shells
    from dirge_py.session.file_states import UncommittedDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """How a fork differs from the conversation it starts from, its parent.

    A fork keeps no journal and asks through the parent's asker. It may never do more than its
    parent.
    """

    history: Literal["frozen", "empty"] = "frozen"
    """Start from a copy of the parent's messages, or from none."""
    tools: Sequence[str] | None = None
    """Names of the tools the fork may use; None means the parent's."""
    model: str | None = None
    """`[alias/]id[:level]`; None means the parent's."""
    max_turns: int | None = None
    """The most turns of one run; None means the parent's."""
    workspace: Literal["shared", "read_only", "copy"] = "shared"
    """Where it works: as the parent does; in the same folder with commands that can only read; or
    in a copy of the working tree without a network, which is removed when the fork is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What `RunDeps.configure` needs to know to configure one run."""

    model: str
    """`alias/id`."""
    thinking: ThinkingLevel
    """The thinking level at the start."""
    bundle: Hooks
    """The hooks of the conversation itself: they come first."""
    chosen_model: Callable[[], str]
    """The model that is selected now; it may change during the run."""
    chosen_thinking: Callable[[], ThinkingLevel]
    """The thinking level that is selected now."""
    max_turns: int | None = None
    """The most turns; None: no limit."""
    is_recorded: bool = True
    """Whether calls go to the journal."""
    single_turn: bool = False
    """Whether the run rests after each turn; stop checks are silent then."""
    is_continued: bool = False
    """Whether no prompt opened it."""
    is_reviewed: bool = False
    """Whether the exclusive owner of the conversation reviews its result."""
    further: Sequence[Hooks] = ()
    """Hooks for this run alone: after all others, before redaction and permission."""

    def context(self, *, is_fork: bool = False) -> RunContext:
        """What extensions are told of the run."""
        return RunContext(
            model=self.model,
            is_fork=is_fork,
            is_recorded=self.is_recorded,
            is_continued=self.is_continued,
        )


Compactor: TypeAlias = Callable[[Sequence[Message], str], Awaitable[ContextCompacted | None]]
"""Makes what is sent of these messages smaller, minding a focus; None if there was nothing to."""


class SentView(Protocol):
    """What of a history is sent, as far as a person may change it."""

    def dropped(self, messages: Sequence[Message]) -> "Sequence[OmittedMessage]": ...
    def show_again(self, messages: Sequence[Message], number: int) -> ContextCompacted | None: ...
    def undo(self, messages: Sequence[Message]) -> ContextCompacted | None: ...


OnRunEnd: TypeAlias = Callable[[Sequence[Message], AbortSignal], Awaitable[None]]
"""Hears what a run added, when it is over and nobody was told so; it never raises."""

OnWaiting: TypeAlias = Callable[[AwaitingConfirmation], Mapping[str, Any]]
"""Makes the continuation of a conversation that waits for a decision."""


class EventForwarder:
    """A way for services to tell the conversation they work for what happens outside the loop.

    A sink like any other: the tokens of a judge, a summary that begins. Before the conversation is
    there, nothing is told.
    """

    def __init__(self) -> None:
        self.sink: Sink | None = None

    def __call__(self, event: LoopEvent) -> None:
        if self.sink is not None:
            self.sink(event)


Pictures: TypeAlias = Mapping[str, bytes]
"""Pictures that a text holds, by the names that stand for them in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """The files of a project at one moment: SHA-256 of all of it, and of each file by its path.

    Paths are relative, with `/`. What git ignores is not among them.
    """

    sha256: str
    files: Mapping[str, str] = field(default_factory=dict)


ReadTree: TypeAlias = Callable[[], Awaitable[TreeState]]
"""The files as they are now. Raises FileError where they cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnvironment:
    """Where a conversation works, and what it may do there."""

    cwd: Path
    """The folder it works in."""
    system_prompt: Callable[[Sequence[str]], str]
    """Makes the system prompt for the tools' names; read once a run, so that it stays the same."""
    attach: Callable[[str, Pictures], Awaitable[UserMessage]]
    """Reads the `@path` attachments of a prompt."""
    gate: PermissionEngine | None = None
    """The permission engine."""
    explain: Callable[[str, str], Decision] | None = None
    """What would be decided about a tool's call, from its name and input."""
    shells: "Shells | None" = None
    """Commands in the background, and the way there for one that runs."""
    sandbox: str = ""
    """The kind of sandbox that commands run in; "" for none."""
    read_only_profile: Callable[[], str] = str
    """What holds read-only commands, in words; "" if unknown. Blocks the first time."""
    isolation: str = ""
    """For people: what keeps the commands of a fork from changing the project; "" elsewhere."""
    read_tree: ReadTree | None = None
    """Reads the files of the project; None where nobody can."""
    asset_dir: Path | None = None
    """Where attached pictures are stored; None where they are not."""
    instruction_files: Sequence[str] = ()
    """Paths of the instruction files in the system prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDeps:
    """What each run of a conversation is made of."""

    tools: Sequence[LoopTool]
    """The tools, ready for the loop."""
    stream_fn: StreamFn
    """Calls the model that `options.model` names."""
    configure: Callable[[RunSettings], LoopConfig]
    """Makes the configuration of one run, with fresh guards."""
    bind_tools: Callable[[Sequence[Any]], Sequence[LoopTool]] = tuple
    """Makes tools that come later ready for the loop."""
    prompts: "PromptBook | None" = None
    """The prompts kept in files; a selected one holds from the next run on."""
    prompt_checks: Sequence[PromptCheck] = ()
    """See every typed message before it becomes history; the first reason holds it back."""
    on_run_end: OnRunEnd | None = None
    """Awaited before the end of a run is emitted."""
    on_waiting: OnWaiting | None = None
    """Called when the last event of a run that waits for a decision was recorded."""
    watch: "CachePrefixMonitor | None" = None
    """Compares the requests of the conversation, for the provider's cache."""
    steering_mode: QueueMode = "all"
    """How many steering messages enter before a turn."""
    follow_up_mode: QueueMode = "one-at-a-time"
    """How many follow-ups enter when the agent would stop."""
    max_turns: int | None = None
    """The most turns of a run; None: no limit."""
    time_limit_s: float | None = None
    """How long a run may take; None: no limit."""
    backpressure: BackpressurePolicy = field(default_factory=BackpressurePolicy)
    """How long a run waits for slow readers of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeps:
    """What of a conversation is stored, and what was loaded."""

    recorder: Recorder | None = None
    """Writes the journal; None where nothing is stored."""
    history: Sequence[Message] = ()
    """The messages it starts with."""
    usage: Usage = field(default_factory=Usage)
    """The tokens those have used."""
    cost_usd: float | None = 0.0
    """What they have cost; None when a part of that is unknown."""
    metadata: SessionMetadata = field(default_factory=SessionMetadata)
    """Small values that the session keeps by name."""
    list_sessions: Callable[[], Sequence[SessionSummary]] = tuple
    """The sessions of this project."""
    uncommitted: "UncommittedDiff | None" = None
    """Tells what differs from the last commit."""
    compact: Compactor | None = None
    """Does what `Conversation.compact` promises."""
    view: SentView | None = None
    """Takes a compaction back."""
    context_report: Callable[[Sequence[Message]], "ContextReport"] | None = None
    """Tells what would be sent of these messages."""
    durable: DurableContext | None = None
    """The engine that model and tool calls go through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEnvironment:
    """What a fork cannot share with its parent."""

    configure: Callable[[RunSettings], LoopConfig]
    """Guards with a memory of their own."""
    tools: Sequence[LoopTool]
    """Tools with a state of their own."""
    extensions: ExtensionSet = field(default_factory=ExtensionSet)
    """What its parent's extensions gave it."""
    environment: WorkEnvironment | None = None
    """Where it works; None: as its parent does."""
    sinks: Sequence[Sink] = ()
    """Sinks of its own."""
    on_close: Sequence[Callable[[], Awaitable[None]]] = ()
    """Called when it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDeps:
    """What a conversation is made of. `sdk/build.py` makes it; a fork replaces some of it."""

    environment: WorkEnvironment
    """Where it works."""
    run: RunDeps
    """What its runs are made of."""
    models: Models
    """The models that are configured."""
    model: str
    """The model it starts with, as `alias/id`."""
    thinking: ThinkingLevel = "off"
    """The thinking level it starts with."""
    session: SessionDeps = field(default_factory=SessionDeps)
    """What of it is stored."""
    for_fork: Callable[[ForkOptions, str], Awaitable[ForkEnvironment]] | None = None
    """Makes what a fork with this model (`alias/id`) needs; None: forks share everything."""
    notices: Sequence[str] = ()
    """What to tell the person at the start."""
    late_notices: list[str] = field(default_factory=list)
    """Where services put what comes up later; emptied into events."""
    relay: EventForwarder = field(default_factory=EventForwarder)
    """Where services emit events of their own."""
    sinks: Sequence[Sink] = ()
    """Receive every event."""
    before_close: Sequence[Callable[[], Awaitable[None]]] = ()
    """Called when it is closed, while something can still be recorded."""
    on_close: Sequence[Callable[[], Awaitable[None]]] = ()
    """Called when it is closed and nothing can be recorded any more."""
    extensions: ExtensionSet = field(default_factory=ExtensionSet)
    """Its capabilities."""

    async def forked(self, options: ForkOptions, history: Sequence[Message]) -> "ConversationDeps":
        """The parts of a conversation that differs from this one, at `history`, as `options` says.

        Raises:
            ConfigError: `options` names a model that does not exist.
            DirgeError: the workspace it asks for cannot be had.
        """
        model, level = self.model, self.thinking
        if options.model is not None:
            model, asked = self.models.resolve(options.model)
            level = asked or level
        if self.for_fork is None and options.workspace != "shared":
            raise DirgeError("this conversation has no other room that a fork could work in.")
        own = (
            await self.for_fork(options, model)
            if self.for_fork
            else ForkEnvironment(
                configure=self.run.configure, tools=self.run.tools, extensions=self.extensions
            )
        )
        tools = own.tools
        if options.tools is not None:
            tools = [tool for tool in tools if tool.name in set(options.tools)]
        return ConversationDeps(
            environment=own.environment or self.environment,
            run=replace(
                self.run,
                tools=tuple(tools),
                configure=own.configure,
                max_turns=options.max_turns or self.run.max_turns,
                on_waiting=None,
                on_run_end=None,
                watch=None,
            ),
            models=self.models,
            model=model,
            thinking=level,
            session=SessionDeps(
                history=tuple(history) if options.history == "frozen" else (),
                list_sessions=self.session.list_sessions,
                uncommitted=self.session.uncommitted if own.environment is None else None,
                durable=self.session.durable,
            ),
            sinks=own.sinks,
            on_close=own.on_close,
            extensions=own.extensions,
        )
