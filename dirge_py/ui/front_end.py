"""What slash commands may ask of the terminal UI."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice, Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import UsageError
from dirge_py.types.questions import Question, QuestionAnswer
from dirge_py.ui.terminal.editor import edit_in_editor, read_in_pager
from dirge_py.ui.theme.styles import theme_names
from dirge_py.ui.transcript.layout import LinePosition

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.ui.app import DirgeApp


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
        app.say(text, tone=tone)
        page = app.transcript
        said = page.layout_of_blocks.rows.last
        if said is not None and said.lines > page.lines_in_view and not app.talk.is_busy:
            # It is longer than the screen, and is read from its beginning.
            page.go_to(LinePosition(said, 0))
            app.hint(f"{app.keymap.name_of('screen', 'page_down')} reads on.")

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self._app.dock.pick(title, choices, current)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self._app.opening.asker.question(questions)

    async def edit_text(self, text: str) -> str | None:
        return await edit_in_editor(self._app, text)

    def set_input(self, text: str) -> None:
        self._app.composer.put(text)

    async def open(self, session_id: str | None) -> "Conversation":
        return await self._app.opening.switch_to(session_id)

    async def open_in(self, folder: Path) -> "Conversation":
        return await self._app.opening.switch_folder(folder)

    @property
    def settings_file(self) -> Path | None:
        return self._app.opening.settings_file

    def settings(self) -> "Config | None":
        return self._app.opening.settings()

    def quit(self) -> None:
        self._app.leave(0)

    def theme(self, name: str) -> None:
        if name not in theme_names():
            raise UsageError(
                f"There is no theme {name!r}.", hint=f"Themes: {', '.join(theme_names())}."
            )
        self._app.set_colors(name)

    def copy(self, text: str) -> str:
        return self._app.selected.copy(text)

    def show_diff(self, diff: str) -> None:
        self._app.chronicle.diff(diff)
        self._app.transcript.redraw()

    async def read_on(self, text: str) -> None:
        await read_in_pager(self._app, text)
