"""What slash commands may ask of line mode: text, lists to pick from, questions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice, NeedsScreen, Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.line.repl import Repl

KEYS = (
    ("Enter", "send; during a run: steer it"),
    ("Alt+Enter", "a new line"),
    ("Tab", "complete a command or an @file"),
    ("Up, Down, Ctrl+R", "earlier prompts"),
    ("Ctrl+C", "clear the line, else interrupt, else quit at the second press"),
    ("Ctrl+D", "quit, on an empty line"),
    ("Ctrl+Z", "suspend"),
)


class LineFront:
    """The `slash.base.FrontEnd` of line mode. What needs a screen raises `NeedsScreen`."""

    def __init__(self, repl: "Repl", commands: Registry) -> None:
        self._repl = repl
        self._commands = commands

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return KEYS if self._repl.has_keys else ()

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self._repl.say(text, tone=tone)

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self._repl.asker.pick(title, choices, current=current)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self._repl.asker.question(questions)

    async def edit_text(self, text: str) -> str | None:
        raise NeedsScreen("editing text")

    def set_input(self, text: str) -> None:
        self._repl.give_back(text)

    async def open(self, session_id: str | None) -> "Conversation":
        return await self._repl.opening.switch_to(session_id)

    def quit(self) -> None:
        self._repl.leave(0)

    def theme(self, name: str) -> None:
        raise NeedsScreen("a theme")

    def copy(self, text: str) -> str:
        raise NeedsScreen("the clipboard")

    def show_diff(self, diff: str) -> None:
        self._repl.say(diff)

    async def read_on(self, text: str) -> None:
        self._repl.say(text)
