"""How conversations are opened, as whoever wires hands it to a front end."""

from typing import TYPE_CHECKING, Protocol

from dirge_py.frontend.session_conflict import Way
from dirge_py.types.questions import Asker, TrustOffer

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


class OpenFirst(Protocol):
    """Opens the conversation that the command line asks for. Raises NoProvider, SessionError, …"""

    def __call__(self, asker: Asker) -> "Conversation": ...


class OpenOther(Protocol):
    """Opens a stored session by its id, or a new one for None. Raises SessionError, …"""

    def __call__(
        self, asker: Asker, session_id: str | None, way: Way = "write"
    ) -> "Conversation": ...


class ProjectDoor(Protocol):
    """What the folder brings along, and whether it may come in. Looked at once."""

    @property
    def offer(self) -> TrustOffer | None:
        """What to ask before anything is opened; None: nothing, or it was answered."""

    @property
    def theme(self) -> str:
        """The theme that a trusted project names, or "". Raises ConfigError."""

    def answer(self, *, is_trusted: bool) -> None:
        """Take the person's answer. Raises ConfigError, FileError, …"""
