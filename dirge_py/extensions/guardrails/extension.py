"""Checks of prompts, answers and tool results, as the `[[guardrail]]` tables say."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from dirge_py.agent_loop.model_call import on_complete
from dirge_py.config.schema import GuardrailPlace
from dirge_py.config.schema import GuardrailTable as Table
from dirge_py.extensions.guardrails.checks import (
    Guardrail,
    NamedCheck,
    Pass,
    Trip,
    Verdict,
    Warn,
    run_guardrails,
)
from dirge_py.types.events import SystemNotice
from dirge_py.types.extensions import Extension, ExtensionHost, PromptCheck, RunContext
from dirge_py.types.hooks import (
    AfterToolCallResult,
    CheckAborted,
    Context,
    Hooks,
    StopRun,
    TurnInfo,
)
from dirge_py.types.llm import StreamDone, StreamFn
from dirge_py.types.messages import AssistantMessage, Message, TextBlock, UserMessage
from dirge_py.types.outcomes import HookTerminated
from dirge_py.types.tools import LoopToolResult, ToolCall

_ANSWER = "[This answer was withheld. Guardrail {reason}.]"
_RESULT = (
    "The call ran and had its effects, but its result was withheld. Guardrail {reason}. Continue "
    "without the result, or make a narrower call whose result the guardrail allows."
)


class Guardrails(Extension):
    """The checks of a conversation by place; `notice` gets warnings about prompts and answers."""

    name = "guardrails"
    summary = "checks of prompts, answers and tool results"
    stage = "last"

    def __init__(
        self,
        checks: Mapping[GuardrailPlace, Sequence[Guardrail]],
        notice: Callable[[str], None],
    ) -> None:
        self._checks, self._notice = checks, notice

    def prompt_checks(self) -> Sequence[PromptCheck]:
        """Return the check of prompts: one that trips reaches neither a model nor the history."""
        return (self._check_prompt,) if self._checks["input"] else ()

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        """Check each complete answer before its calls run. One that trips becomes a notice."""
        return on_complete(stream_fn, self._check_answer) if self._checks["output"] else stream_fn

    def check_aborted(self) -> CheckAborted | None:
        return self._check_aborted if self._checks["output"] else None

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        """Return the checks of results, and the hook by which a withheld answer ends the run."""
        hooks = Hooks(name="guardrails")
        if self._checks["output"]:
            withhold = partial(self._withhold_unfinished, {})
            hooks = replace(hooks, transform_context=withhold, prepare_next_turn=_end_if_withheld)
        if self._checks["tool_result"]:
            hooks = replace(hooks, after_tool_call=self._check_result)
        return [hooks]

    async def _judge(self, place: GuardrailPlace, text: str) -> Verdict:
        return await run_guardrails(self._checks[place], text) if text else Pass()

    async def _check_prompt(self, message: UserMessage) -> str | None:
        verdict = await self._judge("input", message.text)
        if isinstance(verdict, Warn):
            self._notice(f"Guardrail {verdict.reason}, in what you sent.")
        return f"guardrail {verdict.reason}" if isinstance(verdict, Trip) else None

    async def _check_answer(self, message: AssistantMessage, done: StreamDone) -> StreamDone:
        verdict = await self._judge("output", message.text)
        if isinstance(verdict, Warn):
            self._notice(f"Guardrail {verdict.reason}, in this answer.")
        if not isinstance(verdict, Trip):
            return done
        withheld = _withheld(message, verdict.reason)
        return replace(done, message=replace(withheld, stop_reason="stop"), stop_reason="stop")

    async def _check_aborted(self, message: AssistantMessage) -> AssistantMessage:
        verdict = await self._judge("output", message.text)
        return _withheld(message, verdict.reason) if isinstance(verdict, Trip) else message

    async def _check_result(
        self, info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        verdict = await self._judge("tool_result", result.text)
        if isinstance(verdict, Warn):
            info.emit(SystemNotice(f"Guardrail {verdict.reason}, in a result of `{call.name}`."))
        if not isinstance(verdict, Trip):
            return None
        # `denied`, not `error`: other arguments don't help, and there is nothing to debug.
        return AfterToolCallResult(
            content=(TextBlock(_RESULT.format(reason=verdict.reason)),),
            details={"outcome": "denied", "withheld": verdict.reason},
            is_error=True,
        )

    async def _withhold_unfinished(
        self, judged: dict[str, Verdict], info: TurnInfo
    ) -> Context | None:
        """Check incomplete answers before they are sent again; `judged` are those of this run."""
        messages = [await self._viewed(judged, message) for message in info.context.messages]
        if all(map(operator.is_, messages, info.context.messages)):
            return None
        return replace(info.context, messages=messages)

    async def _viewed(self, judged: dict[str, Verdict], message: Message) -> Message:
        if not isinstance(message, AssistantMessage) or message.withheld:
            return message
        if message.stop_reason not in ("aborted", "error"):
            return message
        if message.text not in judged:
            judged[message.text] = await self._judge("output", message.text)
        verdict = judged[message.text]
        return _withheld(message, verdict.reason) if isinstance(verdict, Trip) else message


def make(host: ExtensionHost) -> Guardrails:
    return Guardrails(checks_of(host.settings.guardrail, host.redact), host.notify)


def checks_of(
    tables: Sequence[Table], redact: Callable[[str], str]
) -> Mapping[GuardrailPlace, Sequence[Guardrail]]:
    """The checks of the `[[guardrail]]` tables; `redact` finds secrets."""
    return {
        place: [
            _make_guardrail(table, number, redact)
            for number, table in enumerate(tables, start=1)
            if place in ([table.on] if isinstance(table.on, str) else table.on)
        ]
        for place in get_args(GuardrailPlace)
    }


def _end_if_withheld(info: TurnInfo) -> None:
    if info.message is not None and info.message.withheld:
        raise StopRun(HookTerminated(point="output", reason=info.message.withheld))


def _withheld(message: AssistantMessage, reason: str) -> AssistantMessage:
    notice = TextBlock(_ANSWER.format(reason=reason))
    return replace(message, content=(notice,), withheld=f"guardrail {reason}")


def _make_guardrail(table: Table, number: int, redact: Callable[[str], str]) -> Guardrail:
    found: Callable[[str], Verdict] = Trip if table.action == "trip" else Warn
    name = table.name or ("secrets" if table.pattern is None else f"guardrail {number}")
    if table.pattern is None:
        verdict = found("it contains a key, token or password")
        return NamedCheck(name, lambda text: verdict if redact(text) != text else Pass())
    matches, reason = re.compile(table.pattern).search, f"it matches `{table.pattern}`"
    return NamedCheck(name, lambda text: found(reason) if matches(text) else Pass())
