"""From the first frame to a conversation: settings, set-up where there is no provider, greeting."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from textual.worker import Worker

from dirge_py import slash
from dirge_py.files.git import branch_of
from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.session_opener import OpenMode, SessionOpener
from dirge_py.lib.lazy import late
from dirge_py.lib.version import __version__
from dirge_py.slash.base import Tone
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import DirgeError, NoProvider
from dirge_py.types.questions import SupportsTrust
from dirge_py.ui import commands
from dirge_py.ui.dialog_host import DialogAsker, DialogHost
from dirge_py.ui.keymap import Keymap, preset_of, speaks_kitty, unsendable
from dirge_py.ui.options import UiOptions, UiSettings
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.status import prompt_in_use
from dirge_py.ui.theme.styles import theme_names
from dirge_py.ui.transcript.blocks import GreetingBlock
from dirge_py.ui.transcript.view import TranscriptWidget

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.setup_wizard import set_up
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.session.history import PlanRecordEvent
else:
    set_up = late("dirge_py.frontend.setup_wizard", "set_up")


class OpenerApp(Protocol):
    """What opening a session uses of the app."""

    keymap: Keymap
    controller: ChatController
    composer: Composer
    transcript: TranscriptWidget

    @property
    def commands(self) -> Registry: ...
    def adopt(self, conversation: "Conversation") -> None: ...
    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None: ...
    def apply_settings(self, settings: UiSettings) -> Sequence[str]: ...
    def use_mouse(self, *, is_ours: bool) -> None: ...
    def set_colors(self, name: str) -> None: ...
    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def hint(self, text: str) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def call_after_refresh(self, callback: Callable[[], None]) -> bool: ...
    def run_worker(self, work: Awaitable[None], /) -> Worker[None]: ...


class TuiSessionOpener:
    """Opens the conversation of an app, and every later one. Implements `SessionView`."""

    def __init__(self, app: OpenerApp, dialogs: DialogHost, start: UiOptions) -> None:
        self._app = app
        self._dialogs = dialogs
        self._start = start
        self.asker = DialogAsker(dialogs)
        self._sessions = SessionOpener(self, app.controller, self.asker)
        self._is_over = asyncio.Event()
        self.ui_settings = UiSettings()
        self._is_told = False
        self._good_news: list[str] = []

    def begin(self) -> None:
        """Open the first conversation; nothing waits for it."""
        self._is_over.clear()
        self._app.run_worker(self._begin())

    async def finished(self) -> bool:
        """Wait for the opening that goes on; begin another one if it was given up.

        False if there is no conversation even then. What was typed in between waits here.
        """
        if self._is_over.is_set():
            self.begin()
        await self._is_over.wait()
        return self._app.controller.conversation is not None

    async def switch_to(self, session_id: str | None) -> "Conversation":
        """Go on in another session, or a new one: see `SessionOpener.switch_to`."""
        if session_id is not None:
            await self._say_first("Opening the session.")
        return await self._sessions.switch_to(session_id)

    async def _say_first(self, words: str) -> None:
        """Have it on the screen before what takes long: a long session is read in one go."""
        shown = asyncio.Event()
        self._app.hint(words)
        self._app.call_after_refresh(shown.set)
        await shown.wait()

    async def switch_folder(self, folder: Path) -> "Conversation":
        """Begin a new session in another folder, once it was asked what that may bring along.

        Where that fails, the one before goes on where it is. Raises as `switch_to`.
        """
        before = Path.cwd()
        os.chdir(folder)
        try:
            warnings = await self._ask_for_trust()
            conversation = await self.switch_to(None)
        except BaseException:
            os.chdir(before)
            raise
        for warning in warnings:
            self._app.notify_user(warning, tone="warning")
        return conversation

    @property
    def is_kept(self) -> bool:
        """Whether what is said can be come back to."""
        return self._start.is_kept

    def close(self) -> None:
        """Let go of what the last start holds; the conversation is closed before."""
        if self._start.close is not None:
            self._start.close()

    @property
    def settings_file(self) -> Path | None:
        return self._start.settings_file

    def settings(self) -> "Config | None":
        """The settings as they are now; None: this was started without. Raises ConfigError."""
        return self._start.settings() if self._start.settings is not None else None

    async def _begin(self) -> None:
        try:
            await self._open()
        except DirgeError as error:
            self._app.fail(error)
        finally:
            self._is_over.set()

    async def _open(self) -> None:
        while True:
            try:
                warnings = self._apply_settings(*await asyncio.to_thread(self._prepare))
                warnings += await self._ask_for_trust()
                conversation = await self._open_first()
                break
            except NoProvider as error:
                if not await self._set_up(error):
                    return
        self._sessions.adopt(conversation)
        if self._good_news:  # The page that it was told on is gone.
            self._app.notify_user("\n".join(self._good_news), tone="good")
            self._good_news.clear()
        for warning in warnings:
            self._app.notify_user(warning, tone="warning")
        self._is_over.set()
        if self._start.first_prompt:
            await self._app.controller.submit(self._start.first_prompt, "now")
        elif self._start.pick_session:
            await self._app.controller.submit("/sessions", "now")
        else:
            await self._sessions.offer_to_continue(conversation)

    async def _open_first(self) -> "Conversation":
        start = self._start
        return await self._sessions.open_first(lambda: start.open_first(self.asker))

    async def _ask_for_trust(self) -> list[str]:
        """Let the person say what the project may bring along; returns what is wrong with that.

        Whoever gives no answer leaves it restricted, and will be asked again.
        """
        if self._start.project is None:
            return []
        door = await asyncio.to_thread(_looked_at, self._start.project)
        if door.offer is not None and isinstance(self.asker, SupportsTrust):
            door.answer(is_trusted=await self.asker.trust(door.offer))
        if not door.theme:
            return []
        if door.theme not in theme_names():
            return [f"[ui] of the project: there is no theme {door.theme!r}."]
        self._app.set_colors(door.theme)
        return []

    async def _set_up(self, error: NoProvider) -> bool:
        if self._start.setup is None:
            raise error
        why = "" if self._is_told else error.message
        self._is_told = True
        app, service = self._app, self._start.setup()

        def say(text: str, *, tone: Tone = "plain") -> None:
            app.notify_user(text, tone=tone)
            if tone == "good":
                self._good_news.append(text)

        ending = await set_up(
            self._dialogs, say, service, why, has_demo=self._start.demo is not None
        )
        if ending == "given up":
            app.notify_user("Nothing was changed. Enter asks again, Ctrl+D leaves.")
        elif ending == "demo" and self._start.demo is not None:
            self._start = self._start.demo()
        return ending != "given up"

    def _prepare(self) -> tuple[UiSettings, Registry]:
        # Some hundred modules, none of which the first frame needs.
        registry = discover(slash, commands)
        return self._start.prepare(), registry

    def _apply_settings(self, settings: UiSettings, commands: Registry) -> list[str]:
        """Take over what the settings say; returns what is wrong with it."""
        app = self._app
        self.ui_settings = settings
        # GNU screen holds an Esc back for as long as the mouse is reported.
        in_screen = bool(os.environ.get("STY")) and not os.environ.get("TMUX")
        app.use_mouse(is_ours=settings.has_mouse and not in_screen)
        problems = app.keymap.change(settings.keys, preset_of(settings.keymap, settings.enter))
        app.composer.use_vim(is_on=settings.keymap == "vim")
        app.commands.add_all(commands)
        odd_names = app.commands.use_own_names(settings.aliases)
        problems = [*problems, *unsendable(app.keymap, has_kitty=speaks_kitty())]
        warnings = [f"[keys]: {problem}" for problem in problems]
        warnings += [f"[aliases]: {warning}" for warning in odd_names]
        warnings += app.apply_settings(settings)
        return warnings

    # -- SessionView

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> "Conversation":
        conversation = self._start.open_other(self.asker, session_id, way)
        before = self._app.controller.conversation
        if before is not None and session_id is None:
            # The person set it, and sees it; a start may have been with a looser one.
            conversation.settings.set_mode(before.settings.mode)
        return conversation

    def adopt(self, conversation: "Conversation") -> None:
        self._app.adopt(conversation)

    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        self._app.replay(conversation, besides)
        settings = conversation.settings
        self._app.notify_user(f"Back in this session, with {settings.model}, mode {settings.mode}.")

    def greet(self, conversation: "Conversation") -> None:
        self._app.transcript.add(
            GreetingBlock(
                f"dirge {__version__}",
                [
                    ("model", conversation.settings.model),
                    ("folder", _folder(conversation.cwd)),
                    ("mode", conversation.settings.mode),
                    ("sandbox", conversation.environment.sandbox),
                    ("prompt", prompt_in_use(conversation)),
                    ("reads", ", ".join(conversation.environment.instruction_files)),
                ],
                hint=[
                    "/help lists commands and keys",
                    "@ attaches a file",
                    f"{self._app.keymap.name_of('screen', 'cycle_mode')} switches modes",
                ],
            )
        )

    def use_extensions(self, conversation: "Conversation") -> Sequence[str]:
        extensions = conversation.extensions
        return [
            *self._app.commands.use_extensions(extensions.commands()),
            *self._app.keymap.use_plugins(extensions.key_bindings()),
        ]

    def on_shown(self, conversation: "Conversation") -> None:
        self._app.transcript.redraw()

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        self._app.notify_user(text, tone=tone)

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(work)


def _looked_at(project: "Callable[[], TrustGate]") -> "TrustGate":
    """The door, with its files read: that may take a moment, and waits for a disk."""
    door = project()
    _ = door.offer
    return door


def _folder(cwd: Path) -> str:
    """The folder as people write it, and its branch."""
    home = Path.home()
    shown = f"~/{cwd.relative_to(home)}" if home in cwd.parents else str(cwd)
    branch = branch_of(cwd)
    return f"{shown} · {branch}" if branch else shown
