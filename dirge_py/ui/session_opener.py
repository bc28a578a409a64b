"""Opens conversations in the terminal UI: settings, set-up without a provider, greeting."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py import slash
from dirge_py.config.paths import config_file
from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.session_opener import OpenMode, SessionOpener
from dirge_py.frontend.setup_wizard import set_up
from dirge_py.git.repository import branch_of
from dirge_py.lib.text import clean
from dirge_py.lib.text_width import cut
from dirge_py.lib.version import __version__
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import DirgeError, NoProvider
from dirge_py.types.extensions import Command
from dirge_py.ui import commands
from dirge_py.ui.dialog_host import DialogHost
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.keymap import Keymap, preset_of, speaks_kitty, unsendable
from dirge_py.ui.options import UiOptions, UiSettings
from dirge_py.ui.status import prompt_in_use
from dirge_py.ui.theme.styles import theme_names, use_extension_themes, user_themes
from dirge_py.ui.transcript.blocks import GreetingBlock

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.session.history import PlanRecordEvent


_MOST_RECENT = 3
_TITLE_WIDTH = 48


class OpenerScreen(Protocol):
    """What opening a conversation does to the screen; `DirgeApp` describes the methods."""

    def adopt(self, conversation: "Conversation") -> None: ...
    def apply_settings(self, settings: UiSettings) -> Sequence[str]: ...
    def set_colors(self, name: str) -> None: ...
    def hint(self, text: str) -> None: ...
    def refresh_status(self) -> None: ...
    def fail(self, error: Exception) -> None: ...
    async def store_first_frame(self, files: Sequence[Path]) -> None: ...
    def call_after_refresh(self, callback: Callable[[], object]) -> object: ...
    def run_worker(self, work: Coroutine[Any, Any, None]) -> object: ...


class TuiSessionOpener:
    """Opens the first conversation, and every later one. Implements `SessionView`."""

    def __init__(
        self,
        screen: OpenerScreen,
        controller: ChatController,
        feed: TranscriptFeed,
        dialogs: DialogHost,
        *,
        keymap: Keymap,
        commands: Registry,
        start: UiOptions,
    ) -> None:
        self._screen, self._controller, self._feed = screen, controller, feed
        self._dialogs, self._keymap, self._commands = dialogs, keymap, commands
        self.start = start
        self.adopt, self.notify_user = screen.adopt, feed.notify
        self._sessions = SessionOpener(self, controller, dialogs)
        self._is_over = asyncio.Event()
        self.project_theme = ""
        """The theme of the trusted project; "" for none."""
        self._has_explained = False
        self._setup_results: list[str] = []
        self._warnings: list[str] = []

    def begin(self) -> None:
        """Start opening the first conversation."""
        self._is_over.clear()
        self._screen.run_worker(self._begin())

    async def finished(self) -> bool:
        """Wait for the opening, or start it again; return whether a conversation is open."""
        if self._is_over.is_set():
            self.begin()
        await self._is_over.wait()
        return self._controller.conversation is not None

    async def switch_to(self, session_id: str | None, folder: Path | None = None) -> "Conversation":
        """Switch to another session, or a new one: see `SessionOpener.switch_to`."""
        if session_id is not None:
            # Drawn first, as nothing is drawn while a long session is read.
            shown = asyncio.Event()
            self._screen.hint("Opening the session.")
            self._screen.call_after_refresh(shown.set)
            await shown.wait()
        try:
            conversation = await self._sessions.switch_to(session_id, folder)
        finally:
            self._screen.hint("")
        self._show_warnings()
        return conversation

    def settings(self) -> "Config | None":
        """Read the current settings; None for a start without them. Raises ConfigError."""
        return self.start.settings() if self.start.settings is not None else None

    async def _begin(self) -> None:
        try:
            await self._open()
        except DirgeError as error:
            self._screen.fail(error)
        finally:
            self._is_over.set()

    async def _open(self) -> None:
        while True:
            try:
                self._warnings = self._apply_settings(*await asyncio.to_thread(self._prepare))
                await self.ask_for_trust()
                open_first = partial(self.start.open_first, self._dialogs)
                conversation = await self._sessions.open_first(open_first)
                break
            except NoProvider as error:
                if not await self._set_up(error):
                    return
        self._sessions.adopt(conversation)
        if self._setup_results:  # Opening has cleared the transcript.
            self._feed.notify("\n".join(self._setup_results), tone="good")
            self._setup_results.clear()
        self._show_warnings()
        self._is_over.set()
        await self._store_first_frame()
        if self.start.first_prompt:
            await self._controller.submit(self.start.first_prompt, "now")
        elif self.start.first_command:
            await self._controller.submit(self.start.first_command, "now")
        else:
            await self._sessions.offer_to_continue(conversation)

    async def _store_first_frame(self) -> None:
        """Store the first frame and the files that decide about it, if these are the usual ones."""
        file, project = self.start.settings_file, self.start.project
        if project is not None and file == config_file():
            theme = user_themes().get(self.start.theme)
            places = (file, *([theme] if theme else ()), *project().project.places)
            await self._screen.store_first_frame(places)

    async def ask_for_trust(self) -> None:
        """Ask whether to trust the project of the current folder, and use its theme."""
        if self.start.project is None:
            return
        gate = await asyncio.to_thread(_read_gate, self.start.project)
        if gate.offer is not None:
            gate.answer(is_trusted=await self._dialogs.trust(gate.offer))
        self.project_theme = gate.theme
        if gate.theme and gate.theme not in theme_names():
            self._warnings.append(f"[ui] of the project: there is no theme {gate.theme!r}.")
        elif gate.theme:
            self._screen.set_colors(gate.theme)

    def _show_warnings(self) -> None:
        """Show what could not be shown before, as opening a session clears the transcript."""
        for warning in self._warnings:
            self._feed.notify(warning, tone="warning")
        self._warnings.clear()

    async def _set_up(self, error: NoProvider) -> bool:
        if self.start.setup is None:
            raise error
        why = "" if self._has_explained else error.message
        self._has_explained = True
        service = self.start.setup()
        self._controller.lacks_provider = True
        self._screen.refresh_status()

        def notify(text: str, *, tone: Tone = "plain") -> None:
            self._feed.notify(text, tone=tone)
            if tone == "good":
                self._setup_results.append(text)

        ending = await set_up(
            self._dialogs, notify, service, why, has_demo=self.start.demo is not None
        )
        if ending == "given up":
            self._feed.notify("Nothing was changed. Enter starts setup again, Ctrl+D quits.")
        elif ending == "demo" and self.start.demo is not None:
            self.start = self.start.demo()
        self._controller.lacks_provider = ending == "given up"
        return not self._controller.lacks_provider

    def _prepare(self) -> tuple[UiSettings, Sequence[Command]]:
        # This imports about a hundred modules, so it runs after the first frame.
        return self.start.prepare(), [*discover(slash, commands)]

    def _apply_settings(self, settings: UiSettings, commands: Sequence[Command]) -> list[str]:
        problems = self._keymap.change(settings.keys, preset_of(settings.keymap, settings.enter))
        problems = [*problems, *unsendable(self._keymap, has_kitty=speaks_kitty())]
        self._commands.add_all(commands)
        odd_names = self._commands.use_own_names(settings.aliases)
        warnings = [f"[keys]: {problem}" for problem in problems]
        warnings += [f"[aliases]: {warning}" for warning in odd_names]
        warnings += self._screen.apply_settings(settings)
        return warnings

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> "Conversation":
        conversation = self.start.open_other(self._dialogs, session_id, way)
        before = self._controller.conversation
        if before is not None and session_id is None:
            # The person chose this mode, and the start may have had a looser one.
            conversation.settings.set_mode(before.settings.mode)
        return conversation

    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        self._feed.replay(conversation.messages, besides)
        settings = conversation.settings
        self._feed.notify(f"Resumed this session with {settings.model}, mode {settings.mode}.")

    def greet(self, conversation: "Conversation") -> None:
        from dirge_py.slash.permission import MODES

        mode = conversation.settings.mode
        has_tips = self.start.has_tips and self._controller.conversation is conversation
        self.start = replace(self.start, has_tips=False)
        self._feed.transcript.add(
            GreetingBlock(
                f"dirge {__version__}",
                [
                    ("model", conversation.settings.model),
                    ("folder", _folder(conversation.cwd)),
                    ("mode", mode),
                    ("", MODES[mode] if has_tips else ""),
                    ("sandbox", conversation.environment.sandbox),
                    ("prompt", prompt_in_use(conversation)),
                    ("reads", ", ".join(conversation.environment.instruction_files)),
                    *(_recent_sessions(conversation) if has_tips else ()),
                ],
                hint=[
                    "/help lists commands and keys",
                    "@ attaches a file",
                    f"{self._keymap.name_of('screen', 'cycle_mode')} switches modes",
                ],
                tips=self._tips() if has_tips else (),
            )
        )

    def _tips(self) -> Sequence[str]:
        name = self._keymap.name_of
        interrupt, palette = name("screen", "interrupt"), name("screen", "palette")
        back = f"{interrupt} {interrupt} goes back to a prompt"
        output = f"{name('screen', 'toggle_all')} expands output"
        return [
            f"Enter steers a run, {interrupt} interrupts it · {back}",
            f"{palette} finds commands · ! runs a shell command of yours · {output}",
        ]

    def use_extensions(self, conversation: "Conversation") -> Sequence[str]:
        extensions = conversation.extensions
        use_extension_themes(extensions.themes())
        problems = self._commands.use_extensions(extensions.commands())
        return [*problems, *self._keymap.use_plugins(extensions.key_bindings())]

    def on_shown(self, conversation: "Conversation") -> None:
        self._feed.transcript.redraw()

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._screen.run_worker(work)


def _read_gate(project: "Callable[[], TrustGate]") -> "TrustGate":
    gate = project()
    _ = gate.offer  # Reads the project's files, which waits for the disk.
    return gate


def _recent_sessions(conversation: "Conversation") -> Iterator[tuple[str, str]]:
    """The last sessions of the project, and how to open one, as rows of the greeting."""
    from dirge_py.slash.rewind import relative_time

    sessions = conversation.session.list_sessions(_MOST_RECENT)
    for at, session in enumerate(sessions):
        facts = (relative_time(session.updated.isoformat()), session.git_branch)
        title = cut(clean(session.title or session.id), _TITLE_WIDTH)
        yield "" if at else "recent", " · ".join(filter(None, (title, *facts)))
    if sessions:
        yield "", "/sessions opens one, `dirge -c` continues the newest"


def _folder(cwd: Path) -> str:
    home = Path.home()
    shown = f"~/{cwd.relative_to(home)}" if home in cwd.parents else str(cwd)
    branch = branch_of(cwd)
    return f"{shown} · {branch}" if branch else shown
