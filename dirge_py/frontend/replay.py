"""Replays a stored conversation: its messages, with the phases of plans in their places."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from dirge_py.plan.state import NAME
from dirge_py.session.history import PlanRecordEvent, plan_events_in

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.types.messages import Message


def plan_events(conversation: "Conversation") -> Sequence[tuple[int, PlanRecordEvent]]:
    """The phases of plans, in order, each with the number of messages before it."""
    if conversation.session.metadata.get(NAME) is None:
        return ()  # Reading the session again would find nothing.
    return plan_events_in(conversation.timeline.records())


def replay_messages(
    messages: "Iterable[Message]",
    besides: Sequence[tuple[int, PlanRecordEvent]],
    on_message: "Callable[[Message], None]",
    on_plan_event: Callable[[PlanRecordEvent], None],
) -> None:
    """Replay messages and events; the number of an event is how many messages come before it."""
    waiting = deque(besides)
    for count, message in enumerate(messages):
        while waiting and waiting[0][0] <= count:
            on_plan_event(waiting.popleft()[1])
        on_message(message)
    for _, event in waiting:
        on_plan_event(event)
