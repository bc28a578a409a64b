"""Secrets taken out of tool results before the model, the screen or the journal sees them."""

from collections.abc import Callable

from dirge_py.agent_loop.hooks import AfterToolCallResult, Bundle, TurnInfo
from dirge_py.calls import LoopToolResult, ToolCall
from dirge_py.messages import ResultBlock, TextBlock


def scrub(redact: Callable[[str], str]) -> Bundle:
    """A bundle that passes every text block of a result through `redact`."""

    async def after(
        info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        content = tuple(_scrubbed(block, redact) for block in result.content)
        return AfterToolCallResult(content=content) if content != result.content else None

    return Bundle(name="secrets", after_tool_call=after)


def _scrubbed(block: ResultBlock, redact: Callable[[str], str]) -> ResultBlock:
    return TextBlock(redact(block.text)) if isinstance(block, TextBlock) else block
