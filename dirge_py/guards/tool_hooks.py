"""Hooks around tool calls: availability, bounds, redacted results; and the claims of calls."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from dirge_py.agent_loop.answer_schema import TOOL as ANSWER_TOOL
from dirge_py.lib.text import plural
from dirge_py.types.hooks import (
    AfterToolCallResult,
    Context,
    Hooks,
    StopRun,
    ToolOverride,
    TurnInfo,
)
from dirge_py.types.messages import TextBlock
from dirge_py.types.outcomes import Failed
from dirge_py.types.tools import MAX_RESULT_CHARS, LoopToolResult, ToolCall

_WITHHELD = "The result is withheld: searching it for secrets failed ({error})."


def hide_unavailable_tools() -> Hooks:
    """Return hooks that hide tools which are unavailable (a true `unavailable`, the reason).

    A tool that was hidden from the model stays unavailable for its answer.
    """
    missing: dict[str, str] = {}

    def offered(info: TurnInfo) -> Context | None:
        missing.clear()
        for tool in info.context.tools:
            if reason := str(getattr(tool, "unavailable", "")):
                missing[tool.name] = reason
        if not missing:
            return None
        left = [tool for tool in info.context.tools if tool.name not in missing]
        return replace(info.context, tools=left)

    def answered(info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        reason = missing.get(call.name)
        if reason is None:
            return None
        text = f"`{call.name}` is not available now: {reason}. Continue without it."
        return ToolOverride(text, details={"outcome": "error"})

    return Hooks(name="availability", transform_context=offered, before_tool_call=answered)


def offer_only(allowed: Collection[str], by: str) -> Hooks:
    """Return hooks that offer only the tools with these names (lower case), as `by` says."""

    def offered(info: TurnInfo) -> Context:
        left = [tool for tool in info.context.tools if may_be_called(tool.name)]
        return replace(info.context, tools=left)

    def answered(_info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        if may_be_called(call.name):
            return None
        names = ", ".join(f"`{name}`" for name in sorted(allowed)) or "no tools"
        text = f"`{call.name}` is not available: the {by} allows only {names}."
        return ToolOverride(text, details={"outcome": "denied"})

    def may_be_called(name: str) -> bool:
        return name.lower() in allowed or name == ANSWER_TOOL

    return Hooks(name="allowed tools", transform_context=offered, before_tool_call=answered)


def limit_tool_calls(most: Mapping[str, int]) -> Hooks:
    """Return hooks that refuse calls of a tool beyond its limit in `most`. Create them per run.

    The tool stays in the list that the model gets: services cache a request from its tools on.
    """
    calls: Counter[str] = Counter()

    def before(_info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        limit = most.get(call.name)
        if limit is None:
            return None
        calls[call.name] += 1
        if calls[call.name] <= limit:
            return None
        text = (
            f"Not run: `{call.name}` may be called {plural(limit, 'time')} in one run, and was. "
            "Don't call it again: continue with what you have, or use another tool."
        )
        return ToolOverride(text, details={"outcome": "suppressed", "synthetic": "suppressed"})

    return Hooks(name="most calls", before_tool_call=before if most else None)


def limit_tool_retries(most: int) -> Hooks:
    """Return hooks that limit how many retries in a row each tool may ask for. Create them per run.

    A result with `details["retry"]` asks for one; its details get the number of the attempt. The
    first one too many becomes an error without `retry`. A success of the tool resets its count.
    """
    retries: Counter[str] = Counter()

    def after(
        _info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        if result.details.get("retry") is not True:
            if not result.is_error:
                retries[call.name] = 0
            return None
        retries[call.name] += 1
        attempt = retries[call.name]
        counted = {**result.details, "attempt": attempt, "attempts": most}
        if attempt <= most:
            return AfterToolCallResult(details=counted)
        counted.pop("retry")
        words = TextBlock(
            f"Not accepted (attempt {attempt}/{most}). Do not call `{call.name}` again for this: "
            "take another way, or say what is missing."
        )
        return AfterToolCallResult(
            content=(*result.content, words), details={**counted, "outcome": "invalid"}
        )

    return Hooks(name="retries", after_tool_call=after)


def end_at_fatal_errors(fatal: frozenset[str]) -> Hooks:
    """Return hooks that end the run as failed after a turn in which a call failed fatally.

    `fatal` holds kinds (`types.tools.FATAL_KINDS`) and names of exception classes, which include
    their subclasses. A result that asks for another try isn't fatal yet.
    """

    def after_turn(info: TurnInfo) -> None:
        for result in info.tool_results if fatal else ():
            details = result.details
            raised = details.get("exception")
            kinds = [details.get("outcome"), *(raised if isinstance(raised, list) else ())]
            kind = next((each for each in kinds if isinstance(each, str) and each in fatal), None)
            if kind is None or details.get("retry") is True:
                continue
            lines = result.text.strip().splitlines() or [""]
            raise StopRun(
                Failed(
                    kind="tool",
                    message=f"`{result.tool_name}` failed ({kind}): {lines[0]}",
                    hint=f"`fatal_errors` ends runs at `{kind}`; without it the model continues.",
                )
            )

    return Hooks(name="fatal errors", prepare_next_turn=after_turn)


def redact_results(redact: Callable[[str], str]) -> Hooks:
    """Return hooks that pass every text block of a result through `redact`.

    If that fails, the whole result is withheld: unchecked text may contain a secret.
    """

    def after(info: TurnInfo, call: ToolCall, result: LoopToolResult) -> AfterToolCallResult | None:
        try:
            content = tuple(
                TextBlock(redact(block.text)) if isinstance(block, TextBlock) else block
                for block in result.content
            )
        except Exception as error:
            # Only the kind of the error: its message may quote the text that it failed on.
            text = _WITHHELD.format(error=type(error).__name__)
            return AfterToolCallResult(content=(TextBlock(text),), details={}, is_error=True)
        return AfterToolCallResult(content=content) if content != result.content else None

    return Hooks(name="secrets", after_tool_call=after)


def note_result_limits() -> Hooks:
    """Return hooks that note a tool's `max_result_chars` in its results.

    They come after the hooks that may replace the details.
    """

    def after(
        _info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        most = getattr(call.tool, MAX_RESULT_CHARS, None)
        if most is None:
            return None
        return AfterToolCallResult(details={**result.details, MAX_RESULT_CHARS: most})

    return Hooks(name="result limits", after_tool_call=after)


def claimed_paths(call: ToolCall, *operations: str) -> tuple[str, ...]:
    """Return the paths of a call's claims with these operations; none if its tool can't tell."""
    return tuple(
        claim.resource
        for claim in call.claims or ()
        if claim.op in operations and isinstance(claim.resource, str)
    )
