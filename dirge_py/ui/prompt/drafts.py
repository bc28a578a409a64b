"""What stands in the input, kept with the session while it is written."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.ui.prompt.composer import Composer

CALM_S = 0.7
"""After the last key."""

LONGEST_S = 5.0
"""While keys keep coming: each time the whole draft is written."""


class Drafts:
    """Keeps the draft of the conversation soon after it changed, and at the end."""

    def __init__(
        self, composer: "Composer", conversation: "Callable[[], Conversation | None]"
    ) -> None:
        self._composer = composer
        self._conversation = conversation
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    def changed(self) -> None:
        """The input has another text now."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None:
            self._since = now
        else:
            self._timer.cancel()
        self._timer = loop.call_at(min(now + CALM_S, self._since + LONGEST_S), self.keep)

    def keep(self) -> None:
        """Keep what stands there now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        conversation = self._conversation()
        if conversation is not None:
            conversation.unsent.keep_draft(self._composer.pastes.expand(self._composer.text))
