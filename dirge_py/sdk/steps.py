"""A run taken step by step: it rests after each, and may be changed before it goes on."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.base import Tool
from dirge_py.types.events import ContextCompacted, LoopEvent
from dirge_py.types.hooks import Context, Hooks, TurnInfo, TurnUpdate
from dirge_py.types.messages import Message, ToolCallBlock, ToolResultMessage, user_text
from dirge_py.types.outcomes import AgentResult, Done, Outcome
from dirge_py.types.tools import LoopTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsExecuted:
    """The model asked for `calls`, and these are their answers. The run rests until the next step.

    After this, what is set on the `Steps` enters before the model is asked again.
    """

    calls: tuple[ToolCallBlock, ...]
    results: tuple[ToolResultMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The context became smaller (estimated tokens). The run does not rest for this."""

    old_tokens: int
    new_tokens: int


@dataclass(frozen=True, slots=True)
class FinalResponse:
    """The last step of a run that is done."""

    result: AgentResult


@dataclass(frozen=True, slots=True)
class Stopped:
    """The last step of a run that ended in any other way."""

    outcome: Outcome


Step: TypeAlias = ToolsExecuted | Compacted | FinalResponse | Stopped


class _Walk:
    """What the run and the one who steps it share. The run holds this, never the `Steps`."""

    def __init__(self) -> None:
        self.taken: deque[Step] = deque()
        self.has_news = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.messages: Sequence[Message] | None = None
        self.tools: Sequence[LoopTool] | None = None
        self.injected: list[Message] = []

    def bundle(self) -> Hooks:
        return Hooks(name="steps", prepare_next_turn=self._rest)

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, ContextCompacted):
            self._tell(Compacted(old_tokens=event.tokens_before, new_tokens=event.tokens_after))

    async def _rest(self, info: TurnInfo) -> TurnUpdate | None:
        if info.message is None or not info.tool_results:
            return None
        # A run that goes on with open calls answers only those, so not all of the message's.
        answered = {result.tool_call_id for result in info.tool_results}
        calls = tuple(call for call in info.message.calls if call.id in answered)
        self.may_go_on.clear()
        self._tell(ToolsExecuted(calls=calls, results=info.tool_results))
        await self.may_go_on.wait()
        return self._update(info)

    def _update(self, info: TurnInfo) -> TurnUpdate | None:
        """What was set while the run rested."""
        messages, tools, injected = self.messages, self.tools, self.injected
        self.messages, self.tools, self.injected = None, None, []
        context = None
        if messages is not None or tools is not None:
            context = Context(
                system_prompt=info.context.system_prompt,
                messages=info.context.messages if messages is None else messages,
                tools=info.context.tools if tools is None else tools,
            )
        if context is None and not injected:
            return None
        return TurnUpdate(context=context, continue_with=injected or None)

    def _tell(self, step: Step) -> None:
        self.taken.append(step)
        self.has_news.set()


class Steps(AsyncIterator[Step]):
    """The steps of one run, which begins with the first. Drop or close it, and the run is aborted.

    Between two steps `messages` and `tools` may be set, messages injected, and the run steered;
    all of that enters before the model is asked again.
    """

    def __init__(self, conversation: Conversation, start: Callable[[Sequence[Hooks]], Run]) -> None:
        self._conversation = conversation
        self._start = start
        self._walk = _Walk()
        self._run: Run | None = None
        self._tools: Sequence[LoopTool] = conversation.tools
        self._is_over = False

    @property
    def messages(self) -> Sequence[Message]:
        """The history so far, or what it was set to."""
        asked = self._walk.messages
        return tuple(self._conversation.messages if asked is None else asked)

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        self._walk.messages = tuple(messages)

    @property
    def tools(self) -> Sequence[LoopTool]:
        """What the model is told of in this run."""
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[Tool[Any] | LoopTool]) -> None:
        self._tools = self._walk.tools = self._conversation.bound_tools(tools)

    def steer(self, text: str) -> None:
        """Say something that enters after the results, marked as guidance."""
        self._conversation.steer(text)

    def inject_message(self, message: Message | str) -> None:
        """Put a message behind the results, as it is; the run goes on with it in any case."""
        said = user_text(message, "harness") if isinstance(message, str) else message
        self._walk.injected.append(said)

    def __aiter__(self) -> "Steps":
        return self

    async def __anext__(self) -> Step:
        if self._is_over:
            raise StopAsyncIteration
        walk, run = self._walk, self._begun()
        if not walk.taken:
            walk.may_go_on.set()
        while not walk.taken:
            if run.outcome.done():
                self._is_over = True
                return _last_step(run.outcome.result())
            walk.has_news.clear()
            await walk.has_news.wait()
        return walk.taken.popleft()

    async def aclose(self) -> None:
        """Stop here. A run that is not over is aborted, its calls answered."""
        self._is_over = True
        if self._run is not None:
            self._run.abort("abandoned")
            await self._run

    def __del__(self) -> None:
        if self._run is not None and not self._run.outcome.done():
            self._run.abort("abandoned")

    def _begun(self) -> Run:
        if self._run is None:
            walk = self._walk
            forget = self._conversation.subscribe(walk.sink)
            self._run = self._start([walk.bundle()])

            def over(_outcome: object) -> None:
                forget()
                walk.has_news.set()

            self._run.outcome.add_done_callback(over)
        return self._run


def _last_step(outcome: Outcome) -> Step:
    if isinstance(outcome, Done) and outcome.result is not None:
        return FinalResponse(outcome.result)
    return Stopped(outcome)
