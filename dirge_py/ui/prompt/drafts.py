"""What stands in the input and beside it, kept with the session while it is written."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dirge_py.frontend.controller import typed_text

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.ui.prompt.completion import Completer
    from dirge_py.ui.prompt.composer import Composer

CALM_S = 0.3
"""After the last key."""

LONGEST_S = 0.6
"""While keys keep coming."""

_UNTOLD = "!!"
"""What begins so is for the person's own shell alone, and is not kept."""

_LONG_CHARACTERS = 10_000
_LONG_S = 3.0
"""The same for a long draft: each time the whole of it is written."""


class PromptDrafts:
    """Keeps the draft of the conversation, and those put aside, soon after they changed."""

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
        longest_s = _LONG_S if len(self._composer.draft) > _LONG_CHARACTERS else LONGEST_S
        self._timer = loop.call_at(min(now + CALM_S, self._since + longest_s), self.keep)

    def keep(self) -> None:
        """Keep what stands there now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        conversation, composer = self._conversation(), self._composer
        if conversation is not None:
            expand = composer.pastes.expand
            draft = "" if composer.draft.startswith(_UNTOLD) else composer.draft
            stashed = [text for text in composer.stashed if not text.startswith(_UNTOLD)]
            conversation.unsent.save_draft(expand(draft))
            conversation.unsent.save_stash(list(map(expand, stashed)))

    def end(self) -> None:
        """The program ends; what stands there now is there again at the next start."""
        self.keep()
        conversation = self._conversation()
        if conversation is not None:
            conversation.unsent.close()

    def leave(self) -> None:
        """The conversation is left; what its session keeps stays with it."""
        self.keep()
        conversation = self._conversation()
        if conversation is None:
            return
        if conversation.unsent.is_stored:
            self._composer.put("")
            self._composer.stashed.clear()
        conversation.unsent.release()

    def restore(self, conversation: "Conversation") -> None:
        """Go on with what was typed for this conversation, and with the prompts before it."""
        composer, unsent = self._composer, conversation.unsent
        unsent.adopt_abandoned()
        fold = composer.pastes.recalled
        said = [
            typed_text(m) for m in conversation.messages if m.role == "user" and m.origin == "user"
        ]
        stored = unsent.prompts.load() if unsent.prompts is not None else ()
        composer.prompts.load(map(fold, stored), map(fold, said))
        if unsent.draft:
            composer.put_before(unsent.draft)
        composer.stashed[:0] = map(fold, unsent.stash)

    def sent(self, text: str) -> str:
        """What was sent, in full; it is kept for later sessions too."""
        whole = self._composer.pastes.expand(text)
        conversation = self._conversation()
        prompts = conversation.unsent.prompts if conversation is not None else None
        if prompts is not None and not text.startswith(_UNTOLD):
            prompts.add(whole)
        return whole

    def let_propose(self, proposer: "Completer") -> None:
        """Propose for what the person writes; what was called back is complete."""
        if self._composer.may_propose:
            proposer.look()
        else:
            proposer.close()
