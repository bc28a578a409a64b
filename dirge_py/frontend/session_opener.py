"""Opens sessions in an interactive front end; also the types of callables that open one."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from dirge_py.frontend.replay import plan_events
from dirge_py.lib.text import visible_name
from dirge_py.session.recovery import choices_from_answers, recovery_questions
from dirge_py.slash.base import Tone
from dirge_py.types.errors import SessionBusy, SessionElsewhere, SessionError
from dirge_py.types.events import LoopEvent, SystemNotice
from dirge_py.types.questions import Asker, Question, QuestionOption, SupportsForms

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.controller import ChatController
    from dirge_py.session.history import PlanRecordEvent
    from dirge_py.types.events import Sink


OpenMode = Literal["write", "fork", "view"]
"""How a stored session is opened: to continue it, as a copy, or read-only."""
_MODES: dict[str, OpenMode] = {"continue in a copy": "fork", "only view": "view"}
_BUSY_OPTIONS = (
    QuestionOption(
        label="continue in a copy",
        description="a new session with the same history; the other one doesn't change",
    ),
    QuestionOption(
        label="only view", description="shows it as it is now; you cannot send anything"
    ),
    QuestionOption(label="cancel"),
)


_FOLDER_OPTIONS = (
    QuestionOption(label="go there", description="dirge works in that folder from then on"),
    QuestionOption(label="stay here"),
)


OpenFirst: TypeAlias = "Callable[[Asker], Conversation]"
"""Opens the conversation of the command line. Raises NoProvider, SessionError, …"""


class OpenOther(Protocol):
    """Opens a stored session by its id, or a new one for None. Raises SessionError, …"""

    def __call__(
        self, asker: Asker, session_id: str | None, way: OpenMode = "write"
    ) -> "Conversation": ...


class SessionView(Protocol):
    """The interface of front ends that a `SessionOpener` uses."""

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> "Conversation":
        """Open a stored session, or a new one for None. Raises SessionBusy, SessionError, …"""

    async def ask_for_trust(self) -> None:
        """Ask whether to trust the project of the current folder, if that has to be asked."""

    def adopt(self, conversation: "Conversation") -> None:
        """Switch to this conversation, which isn't shown yet."""

    def replay(
        self, conversation: "Conversation", besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        """Show the stored messages of the conversation, and that it was resumed."""

    def greet(self, conversation: "Conversation") -> None:
        """Show the beginning of a conversation without history."""

    def use_extensions(self, conversation: "Conversation") -> Sequence[str]:
        """Use the commands and keys of the conversation's extensions; returns warnings."""

    def on_shown(self, conversation: "Conversation") -> None:
        """Called when the whole conversation is shown."""

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on the event loop in the background."""


class SessionOpener:
    """Opens sessions for a controller: asks about a session in use, and closes the previous one."""

    def __init__(
        self, view: SessionView, controller: "ChatController", asker: SupportsForms
    ) -> None:
        self._view = view
        self._controller = controller
        self._asker = asker

    async def open_first(self, opening: "Callable[[], Conversation]") -> "Conversation":
        """Return the conversation, not shown yet; ask what to do if it is in use.

        Raises as `opening`, also SessionBusy and SessionElsewhere if the user cancels.
        """
        try:
            return opening()
        except SessionBusy as error:
            text = f"{error.message} What do you want to do?"
            question = Question(header="Busy", question=text, options=_BUSY_OPTIONS, is_open=False)
            answers = await self._asker.question([question])
            way = _MODES.get("".join(answers[0].chosen[:1])) if answers else None
            if way is None:
                raise
            return await self.open_first(partial(self._view.open_other, error.session_id, way))
        except SessionElsewhere as error:
            if not error.has_folder or not await self._wants_to_go(error):
                raise
            way = "fork" if error.is_fork else "write"
            async with self._in_folder(Path(error.folder)):
                return await self.open_first(partial(self._view.open_other, error.session_id, way))

    async def _wants_to_go(self, error: SessionElsewhere) -> bool:
        text = f"{error.message} Do you want to go there?"
        question = Question(header="Folder", question=text, options=_FOLDER_OPTIONS, is_open=False)
        answers = await self._asker.question([question])
        return answers is not None and answers[0].chosen == (_FOLDER_OPTIONS[0].label,)

    async def switch_to(self, session_id: str | None, folder: Path | None = None) -> "Conversation":
        """Open another session, or a new one, and close the current one.

        With `folder`, it is one of the project there. If the other one is busy and the user
        cancels, the current one stays open.
        """
        opening = partial(self._view.open_other, session_id)
        try:
            if folder is None:
                conversation = await self.open_first(opening)
            else:
                async with self._in_folder(folder):
                    conversation = await self.open_first(opening)
        except (SessionBusy, SessionElsewhere) as error:
            is_gone = isinstance(error, SessionElsewhere) and not error.has_folder
            if self._controller.conversation is None or is_gone:
                raise
            return self._controller.conversation
        # Read it only now: another session may have been opened while the question waited.
        before = self._controller.conversation
        self.adopt(conversation)
        if before is not None:
            before.unsent.release()
            before.subscribe(notice_sink(lambda text: self._view.notify_user(text, tone="warning")))
            await before.close()
        if conversation.interruption is not None:
            # The caller has to get the conversation first.
            self._view.run_later(self.offer_to_continue(conversation))
        return conversation

    @asynccontextmanager
    async def _in_folder(self, folder: Path) -> AsyncIterator[None]:
        """Change to `folder` and ask about its trust; an error in the block changes back."""
        before: Path | None = None
        with suppress(FileNotFoundError):  # the current folder may have been deleted
            before = Path.cwd()
        try:
            os.chdir(folder)
        except OSError as error:
            text = f"Cannot change to {visible_name(str(folder))}: {error.strerror}."
            hint = "Check that the folder exists and you can open it."
            raise SessionError(text, hint=hint) from error
        try:
            await self._view.ask_for_trust()
            yield
        except BaseException:
            if before is not None:
                with suppress(OSError):
                    os.chdir(before)
            raise

    def adopt(self, conversation: "Conversation") -> None:
        """Use this conversation from now on, and show it."""
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
        """Ask whether to continue a run that was cut off; `/continue` does it."""
        interruption = conversation.interruption
        if interruption is None or self._controller.conversation is not conversation:
            return
        if not interruption.undecided:
            answers = await self._asker.question(recovery_questions(interruption))
            if choices_from_answers(interruption, answers) is None:
                self._view.notify_user("/continue continues the run; a prompt starts without it.")
                return
        await self._controller.submit("/continue", "now")


def notice_sink(notify: Callable[[str], object]) -> "Sink":
    """A sink for a conversation that is closing, which passes on the texts of notices."""

    def on_event(event: LoopEvent) -> None:
        if isinstance(event, SystemNotice):
            notify(event.content)

    return on_event
