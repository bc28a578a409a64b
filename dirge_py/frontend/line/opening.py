"""From a start to a conversation, and on to others: trust, sessions in use, runs cut off."""

import asyncio
from typing import TYPE_CHECKING

from dirge_py.frontend.controller import typed_text
from dirge_py.frontend.line.start import LineStart
from dirge_py.frontend.replay import told_besides
from dirge_py.frontend.session_conflict import question_about, way_from
from dirge_py.lib.version import __version__
from dirge_py.session.recovery import choices_from_answers, recovery_questions
from dirge_py.types.errors import SessionBusy
from dirge_py.types.events import LoopEvent, SystemNotice

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.line.repl import Repl


class Opening:
    """Opens the conversation of a REPL, and every later one."""

    def __init__(self, repl: "Repl", start: LineStart) -> None:
        self._repl = repl
        self._start = start

    async def begin(self) -> None:
        """Open the first conversation. Raises DirgeError: there is none to go on with then."""
        repl, start = self._repl, self._start
        settings = start.prepare()
        repl.take_settings(settings)
        if start.project is not None:
            door = start.project()
            if door.offer is not None:
                door.answer(is_trusted=await repl.asker.trust(door.offer))
        try:
            conversation = start.open_first(repl.asker)
        except SessionBusy as error:
            other = await self._open_busy(error)
            if other is None:
                raise
            conversation = other
        self._take_up(conversation)
        if start.first_prompt:
            # A command may take its time, and is told things meanwhile.
            repl.later(repl.send(start.first_prompt))
            await asyncio.sleep(0)  # From now on it counts as sent.
        elif start.pick_session:
            await repl.talk.say("/sessions", "now")
        else:
            await self._offer_to_carry_on(conversation)

    async def switch_to(self, session_id: str | None) -> "Conversation":
        """Go on in another session, or a new one; the one before is closed.

        Where the other one is busy and the person wants nothing of it, the one before goes on.
        """
        before = self._repl.talk.conversation
        try:
            conversation = self._start.open_other(self._repl.asker, session_id)
        except SessionBusy as error:
            other = await self._open_busy(error)
            if other is None and before is not None:
                return before
            if other is None:
                raise
            conversation = other
        self._take_up(conversation)
        if before is not None:
            before.unsent.let_go()
            before.subscribe(self._hear_last_words)
            await before.close()
        if conversation.interruption is not None:
            # Whoever asked for the session has to get it first.
            self._repl.later(self._offer_to_carry_on(conversation))
        return conversation

    async def _open_busy(self, error: SessionBusy) -> "Conversation | None":
        way = way_from(await self._repl.asker.question([question_about(error)]))
        if way is None:
            return None
        return self._start.open_other(self._repl.asker, error.session_id, way)

    async def _offer_to_carry_on(self, conversation: "Conversation") -> None:
        """Ask what becomes of a run that was cut off; the command knows how to go on with it."""
        interruption = conversation.interruption
        if interruption is None or self._repl.talk.conversation is not conversation:
            return
        if not interruption.undecided:
            answers = await self._repl.asker.question(recovery_questions(interruption))
            if choices_from_answers(interruption, answers) is None:
                self._repl.say("/continue carries the run on; a prompt goes on without it.")
                return
        await self._repl.talk.say("/continue", "now")

    def _hear_last_words(self, event: LoopEvent) -> None:
        """What a conversation that is left tells while it is closed."""
        if isinstance(event, SystemNotice):
            self._repl.say(event.content)

    def _take_up(self, conversation: "Conversation") -> None:
        repl = self._repl
        repl.adopt(conversation)
        facts = f"model {conversation.settings.model}, mode {conversation.settings.mode}"
        besides = told_besides(conversation)
        if conversation.messages or besides:
            repl.story.tell(conversation.messages, besides)
            repl.say(f"Back in this session, with {facts}.")
        else:
            repl.say(f"dirge {__version__}: {facts}, in {conversation.cwd}.")
            repl.say("/help lists the commands and keys. A line sent during a run steers it.")
        taken = repl.commands.use_plugins(conversation.plugins)
        for notice in (*conversation.notices, *taken):
            repl.say(notice)
        if not repl.source.is_script:
            self._give_back(conversation)

    def _give_back(self, conversation: "Conversation") -> None:
        """What was typed before: earlier prompts, and what was never sent."""
        unsent = conversation.unsent
        unsent.take_over()
        if unsent.prompts is not None:
            self._repl.source.remember(unsent.prompts.load())
        said = [m for m in conversation.messages if m.role == "user" and m.origin == "user"]
        self._repl.source.remember(map(typed_text, said))
        if unsent.draft:
            self._repl.give_back(unsent.draft)
