"""How front ends open sessions: the openers, and the question about a busy one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from dirge_py.types.errors import SessionBusy
from dirge_py.types.questions import Asker, Question, QuestionAnswer, QuestionOption, TrustOffer

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

OpenMode = Literal["write", "fork", "view"]
"""How a stored session is opened: to go on in it, as a copy of its own, only to look."""
_MODE_OF_LABEL: dict[str, OpenMode] = {"go on in a copy": "fork", "only look": "view"}
_LABEL_DETAILS = {
    "go on in a copy": "a new session with the same history; the other one is not touched",
    "only look": "as it stands now; nothing can be sent",
}
_CANCEL = "cancel"


def conflict_question(error: SessionBusy) -> Question:
    """What is to become of a start that found its session busy."""
    ways = [
        QuestionOption(label=label, description=_LABEL_DETAILS[label]) for label in _MODE_OF_LABEL
    ]
    return Question(
        header="Busy",
        question=f"{error.message} What shall be done?",
        options=(*ways, QuestionOption(label=_CANCEL)),
        is_open=False,
    )


def chosen_open_mode(answers: Sequence[QuestionAnswer] | None) -> OpenMode | None:
    """What was chosen; None: nothing of it."""
    chosen = answers[0].chosen if answers else ()
    return _MODE_OF_LABEL.get(chosen[0]) if chosen else None


class OpenFirst(Protocol):
    """Opens the conversation that the command line asks for. Raises NoProvider, SessionError, …"""

    def __call__(self, asker: Asker) -> "Conversation": ...


class OpenOther(Protocol):
    """Opens a stored session by its id, or a new one for None. Raises SessionError, …"""

    def __call__(
        self, asker: Asker, session_id: str | None, way: OpenMode = "write"
    ) -> "Conversation": ...


class TrustGate(Protocol):
    """What the folder brings along, and whether it may come in. Looked at once."""

    @property
    def offer(self) -> TrustOffer | None:
        """What to ask before anything is opened; None: nothing, or it was answered."""

    @property
    def theme(self) -> str:
        """The theme that a trusted project names, or "". Raises ConfigError."""

    def answer(self, *, is_trusted: bool) -> None:
        """Take the person's answer. Raises ConfigError, FileError, …"""
