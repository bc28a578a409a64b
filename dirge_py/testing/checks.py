"""Checks of the events and messages of a run, and a sink that records events."""

from collections.abc import Sequence
from typing import TypeVar

from dirge_py.types.events import (
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
from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, ToolResultMessage
from dirge_py.types.outcomes import Outcome

E = TypeVar("E", bound=LoopEvent)


def assert_event_grammar(events: Sequence[LoopEvent]) -> None:
    """Fail unless these are the events of one whole run.

    Notices may stand anywhere. `AgentEnd` is last, every start has its end, every call one start,
    one end and, unless deferred, one result message inside its turn.
    """
    assert events and isinstance(events[0], AgentStart), "the first event is not agent_start"
    assert isinstance(events[-1], AgentEnd), "the last event is not agent_end"
    reader = _Reader()
    for place, event in enumerate(events[1:-1], start=1):
        try:
            reader.read(event)
        except AssertionError as error:
            raise AssertionError(f"event {place} ({event.type}): {error}") from None
    assert not reader.is_turn_open, "a turn has no turn_end"
    recorded = tuple(event.message for event in events if isinstance(event, MessageEnd))
    assert recorded == events[-1].messages, "agent_end does not carry what was recorded"


class _Reader:
    def __init__(self) -> None:
        self.is_turn_open = False
        self._open_role = ""
        self._running: dict[str, str] = {}
        self._ended: list[str] = []
        self._results: list[str] = []

    def read(self, event: LoopEvent) -> None:
        match event:
            case AgentStart() | AgentEnd():
                raise AssertionError("inside the run")
            case TurnStart():
                assert not self.is_turn_open, "a turn is open already"
                self.is_turn_open = True
                self._ended, self._results = [], []
            case TurnEnd():
                self._end_turn(event)
            case MessageStart(message):
                self._refuse_outside()
                self._open_role = message.role
            case MessageUpdate():
                assert self._open_role == "assistant", "outside an assistant message"
            case MessageEnd(message):
                assert self._open_role == message.role, f"ends {self._open_role or 'nothing'}"
                self._open_role = ""
                if isinstance(message, ToolResultMessage):
                    self._results.append(message.tool_call_id)
            case ToolExecutionStart(tool_call_id=call_id):
                self._refuse_outside()
                is_new = call_id not in self._running and call_id not in self._ended
                assert is_new, f"{call_id} starts twice"
                self._running[call_id] = event.tool_name
            case ToolExecutionUpdate(tool_call_id=call_id) | ToolExecutionEnd(tool_call_id=call_id):
                self._refuse_outside()
                is_running = self._running.get(call_id) == event.tool_name
                assert is_running, f"{call_id} is not running"
                if isinstance(event, ToolExecutionEnd):
                    del self._running[call_id]
                    self._ended += [] if event.deferred else [call_id]

    def _refuse_outside(self) -> None:
        is_inside = self.is_turn_open and not self._open_role
        assert is_inside, "outside a turn, or inside a message"

    def _end_turn(self, event: TurnEnd) -> None:
        assert self.is_turn_open and not self._open_role, "no turn, or a message, is open"
        assert not self._running, f"{list(self._running)} never end"
        call_ids = [result.tool_call_id for result in event.tool_results]
        assert call_ids == self._results, "the results are not those that were told"
        assert sorted(call_ids) == sorted(self._ended), "an ended call has no result"
        self.is_turn_open = False


def assert_balanced(messages: Sequence[Message], *, open_calls_allowed: bool = False) -> None:
    """Fail unless every tool call has exactly one result, before any other message.

    With `open_calls_allowed` the calls of the last answer may have none yet.
    """
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            asked = message.tool_call_id in waiting
            assert asked, f"message {place} answers {message.tool_call_id!r}, which does not wait"
            waiting.remove(message.tool_call_id)
        elif not isinstance(message, CustomMessage):
            assert not waiting, (
                f"message {place} ({message.role}) comes before results of {waiting}"
            )
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.calls]
            assert len(waiting) == len(set(waiting)), f"message {place} uses an id twice: {waiting}"
    assert open_calls_allowed or not waiting, f"nothing answers {waiting}"


class EventRecorder:
    """A sink that records events: pass it as `emit`, or subscribe it."""

    def __init__(self) -> None:
        self.events: list[LoopEvent] = []

    def __call__(self, event: LoopEvent) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return self.of(AgentEnd)[-1].outcome
