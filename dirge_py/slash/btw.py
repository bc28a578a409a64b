"""`/btw`: a question on the side, which the conversation never hears of."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.conversation.deps import ForkOptions
from dirge_py.sdk.outcome_text import why_not_done
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.events import LoopEvent, UsageReported
from dirge_py.types.extensions import Command
from dirge_py.types.messages import AssistantMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_ASKED = (
    "A question on the side, about this conversation. Answer it briefly, from what was said and "
    "shown so far; there are no tools for it, and the work goes on without your answer.\n\n"
)


async def btw(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not args:
        raise UsageError("Ask what?", hint="For example: /btw which files did you change?")

    def count(event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            conversation.report(replace(event, role="btw"))

    aside = await conversation.fork(ForkOptions(history="frozen", tools=(), max_turns=1))
    aside.subscribe(count)
    conversation.side_questions += 1
    front.show("Asking on the side.")
    try:
        run = aside.send(f"{_ASKED}{args}")
        outcome = await run
        answer = next(
            (m.text for m in reversed(aside.messages) if isinstance(m, AssistantMessage)), ""
        )
    finally:
        conversation.side_questions -= 1
        await aside.close()
    if not answer.strip():
        words, hint = why_not_done(outcome)
        raise DirgeError(f"No answer came: {words}", hint=hint)
    front.show(f"By the way: {args}\n\n{answer.strip()}")


COMMANDS = (
    Command(
        name="btw",
        summary="ask something about the conversation on the side, without tools or a trace in it",
        usage="QUESTION",
        run=btw,
        headless=True,
    ),
)
