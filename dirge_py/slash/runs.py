"""`/continue`: carrying on without a new prompt."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dirge_py.session.recovery import choices_from_answers, decide_calls, recovery_questions
from dirge_py.slash.base import FrontEnd, NeedsScreen
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.transcript import CallChoice


async def go_on(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args:
        raise UsageError(
            "/continue takes no words.", hint="Send them as a prompt: it carries on, too."
        )
    interruption = conversation.interruption
    if interruption is None:
        conversation.continue_run()
        return
    choices: Mapping[str, CallChoice] | None = {}
    if interruption.undecided:
        try:
            answers = await front.form(recovery_questions(interruption))
            choices = choices_from_answers(interruption, answers)
        except NeedsScreen:
            choices = {}
    if choices is None:
        front.show("Nothing was carried on. /continue asks again; a prompt goes on without it.")
        return
    conversation.continue_run(decide_calls(interruption, choices))


COMMANDS = (
    Command(
        name="continue",
        summary="carry on after a limit, an error or an interruption, with new limits",
        run=go_on,
        while_running="no",
        headless=True,
    ),
)
