"""Opening sessions in an interactive front end: the first one, and every later one.

With it: the callables that open a conversation, and the question about a session that is in use.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dirge_py.frontend.replay import plan_events
from dirge_py.lib.lazy import late
from dirge_py.slash.base import Tone
from dirge_py.types.errors import SessionBusy
from dirge_py.types.events import LoopEvent, SystemNotice
from dirge_py.types.questions import Asker, Question, QuestionAnswer, QuestionOption, SupportsForms

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.controller import ChatController
    from dirge_py.session.history import PlanRecordEvent
    from dirge_py.session.recovery import choices_from_answers, recovery_questions
    from dirge_py.types.events import Sink
else:
    choices_from_answers = late("dirge_py.session.recovery", "choices_from_answers")
    recovery_questions = late("dirge_py.session.recovery", "recovery_questions")

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


class SessionView(Protocol):
    """What a `SessionOpener` needs of its front end."""

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> "Conversation":
        """Open a stored session, or a new one for None. Raises SessionBusy, SessionError, …"""

    def adopt(self, conversation: "Conversation") -> None:
        """Go on with this conversation, of which nothing is shown yet."""

    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        """Show what is stored of the conversation, and that it is open again."""

    def greet(self, conversation: "Conversation") -> None:
        """Show the beginning of a conversation without history."""

    def use_extensions(self, conversation: "Conversation") -> Sequence[str]:
        """Use the commands and keys of its extensions; returns the warnings."""

    def on_shown(self, conversation: "Conversation") -> None:
        """Receive that all of the conversation is shown."""

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on the event loop; nobody waits for it."""


class SessionOpener:
    """Opens sessions for a controller; a session in use is asked about, the one before closed."""

    def __init__(
        self, view: SessionView, controller: "ChatController", asker: SupportsForms
    ) -> None:
        self._view = view
        self._controller = controller
        self._asker = asker

    async def open_first(self, opening: "Callable[[], Conversation]") -> "Conversation":
        """Return the first conversation, not shown yet. Raises as `opening`."""
        try:
            return opening()
        except SessionBusy as error:
            conversation = await self._open_busy(error)
            if conversation is None:
                raise
            return conversation

    async def switch_to(self, session_id: str | None) -> "Conversation":
        """Go on in another session, or a new one; the one before is closed.

        Where the other one is busy and the person wants nothing of it, the one before goes on.
        """
        try:
            conversation = self._view.open_other(session_id)
        except SessionBusy as error:
            other = await self._open_busy(error)
            if other is None and self._controller.conversation is not None:
                return self._controller.conversation
            if other is None:
                raise
            conversation = other
        # Not earlier: another one may have been opened while the question waited.
        before = self._controller.conversation
        self.adopt(conversation)
        if before is not None:
            before.unsent.release()
            before.subscribe(notice_sink(lambda text: self._view.notify_user(text, tone="warning")))
            await before.close()
        if conversation.interruption is not None:
            # Whoever asked for the session has to get it first.
            self._view.run_later(self.offer_to_continue(conversation))
        return conversation

    def adopt(self, conversation: "Conversation") -> None:
        """Go on with this conversation, and show it."""
        view = self._view
        view.adopt(conversation)
        besides = plan_events(conversation)
        if conversation.messages or besides:
            view.replay(conversation, besides)
        else:
            view.greet(conversation)
        for notice in (*conversation.notices, *view.use_extensions(conversation)):
            view.notify_user(notice, tone="warning")
        view.on_shown(conversation)

    async def offer_to_continue(self, conversation: "Conversation") -> None:
        """Ask what becomes of a run that was cut off; the command knows how to go on with it."""
        interruption = conversation.interruption
        if interruption is None or self._controller.conversation is not conversation:
            return
        if not interruption.undecided:
            answers = await self._asker.question(recovery_questions(interruption))
            if choices_from_answers(interruption, answers) is None:
                self._view.notify_user("/continue carries the run on; a prompt goes on without it.")
                return
        await self._controller.submit("/continue", "now")

    async def _open_busy(self, error: SessionBusy) -> "Conversation | None":
        """What the person wants of a session that is in use: a copy, a look at it, or None."""
        way = chosen_open_mode(await self._asker.question([conflict_question(error)]))
        return None if way is None else self._view.open_other(error.session_id, way)


def notice_sink(notify: Callable[[str], object]) -> "Sink":
    """A sink for a conversation that is being closed: it passes the texts of notices on."""

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, SystemNotice):
            notify(event.content)

    return on_event
