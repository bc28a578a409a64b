"""The terminal UI: which widgets there are and how they are joined; what they do is elsewhere."""

import asyncio
import importlib
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.widgets import TextArea

from dirge_py import slash
from dirge_py.errors import DirgeError, NoProvider
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import discover
from dirge_py.ui import commands
from dirge_py.ui.actions import Actions
from dirge_py.ui.asker import DockedAsker
from dirge_py.ui.bridge import Bridge, LoopEvents
from dirge_py.ui.dock import QuestionDock
from dirge_py.ui.front import TuiFront
from dirge_py.ui.ink import DEFAULT_THEME, ink_for, load_theme, theme_names
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.look import css_variables, textual_theme
from dirge_py.ui.panels.choices import ChoiceList, Picker
from dirge_py.ui.panels.line import LineQuestion
from dirge_py.ui.panels.permission import GUARD_S
from dirge_py.ui.panels.queue import QueuePanel
from dirge_py.ui.panels.setup import set_up
from dirge_py.ui.panels.status import Standing, StatusBar, place_of
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.prompt.proposer import Proposer
from dirge_py.ui.start import TuiStart
from dirge_py.ui.talk import Talk, typed_text
from dirge_py.ui.transcript.view import Transcript

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.ui.transcript.chronicle import Chronicle


class DirgeApp(App[int]):
    """One screen: the transcript, and below it what waits, the input and the status line."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    .small-asking #composer, .small-asking #status, .small-asking #queue { display: none; }
    """

    def __init__(
        self, start: TuiStart, *, guard_s: float = GUARD_S, no_color: bool = False
    ) -> None:
        super().__init__(ansi_color=True if no_color else None)
        self.animation_level = "none"
        self.scroll_sensitivity_y = 3.0
        self.failure: DirgeError | None = None
        self.keymap = Keymap(start.keys)
        self.front = TuiFront(self, discover(slash, commands))
        self.talk = Talk(self, self.front.commands, self.front)
        self._start = start
        self.dock = QuestionDock(self, guard_s)
        self._asker = DockedAsker(self.dock)
        self._bridge = Bridge(self.post_message)
        self._actions = Actions(self)
        self._chronicle: Chronicle | None = None
        self._hint = ""
        self._place = ""
        self._theme_name = start.theme if start.theme in theme_names() else DEFAULT_THEME
        theme = load_theme(self._theme_name)
        self._ink, self.panel_ink = ink_for(theme), ink_for(theme, "surface")
        self._make_widgets()
        self.set_colors(self._theme_name)

    def _make_widgets(self) -> None:
        self.transcript = Transcript(self._ink)
        self.queue = QueuePanel(self._ink)
        self.proposals = ChoiceList(self.panel_ink, "proposals")
        self.picker = Picker(self.panel_ink, self.keymap)
        self.line_question = LineQuestion(self.panel_ink, self.keymap)
        self.composer = Composer(self.keymap, "What shall be done?  /help")
        self.status = StatusBar(self._ink)
        self.proposer = Proposer(
            self.composer, self.proposals, self.front.commands, lambda: self.talk.conversation
        )

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(load_theme(DEFAULT_THEME))

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.queue
        yield self.proposals
        yield self.picker
        yield self.line_question
        yield self.composer
        yield self.status

    def on_mount(self) -> None:
        self.composer.focus()
        self.standing_changed()
        self.call_after_refresh(self.begin)

    # -- the conversation

    @property
    def chronicle(self) -> "Chronicle":
        """Made late: reading Markdown is not needed for the first frame."""
        if self._chronicle is None:
            module = importlib.import_module("dirge_py.ui.transcript.chronicle")
            self._chronicle = module.Chronicle(
                self.transcript, show_thinking=self._start.show_thinking
            )
        assert self._chronicle is not None
        return self._chronicle

    @work
    async def begin(self) -> None:
        """Open the conversation, once the first frame is on the screen."""
        if self._start.warm_up is not None:
            await asyncio.to_thread(self._start.warm_up)
        try:
            conversation = self._start.open_first(self._asker)
        except NoProvider as error:
            await self._set_up(error)
            return
        except DirgeError as error:
            self.failure = error
            self.leave(1)
            return
        self._take_up(conversation)
        if self._start.first_prompt:
            await self.talk.say(self._start.first_prompt, "now")
        elif self._start.pick_session:
            await self.talk.say("/sessions", "now")

    async def switch_to(self, session_id: str | None) -> "Conversation":
        """Go on in another session, or a new one; the one before is closed."""
        before = self.talk.conversation
        conversation = self._start.open_other(self._asker, session_id)
        self._bridge.flush()
        self._take_up(conversation)
        if before is not None:
            await before.close()
        return conversation

    def _take_up(self, conversation: "Conversation") -> None:
        self.transcript.clear()
        self._chronicle = None
        self._place = place_of(conversation.cwd)
        self.talk.adopt(conversation, self._bridge.sink)
        for prompt in conversation.messages:
            if prompt.role == "user" and prompt.origin == "user":
                self.composer.prompts.add(typed_text(prompt))
        self.chronicle.tell(conversation.messages)
        self.say(f"dirge · {conversation.model} · /help lists what can be typed")
        if conversation.instruction_files:
            self.say(f"Instructions read: {', '.join(conversation.instruction_files)}")
        for notice in conversation.notices:
            self.say(notice, tone="warning")
        for name in self.keymap.unknown:
            self.say(f"[keys]: there is no action {name!r}.", tone="warning")

    async def _set_up(self, error: NoProvider) -> None:
        service = self._start.setup
        if service is None:
            self.failure = error
            self.leave(2)
        elif await set_up(self.dock, self.say, service, f"{error.message}\n{error.hint}".strip()):
            self.begin()

    def on_loop_events(self, message: LoopEvents) -> None:
        for event in message.events:
            self.chronicle.hear(event)
        self.chronicle.settle()
        self.transcript.redraw()
        self.standing_changed()

    # -- talk.Stage

    def say(self, text: str, *, tone: Tone = "plain") -> None:
        """Write a line of our own into the transcript."""
        self._bridge.flush()
        self.chronicle.notice(text, tone=tone)
        self.transcript.redraw()

    def give_back(self, text: str) -> None:
        self.composer.put_before(text)

    def catch_up(self) -> None:
        """A run is over: show the rest of it, and the branch, which it may have switched."""
        self._bridge.flush()
        if self.talk.conversation is not None:
            self._place = place_of(self.talk.conversation.cwd)

    def standing_changed(self) -> None:
        """Show the state of things in the status line and above the input."""
        talk, conversation = self.talk, self.talk.conversation
        waiting = talk.waiting
        self.queue.tell(waiting, self._hint or self._key_hint())
        if conversation is None:
            self.status.tell(Standing(place="", model="", mode="", state=talk.state))
            return
        self.status.tell(
            Standing(
                place=self._place,
                model=conversation.model,
                mode=conversation.mode,
                state=talk.state,
                context_tokens=conversation.context_tokens,
                window_tokens=conversation.window_tokens,
                cost_usd=conversation.cost_usd,
                queued=len(waiting),
                thinking=conversation.thinking,
            )
        )

    def hint(self, text: str) -> None:
        """Show `text` above the input until the next key."""
        self._hint = text
        self.standing_changed()

    def _key_hint(self) -> str:
        if not self.talk.is_running:
            return ""
        name = self.keymap.name_of
        stop = f"{name('screen', 'interrupt')} interrupts"
        if not self.composer.text:
            return stop
        steer, queue = name("composer", "submit"), name("composer", "queue")
        return f"{steer} steers at the next tool boundary · {queue} queues for after · {stop}"

    # -- what comes from the widgets

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        self.transcript.go_to_end()
        await self.talk.say(self.composer.pastes.expand(message.text), message.how)

    @work
    async def on_composer_wants(self, message: Composer.Wants) -> None:
        self.hint("")
        await self._actions.run(message.action)

    def on_composer_chosen(self, message: Composer.Chosen) -> None:
        if self.proposer.act(message.action):
            self.composer.key_action_submit()

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        self.proposer.look()
        self.hint("")

    def on_text_area_selection_changed(self, message: TextArea.SelectionChanged) -> None:
        self.proposer.look()

    async def on_key(self, event: events.Key) -> None:
        """Keys that no widget took, when none has the focus."""
        if found := self.keymap.action(event.key, "screen"):
            await self._actions.run(found[1])

    def on_resize(self, event: events.Resize) -> None:
        self.dock.fit(event.size.height)

    # -- the rest

    def selected_text(self) -> str:
        return self.composer.selected_text or self.screen.get_selected_text() or ""

    def drop_selection(self) -> None:
        self.screen.clear_selection()
        self.composer.move_cursor(self.composer.cursor_location)

    def set_colors(self, name: str) -> None:
        theme = load_theme(name)
        self.register_theme(textual_theme(theme))
        self.theme = f"dirge-{name}"
        self._ink, self.panel_ink = ink_for(theme), ink_for(theme, "surface")
        for widget in (self.transcript, self.queue, self.status):
            widget.set_ink(self._ink)
        for list_widget in (self.proposals, self.picker):
            list_widget.set_ink(self.panel_ink)

    def leave(self, code: int) -> None:
        """End the program; the terminal is restored first, the conversation closed after."""
        self.exit(code, return_code=code)
