"""The interfaces of front ends that slash commands use."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.extensions import Command, CommandBody
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.slash.registry import Registry
    from dirge_py.types.outcomes import Outcome


Tone = Literal["plain", "good", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One line of a list to pick from."""

    id: str
    """The value the command receives."""
    label: str
    """The text to show."""
    detail: str = ""
    """Further text, shown beside the label."""


PickerAction = Literal["rename", "delete", "all_projects"]
NO_ACTIONS: Mapping[PickerAction, str] = MappingProxyType({})
"""An action of a list to pick from; the keymap has its key."""


class Unsupported(DirgeError):
    """Raised when a front end has no support for what a command needs."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} needs the terminal UI.", hint="Start `dirge` without -p or --line."
        )


class FrontEnd(Protocol):
    """What commands may ask of a front end. Methods it can't support raise `Unsupported`."""

    @property
    def commands(self) -> "Registry":
        """Every command that can be typed here."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """The active keys and what they do; empty where dirge reads no keys."""
        return ()

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        """Show a text, line by line. It is untrusted: escape control characters."""

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        """Let the user pick a choice and return its id; None if they cancel."""

    async def pick_or_act(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        current: str = "",
        actions: Mapping[PickerAction, str] = NO_ACTIONS,
    ) -> tuple[PickerAction | None, str] | None:
        """Let the user pick a choice, or an action on it; return both. None if they cancel.

        `actions` maps each to the words of its key.
        """
        chosen = await self.pick(title, choices, current=current)
        return None if chosen is None else (None, chosen)

    async def ask_line(self, title: str, *, value: str = "") -> str | None:
        """Let the user type a line, or edit `value`; None if they cancel."""
        raise Unsupported("a line of text")

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """Ask the user several questions at once; None if they cancel."""
        raise Unsupported("a question")

    async def edit_text(self, text: str) -> str | None:
        """Let the user edit `text` in their editor; None if they left it unchanged."""
        raise Unsupported("editing text")

    def set_input(self, text: str) -> None:
        """Put `text` where the next prompt is written."""
        raise Unsupported("a prompt to edit")

    async def open(self, session_id: str | None) -> "Conversation":
        """Open another session, or a new one; the current one is closed."""
        raise Unsupported("switching the session")

    async def open_in(self, folder: Path, session_id: str | None = None) -> "Conversation":
        """Open a session of `folder`, or begin a new one there; the current one is closed.

        Asks whether to trust the folder's project. Raises DirgeError.
        """
        raise Unsupported("another folder")

    @property
    def settings_file(self) -> Path | None:
        """The settings file, even if it doesn't exist yet; None if started without settings."""
        raise Unsupported("showing the settings")

    def settings(self) -> "Config | None":
        """The current settings; None if there are none here. Raises ConfigError."""
        return None

    def quit(self) -> None:
        """End the program."""

    def show_diff(self, diff: str) -> None:
        """Show a unified diff as such."""
        self.show(diff)


@runtime_checkable
class ReceivesOutcome(Protocol):
    """A front end that ends with the outcome of one command: `dirge -p`."""

    def set_outcome(self, outcome: "Outcome", text: str) -> None:
        """Receive how the command ended, and the text to print. Other front ends use `show`."""


def command(name: str, summary: str, **options: Any) -> Callable[[CommandBody], Command]:
    """Return a decorator that makes a function a command, with the fields of `Command`."""
    return lambda run: Command(name=name, summary=summary, run=run, **options)


async def pick_name(
    args: str, front: FrontEnd, title: str, choices: Mapping[Any, str], *, current: str, noun: str
) -> str | None:
    """Return the name in `args`, or the one that the user picks. Raises UsageError."""
    if not args:
        listed = [Choice(id=name, label=name, detail=detail) for name, detail in choices.items()]
        return await front.pick(title, listed, current=current)
    if args not in choices:
        names = ", ".join(choices)
        raise UsageError(f"There is no {noun} {args!r}.", hint=f"{noun.capitalize()}s: {names}.")
    return args


async def ask_options(
    front: FrontEnd, header: str, text: str, options: Mapping[str, str], *, is_multiple: bool = True
) -> Sequence[str] | None:
    """The options that the user chooses from labels and their descriptions; None if they cancel."""
    listed = tuple(QuestionOption(label=name, description=note) for name, note in options.items())
    question = Question(
        header=header, question=text, options=listed, is_multiple=is_multiple, is_open=False
    )
    answers = await front.form([question])
    return answers[0].chosen if answers else None


async def ask_option(
    front: FrontEnd, header: str, text: str, options: Mapping[str, str]
) -> str | None:
    """Do the same for one option; None if they choose none."""
    chosen = await ask_options(front, header, text, options, is_multiple=False)
    return chosen[0] if chosen else None
