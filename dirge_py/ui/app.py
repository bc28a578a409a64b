"""The terminal UI as one app: its widgets, how they are joined, and the events that reach them.

With it: the bridge that gathers loop events, key chords, the ticker, and what slash commands may
ask of this front end. What the keys of the screen do is in `actions`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.replay import plan_events
from dirge_py.lib.lazy import late
from dirge_py.slash.base import Choice, Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import UsageError
from dirge_py.types.events import ForkEvent, HistoryMoved, LoopEvent, MessageEnd, MessageUpdate, ToolExecutionUpdate
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import Question, QuestionAnswer
from dirge_py.ui.chrome import ChromePresenter
from dirge_py.ui.dialog_host import DialogHost
from dirge_py.ui.keymap import Keymap, TOGETHER, spell
from dirge_py.ui.options import UiOptions, UiSettings
from dirge_py.ui.panels.above_input import QueuePanel, key_hint
from dirge_py.ui.panels.choices import ChoiceList, LineQuestion, Picker
from dirge_py.ui.panels.dialog import Dialog, PAUSE_S
from dirge_py.ui.panels.find_bar import FindBar
from dirge_py.ui.prompt.completion import Completer
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.prompt.drafts import PromptDrafts
from dirge_py.ui.prompt.placeholders import PromptImages
from dirge_py.ui.session_opener import TuiSessionOpener
from dirge_py.ui.status import StatusBar, running_shells
from dirge_py.ui.terminal.app_base import TerminalApp
from dirge_py.ui.terminal.clipboard import Clipboard
from dirge_py.ui.terminal.editor import edit_file_text, edit_in_editor, read_in_pager
from dirge_py.ui.theme.styles import DEFAULT_THEME, Styles, theme_names, theme_or_default
from dirge_py.ui.theme.switcher import ThemeSwitcher, css_variables
from dirge_py.ui.transcript.layout import LinePosition
from dirge_py.ui.transcript.view import TranscriptWidget
from dirge_py.ui.user_shell import UserShell
from functools import partial
from pathlib import Path
from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.theme import Theme
from textual.timer import Timer
from textual.widgets import Input, Static, TextArea
from typing import TYPE_CHECKING, TypeAlias



if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.history import PlanRecordEvent
    from dirge_py.ui.transcript.plan_blocks import PhaseBlock
    from dirge_py.ui.transcript.renderer import TranscriptRenderer
else:
    TranscriptRenderer = late("dirge_py.ui.transcript.renderer", "TranscriptRenderer")


Action: TypeAlias = Callable[["DirgeApp"], Awaitable[None]]
"""What a key of the screen does."""

_MOST_INPUT_ROWS = 8
"""Rows that a long draft takes; never more than half of the screen."""


class DirgeApp(TerminalApp):
    """One screen: the transcript, and below it what waits, the input and the status line.

    `actions`: what keys of the screen do, by the names of the keymap. `last_pressed`: when a key
    that does more at a second press was pressed last, by the name of its action.
    """

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
        start: UiOptions,
        actions: "Mapping[str, Action]",
        *,
        guard_s: float = PAUSE_S,
        no_color: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(no_color=no_color)
        self.clock = clock
        self._guard_s = guard_s
        self.keymap = Keymap()
        self.front = TuiFrontEnd(self, Registry())
        self.controller = ChatController(self, self.front.commands, self.front)
        self.dialogs = DialogHost(self, guard_s, partial(edit_file_text, self))
        self.session_opener = TuiSessionOpener(self, self.dialogs, start)
        self.ticker = Ticker(self)
        self.chords = KeyChords(self)
        self._bridge = EventBridge(self.post_message)
        self._actions = actions
        self.last_pressed: dict[str, float] = {}
        self._renderer: TranscriptRenderer | None = None
        self._hint = ""
        self.theme_switcher = ThemeSwitcher(self, start.theme)
        self.chrome = ChromePresenter(self, self.session_opener.settings)
        self._make_widgets()
        self.theme_switcher.show(self.theme_switcher.theme)

    def _make_widgets(self) -> None:
        styles = self.theme_switcher.styles
        self.transcript = TranscriptWidget(styles, self.keymap)
        self.find_bar = FindBar(self.keymap, self.transcript)
        self.queue = QueuePanel(styles)
        self.proposals = ChoiceList(self.panel_styles, "proposals")
        self.picker = Picker(
            self.panel_styles, self.keymap, guard_s=self._guard_s, clock=self.clock
        )
        self.line_question = LineQuestion(self.panel_styles, self.keymap)
        self.composer = Composer(self.keymap, "What do you want to do?  (/help)")
        self.status = StatusBar(styles)
        self.shell = UserShell(self)
        self.pictures = PromptImages(self.composer.pastes)
        self.controller.pictures_in = self.pictures.in_text
        self.drafts = PromptDrafts(self.composer, lambda: self.controller.conversation)
        self.proposer = Completer(
            self.composer, self.proposals, self.front.commands, lambda: self.controller.conversation
        )

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(theme_or_default(DEFAULT_THEME)[0])

    def compose(self) -> ComposeResult:
        with Horizontal(id="page"):
            yield self.chrome.left
            yield self.transcript
            yield self.chrome.right
        yield self.shell.box
        yield self.chrome.todos
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
        self.refresh_status()
        self.app_resume_signal.subscribe(self, lambda _: self.draw_anew())
        self.call_after_refresh(self.session_opener.begin)

    # -- the conversation

    @property
    def renderer(self) -> "TranscriptRenderer":
        """What draws the events of this conversation; made when it is first used."""
        if self._renderer is None:
            settings = self.session_opener.ui_settings
            self._renderer = TranscriptRenderer(
                self.transcript,
                show_thinking=settings.show_thinking,
                diff=settings.diff,
                clock=self.clock,
                assets=self.controller.conversation.environment.asset_dir
                if self.controller.conversation
                else None,
            )
        return self._renderer

    @property
    def has_calls_running(self) -> bool:
        return self._renderer is not None and self._renderer.has_calls_running

    @property
    def commands(self) -> Registry:
        return self.front.commands

    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        """Draw what is stored of a conversation; `besides`: see `TranscriptRenderer`."""
        self.renderer.replay(conversation.messages, besides)

    def show_message(self, message: UserMessage) -> None:
        """Draw a message that is told outside of a run, behind what has happened before it."""
        self._show_events()
        self.renderer.on_event(MessageEnd(message))
        self.transcript.redraw()

    def end_plan(self) -> None:
        """Whoever worked through a plan is gone: no phase of it goes on."""
        self._show_events()
        self.renderer.phases.rest()
        self.transcript.redraw()

    @property
    def plan_to_read(self) -> "PhaseBlock | None":
        """The heading of a plan that nobody has decided on yet."""
        return self.renderer.phases.to_read

    def adopt(self, conversation: "Conversation") -> None:
        """Go on with this conversation, on an empty page; its messages are not written there."""
        self.drafts.leave()
        self._clear()
        self.controller.adopt(conversation, self._on_conversation_event)
        self.chrome.begin(conversation.messages)
        self.drafts.restore(conversation)

    def _clear(self) -> None:
        self._bridge.take()
        self.transcript.clear()
        self._renderer = None

    def _on_conversation_event(self, event: LoopEvent) -> None:
        """Events of the conversation; another history takes the place of the one that is shown."""
        if not isinstance(event, HistoryMoved):
            if not self.shell.has_shown(event):
                self._bridge.sink(event)
            return
        # At once: what is said next belongs behind it.
        self._clear()
        conversation = self.controller.conversation
        self.renderer.replay(event.messages, plan_events(conversation) if conversation else ())
        self.chrome.activity.load_history(event.messages, len(event.compactions))
        self.transcript.redraw()
        self.refresh_status()

    def on_loop_events(self) -> None:
        self._show_events()

    def _show_events(self) -> None:
        for event in self._bridge.take():
            self.renderer.on_event(event)
            self.chrome.on_event(event)
        self.renderer.settle()
        self.transcript.redraw()
        self.refresh_status()

    # -- controller.View

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        """Write a line of our own into the transcript, behind what has happened before it."""
        self._show_events()
        self.renderer.notice(text, tone=tone)
        self.transcript.redraw()

    def show_sign(self, sign: str) -> None:
        """Show this sign before the input."""
        # None is left where the program ends with a text in the input.
        for shown in self.query("#sign").results(Static):
            shown.update(sign)

    def focus_input(self) -> None:
        self.shell.focus_input()

    def close_proposals(self) -> None:
        self.proposer.close()

    @property
    def has_screen(self) -> bool:
        """False while the program ends."""
        return bool(self.screen_stack)

    def give_back(self, text: str) -> None:
        self.composer.put_before(text)

    def flush_events(self) -> None:
        """A run is over: show the rest of it."""
        self._show_events()

    def refresh_status(self) -> None:
        """Show the state of things in the status line and above the input."""
        self.queue.show_queue(
            self.controller.waiting,
            self._hint or key_hint(self.composer, self.controller, self.keymap),
        )
        self.chrome.show()
        self.ticker.look()

    def hint(self, text: str) -> None:
        """Show `text` above the input until the next key."""
        self._hint = text
        self.refresh_status()

    # -- what comes from the widgets

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        self.transcript.go_to_end()
        if self.controller.conversation is None and not await self.session_opener.finished():
            self.give_back(message.text)
            return
        if (
            self.dialogs.is_asking
            and self.controller.conversation is not None
            and not self.controller.is_busy
        ):
            # A run that began now would change what the question is about.
            self.give_back(message.text)
            return
        text = self.drafts.sent(message.text)
        await (
            self.shell.run(text)
            if self.shell.takes(text)
            else self.controller.submit(text, message.how)
        )

    @work
    async def on_composer_action_requested(self, message: Composer.ActionRequested) -> None:
        self.hint("")
        if message.action == "interrupt" and self.dialogs.focus_dialog():
            return  # From writing in the input back to the question.
        await self.run_screen_action(message.action)

    @work
    async def on_transcript_widget_action_for_screen(
        self, message: TranscriptWidget.ActionForScreen
    ) -> None:
        await self.run_screen_action(message.action)

    def on_transcript_widget_reading_ended(self, message: TranscriptWidget.ReadingEnded) -> None:
        self.hint("")
        self.composer.focus()
        if message.typed:
            self.composer.paste(message.typed)

    def on_composer_completion_key(self, message: Composer.CompletionKey) -> None:
        if self.proposer.act(message.action):
            self.composer.press_enter()

    def on_composer_restated(self) -> None:
        self.hint("")

    def on_composer_pasted_too_much(self) -> None:
        self.notify_user(
            "Only the first MiB of the paste was taken. A file can be attached with @.",
            tone="warning",
        )

    @work
    async def on_dialog_key_passed_through(self, message: Dialog.KeyPassedThrough) -> None:
        await self.run_screen_action(message.action)

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        self.dialogs.input_changed()
        self.drafts.changed()
        self.drafts.let_propose(self.proposer)
        self.hint(self.shell.look())

    def on_text_area_selection_changed(self, message: TextArea.SelectionChanged) -> None:
        self.drafts.let_propose(self.proposer)

    async def on_event(self, event: events.Event) -> None:
        is_new = isinstance(event, events.InputEvent) and not event.is_forwarded
        typed = event if isinstance(event, events.Key | events.Paste) else None
        if typed is not None and not typed.is_forwarded and self.dialogs.takes(typed):
            return
        if not (is_new and isinstance(event, events.Key) and self.chords.takes(event.key)):
            await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys that no widget took. A line that is written in is an answer, not the screen."""
        found = self.keymap.action(event.key, "screen")
        if found and (found[1] == "suspend" or not isinstance(self.focused, Input)):
            await self.run_screen_action(found[1])

    def on_resize(self, event: events.Resize) -> None:
        self.dialogs.fit(event.size.height)
        self.shell.box.fit(event.size)
        self.composer.styles.max_height = max(1, min(_MOST_INPUT_ROWS, event.size.height // 2))
        self.chrome.fit(event.size.width)

    def on_app_focus(self) -> None:
        self.chrome.got_focus()

    async def on_unmount(self) -> None:
        await self.chrome.close()

    async def run_screen_action(self, name: str) -> None:
        """Do what a key asks for; an action that is not one of the screen's is passed over."""
        if name.startswith("/"):
            await self.controller.submit(name, "now")
        elif name in self._actions:
            await self._actions[name](self)

    # -- what is selected: in the input, in the transcript, or elsewhere on the screen

    @property
    def selected_text(self) -> str:
        own = self.composer.selected_text or self.transcript.selection.text
        return own or self.screen.get_selected_text() or ""

    def drop_selection(self) -> None:
        self.transcript.drop_selection()
        self.screen.clear_selection()
        self.composer.move_cursor(self.composer.cursor_location)

    def copy_text(self, text: str) -> str:
        """Put `text` on the clipboard; returns what can truthfully be said of that."""
        clipboard = Clipboard(self.to_terminal, wanted=self.session_opener.ui_settings.clipboard)
        conversation = self.controller.conversation
        is_kept = conversation is None or conversation.session_id is not None
        return clipboard.copy(text, keeps=is_kept)

    # -- the rest

    @property
    def theme_styles(self) -> Styles:
        return self.theme_switcher.styles

    @property
    def panel_styles(self) -> Styles:
        return self.theme_switcher.panel_styles

    def draw_with(self, theme: Theme, *, before: str) -> None:
        """Draw Textual's widgets with this theme in the place of `before`, ours with its styles."""
        self.register_theme(theme)
        self.theme = theme.name
        self.unregister_theme(before)
        for widget in (self.transcript, self.queue, self.status, *self.chrome.widgets):
            widget.use_styles(self.theme_styles)
        asking = self.query(Dialog) if self.is_running else ()
        for panel in (self.proposals, self.picker, self.shell.box, self.line_question, *asking):
            panel.use_styles(self.panel_styles)

    def apply_settings(self, settings: UiSettings) -> Sequence[str]:
        """Take over what the settings say of the screen; returns what is wrong with the theme."""
        self.chrome.apply_settings(settings)
        return self.theme_switcher.settle()

    def set_colors(self, name: str) -> None:
        if problem := self.theme_switcher.use(name):
            self.notify_user(problem, tone="warning")

    def leave(self, code: int) -> None:
        """End the program; the terminal is restored first, the conversation closed after."""
        self.drafts.end()
        self.proposer.stop()
        super().leave(code)


SOON_S = 1 / 30
"""Between two deliveries at least."""
CALM_S = 1 / 10
"""While only text or output grows: the eye reads no faster, and each drawing costs a screenful."""


class LoopEvents(Message):
    """Something has happened: the bridge has it."""


class EventBridge:
    """A sink that posts `LoopEvents`, whereupon `take` gives them. Idle, it costs nothing."""

    def __init__(self, post: Callable[[LoopEvents], object]) -> None:
        self._post = post
        self._events: list[LoopEvent] = []
        self._timer: asyncio.TimerHandle | None = None
        self._delivered_at = 0.0

    def sink(self, event: LoopEvent) -> None:
        self._events.append(event)
        event = event.event if isinstance(event, ForkEvent) else event
        is_growth = isinstance(event, MessageUpdate | ToolExecutionUpdate)
        self._deliver_within(CALM_S if is_growth else SOON_S)

    def take(self) -> Sequence[LoopEvent]:
        """What happened since the last time, in order. Nothing is left to deliver."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._delivered_at = asyncio.get_running_loop().time()
        return events

    def _deliver(self) -> None:
        self._timer = None
        self._post(LoopEvents())

    def _deliver_within(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._delivered_at + pause_s)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._deliver)


_CANCELS = ("escape", "ctrl+g", "ctrl+c")


class KeyChords:
    """Holds a first key until the second comes, or too late. Only while the input listens."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._first = ""
        self._timer: Timer | None = None

    def takes(self, key: str) -> bool:
        """Whether `key` belongs to a chord, and so to nobody else."""
        app = self._app
        if app.focused not in (None, app.composer, app.transcript):
            self.drop()
            return False
        if not self._first:
            return self._begin(key)
        first = self._first
        self.drop()
        if key in _CANCELS:
            return True
        found = app.keymap.action(f"{first} {key}", *TOGETHER)
        if found is None:
            app.hint(f"{spell(first)} {spell(key)} does nothing; /keybindings lists what does.")
        else:
            app.composer.act(*found)
        return True

    def drop(self) -> None:
        """Forget a first key."""
        if self._timer is not None:
            self._timer.stop()
        if self._first:
            self._app.hint("")
        self._first, self._timer = "", None

    def _begin(self, key: str) -> bool:
        app = self._app
        if not app.keymap.begins_chord(key):
            return False
        self._first = key
        self._timer = app.set_timer(app.session_opener.ui_settings.chord_timeout_s, self.drop)
        app.hint(f"{spell(key)} … the second key; Esc cancels")
        return True


_EVERY_S = 1.0


class Ticker:
    """A timer that is there only while it has something to do: an idle screen costs nothing."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._timer: Timer | None = None

    @property
    def is_beating(self) -> bool:
        return self._timer is not None

    def look(self) -> None:
        """Begin or stop, as things are now."""
        if self._has_work() and self._timer is None:
            self._timer = self._app.set_interval(_EVERY_S, self.beat)
        elif self._timer is not None and not self._has_work():
            self._timer.stop()
            self._timer = None

    def beat(self) -> None:
        """Show what time has changed."""
        app = self._app
        app.chrome.beat += 1
        if app.renderer.has_something_to_tick:
            app.renderer.tick()
            app.transcript.redraw()
        app.refresh_status()

    def _has_work(self) -> bool:
        controller = self._app.controller
        if controller.conversation is None:
            return False
        # A command in the background ends without an event.
        return (
            controller.state in ("working", "compacting", "interrupting")
            or self._app.has_calls_running
            or controller.conversation.side_questions > 0
            or running_shells(controller.conversation) > 0
        )


_TYPED = (
    ("! COMMAND", "run it in your shell; of !! COMMAND the model is not told"),
    ("/keybindings", "every other key, and how to change them"),
)


class TuiFrontEnd:
    """The `slash.base.FrontEnd` of the terminal UI; everything is done by the app."""

    def __init__(self, app: "DirgeApp", commands: Registry) -> None:
        self._app = app
        self._commands = commands

    @property
    def app(self) -> "DirgeApp":
        """For commands that only the terminal UI has."""
        return self._app

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return [*self._app.keymap.described(), *_TYPED]

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        app = self._app
        app.notify_user(text, tone=tone)
        page = app.transcript
        said = page.layout_of_blocks.rows.last
        if said is not None and said.lines > page.lines_in_view and not app.controller.is_busy:
            # It is longer than the screen, and is read from its beginning.
            page.go_to(LinePosition(said, 0))
            app.hint(f"{app.keymap.name_of('screen', 'page_down')} reads on.")

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self._app.dialogs.pick(title, choices, current)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self._app.session_opener.asker.question(questions)

    async def edit_text(self, text: str) -> str | None:
        return await edit_in_editor(self._app, text)

    def set_input(self, text: str) -> None:
        self._app.composer.put(text)

    async def open(self, session_id: str | None) -> "Conversation":
        return await self._app.session_opener.switch_to(session_id)

    async def open_in(self, folder: Path) -> "Conversation":
        return await self._app.session_opener.switch_folder(folder)

    @property
    def settings_file(self) -> Path | None:
        return self._app.session_opener.settings_file

    def settings(self) -> "Config | None":
        return self._app.session_opener.settings()

    def quit(self) -> None:
        self._app.leave(0)

    def theme(self, name: str) -> None:
        if name not in theme_names():
            raise UsageError(
                f"There is no theme {name!r}.", hint=f"Themes: {', '.join(theme_names())}."
            )
        self._app.set_colors(name)

    def copy(self, text: str) -> str:
        return self._app.copy_text(text)

    def show_diff(self, diff: str) -> None:
        self._app.renderer.diff(diff)
        self._app.transcript.redraw()

    async def show_in_pager(self, text: str) -> None:
        await read_in_pager(self._app, text)
