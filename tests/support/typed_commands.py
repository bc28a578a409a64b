"""Runs slash commands in a front end that records text and answers by script."""

from collections.abc import Sequence

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.base import Choice
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.questions import Question, QuestionAnswer

COMMANDS = Registry(discover(slash))


class ScriptedFrontEnd(PrintFront):
    """Picks choices by a word of their label; records what it shows, diffs separately."""

    def __init__(self, *answers: str | None) -> None:
        super().__init__(COMMANDS)
        self.answers = list(answers)
        self.asked: list[str] = []
        self.diffs: list[str] = []
        self.input = ""

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        self.asked += [f"{choice.label} | {choice.detail}" for choice in choices]
        word = self.answers.pop(0)
        return next((c.id for c in choices if word in c.label), None) if word else None

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        [question] = questions
        self.asked.append(question.question)
        answer = self.answers.pop(0)
        return None if answer is None else [QuestionAnswer(chosen=(answer,))]

    def set_input(self, text: str) -> None:
        self.input = text

    def show_diff(self, diff: str) -> None:
        self.diffs.append(diff)

    @property
    def text(self) -> str:
        return "\n".join(self.shown)


async def run_command(
    line: str, conversation: Conversation, *answers: str | None
) -> ScriptedFrontEnd:
    """Run a slash command; returns the front end that it ran in."""
    return await run_command_in(ScriptedFrontEnd(*answers), line, conversation)


async def run_command_in(
    screen: ScriptedFrontEnd, line: str, conversation: Conversation
) -> ScriptedFrontEnd:
    command = COMMANDS.read(line)
    assert command is not None
    await COMMANDS.run(command, conversation, screen)
    assert screen.answers == []
    return screen
