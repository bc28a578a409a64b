"""Which answers count as turns of a run."""

from dirge_py.messages import UNFINISHED, AssistantMessage


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
