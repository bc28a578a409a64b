"""Observers of a run that may end it, or skip a tool call, at six points."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import ClassVar, TypeAlias

from dirge_py.agent_loop.model_call import on_complete
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent, Sink, SystemNotice
from dirge_py.types.hooks import Hooks, StopRun, ToolOverride, TurnInfo
from dirge_py.types.llm import LlmContext, StreamDone, StreamEvent, StreamFn, StreamOptions, closing
from dirge_py.types.messages import AssistantMessage
from dirge_py.types.outcomes import HookTerminated
from dirge_py.types.tools import LoopToolResult, ToolCall

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIteration:
    """A turn begins; counted from 1."""

    point: ClassVar[str] = "loop_iteration"
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreLlmCall:
    """A model is about to be asked. Retries of one call are not told."""

    point: ClassVar[str] = "pre_llm_call"
    context: LlmContext
    options: StreamOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PostLlmCall:
    """A model has answered, and none of its calls has run. Answers that broke off are not told."""

    point: ClassVar[str] = "post_llm_call"
    message: AssistantMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class PreToolExecution:
    """A call is about to be run; told also of one that cannot run as it stands (`problem`)."""

    point: ClassVar[str] = "pre_tool_execution"
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToolExecution:
    point: ClassVar[str] = "post_tool_execution"
    call: ToolCall
    result: LoopToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompaction:
    """Less is sent from now on; both are tokens."""

    point: ClassVar[str] = "context_compaction"
    old: int
    new: int


LifecycleEvent: TypeAlias = (
    LoopIteration
    | PreLlmCall
    | PostLlmCall
    | PreToolExecution
    | PostToolExecution
    | ContextCompaction
)


@dataclass(frozen=True, slots=True)
class ContinueRun:
    """Go on; None means the same."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not run this call; anywhere else it is told as a mistake and the run goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """End the run: `HookTerminated(point, reason)`."""

    reason: str


Action: TypeAlias = ContinueRun | Skip | Terminate
Observer: TypeAlias = Callable[[LifecycleEvent], Action | Awaitable[Action | None] | None]


def lifecycle_hooks(*observers: Observer) -> tuple[Hooks, Callable[[StreamFn], StreamFn]]:
    """The hooks, and what goes around the model, through which `observers` see one run.

    See `Lifecycle`, which also takes in compactions.
    """
    watched = Lifecycle(*observers)
    return watched.bundle(), watched.around_model


class Lifecycle:
    """Asks `observers` in order at each point of one run; the first that does not continue wins.

    However a run is ended, its history is balanced. Ended after an answer, that answer stays in
    history and its calls are answered as not run.

    An observer that raises is logged, told in a notice, and passed over, except before something
    happens: a call is blocked then, and instead of asking a model the run ends.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self._emit: Sink = _unheard
        self._stop: StopRun | None = None
        self._compactions: list[ContextCompaction] = []

    def bundle(self) -> Hooks:
        return Hooks(
            name="lifecycle",
            only_watches=True,
            transform_context=self._at_turn,
            before_tool_call=self._before_call,
            after_tool_call=self._after_call,
            prepare_next_turn=self._between,
        )

    def around_model(self, inner: StreamFn) -> StreamFn:
        """A StreamFn decorator; it belongs around the one that retries."""
        answering = on_complete(inner, self._at_answer)

        async def stream(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            await self._catch_up()
            await self._decide(PreLlmCall(context=context, options=options))
            async with closing(answering(context, options, signal)) as events:
                async for event in events:
                    yield event

        return stream

    def compacted(self, old: int, new: int) -> None:
        """Note a compaction, in tokens. Observers hear of it at the next point of the run."""
        self._compactions.append(ContextCompaction(old=old, new=new))

    async def _at_turn(self, info: TurnInfo) -> None:
        self._emit = info.emit
        await self._catch_up()
        await self._decide(LoopIteration(turn=info.turn))

    async def _at_answer(self, message: AssistantMessage, done: StreamDone) -> StreamDone:
        try:
            await self._decide(PostLlmCall(message=message))
        except StopRun as stop:
            # Raised here, it would cost the answer its calls and its usage.
            self._stop = stop
        return done

    async def _before_call(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        self._emit = info.emit
        await self._catch_up()
        action = await self._first_of(PreToolExecution(call=call))
        if isinstance(action, Skip):
            text = f"Tool call skipped: {action.reason}"
            return ToolOverride(text, details={"outcome": "denied", "synthetic": "skipped"})
        return None

    async def _after_call(self, info: TurnInfo, call: ToolCall, result: LoopToolResult) -> None:
        await self._decide(PostToolExecution(call=call, result=result))

    async def _between(self, info: TurnInfo) -> None:
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Carry out what was decided, or happened, where nothing could be done about it."""
        if self._stop is not None:
            raise self._stop
        while self._compactions:
            await self._decide(self._compactions.pop(0))

    async def _decide(self, event: LifecycleEvent) -> None:
        """Ask, where nothing can be skipped."""
        action = await self._first_of(event)
        if isinstance(action, Skip):
            self._notice(f"nothing can be skipped at {event.point} ({action.reason})")

    async def _first_of(self, event: LifecycleEvent) -> Skip | None:
        for observer in self._observers:
            try:
                action = await _asked(observer, event)
            except StopRun:
                raise
            except Exception as error:
                self._failed(observer, event, error)
                continue
            if isinstance(action, Terminate):
                raise StopRun(HookTerminated(point=event.point, reason=action.reason))
            if isinstance(action, Skip):
                return action
        return None

    def _failed(self, observer: Observer, event: LifecycleEvent, error: Exception) -> None:
        if isinstance(event, PreToolExecution):
            raise error  # a hook that raises blocks its call, and is told by whoever asked it
        _logger.error("observer %r failed at %s", observer, event.point, exc_info=error)
        if isinstance(event, PreLlmCall):
            outcome = HookTerminated(point=event.point, reason=f"an observer failed: {error!r}")
            raise StopRun(outcome) from error
        self._notice(f"an observer failed at {event.point} ({error!r})")

    def _notice(self, what: str) -> None:
        self._emit(SystemNotice(f"`lifecycle_hooks`: {what}; the run goes on."))


async def _asked(observer: Observer, event: LifecycleEvent) -> Action:
    action = observer(event)
    if inspect.isawaitable(action):
        action = await action
    if action is None:
        return ContinueRun()
    if not isinstance(action, ContinueRun | Skip | Terminate):
        raise TypeError(f"It returned {type(action).__name__}.")
    return action


def _unheard(_event: LoopEvent) -> None:
    """Before a run has begun nobody listens."""
