"""The rule that all gates share: when one may speak to an agent that wants to stop, and how often.

A gate is asked where the agent would rest and may send it on with one message. Gates stand in one
order; the first that speaks is the only one of that occasion.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import Bundle, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.messages import Message, user_text
from dirge_py.types.outcomes import Done

Ask: TypeAlias = Callable[[TurnInfo], Awaitable[Sequence[Message]] | Sequence[Message]]
"""What to send the agent on with; empty when it may rest."""

Judge: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Asks a model: system prompt and prompt in, its answer out. It keeps its own time limit."""

_logger = logging.getLogger(__name__)


def gate(name: str, ask: Ask, *, most: int) -> Bundle:
    """Hooks for one run that speak at most `most` times.

    `ask` is not called when somebody spoke before it, when the run was ended by anything but the
    agent itself, or once it was stopped from outside. One that raises is told in a notice and
    lets the agent rest. So does a turn that it opened and that no model answers: a run that was
    done must not fail because of what was asked besides.
    """
    spoken = 0
    opened = 0

    async def get_followup_messages(info: TurnInfo, so_far: Sequence[Message]) -> Sequence[Message]:
        nonlocal spoken, opened
        if so_far or spoken >= most or info.ended_by != "natural" or _is_stopped(info):
            return ()
        messages = await _answer(name, ask, info)
        if not messages or _is_stopped(info):
            return ()
        spoken += 1
        opened = info.turn + 1
        return tuple(messages)

    def prepare_next_turn(info: TurnInfo) -> TurnUpdate | None:
        message = info.message
        if info.turn != opened or message is None:
            return None
        if message.stop_reason != "error" or message.content:
            return None
        why = excerpt(message.error_message or "", 200)
        info.emit(SystemNotice(f"The {name} check got no answer, so the run rests: {why}"))
        raise StopRun(Done())

    return Bundle(
        name=name,
        get_followup_messages=get_followup_messages,
        prepare_next_turn=prepare_next_turn,
    )


def unless(should_defer: Callable[[], bool], bundle: Bundle) -> Bundle:
    """`bundle`, its gate silent while the end of a run is not the end of the work.

    Then nothing is asked and no budget is spent. What others add is delivered all the same.
    """
    speak = bundle.get_followup_messages
    if speak is None:
        return bundle

    def get_followup_messages(
        info: TurnInfo, so_far: Sequence[Message]
    ) -> Awaitable[Sequence[Message] | StopRun] | Sequence[Message] | StopRun:
        return () if should_defer() else speak(info, so_far)

    return replace(bundle, get_followup_messages=get_followup_messages)


def nudge(text: str) -> tuple[Message, ...]:
    """One message of the harness."""
    return (user_text(text, origin="harness"),)


def excerpt(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


async def _answer(name: str, ask: Ask, info: TurnInfo) -> Sequence[Message]:
    try:
        answer = ask(info)
        return await answer if inspect.isawaitable(answer) else answer
    except StopRun:
        raise
    except Exception as error:
        _logger.warning("gate %s failed", name, exc_info=error)
        why = excerpt(str(error), 200) or type(error).__name__
        info.emit(SystemNotice(f"The {name} check could not be made: {why}"))
        return ()


def _is_stopped(info: TurnInfo) -> bool:
    return info.signal.aborted or info.signal.interjected
