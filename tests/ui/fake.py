"""A small real conversation for the UI's tests: it keeps history and queues, and plays a script.

A script is one async function per run: it gets a `Play` and says what the model would.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dirge_py.abort import AbortSignal
from dirge_py.calls import LoopToolResult, text_result
from dirge_py.errors import ConfigError, DirgeError
from dirge_py.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from dirge_py.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)
from dirge_py.outcomes import Cancelled, Done, Outcome
from dirge_py.questions import Asker, PermissionAnswer, PermissionRequest


@dataclass(frozen=True)
class Queued:
    id: int
    kind: str
    message: UserMessage


@dataclass(frozen=True)
class Model:
    spec: str
    window_tokens: int = 200_000
    price: str = ""


@dataclass(frozen=True)
class Grant:
    text: str


class FakeRun:
    def __init__(self) -> None:
        self.signal = AbortSignal()
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Any:
        return asyncio.shield(self.outcome).__await__()


class Play:
    """What a script may do during its run."""

    def __init__(self, conversation: "FakeConversation", run: FakeRun) -> None:
        self.conversation = conversation
        self.run = run
        self.turn = 0
        self.calls = 0

    def emit(self, event: LoopEvent) -> None:
        self.conversation.emit(event)

    def say(self, text: str, *, thinking: str = "", pieces: int = 1) -> None:
        """One whole answer, its text in `pieces` deltas."""
        self.begin()
        if thinking:
            self.emit(MessageUpdate(phase="thinking_delta", index=0, delta=thinking))
            self.emit(MessageUpdate(phase="thinking_end", index=0))
        size = max(1, -(-len(text) // pieces))
        for at in range(0, len(text), size):
            self.stream(text[at : at + size])
        self.end(text)

    def begin(self) -> None:
        self.turn += 1
        self.emit(TurnStart(turn=self.turn))
        self.drain("steering")
        self.emit(MessageStart(AssistantMessage()))

    def stream(self, delta: str) -> None:
        self.emit(MessageUpdate(phase="text_delta", index=1, delta=delta))

    def end(self, text: str, calls: Sequence[ToolCallBlock] = ()) -> None:
        content = ((TextBlock(text),) if text else ()) + tuple(calls)
        self.emit(MessageEnd(AssistantMessage(content=content)))
        if not calls:
            self.emit(TurnEnd(message=None))

    async def tool(
        self,
        name: str,
        args: dict[str, Any],
        result: LoopToolResult | str,
        *,
        gate: Awaitable[object] | None = None,
        progress: str = "",
    ) -> None:
        """An answer that is one call, and its result; `gate` holds it back."""
        self.calls += 1
        call_id = f"c{self.calls}"
        self.begin()
        self.end("", [ToolCallBlock(id=call_id, name=name, arguments=args)])
        self.emit(ToolExecutionStart(tool_call_id=call_id, tool_name=name, args=args))
        if progress:
            partial = text_result(progress)
            self.emit(
                ToolExecutionUpdate(
                    tool_call_id=call_id, tool_name=name, args=args, partial_result=partial
                )
            )
        if gate is not None:
            await gate
        done = text_result(result) if isinstance(result, str) else result
        self.emit(
            ToolExecutionEnd(
                tool_call_id=call_id, tool_name=name, result=done, is_error=done.is_error
            )
        )
        message = ToolResultMessage(
            tool_call_id=call_id, tool_name=name, content=done.content, details=done.details
        )
        self.emit(MessageEnd(message))
        self.emit(TurnEnd(message=None))

    async def ask(self, *requests: PermissionRequest) -> Sequence[PermissionAnswer]:
        return await self.conversation.asker.permission(requests)

    def drain(self, kind: str) -> None:
        for item in [i for i in self.conversation.queue if i.kind == kind]:
            self.conversation.queue.remove(item)
            self.emit(MessageEnd(item.message))


Script = Callable[[Play], Awaitable[None]]


@dataclass
class FakeConversation:
    asker: Asker
    scripts: list[Script] = field(default_factory=list)
    session_id: str | None = "s-1"
    cwd: Path = Path("/tmp/project")
    model: str = "work/model-a"
    thinking: str = "off"
    mode: str = "standard"
    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    context_tokens: int = 0
    window_tokens: int = 200_000
    instruction_files: Sequence[str] = ()
    notices: Sequence[str] = ()
    tool_names: Sequence[str] = ("bash", "read")
    queue: list[Queued] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    run: FakeRun | None = None
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._sinks: list[Callable[[LoopEvent], None]] = []
        self._next = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.run is not None

    def subscribe(self, sink: Callable[[LoopEvent], None]) -> Callable[[], None]:
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    def emit(self, event: LoopEvent) -> None:
        if isinstance(event, MessageEnd):
            self.messages.append(event.message)
        for sink in self._sinks:
            sink(event)

    async def attach(self, text: str) -> UserMessage:
        if "@missing/" in text:
            raise DirgeError("missing/ cannot be attached.", hint="There is no such folder.")
        return user_text(text)

    def send(self, prompt: UserMessage) -> FakeRun:
        assert self.run is None
        self.sent.append(prompt.text)
        self.run = FakeRun()
        self._task = asyncio.get_running_loop().create_task(self._drive(self.run, prompt))
        return self.run

    async def _drive(self, run: FakeRun, prompt: UserMessage) -> None:
        self.emit(AgentStart(run_id="r"))
        self.emit(MessageEnd(prompt))
        play = Play(self, run)
        script = self.scripts.pop(0) if self.scripts else _nothing
        work = asyncio.ensure_future(script(play))
        stop = asyncio.ensure_future(run.signal.wait())
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        stop.cancel()
        await asyncio.wait([work, stop])
        aborted = run.signal.aborted
        outcome: Outcome = Cancelled(reason=run.signal.reason) if aborted else Done()
        if not work.cancelled() and work.exception():
            raise work.exception()  # type: ignore[misc]
        self.emit(AgentEnd(messages=(), outcome=outcome))
        self.run = None
        run.outcome.set_result(outcome)

    def steer(self, prompt: UserMessage) -> Queued:
        return self._put("steering", prompt)

    def follow_up(self, prompt: UserMessage) -> Queued:
        return self._put("follow_up", prompt)

    def _put(self, kind: str, prompt: UserMessage) -> Queued:
        self._next += 1
        message = UserMessage(content=prompt.content, origin=kind)  # type: ignore[arg-type]
        self.queue.append(Queued(self._next, kind, message))
        return self.queue[-1]

    def queued(self) -> Sequence[Queued]:
        return list(self.queue)

    def take_back(self) -> Sequence[Queued]:
        taken, self.queue = self.queue, []
        return taken

    def resume_queued(self) -> FakeRun | None:
        taken = self.take_back()
        return self.send(user_text("\n".join(i.message.text for i in taken))) if taken else None

    def abort(self, reason: str = "user") -> None:
        if self.run is not None:
            self.run.signal.abort(reason)

    def set_mode(self, mode: str) -> None:
        self.mode = mode

    def set_model(self, spec: str) -> str:
        if spec not in [choice.spec for choice in self.models()]:
            raise ConfigError(f"There is no model {spec!r}.", hint="/model lists them.")
        self.model = spec
        return spec

    def models(self) -> Sequence[Model]:
        return [Model("work/model-a"), Model("work/model-b", price="$3 / $15 per million")]

    def sessions(self) -> Sequence[Any]:
        return []

    def add_grant(self, rule: str) -> None:
        self.grants.append(Grant(rule))

    def remove_grant(self, index: int) -> None:
        del self.grants[index]

    def clear_grants(self) -> None:
        self.grants.clear()

    async def close(self) -> None:
        self.is_closed = True
        self.abort("closed")
        if self._task is not None:
            await asyncio.wait([self._task])


async def _nothing(play: Play) -> None:
    play.say("Nothing to do.")
