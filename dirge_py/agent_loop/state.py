"""The state of one run from turn to turn: its history, its settings, its open turn."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.history import final_text, is_turn
from dirge_py.agent_loop.merge import merged_hooks
from dirge_py.types import events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.history import HistoryNormalizer
from dirge_py.types.hooks import CallDecision, Context, LoopConfig, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.llm import StreamFn, ThinkingLevel, ToolSpec
from dirge_py.types.messages import (
    UNFINISHED,
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    Usage,
)
from dirge_py.types.outcomes import AgentResult, Cancelled, Done, Failed, Outcome, Refused
from dirge_py.types.tools import LoopTool

MOST_RESULT_CHARS = 200_000
"""The most characters of one result that are sent, if nothing truncated it before."""

_logger = logging.getLogger(__name__)


class RunState:
    """One run's state, written only by the loop; hooks get frozen views of it (`info`).

    `message` and `results` belong to the open turn. `turn_tools` are the tools that the model got
    in it, and so the only ones it can call. `error` is the provider's error in a turn that failed.
    """

    def __init__(
        self,
        *,
        context: Context,
        config: LoopConfig,
        signal: AbortSignal,
        emit: events.Sink,
        stream_fn: StreamFn,
        decisions: Sequence[CallDecision] = (),
    ) -> None:
        self.id = config.new_id()
        self.config = config
        self.hooks = merged_hooks(config)
        self.signal = signal
        self.stream_fn = stream_fn
        self.decisions: Mapping[str, CallDecision] = {item.tool_call_id: item for item in decisions}
        self.system_prompt = context.system_prompt
        self.messages: list[Message] = list(context.messages)
        self.tools: Sequence[LoopTool] = tuple(context.tools)
        self.model = config.model
        self.thinking_level: ThinkingLevel = config.thinking_level
        self.role = ""
        self.new_messages: list[Message] = []
        self.usage = Usage()
        self.outer_turn = 1
        self.turn = 0
        self.turn_tools: Sequence[LoopTool] = self.tools
        self.tool_specs: Sequence[ToolSpec] = ()
        self.message: AssistantMessage | None = None
        self.results: list[ToolResultMessage] = []
        self.error: ProviderError | None = None
        self.repairs: Counter[str] = Counter()
        # The view decides how much of a result is sent; this only bounds extreme cases.
        self.normalizer = HistoryNormalizer(result_chars=MOST_RESULT_CHARS)
        self._emit = emit
        self._turn_is_open = False
        self._views: tuple[tuple[Message, ...], tuple[Message, ...]] | None = None

    def emit(self, event: events.LoopEvent) -> None:
        """Pass an event to the sink. The run continues if the sink raises."""
        try:
            self._emit(event)
        except Exception:
            _logger.exception("the sink failed on %s", event.type)

    def info(self, **changes: Any) -> TurnInfo:
        """Return the run as a hook may see it now."""
        # Copied once per change, not once per read: hooks read it many times in a turn.
        self._views = self._views or (tuple(self.messages), tuple(self.new_messages))
        messages, new_messages = self._views
        view = TurnInfo(
            run_id=self.id,
            outer_turn=self.outer_turn,
            turn=self.turn,
            context=Context(system_prompt=self.system_prompt, messages=messages, tools=self.tools),
            new_messages=new_messages,
            signal=self.signal,
            emit=self.emit,
            message=self.message,
            error=self.error,
            tool_results=tuple(self.results),
            usage_total=self.usage,
            decisions=self.decisions,
        )
        return replace(view, **changes) if changes else view

    def begin_turn(self, messages: Sequence[Message] = ()) -> None:
        """Open a turn with messages that enter history first."""
        self.turn += 1
        if self.turn > 1:
            # Some services give later calls the same ids: there is no decision about those.
            self.decisions = {}
        self.message, self.results, self.error = None, [], None
        self.turn_tools = self.tools
        self._turn_is_open = True
        self.emit(events.TurnStart(turn=self.turn))
        self.inject(messages)

    def inject(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.emit(events.MessageStart(message))
            self.record(message)

    def record(self, message: Message) -> None:
        """Add a message whose start was emitted to history, and emit its end."""
        self.messages.append(message)
        self.new_messages.append(message)
        self._views = None
        if isinstance(message, ToolResultMessage):
            self.results.append(message)
        self.emit(events.MessageEnd(message))

    def end_turn(self) -> None:
        if self._turn_is_open:
            self._turn_is_open = False
            self.emit(events.TurnEnd(message=self.message, tool_results=tuple(self.results)))

    def apply(self, update: TurnUpdate) -> None:
        """Apply the changes of a hook to the next turn."""
        if update.context is not None:
            self.system_prompt = update.context.system_prompt
            self.tools = tuple(update.context.tools)
            if tuple(update.context.messages) != tuple(self.messages):
                self.messages = list(update.context.messages)
                self._views = None
                self.emit(events.ContextReplaced(messages=tuple(self.messages)))
        self.model = self.model if update.model is None else update.model
        self.thinking_level = update.thinking_level or self.thinking_level
        self.role = update.role or ""

    def stop_if_aborted(self) -> None:
        if self.signal.aborted:
            raise StopRun(Cancelled(reason=self.signal.reason))

    def stop_if_asked(self) -> None:
        """End the run here if it was aborted or interjected: after either, no model is called."""
        self.stop_if_aborted()
        if self.signal.interjected:
            raise StopRun(Cancelled(reason="interject"))

    def close(self, stop: StopRun) -> None:
        """End the open turn, then add the closing text, if there is one, in another turn."""
        self.end_turn()
        if not (stop.say or stop.undelivered):
            return
        self.begin_turn(stop.undelivered)
        if stop.say:
            self.message = AssistantMessage(content=(TextBlock(stop.say),), origin="harness")
            self.inject((self.message,))
        self.end_turn()

    @property
    def is_unfinished(self) -> bool:
        """Whether the service paused in the middle of its answer and has to be called again."""
        return self.message is not None and self.message.stop_reason in UNFINISHED

    @property
    def has_failed(self) -> bool:
        """Whether the open or last turn's model call broke off."""
        return self.message is not None and self.message.stop_reason in ("error", "aborted")

    def failure(self) -> Outcome:
        """Return the outcome of a run whose last model call did not succeed."""
        assert self.message is not None
        kind, text = self.message.error_kind or "other", self.message.error_message or ""
        if self.message.stop_reason == "aborted":
            return Cancelled(reason=self.signal.reason or "provider")
        if kind == "refused":
            return Refused(reason=text)
        return Failed(kind=kind, message=text, hint=self.error.hint if self.error else "")

    def end(self, outcome: Outcome) -> None:
        """Emit the last event, with the run's result if it is done."""
        self.end_turn()
        if isinstance(outcome, Done) and outcome.result is None:
            result = AgentResult(
                response=final_text(self.new_messages),
                messages=tuple(self.new_messages),
                usage=self.usage,
                turns=sum(map(is_turn, self.new_messages)),
            )
            outcome = replace(outcome, result=result)
        if self.repairs:
            self.emit(events.RepairStats(counts=dict(self.repairs)))
        self.emit(events.AgentEnd(messages=tuple(self.new_messages), outcome=outcome))
