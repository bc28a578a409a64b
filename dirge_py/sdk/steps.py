"""A run in steps: it pauses after each, and can be changed before it continues."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.base import Tool
from dirge_py.types.events import ContextCompacted, LoopEvent
from dirge_py.types.hooks import Hooks, TurnInfo, TurnUpdate
from dirge_py.types.messages import Message, ToolCallBlock, ToolResultMessage, user_text
from dirge_py.types.outcomes import AgentResult, Done, Outcome
from dirge_py.types.tools import LoopTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsExecuted:
    """The tool calls of a turn were run. The run pauses until the next step.

    Changes to the `Steps` now apply before the model is called again.
    """

    calls: tuple[ToolCallBlock, ...]
    """The calls of the model."""
    results: tuple[ToolResultMessage, ...]
    """Their results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The context was compacted. The run does not pause for this."""

    old_tokens: int
    """The estimated size before."""
    new_tokens: int
    """The estimated size after."""


@dataclass(frozen=True, slots=True)
class FinalResponse:
    """The last step of a run that is done."""

    result: AgentResult
    """What the run produced."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The last step of a run that ended in any other way."""

    outcome: Outcome
    """How the run ended."""


Step: TypeAlias = ToolsExecuted | Compacted | FinalResponse | Stopped


class _SharedState:
    """The state shared by the run and its `Steps`. The run refers to this, never to the `Steps`."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.has_changed = asyncio.Event()
        self.may_continue = asyncio.Event()
        self.messages: Sequence[Message] | None = None
        self.tools: Sequence[LoopTool] | None = None
        self.injected: list[Message] = []

    def bundle(self) -> Hooks:
        return Hooks(name="steps", prepare_next_turn=self._pause)

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, ContextCompacted):
            self._add(Compacted(old_tokens=event.tokens_before, new_tokens=event.tokens_after))

    async def _pause(self, info: TurnInfo) -> TurnUpdate | None:
        if info.message is None or not info.tool_results:
            return None
        # A run that continues with open calls answers only those of the message.
        answered = {result.tool_call_id for result in info.tool_results}
        calls = tuple(call for call in info.message.calls if call.id in answered)
        self.may_continue.clear()
        self._add(ToolsExecuted(calls=calls, results=info.tool_results))
        await self.may_continue.wait()
        return self._update(info)

    def _update(self, info: TurnInfo) -> TurnUpdate | None:
        """The changes that were made during the pause."""
        messages, tools, injected = self.messages, self.tools, self.injected
        self.messages, self.tools, self.injected = None, None, []
        changed = {"messages": messages, "tools": tools}
        changes: dict[str, Any] = {k: value for k, value in changed.items() if value is not None}
        if not changes and not injected:
            return None
        context = replace(info.context, **changes) if changes else None
        return TurnUpdate(context=context, continue_with=injected or None)

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self.has_changed.set()


class Steps(AsyncIterator[Step]):
    """The steps of one run, which starts with the first. Closing or dropping this aborts the run.

    Between two steps `messages` and `tools` may be set, messages injected, and the run steered, for
    the next call of the model.
    """

    def __init__(self, conversation: Conversation, start: Callable[[Sequence[Hooks]], Run]) -> None:
        self._conversation = conversation
        self._start = start
        self._shared = _SharedState()
        self._run: Run | None = None
        self._tools: Sequence[LoopTool] = conversation.tools
        self._is_over = False

    @property
    def messages(self) -> Sequence[Message]:
        """The history so far, or what it was set to."""
        changed = self._shared.messages
        return tuple(self._conversation.messages if changed is None else changed)

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        self._shared.messages = tuple(messages)

    @property
    def tools(self) -> Sequence[LoopTool]:
        """The tools that the model gets in this run."""
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[Tool[Any] | LoopTool]) -> None:
        self._tools = self._shared.tools = self._conversation.bound_tools(tools)

    def steer(self, text: str) -> None:
        """Add text after the results, marked as guidance."""
        self._conversation.steer(text)

    def inject_message(self, message: Message | str) -> None:
        """Add a message after the results, as it is; the run continues with it in any case."""
        injected = user_text(message, "harness") if isinstance(message, str) else message
        self._shared.injected.append(injected)

    async def __anext__(self) -> Step:
        if self._is_over:
            raise StopAsyncIteration
        shared, run = self._shared, self._started_run()
        if not shared.steps:
            shared.may_continue.set()
        while not shared.steps:
            if run.outcome.done():
                self._is_over = True
                outcome = run.outcome.result()
                if isinstance(outcome, Done) and outcome.result is not None:
                    return FinalResponse(outcome.result)
                return Stopped(outcome)
            shared.has_changed.clear()
            await shared.has_changed.wait()
        return shared.steps.popleft()

    async def aclose(self) -> None:
        """Stop. A run that is not over is aborted, and its calls are answered."""
        self._is_over = True
        if self._run is not None:
            self._run.abort("abandoned")
            await self._run

    def __del__(self) -> None:
        if self._run is not None and not self._run.outcome.done():
            self._run.abort("abandoned")

    def _started_run(self) -> Run:
        if self._run is None:
            shared = self._shared
            forget = self._conversation.subscribe(shared.sink)
            self._run = self._start([shared.bundle()])

            def over(_outcome: object) -> None:
                forget()
                shared.has_changed.set()

            self._run.outcome.add_done_callback(over)
        return self._run
