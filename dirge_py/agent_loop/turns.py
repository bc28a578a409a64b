"""What the answers of a run come to: which of them are turns, and which are its last words."""

from collections.abc import Sequence

from dirge_py.types.messages import UNFINISHED, AssistantMessage, Message, UserMessage


def is_turn(message: AssistantMessage) -> bool:
    """Whether this answer is one turn of those a run may take, and of those it is said to have had.

    Not counted: the harness' own words, an answer that the service broke off to be asked again, and
    a request that was too long: it is made again, smaller.
    """
    return (
        message.origin == "model"
        and message.stop_reason not in UNFINISHED
        and message.error_kind != "context_length"
    )


def last_words(messages: Sequence[Message]) -> str:
    """What a run says in the end: its last answer.

    Where the harness sent the agent on after an answer, what it said before is not lost: a report
    must not give way to "Tests pass, too." What is repeated is told once.
    """
    said: list[str] = []
    was_cut = False
    for message in messages:
        if _begins_anew(message):
            said.clear()
        if isinstance(message, AssistantMessage) and _ends_with_words(message):
            if was_cut and said:
                said[-1] += message.text
            elif message.text not in said:
                said.append(message.text)
            was_cut = message.stop_reason == "length"
    if said:
        return "\n\n".join(said)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return answers[-1].text if answers and not answers[-1].withheld else ""


def _begins_anew(message: Message) -> bool:
    """Whether what was said before is not this run's last word any more."""
    if isinstance(message, UserMessage):
        return message.origin != "harness"
    if not isinstance(message, AssistantMessage):
        return False
    return bool(message.withheld)


def _ends_with_words(message: AssistantMessage) -> bool:
    is_final = message.stop_reason not in UNFINISHED and not message.withheld
    return is_final and not message.calls and bool(message.text.strip())
