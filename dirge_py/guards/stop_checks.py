"""Stop checks: when the agent wants to stop, one of them may make it continue, with one message."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from dirge_py.lib.text import one_line
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import Hooks, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    user_text,
)
from dirge_py.types.outcomes import Done

StopQuestion: TypeAlias = Callable[[TurnInfo], Awaitable[Sequence[Message]] | Sequence[Message]]
"""Returns the messages to continue with; empty if the agent may stop."""

Judge: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Calls a model with a system prompt and a prompt; returns its answer. Has its own time limit."""

SHOWN_ITEMS = 5
ITEM_CHARS = 120
QUOTE_CHARS = 200

# A command that failed is an answer, often the one that was asked for.
_RETRYABLE = frozenset({"error", "timeout", "invalid", "unknown_tool"})

_logger = logging.getLogger(__name__)


def stop_check(name: str, ask: StopQuestion, *, most: int) -> Hooks:
    """Return hooks for one run that make it continue at most `most` times.

    `ask` is not called if an earlier check has answered, or if the run was not ended by the agent
    itself. If it raises, or no model answers the turn that it opened, a notice is shown and the
    agent may stop: a finished run must not fail because of an extra question.
    """
    nudges = 0
    opened_turn = 0

    async def get_followup_messages(info: TurnInfo, so_far: Sequence[Message]) -> Sequence[Message]:
        nonlocal nudges, opened_turn
        if so_far or nudges >= most or info.ended_by != "natural" or _is_stopped(info):
            return ()
        messages = await _ask(name, ask, info)
        if not messages or _is_stopped(info):
            return ()
        nudges += 1
        opened_turn = info.turn + 1
        return tuple(messages)

    def prepare_next_turn(info: TurnInfo) -> TurnUpdate | None:
        message = info.message if info.turn == opened_turn else None
        if message is None or message.stop_reason != "error" or message.content:
            return None
        why = one_line(message.error_message or "", 200)
        info.emit(SystemNotice(f"The {name} check got no answer, so the run ends: {why}"))
        raise StopRun(Done())

    return Hooks(
        name=name, get_followup_messages=get_followup_messages, prepare_next_turn=prepare_next_turn
    )


def suppress_while(should_defer: Callable[[], bool], hooks: Hooks) -> Hooks:
    """Return `hooks` with their stop check disabled while `should_defer()`; nothing is counted."""
    speak = hooks.get_followup_messages
    if speak is None:
        return hooks

    def get_followup_messages(
        info: TurnInfo, so_far: Sequence[Message]
    ) -> Awaitable[Sequence[Message] | StopRun] | Sequence[Message] | StopRun:
        return () if should_defer() else speak(info, so_far)

    return replace(hooks, get_followup_messages=get_followup_messages)


def nudge(text: str) -> tuple[Message, ...]:
    """Return one message of the harness."""
    return (user_text(text, origin="harness"),)


async def _ask(name: str, ask: StopQuestion, info: TurnInfo) -> Sequence[Message]:
    try:
        answer = ask(info)
        return await answer if inspect.isawaitable(answer) else answer
    except StopRun:
        raise
    except Exception as error:
        _logger.warning("stop check %s failed", name, exc_info=error)
        why = one_line(str(error), 200) or type(error).__name__
        info.emit(SystemNotice(f"The {name} check failed: {why}"))
        return ()


def _is_stopped(info: TurnInfo) -> bool:
    return info.signal.aborted or info.signal.interjected


def todo_check(open_items: Callable[[], Sequence[str]], most: int = 3) -> Hooks:
    """Return a stop check for runs with open todo items."""

    def ask(_info: TurnInfo) -> Sequence[Message]:
        if not (items := open_items()):
            return ()
        shown = [f"- {one_line(item, ITEM_CHARS)}" for item in items[:SHOWN_ITEMS]]
        if len(items) > SHOWN_ITEMS:
            shown.append(f"- and {len(items) - SHOWN_ITEMS} more")
        count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
        advice = (
            "Continue with the next one. Mark what is done, and remove what is no longer needed. "
            "If you cannot continue, say what is missing."
        )
        return nudge("\n".join([f"{count} still open on your todo list:", *shown, advice]))

    return stop_check("todo", ask, most=most)


def failure_check(most: int = 3) -> Hooks:
    """Return a stop check for runs that end right after a failed call, if repeating it may help."""

    def ask(info: TurnInfo) -> Sequence[Message]:
        for result in _last_results(info.context.messages):
            details = result.details
            if details.get("outcome") in _RETRYABLE and not details.get("synthetic"):
                return nudge(
                    f"You stopped right after a call of `{result.tool_name}` had failed: "
                    f"{one_line(result.text, QUOTE_CHARS)}\n"
                    "Fix it and continue with the task. If it cannot be fixed, or no longer "
                    "matters, say so and why."
                )
        return ()

    return stop_check("resume", ask, most=most)


def _last_results(messages: Sequence[Message]) -> Iterator[ToolResultMessage]:
    """Yield the results directly before a final text without calls, the last first."""
    newest_first = (each for each in reversed(messages) if not isinstance(each, CustomMessage))
    last = next(newest_first, None)
    if not isinstance(last, AssistantMessage) or last.calls:
        return
    for message in newest_first:
        if not isinstance(message, ToolResultMessage):
            return
        yield message
