"""The app of the terminal UI: widgets and messages, loop events, chords, ticks, front end."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.theme import Theme
from textual.timer import Timer
from textual.widgets import Input, TextArea
from textual.worker import Worker

from dirge_py.config.paths import state_dir
from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.replay import plan_events
from dirge_py.frontend.setup_wizard import looks_like_key
from dirge_py.slash.base import NO_ACTIONS, Choice, PickerAction, Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import HistoryMoved, LoopEvent
from dirge_py.types.questions import Question, QuestionAnswer
from dirge_py.ui.chrome import ChromePresenter
from dirge_py.ui.dialog_host import DialogHost
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.keymap import TOGETHER, Keymap, spell
from dirge_py.ui.options import UiOptions, UiSettings
from dirge_py.ui.panels.choices import ChoiceList, LineQuestion, Picker
from dirge_py.ui.panels.dialog import PAUSE_S, Dialog, DialogOptions
from dirge_py.ui.panels.find_bar import FindBar
from dirge_py.ui.panels.side_panels import InputRule, QueuePanel, key_hint
from dirge_py.ui.prompt.completion import Completer
from dirge_py.ui.prompt.composer import Composer, PromptDrafts
from dirge_py.ui.prompt.placeholders import PromptImages
from dirge_py.ui.session_opener import TuiSessionOpener
from dirge_py.ui.status import StatusBar, running_shells
from dirge_py.ui.terminal import early_frame
from dirge_py.ui.terminal.app_base import ScreenAction, TerminalApp
from dirge_py.ui.terminal.clipboard import Clipboard
from dirge_py.ui.terminal.editor import edit_file_text, edit_in_editor
from dirge_py.ui.terminal.input import TerminalBackground
from dirge_py.ui.terminal.notifications import Notifier, TerminalStatus
from dirge_py.ui.theme.styles import DEFAULT_THEME, theme_or_default
from dirge_py.ui.theme.switcher import ThemeSwitcher, css_variables
from dirge_py.ui.transcript.layout import LinePosition
from dirge_py.ui.transcript.view import TranscriptWidget
from dirge_py.ui.user_shell import ShellBox, UserShell

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation


Action: TypeAlias = Callable[["DirgeApp"], object]
"""An action of the screen; what it returns is awaited if it is a coroutine."""

_MOST_INPUT_ROWS = 8
"""Rows of the input at most, and never more than half of the screen."""


_LOW_ROWS = 18
"""Rows below which there is no rule above the input, nor a blank line above its hints."""
TICK_S = 1.0
SPIN_S = 0.16


class DirgeApp(TerminalApp):
    """The screen: the transcript, and below it the queue, the input and the status line."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #prompt { height: auto; padding: 0 1; }
    #sign { width: 2; height: 1; color: $accent; }
    .asking #sign { color: $dirge-dim; }
    .small-asking #prompt, .small-asking #status, .small-asking #queue { display: none; }
    .low InputRule, .asking InputRule { display: none; }
    #page { height: 1fr; padding-bottom: 1; }
    .low #page, .asking #page { padding-bottom: 0; }
    .only-asking #page { display: none; }
    Input { height: 1; border: none; padding: 0; background: $surface; }
    Input:focus { border: none; }
    Dialog Input:focus, LineQuestion Input:focus { border-left: outer $accent; padding: 0 1; }
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
        """Seconds; `time.monotonic` except in tests."""
        self.keymap = Keymap()
        self.commands = Registry()
        self.ui_settings = UiSettings()
        self._actions = actions
        self.last_pressed: dict[str, float] = {}
        """The time of the last press, by action, for actions with a second press."""
        self._hint = ""
        self.ticking: Timer | None = None
        """Calls `tick` every second, while something on the screen changes with time."""
        self._spinning: Timer | None = None
        self.front = TuiFrontEnd(self)
        self.controller = ChatController(self, self.commands, self.front)
        self.theme_switcher = ThemeSwitcher(
            start.theme,
            draw=self._draw_theme,
            notify=self.notify_user,
            run_worker=self.run_worker,
            to_terminal=self.to_terminal,
            is_dark=early_frame.was_dark(),
        )
        self._first_frame: early_frame.Frame | None = None
        """The first frame; None if a question followed it."""
        self._frame_files: Sequence[Path] | None = None
        """The files on which it depends, once a session is open."""
        styles, panel_styles = self.theme_switcher.styles, self.theme_switcher.panel_styles
        self.transcript = TranscriptWidget(styles, self.keymap)
        self.find_bar = FindBar(self.keymap, self.transcript, lambda: self.feed.drawn())
        self.queue = QueuePanel(styles)
        self.proposals = ChoiceList(panel_styles, "proposals")
        self.picker = Picker(panel_styles, self.keymap, guard_s=guard_s, clock=self.clock)
        self.line_question = LineQuestion(panel_styles, self.keymap)
        self.composer = Composer(self.keymap, "What do you want to do?  (/help)")
        self.composer.is_run_active = lambda: (
            self.controller.state not in ("starting", "no provider", "ready")
        )
        self.rule, self.lower_rule = InputRule(styles, "rule"), InputRule(styles, "lower-rule")
        self.status = StatusBar(styles)
        self._make_parts(start, guard_s)
        self.theme_switcher.show(self.theme_switcher.theme)

    def _make_parts(self, start: UiOptions, guard_s: float) -> None:
        """Make what moves the widgets; each part gets what it uses, and none the app."""
        self.feed = TranscriptFeed(
            self.transcript,
            settings=lambda: self.ui_settings,
            clock=self.clock,
            deliver=lambda: self.call_later(self.flush_events),
            on_drawn=self._on_events_drawn,
        )
        self.dialogs = DialogHost(
            self.composer,
            self.feed,
            picker=self.picker,
            line_question=self.line_question,
            options=lambda: DialogOptions(
                styles=self.theme_switcher.panel_styles,
                keymap=self.keymap,
                guard_s=guard_s,
                clock=self.clock,
            ),
            edit_file=partial(edit_file_text, self),
            focus_input=self.focus_input,
            on_asking=self._on_asking,
            interrupt=self.controller.interrupt,
        )
        self.session_opener = TuiSessionOpener(
            self,
            self.controller,
            self.feed,
            self.dialogs,
            keymap=self.keymap,
            commands=self.commands,
            start=start,
        )
        self.chrome = ChromePresenter(
            self.controller,
            self.feed,
            self.status,
            self.theme_switcher.styles,
            config=self.session_opener.settings,
            clock=self.clock,
            notify=self._notify_elsewhere,
            run_worker=self.run_worker,
        )
        self.notifier = Notifier(self.to_terminal, self.chrome.programs)
        self.terminal_status = TerminalStatus(self.to_terminal, self.at_release)
        box = ShellBox(self.theme_switcher.panel_styles, self.keymap)
        self.shell = UserShell(box, self.composer, self.controller, self.feed, self.hint)
        self.pictures = PromptImages(self.composer.pastes)
        self.controller.pictures_in = self.pictures.in_text
        self.drafts = PromptDrafts(self.composer, self.controller)
        self.proposer = Completer(
            self.composer, self.proposals, self.commands, self.controller, self.keymap
        )
        self.chords = KeyChords(self.keymap, self.composer, self.hint)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(theme_or_default(DEFAULT_THEME)[0])

    def compose(self) -> ComposeResult:
        with Horizontal(id="page"):
            yield from (self.chrome.left, self.transcript, self.chrome.right)
        yield from (self.shell.box, self.chrome.todos, self.queue)
        yield from (self.proposals, self.picker, self.line_question, self.find_bar)
        yield self.rule
        with Horizontal(id="prompt"):
            yield self.shell.sign
            yield self.composer
        yield from (self.lower_rule, self.status)

    def on_mount(self) -> None:
        # `focus` would take effect only after pending keys.
        self.set_focus(self.composer)
        self.refresh_status()
        self.app_resume_signal.subscribe(self, lambda _: self._on_resumed())
        self.call_after_refresh(self.theme_switcher.ask_background)
        self.call_after_refresh(self._note_first_frame)
        self.call_after_refresh(self.session_opener.begin)

    def _note_first_frame(self) -> None:
        if self.has_terminal and not self.composer.text:
            field, background = self.composer.content_region, self.theme_switcher.background
            self._first_frame = early_frame.frame_of(
                self.painted_rows(), field, self.console, background=background
            )
        self.accept_input()

    async def store_first_frame(self, files: Sequence[Path]) -> None:
        """Store the first frame, which depends on `files`, unless a question followed it."""
        self._frame_files = files
        if self._first_frame is not None:
            background = self.theme_switcher.background
            store = partial(early_frame.store, background=background, files=files)
            await asyncio.to_thread(store, self._first_frame, state_dir())

    def _on_resumed(self) -> None:
        self.draw_anew()
        self.theme_switcher.ask_background()
        self.terminal_status.forget()
        self.refresh_status()

    def on_terminal_background(self, message: TerminalBackground) -> None:
        self.theme_switcher.on_background(is_dark=message.is_dark)
        if self._frame_files is not None:
            store = self.store_first_frame(self._frame_files)
            _: Worker[None] = self.run_worker(store, exit_on_error=False)

    def adopt(self, conversation: "Conversation") -> None:
        """Switch to this conversation, with an empty transcript."""
        self.drafts.leave()
        self.feed.begin(conversation.environment.asset_dir)
        self.controller.adopt(conversation, self._on_conversation_event)
        self.chrome.begin(conversation.messages)
        self.drafts.restore(conversation)

    def _on_conversation_event(self, event: LoopEvent) -> None:
        """Collect an event; draw another history at once, as later events belong to it."""
        if not isinstance(event, HistoryMoved):
            if not self.shell.has_shown(event):
                self.feed.collect(event)
            return
        conversation = self.controller.conversation
        self.feed.begin(conversation.environment.asset_dir if conversation else None)
        besides = plan_events(conversation) if conversation else ()
        self.feed.replay(event.messages, besides)
        self.chrome.activity.load_history(event.messages, len(event.compactions))
        self.transcript.redraw()
        self.refresh_status()

    def _on_events_drawn(self, drawn: Sequence[LoopEvent]) -> None:
        for event in drawn:
            self.chrome.on_event(event)
        self.refresh_status()
        if self._spinning is not None:
            # One painting shows the text and the next frame of the spinner.
            self._spinning.reset()
            self.queue.spin()

    def flush_events(self) -> None:
        """Draw all events so far."""
        self.feed.flush()

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        """Add a notice to the transcript, after all events so far."""
        self.feed.notify(text, tone=tone)

    def _on_asking(self, is_asking: bool) -> None:
        if is_asking:
            self.proposer.close()
            if self._frame_files is None:
                self._first_frame = None
        self.controller.is_asking = is_asking
        if self.is_running:
            self.feed.flush()

    def _notify_elsewhere(self, words: str) -> None:
        """Notify the person if another window has the focus."""
        conversation = self.controller.conversation
        if not self.app_focus and conversation is not None:
            notify = partial(self.notifier.call, f"dirge {conversation.cwd.name}", words)
            _: Worker[None] = self.run_worker(notify, exit_on_error=False)

    def focus_input(self) -> None:
        """Focus the box of a running command, or else the input."""
        if self.is_running:
            # Until `focus` took effect, typed text would go to another widget.
            self.set_focus(self.shell.box if self.shell.box.is_open else self.composer)

    def give_back(self, text: str) -> None:
        self.composer.put_before(text)

    def refresh_status(self) -> None:
        """Update the status line, the panels, and the lines above the input."""
        self.chrome.show()
        conversation = self.controller.conversation
        self.rule.mode = conversation.settings.mode if conversation is not None else ""
        hint = self._hint or key_hint(
            self.composer, self.controller, self.keymap, self.chrome.progress
        )
        self.queue.show_queue(self.controller.waiting, hint, self.chrome.progress)
        self._turn_spinner(is_on=self.queue.has_spinner and self.ui_settings.avatar != "still")
        if self.ui_settings.has_terminal_status:
            folder = conversation.cwd if conversation is not None else Path.cwd()
            self.terminal_status.show(self.controller.state, folder.name)
        if self._has_work and self.ticking is None:
            self.ticking = self.set_interval(TICK_S, self.tick)
        elif self.ticking is not None and not self._has_work:
            self.ticking.stop()
            self.ticking = None

    def _turn_spinner(self, *, is_on: bool) -> None:
        if is_on and self._spinning is None:
            self._spinning = self.set_interval(SPIN_S, self.queue.spin)
        elif not is_on and self._spinning is not None:
            self._spinning.stop()
            self._spinning = None

    @property
    def _has_work(self) -> bool:
        conversation, state = self.controller.conversation, self.controller.state
        # No event reports the end of a command in the background.
        return conversation is not None and (
            state in ("working", "compacting", "interrupting")
            or self.feed.has_calls_running
            or conversation.side_questions > 0
            or running_shells(conversation) > 0
        )

    def tick(self) -> None:
        """Update what changes with time."""
        self.chrome.tick()
        if self.feed.renderer.has_something_to_tick:
            self.feed.renderer.tick()
            self.transcript.redraw()
        self.refresh_status()

    def hint(self, text: str) -> None:
        """Show `text` above the input until the next key."""
        self._hint = text
        self.refresh_status()

    @work
    async def on_composer_sent(self, message: Composer.Sent) -> None:
        self.transcript.go_to_end()
        is_closed = self.controller.conversation is None and not self.dialogs.is_asking
        if self.controller.conversation is None and looks_like_key(message.text):
            # After the setup it would be the first prompt, whichever provider was chosen.
            self.composer.prompts.forget(message.text)
            self.feed.notify("That looked like an API key. It was not sent.", tone="warning")
            if is_closed:
                await self.session_opener.finished()
            return
        if is_closed and not await self.session_opener.finished():
            self.give_back(message.text)
            return
        if self.dialogs.is_asking and not self.controller.is_busy:
            # A run would change the subject of the question.
            self.give_back(message.text)
            return
        text = self.drafts.sent(message.text)
        if text.startswith("!"):
            await self.shell.run(text)
        else:
            await self.controller.submit(text, message.how)

    @work
    async def on_composer_action_requested(self, message: Composer.ActionRequested) -> None:
        self.hint("")
        if message.action == "interrupt" and self.dialogs.focus_dialog():
            return
        await self.run_screen_action(message.action)

    @work
    async def on_screen_action(self, message: ScreenAction) -> None:
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
        words = (
            "Only the first MiB of the paste was inserted. To send all of it, attach a file with @."
        )
        self.notify_user(words, tone="warning")

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        self.dialogs.input_changed()
        self.drafts.changed()
        self.proposer.update()
        self.hint(self.shell.update_sign())

    def on_text_area_selection_changed(self, message: TextArea.SelectionChanged) -> None:
        self.proposer.update()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if self.dialogs.handle_input(event):
                return
            is_for_chords = self.focused in (None, self.composer, self.transcript)
            if not is_for_chords:
                self.chords.cancel()
            elif isinstance(event, events.Key) and self.chords.handle_key(event.key):
                return
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Handle a key that no widget has handled, except while a line of text is written."""
        binding = self.keymap.action(event.key, "screen")
        if binding and (binding[1] == "suspend" or not isinstance(self.focused, Input)):
            await self.run_screen_action(binding[1])

    def on_resize(self, event: events.Resize) -> None:
        # Later, when the app knows its new width.
        self.call_next(self.dialogs.fit, event.size.height)
        self.shell.box.fit(event.size)
        self.composer.styles.max_height = max(1, min(_MOST_INPUT_ROWS, event.size.height // 2))
        is_low = event.size.height < _LOW_ROWS
        self.screen.set_class(is_low, "low")
        self.chrome.shows_mode = is_low
        self.chrome.fit(event.size.width)
        self.refresh_status()

    def on_app_focus(self) -> None:
        self.chrome.refresh_checkout()

    async def on_unmount(self) -> None:
        await self.chrome.programs.aclose()

    async def run_screen_action(self, name: str) -> None:
        """Run a slash command or an action of the screen; ignore other names."""
        try:
            if name.startswith("/"):
                await self.controller.submit(name, "now")
            elif action := self._actions.get(name):
                doing = action(self)
                if asyncio.iscoroutine(doing):
                    await doing
        except DirgeError as error:
            self.feed.notify_error(error)

    @property
    def selected_text(self) -> str:
        """The selection in the input, the transcript or another widget."""
        own = self.composer.selected_text or self.transcript.selection.text
        return own or self.screen.get_selected_text() or ""

    def copy_text(self, text: str) -> str:
        """Copy `text` to the clipboard; return a sentence about the result."""
        clipboard = Clipboard(self.to_terminal, wanted=self.ui_settings.clipboard)
        conversation = self.controller.conversation
        is_stored = conversation is None or conversation.session_id is not None
        return clipboard.copy(text, to_file=is_stored)

    def _draw_theme(self, theme: Theme, before: str) -> None:
        """Replace the Textual theme `before` by this one, and restyle all widgets."""
        self.register_theme(theme)
        self.theme = theme.name
        self.unregister_theme(before)
        rules = (self.rule, self.lower_rule)
        for part in (self.transcript, self.queue, *rules, self.status, self.chrome):
            part.use_styles(self.theme_switcher.styles)
        asking = self.query(Dialog) if self.is_running else ()
        for panel in (self.proposals, self.picker, self.shell.box, self.line_question, *asking):
            panel.use_styles(self.theme_switcher.panel_styles)

    def apply_settings(self, settings: UiSettings) -> Sequence[str]:
        """Apply the settings of the screen; return problems with the theme."""
        self.ui_settings = settings
        # While the mouse is reported, GNU screen delays Esc.
        in_screen = bool(os.environ.get("STY")) and not os.environ.get("TMUX")
        self.use_mouse(is_ours=settings.has_mouse and not in_screen)
        self.composer.use_vim(is_on=settings.keymap == "vim")
        self.chords.patience_s = settings.chord_timeout_s
        self.notifier.kind = settings.notify
        self.chrome.apply_settings(settings)
        self.theme_switcher.watch()
        return [self.theme_switcher.problem] if self.theme_switcher.problem else []

    def set_colors(self, name: str) -> None:
        """Switch to a theme."""
        if problem := self.theme_switcher.use(name):
            self.notify_user(problem, tone="warning")

    def leave(self, code: int) -> None:
        """End the program: restore the terminal, then close the conversation."""
        self.drafts.end()
        self.proposer.stop()
        super().leave(code)


_CANCELS = ("escape", "ctrl+g", "ctrl+c")


class KeyChords:
    """Waits for the second key of a chord, in the input or the transcript."""

    def __init__(self, keymap: Keymap, composer: Composer, hint: Callable[[str], None]) -> None:
        self._keymap, self._composer, self._hint = keymap, composer, hint
        self.patience_s = UiSettings().chord_timeout_s
        """Seconds for the second key."""
        self._first = ""
        self._timer: Timer | None = None

    def handle_key(self, key: str) -> bool:
        """Handle a key of a chord; return False for another one."""
        if not self._first and not self._keymap.begins_chord(key):
            return False
        if not self._first:
            self._first = key
            self._timer = self._composer.set_timer(self.patience_s, self.cancel)
            self._hint(f"{spell(key)} … press the second key, or Esc to cancel")
            return True
        first = self._first
        self.cancel()
        if key in _CANCELS:
            return True
        binding = self._keymap.action(f"{first} {key}", *TOGETHER)
        if binding is None:
            self._hint(f"{spell(first)} {spell(key)} does nothing; /keybindings lists what does.")
        else:
            self._composer.act(*binding)
        return True

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._first:
            self._hint("")
        self._first, self._timer = "", None


_TYPED = (
    ("! COMMAND", "run it in your shell; !! COMMAND hides it from the model"),
    ("/keybindings", "all keys, and how to change them"),
)


class TuiFrontEnd:
    """The `slash.base.FrontEnd` of the terminal UI."""

    def __init__(self, app: "DirgeApp") -> None:
        self.app = app
        """For commands that only the terminal UI has."""
        self.commands = app.commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return [*self.app.keymap.described(), *_TYPED]

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        app = self.app
        app.notify_user(text, tone=tone)
        page = app.transcript
        row = page.layout_of_blocks.rows.last
        if row is not None and row.lines > page.lines_in_view and not app.controller.is_busy:
            # A long text is read from its start.
            page.go_to(LinePosition(row, 0))
            app.hint(f"{app.keymap.name_of('screen', 'page_down')} scrolls down.")

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self.app.dialogs.pick(title, choices, current)

    async def pick_or_act(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        current: str = "",
        actions: Mapping[PickerAction, str] = NO_ACTIONS,
    ) -> tuple[PickerAction | None, str] | None:
        return await self.app.dialogs.pick_or_act(title, choices, current, actions)

    async def ask_line(self, title: str, *, value: str = "") -> str | None:
        return await self.app.dialogs.ask_line(title, value=value)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self.app.dialogs.question(questions)

    async def edit_text(self, text: str) -> str | None:
        return await edit_in_editor(self.app, text)

    def set_input(self, text: str) -> None:
        self.app.composer.put(text)

    async def open(self, session_id: str | None) -> "Conversation":
        return await self.app.session_opener.switch_to(session_id)

    async def open_in(self, folder: Path, session_id: str | None = None) -> "Conversation":
        return await self.app.session_opener.switch_to(session_id, folder)

    @property
    def settings_file(self) -> Path | None:
        return self.app.session_opener.start.settings_file

    def settings(self) -> "Config | None":
        return self.app.session_opener.settings()

    def quit(self) -> None:
        self.app.leave(0)

    def show_diff(self, diff: str) -> None:
        self.app.feed.renderer.diff(diff)
        self.app.transcript.redraw()
