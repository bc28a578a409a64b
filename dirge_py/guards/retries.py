"""How often a tool may ask the model to try again before that counts as a refusal."""

from collections import Counter

from dirge_py.types.hooks import AfterToolCallResult, Bundle, TurnInfo
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import LoopToolResult, ToolCall


def retries(most: int) -> Bundle:
    """Hooks that let each tool ask for at most so many retries in a row. Make them for every run.

    A result with `details["retry"]` asks for one; its words stay as they are and its details say
    which attempt it was. One more becomes an error without `retry`. A success of the tool starts
    its count anew.
    """
    asked: Counter[str] = Counter()

    def after(
        _info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        if result.details.get("retry") is not True:
            if not result.is_error:
                asked[call.name] = 0
            return None
        asked[call.name] += 1
        attempt = asked[call.name]
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

    return Bundle(name="retries", after_tool_call=after)
