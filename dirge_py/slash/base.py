"""What a slash command is given: the conversation, and the front end it was typed into."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError
from dirge_py.types.extensions import Command
from dirge_py.types.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.types.outcomes import Outcome

Tone = Literal["plain", "good", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One line of a list to pick from."""

    id: str
    """What the command gets back."""
    label: str
    """What is shown of it."""
    detail: str = ""
    """More about it, shown beside the label."""


class Unsupported(DirgeError):
    """This front end cannot do what the command asks for."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} needs the terminal UI.", hint="Start `dirge` without -p or --line."
        )


class CommandList(Protocol):
    """The commands of a front end, as a command sees them; `slash.registry.Registry` is one."""

    @property
    def own_names(self) -> Sequence[tuple[str, str]]:
        """What the person calls commands, and what that stands for."""

    def __iter__(self) -> Iterator[Command]:
        """Every command, by name."""

    def use_extensions(self, commands: Iterable[Command]) -> list[str]:
        """Use the commands of these extensions; returns warnings about names that are taken."""


class FrontEnd(Protocol):
    """What commands may ask of whoever draws. What a front end lacks raises `Unsupported`."""

    @property
    def commands(self) -> CommandList:
        """Every command that can be typed here."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """The active keys and what they do; empty without a keyboard of our own."""

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        """Say something to the person. Lines stay lines; the text may come from anywhere."""

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        """Let the person pick one; None if they would rather not."""

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """Ask the person several things at once; None if they would rather not say."""

    async def edit_text(self, text: str) -> str | None:
        """Let the person edit `text` in their editor; None if they left it unchanged."""

    def set_input(self, text: str) -> None:
        """Put `text` where the next prompt is written."""

    async def open(self, session_id: str | None) -> "Conversation":
        """Go on in another session, or in a new one; the current one is closed."""

    def quit(self) -> None:
        """Leave the program in good order."""

    def theme(self, name: str) -> None:
        """Use another colour theme."""

    def copy(self, text: str) -> str:
        """Put `text` on the clipboard; returns what can truthfully be said of that."""

    def show_diff(self, diff: str) -> None:
        """Show a unified diff as such."""

    async def read_on(self, text: str) -> None:
        """Let the person read a long text in their pager."""


@runtime_checkable
class HasSettings(Protocol):
    """A front end that was started with settings, and can read them again."""

    @property
    def settings_file(self) -> Path | None:
        """Where they are, also when there is no such file yet; None: it was started without."""

    def settings(self) -> "Config | None":
        """The settings as they are now; None: it was started without. Raises ConfigError."""


@runtime_checkable
class CanOpenFolder(Protocol):
    """A front end that can go on in another folder."""

    async def open_in(self, folder: Path) -> "Conversation":
        """Begin a new session in `folder`; the current one is closed. Raises DirgeError."""


@runtime_checkable
class ReceivesOutcome(Protocol):
    """A front end that leaves with what one command came to: `dirge -p`."""

    def take_outcome(self, outcome: "Outcome", text: str) -> None:
        """How the command ended, and the text to print. Others are told by `show`."""


def settings_of(front: FrontEnd) -> "Config | None":
    """The settings, as far as this front end knows them. Raises ConfigError."""
    return front.settings() if isinstance(front, HasSettings) else None
