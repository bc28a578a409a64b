"""Stop checks: when the agent wants to stop, one of them may make it continue, with one message."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from dirge_py.guards.final_answer import asks_person, reports_failure
from dirge_py.lib.lean_dataclass import dataclass
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
from dirge_py.types.tools import ToolCall, is_read_only

StopQuestion: TypeAlias = Callable[[TurnInfo], Awaitable[str] | str]
"""Returns the message to continue with; "" if the agent may stop."""

Judge: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Calls a model with a system prompt and a prompt; returns its answer. Has its own time limit."""

SHOWN_ITEMS = 5
ITEM_CHARS = 120
QUOTE_CHARS = 200
TODO_TOOL = "todo"

# A command that failed is an answer, often the one that was asked for.
_RETRYABLE = frozenset({"error", "timeout", "invalid", "unknown_tool"})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCheck:
    """One reason why a run should not end yet."""

    name: str
    """Its name in notices about its failures."""
    ask: StopQuestion
    """Asked when the agent wants to stop. If it raises, the agent may stop."""
    most: int = 1
    """How often it may make a run continue; 0 turns it off."""
    is_configured: bool = False
    """Whether the user set it up: it may speak `most` times, and beside others that are. Of all
    other checks, one speaks once, and only in a run in which none of these has spoken."""
    ignores_questions: bool = False
    """Whether it is asked even if the answer asks the person something."""
    on_first_call: Callable[[], Awaitable[None]] | None = None
    """Awaited before the first tool call of the run."""


def stop_checks(
    checks: Sequence[StopCheck], *, should_defer: Callable[[], bool] = lambda: False
) -> Hooks:
    """Return hooks for one run that ask `checks`, in order, when the agent wants to stop.

    The first one with a message makes the run continue. None is asked while `should_defer`, after
    a message of an earlier hook, or if the run was not ended by the agent itself. If a check fails,
    or no model answers the turn that it opened, a notice is shown and the agent may stop: a
    finished run must not fail because of an extra question.
    """
    spoken: list[StopCheck] = []
    opened_turn = 0
    first_calls = [each.on_first_call for each in checks if each.on_first_call and each.most > 0]

    def may_speak(check: StopCheck, info: TurnInfo) -> bool:
        if spoken.count(check) >= check.most:
            return False
        if spoken and not all(each.is_configured for each in (check, *spoken)):
            return False
        return check.ignores_questions or not asks_person(final_words(info))

    async def get_followup_messages(info: TurnInfo, so_far: Sequence[Message]) -> Sequence[Message]:
        nonlocal opened_turn
        if so_far or info.ended_by != "natural" or _is_stopped(info) or should_defer():
            return ()
        for check in checks:
            text = await _ask(check, info) if may_speak(check, info) else ""
            if _is_stopped(info):
                break
            if text:
                spoken.append(check)
                opened_turn = info.turn + 1
                return nudge(text)
        return ()

    def prepare_next_turn(info: TurnInfo) -> TurnUpdate | None:
        message = info.message if info.turn == opened_turn else None
        if message is None or message.stop_reason != "error" or message.content:
            return None
        name, why = spoken[-1].name, one_line(message.error_message or "", 200)
        info.emit(SystemNotice(f"The {name} check got no answer, so the run ends: {why}"))
        raise StopRun(Done())

    async def before_tool_call(_info: TurnInfo, _call: ToolCall) -> None:
        while first_calls:
            await first_calls.pop()()

    return Hooks(
        name="stop checks",
        get_followup_messages=get_followup_messages,
        prepare_next_turn=prepare_next_turn,
        before_tool_call=before_tool_call if first_calls else None,
    )


def nudge(text: str) -> tuple[Message, ...]:
    """Return one message of the harness."""
    return (user_text(text, origin="harness"),)


def bullets(items: Sequence[str], most: int = 12) -> str:
    """Return a list of up to `most` items, one per line, and how many more there are."""
    lines = [f"- {item}" for item in items[:most]]
    if len(items) > most:
        lines.append(f"- and {len(items) - most} more")
    return "\n".join(lines)


async def _ask(check: StopCheck, info: TurnInfo) -> str:
    try:
        answer = check.ask(info)
        return await answer if inspect.isawaitable(answer) else answer
    except StopRun:
        raise
    except Exception as error:
        _logger.warning("stop check %s failed", check.name, exc_info=error)
        why = one_line(str(error), 200) or type(error).__name__
        info.emit(SystemNotice(f"The {check.name} check failed: {why}"))
        return ""


def _is_stopped(info: TurnInfo) -> bool:
    return info.signal.aborted or info.signal.interjected


def todo_check(open_items: Callable[[], Sequence[str]], most: int = 1) -> StopCheck:
    """Return a stop check for runs that worked on the todo list and leave items open."""

    def ask(info: TurnInfo) -> str:
        results = (each for each in info.new_messages if isinstance(each, ToolResultMessage))
        if all(each.tool_name != TODO_TOOL for each in results) or not (items := open_items()):
            return ""
        shown = bullets([one_line(item, ITEM_CHARS) for item in items], SHOWN_ITEMS)
        count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
        advice = (
            "Continue with the next one. Mark what is done, and remove what is no longer needed. "
            "If you cannot continue, say what is missing."
        )
        return "\n".join([f"{count} still open on your todo list:", shown, advice])

    return StopCheck(name="todo", ask=ask, most=min(most, 1))


def failure_check(most: int = 1) -> StopCheck:
    """Return a stop check for runs that end right after a failed call, if repeating it may help.

    A failed lookup, such as `read` or `webfetch`, is an answer: there is nothing there.
    """

    def ask(info: TurnInfo) -> str:
        for result in _last_results(info.context.messages):
            details = result.details
            if details.get("outcome") not in _RETRYABLE or details.get("synthetic"):
                continue
            tools = (each for each in info.context.tools if each.name == result.tool_name)
            if is_read_only(next(tools, None)) or reports_failure(final_words(info)):
                continue
            return (
                f"You stopped right after a call of `{result.tool_name}` had failed: "
                f"{one_line(result.text, QUOTE_CHARS)}\n"
                "Fix it and continue with the task. If it cannot be fixed, or no longer "
                "matters, say so and why."
            )
        return ""

    return StopCheck(name="resume", ask=ask, most=min(most, 1))


def final_words(info: TurnInfo) -> str:
    """Return the text of the model's last answer."""
    return info.message.text if info.message is not None else ""


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
