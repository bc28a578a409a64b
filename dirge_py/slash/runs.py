"""`/continue`, `/stop`, `/btw` and `/init`: runs that no prompt begins, and side questions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.context.prompt_text import prompt_text
from dirge_py.conversation.deps import ForkOptions
from dirge_py.sdk.outcome_text import why_not_done
from dirge_py.session.recovery import choices_from_answers, decide_calls, recovery_questions
from dirge_py.slash.base import FrontEnd, Unsupported
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.events import LoopEvent, UsageReported
from dirge_py.types.extensions import Command
from dirge_py.types.messages import AssistantMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.transcript import CallChoice


_ASKED = (
    "A question on the side, about this conversation. Answer it briefly, from what was said and "
    "shown so far; there are no tools for it, and the work goes on without your answer.\n\n"
)


async def continue_run(args: str, conversation: "Conversation", front: FrontEnd) -> None:
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
        except Unsupported:
            choices = {}
    if choices is None:
        front.show("Nothing was carried on. /continue asks again; a prompt goes on without it.")
        return
    conversation.continue_run(decide_calls(interruption, choices))


async def stop(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args:
        raise UsageError("/stop takes no words.", hint="A prompt during a run steers it.")
    if conversation.is_compacting:
        front.show("A compaction has no boundaries: wait for its end, or interrupt it.")
    elif conversation.is_running:
        conversation.interject()
        front.show("The run stops when the calls of this turn are done.")
    elif conversation.exclusive_owner is not None:
        conversation.exclusive_owner.interrupt("user")
        front.show("The plan is being stopped.")
    else:
        front.show("Nothing runs.")


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


async def init(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    wishes = f"\n\nWhat matters to me in particular: {args}" if args else ""
    conversation.send(f"{prompt_text('init')}{wishes}")


COMMANDS = (
    Command(
        name="continue",
        summary="carry on after a limit, an error or an interruption, with new limits",
        run=continue_run,
        while_running="no",
        headless=True,
    ),
    Command(
        name="stop",
        summary="let the run rest after this turn, when its calls are done",
        run=stop,
        while_running="yes",
    ),
    Command(
        name="btw",
        summary="ask something about the conversation on the side, without tools or a trace in it",
        usage="QUESTION",
        run=btw,
        headless=True,
    ),
    Command(
        name="init",
        summary="have AGENTS.md written or improved from what the project shows",
        usage="[WISHES]",
        run=init,
        while_running="no",
        headless=True,
    ),
)
