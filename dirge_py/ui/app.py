"""The terminal UI: which widgets there are and how they are joined; what they do is elsewhere."""

import importlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static, TextArea

from dirge_py.frontend.controller import Talk
from dirge_py.frontend.replay import told_besides
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.events import HistoryMoved, LoopEvent
from dirge_py.ui.actions.table import Actions
from dirge_py.ui.bridge import Bridge
from dirge_py.ui.chords import Chords
from dirge_py.ui.coloring import Coloring
from dirge_py.ui.dock import QuestionDock
from dirge_py.ui.front import TuiFront
from dirge_py.ui.ink import DEFAULT_THEME, Ink, theme_or_default
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.look import css_variables
from dirge_py.ui.opening import Opening
from dirge_py.ui.panels.choices import ChoiceList, Picker
from dirge_py.ui.panels.docked import GUARD_S, DockedPanel
from dirge_py.ui.panels.find_bar import FindBar
from dirge_py.ui.panels.line import LineQuestion
from dirge_py.ui.panels.queue import QueuePanel
from dirge_py.ui.panels.status import StatusBar
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.prompt.drafts import Drafts
from dirge_py.ui.prompt.key_hint import key_hint
from dirge_py.ui.prompt.pictures import Pictures
from dirge_py.ui.prompt.proposer import Proposer
from dirge_py.ui.pulse import Pulse
from dirge_py.ui.selected import Selected
from dirge_py.ui.shell import PersonsShell
from dirge_py.ui.start import TuiStart
from dirge_py.ui.surroundings import Surroundings
from dirge_py.ui.terminal_app import TerminalApp
from dirge_py.ui.transcript.view import Transcript

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.ui.transcript.chronicle import Chronicle


_MOST_INPUT_ROWS = 8
"""Rows that a long draft takes; never more than half of the screen."""


class DirgeApp(TerminalApp):
    """One screen: the transcript, and below it what waits, the input and the status line."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #prompt { height: auto; padding: 0 1; background: $surface; }
    #sign { width: 2; height: 1; color: $accent; }
    .asking #sign { color: $dirge-dim; }
    .small-asking #prompt, .small-asking #status, .small-asking #queue { display: none; }
    #page { height: 1fr; }
    .only-asking #page { display: none; }
    """

    def __init__(
        self,
        start: TuiStart,
        *,
        guard_s: float = GUARD_S,
        no_color: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(no_color=no_color)
        self.clock = clock
        self._guard_s = guard_s
        self.keymap = Keymap()
        self.front = TuiFront(self, Registry())
        self.talk = Talk(self, self.front.commands, self.front)
        self.dock = QuestionDock(self, guard_s)
        self.opening = Opening(self, start)
        self.pulse = Pulse(self)
        self.chords = Chords(self)
        self.selected = Selected(self)
        self._bridge = Bridge(self.post_message)
        self._actions = Actions(self)
        self._chronicle: Chronicle | None = None
        self._hint = ""
        self.coloring = Coloring(self, start.theme)
        self.surroundings = Surroundings(self)
        self._make_widgets()
        self.coloring.show(self.coloring.theme)

    def _make_widgets(self) -> None:
        ink = self.coloring.ink
        self.transcript = Transcript(ink, self.keymap)
        self.find_bar = FindBar(self.keymap, self.transcript)
        self.queue = QueuePanel(ink)
        self.proposals = ChoiceList(self.panel_ink, "proposals")
        self.picker = Picker(self.panel_ink, self.keymap, guard_s=self._guard_s, clock=self.clock)
        self.line_question = LineQuestion(self.panel_ink, self.keymap)
        self.composer = Composer(self.keymap, "What shall be done?  /help")
        self.status = StatusBar(ink)
        self.shell = PersonsShell(self)
        self.pictures = Pictures(self.composer.pastes)
        self.talk.pictures_in = self.pictures.in_text
        self.drafts = Drafts(self.composer, lambda: self.talk.conversation)
        self.proposer = Proposer(
            self.composer, self.proposals, self.front.commands, lambda: self.talk.conversation
        )

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(theme_or_default(DEFAULT_THEME)[0])

    def compose(self) -> ComposeResult:
        with Horizontal(id="page"):
            yield self.surroundings.left
            yield self.transcript
            yield self.surroundings.right
        yield self.shell.box
        yield self.surroundings.todos
        yield self.queue
        yield self.proposals
        yield self.picker
        yield self.line_question
        yield self.find_bar
        with Horizontal(id="prompt"):
            yield Static("❯", id="sign")
            yield self.composer
        yield self.status

    def on_mount(self) -> None:
        # At once: keys may have come already, and `focus` puts itself behind them.
        self.set_focus(self.composer)
        self.standing_changed()
        self.app_resume_signal.subscribe(self, lambda _: self.draw_anew())
        self.call_after_refresh(self.opening.begin)

    # -- the conversation

    @property
    def chronicle(self) -> "Chronicle":
        """Made late: reading Markdown is not needed for the first frame."""
        if self._chronicle is None:
            module = importlib.import_module("dirge_py.ui.transcript.chronicle")
            looks = self.opening.looks
            self._chronicle = module.Chronicle(
                self.transcript,
                show_thinking=looks.show_thinking,
                diff=looks.diff,
                clock=self.clock,
                assets=self.talk.conversation.environment.asset_dir
                if self.talk.conversation
                else None,
            )
        assert self._chronicle is not None
        return self._chronicle

    @property
    def has_calls_running(self) -> bool:
        return self._chronicle is not None and self._chronicle.has_calls_running

    def adopt(self, conversation: "Conversation") -> None:
        """Go on with this conversation, on an empty page; its messages are not written there."""
        self.drafts.leave()
        self._clear()
        self.talk.adopt(conversation, self._hear)
        self.surroundings.begin(conversation.messages)
        self.drafts.take_up(conversation)

    def _clear(self) -> None:
        self._bridge.take()
        self.transcript.clear()
        self._chronicle = None

    def _hear(self, event: LoopEvent) -> None:
        """Events of the conversation; another history takes the place of the one that is shown."""
        if not isinstance(event, HistoryMoved):
            if not self.shell.has_shown(event):
                self._bridge.sink(event)
            return
        # At once: what is said next belongs behind it.
        self._clear()
        conversation = self.talk.conversation
        self.chronicle.tell(event.messages, told_besides(conversation) if conversation else ())
        self.surroundings.activity.take_up(event.messages, len(event.compactions))
        self.transcript.redraw()
        self.standing_changed()

    def on_loop_events(self) -> None:
        self._show_events()

    def _show_events(self) -> None:
        for event in self._bridge.take():
            self.chronicle.hear(event)
            self.surroundings.hear(event)
        self.chronicle.settle()
        self.transcript.redraw()
        self.standing_changed()

    # -- talk.Stage

    def say(self, text: str, *, tone: Tone = "plain") -> None:
        """Write a line of our own into the transcript, behind what has happened before it."""
        self._show_events()
        self.chronicle.notice(text, tone=tone)
        self.transcript.redraw()

    def give_back(self, text: str) -> None:
        self.composer.put_before(text)

    def catch_up(self) -> None:
        """A run is over: show the rest of it."""
        self._show_events()

    def standing_changed(self) -> None:
        """Show the state of things in the status line and above the input."""
        self.queue.tell(self.talk.waiting, self._hint or key_hint(self))
        self.surroundings.show()
        self.pulse.look()

    def hint(self, text: str) -> None:
        """Show `text` above the input until the next key."""
        self._hint = text
        self.standing_changed()

    # -- what comes from the widgets

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        self.transcript.go_to_end()
        if self.talk.conversation is None and not await self.opening.finished():
            self.give_back(message.text)
            return
        if self.dock.is_asking and self.talk.conversation is not None and not self.talk.is_busy:
            # A run that began now would change what the question is about.
            self.give_back(message.text)
            return
        text = self.drafts.sent(message.text)
        await (self.shell.run(text) if self.shell.takes(text) else self.talk.say(text, message.how))

    @work
    async def on_composer_wants(self, message: Composer.Wants) -> None:
        self.hint("")
        if message.action == "interrupt" and self.dock.take_keyboard():
            return  # From writing in the input back to the question.
        await self._actions.run(message.action)

    @work
    async def on_transcript_wants(self, message: Transcript.Wants) -> None:
        await self._actions.run(message.action)

    def on_transcript_left(self, message: Transcript.Left) -> None:
        self.hint("")
        self.composer.focus()
        if message.typed:
            self.composer.paste(message.typed)

    def on_composer_chosen(self, message: Composer.Chosen) -> None:
        if self.proposer.act(message.action):
            self.composer.press_enter()

    def on_composer_restated(self) -> None:
        self.hint("")

    def on_composer_pasted_too_much(self) -> None:
        self.say(
            "Only the first MiB of the paste was taken. A file can be attached with @.",
            tone="warning",
        )

    @work
    async def on_docked_panel_wants(self, message: DockedPanel.Wants) -> None:
        await self._actions.run(message.action)

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        self.dock.input_changed()
        self.drafts.changed()
        self.drafts.let_propose(self.proposer)
        self.hint(self.shell.look())

    def on_text_area_selection_changed(self, message: TextArea.SelectionChanged) -> None:
        self.drafts.let_propose(self.proposer)

    async def on_event(self, event: events.Event) -> None:
        is_new = isinstance(event, events.InputEvent) and not event.is_forwarded
        typed = event if isinstance(event, events.Key | events.Paste) else None
        if typed is not None and not typed.is_forwarded and self.dock.takes(typed):
            return
        if not (is_new and isinstance(event, events.Key) and self.chords.takes(event.key)):
            await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys that no widget took. A line that is written in is an answer, not the screen."""
        found = self.keymap.action(event.key, "screen")
        if found and (found[1] == "suspend" or not isinstance(self.focused, Input)):
            await self._actions.run(found[1])

    def on_resize(self, event: events.Resize) -> None:
        self.dock.fit(event.size.height)
        self.shell.box.fit(event.size)
        self.composer.styles.max_height = max(1, min(_MOST_INPUT_ROWS, event.size.height // 2))
        self.surroundings.fit(event.size.width)

    def on_app_focus(self) -> None:
        self.surroundings.got_focus()

    async def on_unmount(self) -> None:
        await self.surroundings.close()

    # -- the rest

    @property
    def panel_ink(self) -> Ink:
        return self.coloring.panel_ink

    def set_colors(self, name: str) -> None:
        if problem := self.coloring.use(name):
            self.say(problem, tone="warning")

    def leave(self, code: int) -> None:
        """End the program; the terminal is restored first, the conversation closed after."""
        self.drafts.end()
        self.proposer.stop()
        super().leave(code)
