"""The front end that commands see in `--print`: it can show text, and nothing else."""

from collections.abc import Sequence

from dirge_py.conversation.conversation import Conversation
from dirge_py.slash.base import Choice, NeedsScreen, Tone
from dirge_py.slash.registry import Registry
from dirge_py.types.outcomes import Outcome
from dirge_py.types.questions import Question, QuestionAnswer


class PrintFront:
    """Collects what commands show; what needs a screen raises `NeedsScreen`."""

    def __init__(self, commands: Registry) -> None:
        self._commands = commands
        self.shown: list[str] = []
        self.outcome: Outcome | None = None
        """What the command came to, where it says so; `result_text` is what to print then."""
        self.result_text = ""
        self.failed = False

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return ()

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self.shown.append(text)
        self.failed = self.failed or tone == "error"

    def take_outcome(self, outcome: Outcome, text: str) -> None:
        self.outcome, self.result_text = outcome, text

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        self.show("\n".join([title, *(_line(choice, current) for choice in choices)]))
        return None

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        raise NeedsScreen("a question")

    async def edit_text(self, text: str) -> str | None:
        raise NeedsScreen("editing text")

    def set_input(self, text: str) -> None:
        raise NeedsScreen("a prompt to edit")

    async def open(self, session_id: str | None) -> Conversation:
        raise NeedsScreen("switching the session")

    def quit(self) -> None:
        """There is nothing to leave: the program ends after the command."""

    def theme(self, name: str) -> None:
        raise NeedsScreen("a theme")

    def copy(self, text: str) -> str:
        raise NeedsScreen("the clipboard")

    def show_diff(self, diff: str) -> None:
        self.show(diff)

    async def read_on(self, text: str) -> None:
        self.show(text)


def _line(choice: Choice, current: str) -> str:
    mark = "*" if choice.id == current else " "
    return f"{mark} {choice.label}  {choice.detail}".rstrip()
