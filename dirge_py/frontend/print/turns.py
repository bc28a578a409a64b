"""A session carried on from outside: one turn at a time, or with a decision about a call."""

from dirge_py.agent_loop.history import open_calls
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.printer import Printer
from dirge_py.frontend.print.prompt import Prompt, message_of
from dirge_py.frontend.print.stopping import stoppable
from dirge_py.session.recovery import decide_calls, title_of_call
from dirge_py.session.transcript import CallChoice
from dirge_py.types.errors import SessionError
from dirge_py.types.hooks import CallDecision


async def print_turn(printer: Printer, prompt: Prompt | None) -> int:
    """Take one turn and print it; without a prompt it goes on from where the session stands.

    The prompt is a message whatever it begins with: what comes out of a queue runs no command.

    Raises:
        DirgeError: there is nothing to go on from, or a call waits for a decision.
    """
    conversation = printer.conversation
    printer.tells_turns = True
    if prompt is None:
        _check_can_go_on(conversation)
        run = conversation.continue_run(single_turn=True)
    else:
        message = await message_of(conversation, prompt.text, prompt)
        run = conversation.send(message, single_turn=True)
    return await stoppable(printer, printer.follow(run))


async def print_decision(printer: Printer, decision: CallDecision) -> int:
    """Carry on a run that waits, with what was decided, and print the rest of it."""
    return await stoppable(printer, printer.follow(printer.conversation.continue_run([decision])))


async def print_interrupted(printer: Printer, choice: CallChoice | None) -> int:
    """Carry on the run that was cut off when dirge was killed, and print the rest of it.

    `choice` is made of every call whose outcome is unknown; None: what was chosen before, else to
    look first.

    Raises:
        SessionError: the last run of the session came to its end.
    """
    conversation = printer.conversation
    interruption = conversation.interruption
    if interruption is None:
        name = conversation.session_id
        raise SessionError(
            f"Session {name} has nothing to carry on: its last run was not cut off.",
            hint=f"`dirge --session {name}` goes on in it with a prompt.",
        )
    choices = {one.call.id: choice for one in interruption.unknown} if choice else {}
    run = conversation.continue_run(decide_calls(interruption, choices))
    return await stoppable(printer, printer.follow(run))


def _check_can_go_on(conversation: Conversation) -> None:
    name = conversation.session_id
    if not conversation.messages:
        raise SessionError(
            f"Session {name} has nothing to go on from: nothing was said in it yet.",
            hint=f"Begin with `dirge turn --session {name} --input TEXT`.",
        )
    waiting = open_calls(conversation.messages)
    if waiting is not None and conversation.interruption is None:
        title = title_of_call(waiting.calls[0])
        raise SessionError(
            f"Session {name} waits for a decision about {title!r}.",
            hint="Decide it with `dirge resume`, or give a prompt to go on without it.",
        )
