"""What a conversation is made of, and what it asks of whoever builds it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from dirge_py.agent_loop.queues import QueueMode
from dirge_py.conversation.broadcaster import Patience
from dirge_py.conversation.durable.base import DurableContext
from dirge_py.extensions.memory.base import MemoryProvider
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate
from dirge_py.session.kept import Kept
from dirge_py.session.listing import SessionSummary
from dirge_py.session.recorder import Recorder
from dirge_py.session.snapshots.base import Snapshots
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ContextCompacted, LoopEvent, Sink
from dirge_py.types.extensions import Plugins
from dirge_py.types.hooks import Bundle, LoopConfig
from dirge_py.types.llm import Models, StreamFn, ThinkingLevel
from dirge_py.types.messages import Message, Usage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.context.dropped import Dropped
    from dirge_py.context.named_prompts import PromptBook
    from dirge_py.context.prefix_watch import PrefixWatch
    from dirge_py.context.report import ContextReport
    from dirge_py.processes.shells import Shells
    from dirge_py.session.difference import Uncommitted
    from dirge_py.tools.planning.todo_list import TodoList


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """How a fork differs from its parent.

    `frozen` history starts from a copy of the parent's, `empty` from nothing. A fork keeps no
    journal of its own and asks through the parent's asker; it never may do more than its parent.
    `room` says where it works: as the parent does; in the same folder, but with commands that can
    only look; or in a copy of the working tree, without a network, which goes when it is closed.
    """

    history: Literal["frozen", "empty"] = "frozen"
    tools: Sequence[str] | None = None
    model: str | None = None
    max_turns: int | None = None
    room: Literal["shared", "read_only", "copy"] = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """How plans are worked through. `models` are those of phases, by name; absent: the main one.

    `auto_accept`: None means that a plan is accepted unasked only where nobody could be asked.
    `max_turns` is the most that a fork of a phase may have; what the plan as a whole may cost, use
    and take is without a limit where it is None.
    """

    is_enabled: bool = True
    review_cycles: int = 2
    auto_accept: bool | None = None
    max_turns: int = 40
    models: Mapping[str, str] = field(default_factory=dict)
    cost_usd: float | None = None
    tokens: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What wiring needs to know to configure one run.

    `is_recorded`: calls go to the journal. `single_turn`: the run rests after each turn, which the
    conversation itself sees to; gates have nothing to say in it. `chosen_model` and
    `chosen_thinking` tell what is chosen now, which may change while the run goes on. `further` are
    hooks for this run alone: they stand behind all others, but before those that take secrets out
    and judge calls. `is_continued`: no prompt opened it. `is_reviewed`: whoever has the
    conversation sees to what comes of it.
    """

    model: str
    thinking: ThinkingLevel
    bundle: Bundle
    chosen_model: Callable[[], str]
    chosen_thinking: Callable[[], ThinkingLevel]
    max_turns: int | None = None
    is_recorded: bool = True
    single_turn: bool = False
    is_continued: bool = False
    is_reviewed: bool = False
    further: Sequence[Bundle] = ()


PromptCheck: TypeAlias = Callable[[UserMessage], Awaitable[str | None]]
"""Looks at what was typed before it is sent; a reason, for the person, holds it back."""

Compactor: TypeAlias = Callable[[Sequence[Message], str], Awaitable[ContextCompacted | None]]
"""Makes what is sent of these messages smaller, minding a focus; None if there was nothing to."""


class SentView(Protocol):
    """What of a history is sent, as far as a person may change it."""

    def dropped(self, messages: Sequence[Message]) -> "Sequence[Dropped]": ...
    def show_again(self, messages: Sequence[Message], number: int) -> ContextCompacted | None: ...
    def undo(self, messages: Sequence[Message]) -> ContextCompacted | None: ...


OnRunEnd: TypeAlias = Callable[[Sequence[Message], AbortSignal], Awaitable[None]]
"""Hears what a run added, when it is over and nobody was told so; it never raises."""

OnWaiting: TypeAlias = Callable[[AwaitingConfirmation], Mapping[str, Any]]
"""Makes the continuation of a conversation that waits for a decision."""


class Relay:
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
class OtherRoom:
    """What replaces the parent's where a fork works elsewhere, or may do less there.

    `shut_in` says, in words for a person, what keeps its commands from changing the project.
    """

    cwd: Path
    gate: Gate
    shut_in: str
    sandbox: str
    system_prompt: Callable[[Sequence[str]], str]
    attach: Callable[[str, Pictures], Awaitable[UserMessage]]
    explain: Callable[[str, str], Decision]
    shells: "Shells"
    tree: ReadTree


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkParts:
    """What a fork cannot share with its parent: guards with a memory of their own, own state.

    `room` is None where it works where its parent does, as its parent may.
    """

    configure: Callable[[RunSettings], LoopConfig]
    tools: Sequence[LoopTool]
    room: OtherRoom | None = None
    sinks: Sequence[Sink] = ()
    on_close: Sequence[Callable[[], Awaitable[None]]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a conversation is made of. Built by wiring; a fork replaces some of it.

    `configure` makes the loop configuration of one run, with fresh guards. `system_prompt` gets the
    tools' names and is read once a run, so that it stays the same, byte for byte, within it.
    `notices` are for the start, `late_notices` is where services put what comes up later; it is
    emptied into events, and `relay` is where they tell events of their own.

    `prompt_checks` see every typed message before it becomes history; the first reason holds it
    back, and so does a check that fails. `compact` does what `Conversation.compact` promises, and
    `view` takes it back; `context_report` tells what would be sent of these messages. `on_waiting`
    is asked when the last event of a run that waits was recorded. `bind_tools` makes tools ready
    for the loop that come later than `tools`. `snapshots` are those of the project's files, None
    where none are kept; `uncommitted` tells what differs from the last commit there. `asset_dir` is
    where pictures are that were attached. `for_fork` makes what a fork with this model (`alias/id`)
    needs of its own; without it a fork shares everything. `tree` reads the files of the project;
    `kept` is what the session keeps by name, `shut_in` what `OtherRoom` says of it. `sandbox` is
    the kind that commands run in, "" for none; `read_only_profile` says in words what holds those
    that only look, and blocks until one was tried. `durable` is the engine that model and tool
    calls go through; `watch` compares the requests of this conversation. `memory` is what is kept
    from one session to the next; `on_run_end` is awaited before the end of a run is told.
    `before_close` may still record something, `on_close` no longer.
    """

    cwd: Path
    model: str
    thinking: ThinkingLevel
    models: Models
    tools: Sequence[LoopTool]
    stream_fn: StreamFn
    configure: Callable[[RunSettings], LoopConfig]
    system_prompt: Callable[[Sequence[str]], str]
    attach: Callable[[str, Pictures], Awaitable[UserMessage]]
    explain: Callable[[str, str], Decision] | None = None
    gate: Gate | None = None
    recorder: Recorder | None = None
    snapshots: Snapshots | None = None
    uncommitted: "Uncommitted | None" = None
    list_sessions: Callable[[], Sequence[SessionSummary]] = tuple
    instruction_files: Sequence[str] = ()
    notices: Sequence[str] = ()
    late_notices: list[str] = field(default_factory=list)
    history: Sequence[Message] = ()
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    steering_mode: QueueMode = "all"
    follow_up_mode: QueueMode = "one-at-a-time"
    max_turns: int | None = None
    time_limit_s: float | None = None
    prompt_checks: Sequence[PromptCheck] = ()
    compact: Compactor | None = None
    view: SentView | None = None
    context_report: Callable[[Sequence[Message]], "ContextReport"] | None = None
    on_waiting: OnWaiting | None = None
    on_run_end: OnRunEnd | None = None
    bind_tools: Callable[[Sequence[Any]], Sequence[LoopTool]] = tuple
    for_fork: Callable[[ChildSpec, str], Awaitable[ForkParts]] | None = None
    tree: ReadTree | None = None
    todo: "TodoList | None" = None
    kept: Kept = field(default_factory=Kept)
    shut_in: str = ""
    plan_terms: PlanTerms = PlanTerms()
    plugins: Plugins | None = None
    shells: "Shells | None" = None
    prompts: "PromptBook | None" = None
    asset_dir: Path | None = None
    sandbox: str = ""
    read_only_profile: Callable[[], str] = str
    durable: DurableContext | None = None
    memory: MemoryProvider | None = None
    relay: Relay = field(default_factory=Relay)
    watch: "PrefixWatch | None" = None
    patience: Patience = field(default_factory=Patience)
    sinks: Sequence[Sink] = ()
    before_close: Sequence[Callable[[], Awaitable[None]]] = ()
    on_close: Sequence[Callable[[], Awaitable[None]]] = ()

    async def forked(self, spec: ChildSpec, history: Sequence[Message]) -> "Parts":
        """The parts of a conversation that differs from this one, at `history`, as `spec` says.

        Raises:
            ConfigError: `spec` names a model that does not exist.
            DirgeError: the room it wants cannot be had.
        """
        model, level = self.model, self.thinking
        if spec.model is not None:
            model, asked = self.models.resolve(spec.model)
            level = asked or level
        if self.for_fork is None and spec.room != "shared":
            raise DirgeError("this conversation has no other room that a fork could work in.")
        own = (
            await self.for_fork(spec, model)
            if self.for_fork
            else ForkParts(configure=self.configure, tools=self.tools)
        )
        chosen = own.tools
        if spec.tools is not None:
            chosen = [tool for tool in chosen if tool.name in set(spec.tools)]
        parts = replace(
            self,
            model=model,
            thinking=level,
            tools=tuple(chosen),
            configure=own.configure,
            history=tuple(history) if spec.history == "frozen" else (),
            recorder=None,
            snapshots=None,
            max_turns=spec.max_turns or self.max_turns,
            usage=Usage(),
            cost_usd=0.0,
            compact=None,
            view=None,
            context_report=None,
            on_waiting=None,
            on_run_end=None,
            for_fork=None,
            watch=None,
            kept=Kept(),
            late_notices=[],
            relay=Relay(),
            sinks=own.sinks,
            before_close=(),
            on_close=own.on_close,
            notices=(),
        )
        return parts if own.room is None else _moved(parts, own.room)


def _moved(parts: Parts, room: OtherRoom) -> Parts:
    return replace(
        parts,
        cwd=room.cwd,
        gate=room.gate,
        sandbox=room.sandbox,
        shut_in=room.shut_in,
        system_prompt=room.system_prompt,
        attach=room.attach,
        explain=room.explain,
        shells=room.shells,
        tree=room.tree,
        todo=None,
        uncommitted=None,
    )
