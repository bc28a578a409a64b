"""What happened in a session besides its messages, for whoever shows it once more."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.plan.state import NAME
from dirge_py.session.history import PlanRecordEvent, plan_events_in

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


def plan_events(conversation: "Conversation") -> Sequence[tuple[int, PlanRecordEvent]]:
    """The phases of plans, in order, each behind that many messages."""
    if conversation.session.metadata.get(NAME) is None:
        return ()  # The whole session would be read again for nothing.
    return plan_events_in(conversation.timeline.records())
