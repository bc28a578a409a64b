"""Secrets taken out of tool results before the model, the screen or the journal sees them."""

from collections.abc import Callable

from dirge_py.types.hooks import AfterToolCallResult, Bundle, TurnInfo
from dirge_py.types.messages import ResultBlock, TextBlock
from dirge_py.types.tools import LoopToolResult, ToolCall

_WITHHELD = "The result is withheld: searching it for secrets failed ({error})."


def scrub(redact: Callable[[str], str]) -> Bundle:
    """A bundle that passes every text block of a result through `redact`.

    When that fails, nothing of the result gets through: what was not looked at may hold a secret.
    """

    async def after(
        info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        try:
            content = tuple(_scrubbed(block, redact) for block in result.content)
        except Exception as error:
            # Only the kind of the error: its words may quote what it choked on.
            text = _WITHHELD.format(error=type(error).__name__)
            return AfterToolCallResult(content=(TextBlock(text),), details={}, is_error=True)
        return AfterToolCallResult(content=content) if content != result.content else None

    return Bundle(name="secrets", after_tool_call=after)


def _scrubbed(block: ResultBlock, redact: Callable[[str], str]) -> ResultBlock:
    return TextBlock(redact(block.text)) if isinstance(block, TextBlock) else block
