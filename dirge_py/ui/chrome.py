"""The chrome around the transcript: panels, todos, status, face. Hidden panels collect nothing."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from textual.worker import Worker

from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.frontend.controller import ChatController
from dirge_py.lib.lazy import late
from dirge_py.lib.terminal_text import final_text
from dirge_py.types.errors import ConfigError, ProcessError
from dirge_py.types.events import AgentEnd, LoopEvent, MessageEnd, ToolExecutionEnd, TurnEnd
from dirge_py.types.messages import Message, ToolResultMessage
from dirge_py.ui import status as run_state
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.options import UiSettings
from dirge_py.ui.panels.side_panels import MARGIN, SidePanel, TodoPanel, left_lines, right_lines
from dirge_py.ui.programs import ScreenPrograms
from dirge_py.ui.terminal.editor import EditorFollower
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import duration_text, format_tokens
from dirge_py.ui.transcript.lines import Line

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.run import Run
    from dirge_py.ui.git_status import GitStatus, read_git_status
else:
    read_git_status = late("dirge_py.ui.git_status", "read_git_status")


WIDE = 152
"""Columns from which panels are shown in the setting "auto"."""

LONG_RUN_S = 5.0
"""Seconds that a run must have taken for a notification about its end."""

_NARROWEST, _WIDEST = 24, 34
_LEAST_PANEL = 16
_WIDEST_TEXT = 123
"""Columns of the transcript at most, with its margins; the panels get the others."""
_LEAST_CHAT = 40
_SHOWN_FROM_S = 1.0

_BUSY = ("working", "compacting")
"""States in which the seconds and the tokens are shown."""

_PANELS: tuple["Side", ...] = ("left", "right")
Side = Literal["left", "main", "right"]


class ChromePresenter:
    """Shows the state of the conversation around the transcript."""

    def __init__(
        self,
        controller: ChatController,
        feed: TranscriptFeed,
        status: run_state.StatusBar,
        styles: Styles,
        *,
        config: "Callable[[], Config | None]",
        clock: Callable[[], float],
        notify: Callable[[str], None],
        run_worker: "Callable[..., Worker[None]]",
    ) -> None:
        self._controller = controller
        self._feed = feed
        self._status_bar = status
        self._styles, self._config, self._clock = styles, config, clock
        self._notify, self._run_worker = notify, run_worker
        self._settings = UiSettings()
        self._width = 0
        self._columns: dict[Side, int] = {}
        """The most columns of each panel for which there is space."""
        self._is_fixed = False
        """The panels are shown at their full width, also if they have nothing to say."""
        self.activity = run_state.RunActivity(clock)
        self.programs = ScreenPrograms()
        self.following = EditorFollower(lambda why: feed.notify(why, tone="warning"))
        self.left, self.right = SidePanel(styles, "left"), SidePanel(styles, "right")
        self.todos = TodoPanel(styles)
        # Until the settings are read.
        self._target_tokens = 250_000
        self._fold_at: float | None = 0.75
        self.panel: Literal["auto", "on", "off"] = "auto"
        self.display: Sequence[Side] = ("left", "main", "right")
        self.shows_mode = True
        """The status line names the mode, as no rule above the input does."""
        self.place = ""
        """The folder and its branch."""
        self.progress = ""
        """The state of the work for the line of key hints, such as `working 12 s · 1k tokens`."""
        self._beat = 0
        """The number of seconds in which something ran."""
        self._git: GitStatus | None = None
        self._asking_git: Worker[None] | None = None
        self._status_command = ""
        self._own_status = ""  # What `[ui] status_command` says.
        self._asking_status: Worker[None] | None = None
        self._has_status_failed = False
        self._run: Run | None = None
        self._was_asking = False
        self._plan_since: float | None = None

    def apply_settings(self, settings: UiSettings) -> None:
        """Apply the settings of panels, the status line and the editor."""
        self._settings = settings
        self.following.command = settings.editor_open_command
        self.panel = settings.panel
        self.display = [side for side in ("left", "main", "right") if side in settings.display]
        self.fit(self._width)
        self._run_worker(self._read_limits, exit_on_error=False)

    def fit(self, width: int) -> None:
        """Show, hide and size the panels for a screen of this width."""
        self._width = width
        sides = [side for side in _PANELS if side in self.display]
        is_wanted = self.panel == "on" or (self.panel == "auto" and width >= WIDE)
        is_wide_enough = width >= _LEAST_CHAT + _NARROWEST * len(sides)
        shown = sides if is_wanted and is_wide_enough else []
        has_main = "main" in self.display or not shown
        share = (width - _WIDEST_TEXT) // max(1, len(shown))
        columns = max(_NARROWEST, min(_WIDEST, share)) if has_main else width // len(shown)
        self._feed.transcript.display = has_main
        had_left = "left" in self._columns
        self._columns = dict.fromkeys(shown, columns)
        self._is_fixed = self.panel == "on" or not has_main
        self._fill()
        if "left" in self._columns and not had_left:
            self.refresh_git()

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        for panel in (self.left, self.right, self.todos):
            panel.use_styles(styles)

    @property
    def is_shown(self) -> bool:
        """Whether a panel is shown."""
        return bool(self.left.display or self.right.display)

    def begin(self, messages: Sequence[Message]) -> None:
        """Start with the history of another conversation."""
        self._run, self._git = None, None
        self.activity.mood = "idle"
        self.activity.load_history(messages)
        self.refresh_checkout()

    def on_event(self, event: LoopEvent) -> None:
        self.activity.on_event(event)
        conversation = self._controller.conversation
        if conversation is None:
            return
        self._run = conversation.run or self._run
        match event:
            case MessageEnd(message=ToolResultMessage(is_error=False) as result):
                for file in run_state.changed_files(result.details.get("diff")):
                    if file.line:
                        path = conversation.cwd / file.path
                        self.following.open(path, file.line, cwd=conversation.cwd)
            case ToolExecutionEnd():
                # A command may have switched the branch.
                self.place = run_state.folder_and_branch(conversation.cwd)
            case TurnEnd(tool_results=results) if results:
                self.refresh_git()
                self._refresh_own_status()
            case AgentEnd():
                self.place = run_state.folder_and_branch(conversation.cwd)
                self.refresh_git()
                self._refresh_own_status()
                took_s = self._clock() - self.activity.began
                if took_s > LONG_RUN_S and conversation.exclusive_owner is None:
                    words = "failed" if self.activity.mood == "error" else "done"
                    self._notify(f"{words} after {took_s:.0f} s")

    def refresh_checkout(self) -> None:
        """Read the branch and the state of the checkout again."""
        if (conversation := self._controller.conversation) is not None:
            self.place = run_state.folder_and_branch(conversation.cwd)
        self.refresh_git()
        self._refresh_own_status()
        self.show()

    def _refresh_own_status(self) -> None:
        """Run `[ui] status_command`, unless it still runs."""
        conversation, command = self._controller.conversation, self._status_command
        is_running = self._asking_status is not None and self._asking_status.is_running
        if conversation is None or not command or is_running:
            return
        facts = {
            "session_id": conversation.session_id,
            "cwd": str(conversation.cwd),
            "model": conversation.settings.model,
            "mode": conversation.settings.mode,
            "context_tokens": conversation.context_tokens,
            "window_tokens": conversation.settings.window_tokens,
            "cost_usd": conversation.cost_usd,
        }

        async def ask() -> None:
            try:
                output = await self.programs.ask_shell(
                    command, cwd=conversation.cwd, stdin_text=json.dumps(facts)
                )
            except ProcessError as error:
                output = ""
                if not self._has_status_failed:
                    self._has_status_failed = True
                    why = f"[ui] status_command failed: {error.message}"
                    self._feed.notify(why, tone="warning")
            self._own_status = final_text(output).strip().partition("\n")[0]
            self.show()

        self._asking_status = self._run_worker(ask, exit_on_error=False)

    def refresh_git(self) -> None:
        """Read the state of the checkout if it is shown."""
        conversation = self._controller.conversation
        if conversation is None or "left" not in self._columns:
            return
        if self._asking_git is not None:
            self._asking_git.cancel()

        async def ask() -> None:
            self._git = await read_git_status(self.programs, conversation.cwd)
            self._fill()

        self._asking_git = self._run_worker(ask, exit_on_error=False)

    def show(self) -> None:
        """Update the status line, the todo list and the panels."""
        is_asking = self._controller.is_asking
        if is_asking and not self._was_asking:
            is_of_plan = self._is_plan_running and not self._controller.is_running
            self._notify(
                "the plan needs your decision" if is_of_plan else "waiting for your answer"
            )
        self._was_asking = is_asking
        self._note_end_of_plan()
        if (self._controller.state in _BUSY) != bool(self.progress):
            self._update_progress()
        self._status_bar.status = self.status
        self.todos.show_todos(self.activity.todos)
        self._fill()

    def tick(self) -> None:
        """Update what changes every second while something runs."""
        self._beat += 1
        self._update_progress()

    def _update_progress(self) -> None:
        state, activity = self._controller.state, self.activity
        self.progress = ""
        if state not in _BUSY:
            return
        began = activity.since if state == "compacting" else activity.began
        if self._plan_since is not None:
            began = self._plan_since
        tokens = f"{format_tokens(activity.output_tokens)} tokens"
        parts = (
            f"{state} {duration_text(self._clock() - began)}".rstrip(),
            tokens if activity.output_tokens and state == "working" else "",
        )
        self.progress = " · ".join(part for part in parts if part)

    @property
    def _is_plan_running(self) -> bool:
        conversation = self._controller.conversation
        return conversation is not None and conversation.exclusive_owner is not None

    def _note_end_of_plan(self) -> None:
        """Handle the end of a plan, which no event reports if it was stopped."""
        was_since, is_running = self._plan_since, self._is_plan_running
        if is_running == (was_since is not None):
            return
        self._plan_since = self._clock() if is_running else None
        if was_since is None:
            return
        self.activity.plan = None
        self._feed.flush()
        self._feed.renderer.phases.cut_off()
        self._feed.transcript.redraw()
        took_s = self._clock() - was_since
        if took_s > LONG_RUN_S:
            self._notify(f"the plan ended after {took_s:.0f} s")

    @property
    def status(self) -> run_state.StatusModel:
        controller, settings = self._controller, self._settings
        beat = self._beat if settings.avatar == "moving" else 0
        shown = run_state.face(self._mood, beat) if settings.avatar != "none" else ""
        conversation = controller.conversation
        if conversation is None:
            return run_state.StatusModel(
                place="", model="", mode="", state=controller.state, face=shown
            )
        return run_state.StatusModel(
            place=" · ".join(filter(None, (self.place, self._own_status))),
            model=conversation.settings.model,
            mode=conversation.settings.mode if self.shows_mode or controller.is_asking else "",
            state=controller.state,
            phase=self._phase(),
            face=shown,
            thinking=conversation.settings.thinking,
            prompt=run_state.prompt_in_use(conversation),
            is_sandboxed=bool(conversation.environment.sandbox),
            gauge=run_state.ContextGauge(
                used=conversation.context_tokens,
                window=min(conversation.settings.window_tokens, self._target_tokens),
                fold_at=self._fold_at,
            ),
            spending=run_state.spending_of(conversation, self._run),
            queued=len(controller.waiting),
            shells=run_state.running_shells(conversation),
            asides=conversation.side_questions,
            attention=run_state.needing_attention(conversation),
        )

    @property
    def _mood(self) -> run_state.Mood:
        state = self._controller.state
        if state == "asking":
            return "alert"
        if state in ("starting", "no provider", "interrupting", "compacting"):
            return "waiting"
        mood = self.activity.mood
        return "idle" if state == "ready" and mood not in ("idle", "done", "error") else mood

    def _phase(self) -> str:
        """The current work or wait, with its duration; "" if the state says it all."""
        phase = self._waiting_for()
        if self.activity.plan is None or not self._is_plan_running:
            return phase
        words = run_state.plan_words(*self.activity.plan)
        if self._controller.state in ("asking", "interrupting"):
            return f"{words}, {self._controller.state}"
        return f"{words}, {phase}" if phase else words

    def _waiting_for(self) -> str:
        controller, activity = self._controller, self.activity
        if controller.state not in ("working", "compacting") or controller.conversation is None:
            return ""
        now = self._clock()
        stage, since = activity.stage, activity.since
        if stage == "retrying" and now < activity.until:
            return f"retry in {max(1, round(activity.until - now))} s"
        if stage == "retrying":
            stage, since = "waiting", activity.until
        waited_s = now - since
        if not stage or waited_s < _SHOWN_FROM_S:
            return ""
        model = controller.conversation.settings.model.rpartition("/")[2]
        what = f"waiting for {model}" if stage == "waiting" else stage
        return f"{what}, {waited_s:.0f} s"

    def _fill(self) -> None:
        conversation = self._controller.conversation
        styles, activity = self._styles, self.activity
        lines: Sequence[Line] = ()
        if conversation is not None and "left" in self._columns:
            lines = left_lines(
                self._columns["left"] - MARGIN,
                styles,
                gauge=self.status.gauge,
                foldings=activity.foldings,
                recent=activity.recent,
                git=self._git,
            )
            has_news = bool(activity.recent or activity.foldings)
            lines = lines if has_news or self._is_fixed else ()
        self._show_panel("left", self.left, lines)
        lines = ()
        if conversation is not None and "right" in self._columns:
            shells, plugins = conversation.environment.shells, conversation.extension(Plugins)
            lines = right_lines(
                self._columns["right"] - MARGIN,
                self._feed.transcript.size.height,
                styles,
                todos=activity.todos,
                files=activity.changed,
                plugins=plugins.report() if plugins is not None else (),
                shells=shells.list() if shells is not None else (),
            )

        self._show_panel("right", self.right, lines)

    def _show_panel(self, side: Side, panel: SidePanel, lines: Sequence[Line]) -> None:
        """Show the lines, and only as many columns as they need; hide an empty panel."""
        panel.lines = lines
        columns = self._columns.get(side, 0)
        if not self._is_fixed and lines:
            longest = max(sum(cell_len(text) for text, _ in line) for line in lines)
            needed = max(_LEAST_PANEL, longest + MARGIN)
            # It doesn't shrink, as that would wrap the transcript again.
            before = panel.styles.width.value if panel.display and panel.styles.width else 0
            columns = min(columns, max(needed, int(before)))
        is_shown = side in self._columns and bool(lines or self._is_fixed)
        if panel.display != is_shown:
            panel.display = is_shown
        if is_shown and (panel.styles.width is None or panel.styles.width.value != columns):
            panel.styles.width = columns

    async def _read_limits(self) -> None:
        try:
            config = await asyncio.to_thread(self._config)
        except ConfigError:
            return  # Opening the conversation reports what is wrong.
        if config is None:
            return
        context = config.context
        self._target_tokens = context.target_tokens
        self._fold_at = context.fold_at if context.compact else None
        self._status_command = config.ui.status_command
        self._refresh_own_status()
        self.show()
