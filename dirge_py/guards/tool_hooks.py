"""Hooks around tool calls: availability, bounded retries, results without secrets; and claims."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dirge_py.types.hooks import AfterToolCallResult, Context, Hooks, ToolOverride, TurnInfo
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import Claim, LoopToolResult, ToolCall

_WITHHELD = "The result is withheld: searching it for secrets failed ({error})."


def hide_unavailable_tools() -> Hooks:
    """Asks each tool before every model call: one with a true `unavailable` (the reason) is out.

    What was out when the model was asked stays out for its answer; a tool that becomes unavailable
    in between answers for itself.
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
        text = f"`{call.name}` is not available now: {reason}. Go on without it."
        return ToolOverride(text, details={"outcome": "error"})

    return Hooks(name="availability", transform_context=offered, before_tool_call=answered)


def limit_tool_retries(most: int) -> Hooks:
    """Hooks that let each tool ask for at most so many retries in a row. Make them for every run.

    A result with `details["retry"]` asks for one; its words stay as they are and its details say
    which attempt it was. One more becomes an error without `retry`. A success of the tool starts
    its count anew.
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


def redact_results(redact: Callable[[str], str]) -> Hooks:
    """A bundle that passes every text block of a result through `redact`.

    When that fails, nothing of the result gets through: what was not looked at may hold a secret.
    """

    async def after(
        info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        try:
            content = tuple(
                TextBlock(redact(block.text)) if isinstance(block, TextBlock) else block
                for block in result.content
            )
        except Exception as error:
            # Only the kind of the error: its words may quote what it choked on.
            text = _WITHHELD.format(error=type(error).__name__)
            return AfterToolCallResult(content=(TextBlock(text),), details={}, is_error=True)
        return AfterToolCallResult(content=content) if content != result.content else None

    return Hooks(name="secrets", after_tool_call=after)


def claims_of(call: ToolCall) -> Sequence[Claim]:
    """What a call claims to do; nothing where that cannot be made out.

    The permission hook reports what is wrong with its claims.
    """
    if call.tool is None or not isinstance(call.arguments, Mapping):
        return ()
    try:
        return call.tool.claims(call.arguments)
    except Exception:
        return ()


def claimed_paths(call: ToolCall, *operations: str) -> tuple[str, ...]:
    """The paths of those claims of a call."""
    return tuple(
        claim.resource
        for claim in claims_of(call)
        if claim.op in operations and isinstance(claim.resource, str)
    )
