"""Line mode itself: reads lines, sends them, tells what comes of it, and ends in good order."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.controller import Talk
from dirge_py.frontend.line import commands
from dirge_py.frontend.line.asker import GUARD_S, LineAsker
from dirge_py.frontend.line.front import LineFront
from dirge_py.frontend.line.opening import Opening
from dirge_py.frontend.line.paper import Paper
from dirge_py.frontend.line.source import LineSource
from dirge_py.frontend.line.start import LineSettings, LineStart
from dirge_py.frontend.line.story import Story
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import discover
from dirge_py.types.events import AgentEnd, LoopEvent, SystemNotice
from dirge_py.types.outcomes import Done

QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""


class MakeSource(Protocol):
    """Makes the source of lines of a REPL, which it may ask for its state."""

    def __call__(self, repl: "Repl") -> LineSource: ...


class Repl:
    """One conversation after the other, as lines. Implements `talk.Stage`."""

    def __init__(
        self,
        start: LineStart,
        paper: Paper,
        make_source: MakeSource,
        *,
        has_keys: bool = False,
        guard_s: float = GUARD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paper = paper
        self.has_keys = has_keys
        self._clock = clock
        self.commands = discover(slash, commands)
        self.front = LineFront(self, self.commands)
        self.talk = Talk(self, self.commands, self.front)
        self.opening = Opening(self, start)
        self.source = make_source(self)
        self.asker = LineAsker(
            self.source,
            paper,
            on_stop=self.talk.interrupt,
            on_asking=self._note_asking,
            guard_s=guard_s,
        )
        self.opened: Conversation | None = None
        """The conversation that was closed at the end."""
        self._show_thinking = False
        self.story = self._new_story()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exit_code: int | None = None
        self._stopped_at = -QUIT_WITHIN_S
        self._has_failed = False
        self._sends = 0

    # -- how it goes

    async def run(self) -> int:
        """Until the input ends or the person leaves; returns the exit code.

        Raises:
            DirgeError: there is no conversation to begin with.
        """
        await self.opening.begin()
        while self._exit_code is None:
            if self.source.is_script:
                await self._rested()
                if self.paper.problem is not None:
                    break  # What the rest of it asks for would be paid for, and told to nobody.
            line = await self.source.line()
            if line is None:
                break
            self.later(self.send(line))
            await asyncio.sleep(0)  # From now on it counts as sent.
        if self._exit_code is not None:
            return self._exit_code
        return 1 if self.source.is_script and self._has_failed else 0

    async def close(self) -> None:
        """Keep the draft, and close the conversation. What that tells is told."""
        conversation = self.opened = self.talk.conversation
        self.source.stop()
        if conversation is not None:
            if not self.source.is_script:
                conversation.unsent.keep_draft(self.source.draft)
            conversation.unsent.close()
            conversation.subscribe(self._hear_last_words)
        await self.talk.close()
        for task in list(self._tasks):
            task.cancel()

    def leave(self, code: int) -> None:
        """End the program soon."""
        if self._exit_code is None:
            self._exit_code = code
        self.source.stop()
        self._changed.set()

    def interrupt(self) -> bool:
        """Ctrl+C where nothing is typed: stop what runs. Whether it is to leave instead."""
        if self.talk.interrupt():
            self.say("Interrupting.")
            return False
        now = self._clock()
        was_pressed, self._stopped_at = now - self._stopped_at < QUIT_WITHIN_S, now
        if was_pressed:
            self.leave(0)
            return True
        self.say("Ctrl+C again quits.")
        return False

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Let this go on beside the reading of lines."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def label(self) -> str:
        """What stands before the line: the state, where it is not simply ready."""
        state = self.talk.state
        return "> " if state == "ready" else f"{state}> "

    # -- the conversation

    def take_settings(self, settings: LineSettings) -> None:
        self._show_thinking = settings.show_thinking
        for warning in self.commands.use_own_names(settings.aliases):
            self.say(f"[aliases]: {warning}")

    def adopt(self, conversation: Conversation) -> None:
        """Go on with this conversation."""
        self.story = self._new_story()
        self.talk.adopt(conversation, self._hear)

    @property
    def is_ready(self) -> bool:
        """Nothing goes on, and nothing that was sent is still being read."""
        return self._sends == 0 and self.talk.state == "ready"

    async def send(self, line: str) -> None:
        """Do what a line asks for; one that waits is told of."""
        before = len(self.talk.waiting)
        self._sends += 1
        self._keep_prompt(line)
        try:
            await self.talk.say(line, "now")
        finally:
            self._sends -= 1
            self.standing_changed()
        waiting = self.talk.waiting
        kind = waiting[-1].kind if len(waiting) > before else ""
        if kind == "steering":
            self.say("Waits to steer the run: it is read before the next turn.")
        elif kind == "next_run":
            self.say("Waits for the next run, which reads it.")

    def _keep_prompt(self, line: str) -> None:
        conversation = self.talk.conversation
        if conversation is not None and conversation.unsent.prompts is not None:
            conversation.unsent.prompts.add(line)

    async def _rested(self) -> None:
        """Wait until nothing goes on."""
        while self._exit_code is None and not self.is_ready:
            self._changed.clear()
            await self._changed.wait()

    def _hear(self, event: LoopEvent) -> None:
        if isinstance(event, AgentEnd):
            self._has_failed = not isinstance(event.outcome, Done)
        self.story.hear(event)

    def _hear_last_words(self, event: LoopEvent) -> None:
        if isinstance(event, SystemNotice):
            self.say(event.content)

    def _new_story(self) -> Story:
        return Story(self.paper, show_thinking=self._show_thinking, clock=self._clock)

    def _note_asking(self, is_asking: bool) -> None:
        self.talk.is_asking = is_asking
        self.standing_changed()

    # -- talk.Stage

    def say(self, text: str, *, tone: Tone = "plain") -> None:
        words = {"error": "Error: ", "warning": "Warning: "}.get(tone, "")
        self.paper.line(words + text)

    def give_back(self, text: str) -> None:
        self.source.put(text)

    def catch_up(self) -> None:
        """Everything is told at once; there is nothing to catch up with."""

    def standing_changed(self) -> None:
        self._changed.set()
        self.source.refresh()
