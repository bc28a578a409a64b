"""The parts of a conversation, which `sdk/build.py` makes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dirge_py.agent_loop.queues import QueueMode
from dirge_py.conversation.broadcaster import BackpressurePolicy
from dirge_py.conversation.durable import DurableContext
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.guards.limits import LimitsInForce
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.decision import Decision
from dirge_py.permission.engine import PermissionEngine
from dirge_py.session.history import LoadedSession
from dirge_py.session.recorder import Recorder, SessionMetadata
from dirge_py.session.store import SessionSummary
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, Sink
from dirge_py.types.extensions import PromptCheck, RunContext
from dirge_py.types.hooks import Hooks, LoopConfig
from dirge_py.types.llm import Models, StreamFn, ThinkingLevel
from dirge_py.types.messages import Message, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.context.hooks import ContextHooks
    from dirge_py.context.prompts import PromptBook
    from dirge_py.context.system_prompt import CachePrefixMonitor
    from dirge_py.context.view import ContextReport
    from dirge_py.files.tree_hash import TreeDigest
    from dirge_py.processes.runner import Shells
    from dirge_py.providers.embeddings import Embeddings
    from dirge_py.session.file_states import UncommittedDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """How a fork differs from the conversation it starts from, its parent.

    A fork has no journal, asks through its parent's asker, and may never do more than its parent.
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
    """The arguments of `RunDeps.configure` for one run."""

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
    by_program: bool = False
    """Whether the program itself makes one call, without a model: there are no guards then."""

    def context(self, *, is_fork: bool = False) -> RunContext:
        """Return the description of the run for extensions."""
        return RunContext(
            model=self.model,
            is_fork=is_fork,
            is_recorded=self.is_recorded,
            is_continued=self.is_continued,
        )


class EventForwarder:
    """A sink for events from outside the loop; drops those before the conversation exists."""

    def __init__(self) -> None:
        self.sink: Sink | None = None
        """Receives the events."""

    def __call__(self, event: LoopEvent) -> None:
        if self.sink is not None:
            self.sink(event)


Pictures: TypeAlias = Mapping[str, bytes]
"""Images of a text, by their names in it."""


ReadTree: TypeAlias = "Callable[[], Awaitable[TreeDigest]]"
"""The files of a project that git does not ignore, as they are now. Raises FileError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnvironment:
    """The folder of a conversation, and what it may do there."""

    cwd: Path
    """The working folder."""
    system_prompt: Callable[[Sequence[str]], str]
    """Makes the system prompt for the tools of these names; called once for each run."""
    attach: Callable[[str, Pictures], Awaitable[UserMessage]]
    """Reads the `@path` attachments of a prompt."""
    gate: PermissionEngine
    """The permission engine."""
    explain: Callable[[str, str], Decision] | None = None
    """The decision that a call would get, from the tool's name and input."""
    shells: "Shells | None" = None
    """The commands of the session, in the foreground and background."""
    sandbox: str = ""
    """The kind of sandbox that commands run in; "" for none."""
    read_only_profile: Callable[[], str] = str
    """Describes what confines read-only commands; "" if unknown. Blocks the first time."""
    isolation: str = ""
    """What keeps the commands of a fork from changing the project, for people; "" elsewhere."""
    read_tree: "ReadTree | None" = None
    """Hashes the files of the project; None if it can't."""
    asset_dir: Path | None = None
    """The folder of attached images; None: they are not stored."""
    instruction_files: Sequence[str] = ()
    """Paths of the instruction files in the system prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDeps:
    """The parts of each run of a conversation."""

    tools: Sequence[LoopTool]
    """The tools, bound for the loop."""
    stream_fn: StreamFn
    """Calls the model that `options.model` names."""
    configure: Callable[[RunSettings], LoopConfig]
    """Makes the configuration of one run, with fresh guards."""
    prompts: "PromptBook"
    """The prompts that are stored in files; a selected one is used from the next run on."""
    bind_tools: Callable[[Sequence[Any]], Sequence[LoopTool]] = tuple
    """Binds further tools for the loop."""
    added_tools: Sequence[Any] = ()
    """Tools that the program added later, which forks get, too."""
    prompt_checks: Sequence[PromptCheck] = ()
    """Check every typed message before it enters the history; the first reason holds it back."""
    on_run_end: Callable[[Sequence[Message], AbortSignal], Awaitable[None]] | None = None
    """Awaited with the messages that a run added, before its end is emitted."""
    on_waiting: Callable[[AwaitingConfirmation], Mapping[str, Any]] | None = None
    """Makes the continuation of a run that waits for a decision, after its last event."""
    watch: "CachePrefixMonitor | None" = None
    """Compares the requests of the conversation, for the provider's cache."""
    steering_mode: QueueMode = "all"
    """How many steering messages enter before a turn."""
    follow_up_mode: QueueMode = "one-at-a-time"
    """How many follow-ups enter when the agent would stop."""
    max_turns: int | None = None
    """The most turns of a run; None: no limit."""
    limits: LimitsInForce = field(default_factory=LimitsInForce)
    """The limits of runs and of the session."""
    backpressure: BackpressurePolicy = field(default_factory=BackpressurePolicy)
    """How long a run waits for slow readers of its events."""

    def with_tool(self, tool: Any) -> "RunDeps":
        """Return the parts with one more tool, which replaces the one of its name."""
        named = {each.name: each for each in self.tools}
        named |= {each.name: each for each in self.bind_tools([tool])}
        added = [each for each in self.added_tools if each.name != tool.name]
        return replace(self, tools=tuple(named.values()), added_tools=(*added, tool))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeps:
    """The stored part of a conversation."""

    recorder: Recorder | None = None
    """Writes the journal; None: nothing is stored."""
    loaded: LoadedSession = field(default_factory=LoadedSession)
    """The messages it starts with, and what they have used."""
    metadata: SessionMetadata = field(default_factory=SessionMetadata)
    """Small values that the session stores by name."""
    list_sessions: Callable[..., Sequence[SessionSummary]] = lambda most=None: ()
    """The sessions of this project, the most recently used first; at most `most`."""
    uncommitted: "UncommittedDiff | None" = None
    """Returns the difference from the last commit."""
    view: "ContextHooks | None" = None
    """Compacts the context, and undoes compactions."""
    context_report: Callable[[Sequence[Message]], "ContextReport"] | None = None
    """Describes what would be sent of these messages."""
    embed: "Callable[..., Awaitable[Embeddings]] | None" = None
    """`providers.embeddings.embed_texts` for the settings; None: the conversation has none."""
    durable: DurableContext | None = None
    """The engine that model and tool calls go through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDeps:
    """The parts of a conversation; a fork replaces some of them."""

    environment: WorkEnvironment
    """Its folder and permissions."""
    run: RunDeps
    """The parts of its runs."""
    models: Models
    """The models that are configured."""
    model: str
    """The model it starts with, as `alias/id`."""
    thinking: ThinkingLevel = "off"
    """The thinking level it starts with."""
    session: SessionDeps = field(default_factory=SessionDeps)
    """Its stored part."""
    for_fork: "ForkMaker | None" = None
    """Returns the parts of a fork with a workspace, tools and guards of its own; None: forks share
    everything."""
    notices: Sequence[str] = ()
    """Messages for the user at the start."""
    late_notices: list[str] = field(default_factory=list)
    """Later messages of services; they become events."""
    relay: EventForwarder = field(default_factory=EventForwarder)
    """Where services emit events."""
    sinks: Sequence[Sink] = ()
    """Receive every event."""
    before_close: Sequence[Callable[[], Awaitable[None]]] = ()
    """Called when it is closed, while something can still be recorded."""
    on_close: Sequence[Callable[[], Awaitable[None]]] = ()
    """Called when it is closed and nothing can be recorded any more."""
    extensions: ExtensionSet = field(default_factory=ExtensionSet)
    """Its extensions."""

    async def forked(self, options: ForkOptions, history: Sequence[Message]) -> "ConversationDeps":
        """Return the parts of a fork at `history`, as `options` says.

        Raises ConfigError for a model that doesn't exist, DirgeError for an unavailable workspace.
        """
        model, level = self.model, self.thinking
        if options.model is not None:
            model, asked = self.models.resolve(options.model)
            level = asked or level
        fork = ConversationDeps(
            environment=self.environment,
            run=replace(
                self.run,
                max_turns=options.max_turns or self.run.max_turns,
                on_waiting=None,
                on_run_end=None,
                watch=None,
            ),
            models=self.models,
            model=model,
            thinking=level,
            session=SessionDeps(
                loaded=LoadedSession(
                    messages=tuple(history) if options.history == "frozen" else ()
                ),
                list_sessions=self.session.list_sessions,
                uncommitted=self.session.uncommitted,
                durable=self.session.durable,
            ),
            extensions=self.extensions,
        )
        if self.for_fork is not None:
            fork = await self.for_fork(options, fork)
        elif options.workspace != "shared":
            raise DirgeError("this conversation has no other workspace for a fork.")
        for tool in self.run.added_tools:
            fork = replace(fork, run=fork.run.with_tool(tool))
        if options.tools is not None:
            tools = tuple(tool for tool in fork.run.tools if tool.name in options.tools)
            fork = replace(fork, run=replace(fork.run, tools=tools))
        return fork


ForkMaker: TypeAlias = Callable[[ForkOptions, ConversationDeps], Awaitable[ConversationDeps]]
