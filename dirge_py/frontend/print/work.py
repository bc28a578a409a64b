"""What a command comes to that takes several runs, and forks besides."""

import time

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.run import Run
from dirge_py.types.events import AgentStart, ForkEvent, LoopEvent, MessageEnd, TurnStart
from dirge_py.types.messages import AssistantMessage, Usage


class Work:
    """Counts as a run does for itself: `turns` of the runs, all else of their forks, too."""

    def __init__(self, conversation: Conversation) -> None:
        self.started_at = time.monotonic()
        self._conversation = conversation
        self._runs: list[Run] = []
        self._spent = ConversationLog((), Usage(), 0.0)
        self._forks_api_s = 0.0
        self._asked_at = self.started_at

    @property
    def turns(self) -> int:
        return sum(run.turns for run in self._runs)

    @property
    def api_s(self) -> float:
        return self._forks_api_s + sum(run.api_s for run in self._runs)

    @property
    def usage(self) -> Usage:
        return self._spent.usage

    @property
    def cost_usd(self) -> float | None:
        return self._spent.cost_usd

    def hear(self, event: LoopEvent) -> None:
        if isinstance(event, ForkEvent):
            self._hear_fork(event.event)
            return
        if isinstance(event, AgentStart) and self._conversation.run is not None:
            self._runs.append(self._conversation.run)
        self._spent.take_in(event, None)

    def _hear_fork(self, event: LoopEvent) -> None:
        """Its tokens are told of as such; the time is that from a turn's begin to its answer."""
        if isinstance(event, TurnStart):
            self._asked_at = time.monotonic()
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._forks_api_s += time.monotonic() - self._asked_at
            self._spent.take_in(event, None)
