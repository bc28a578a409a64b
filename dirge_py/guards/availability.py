"""Tools that cannot be used right now are not offered, and a call of one is told why."""

from dataclasses import replace

from dirge_py.types.hooks import Answer, Bundle, Context, TurnInfo
from dirge_py.types.tools import LoopTool, ToolCall


def availability() -> Bundle:
    """Asks each tool before every model call: one with a true `unavailable` (the reason) is out.

    What was out when the model was asked stays out for its answer; a tool that becomes unavailable
    in between answers for itself.
    """
    missing: dict[str, str] = {}

    def offered(info: TurnInfo) -> Context | None:
        missing.clear()
        missing.update({tool.name: why for tool in info.context.tools if (why := _reason(tool))})
        if not missing:
            return None
        left = [tool for tool in info.context.tools if tool.name not in missing]
        return replace(info.context, tools=left)

    def answered(info: TurnInfo, call: ToolCall) -> Answer | None:
        reason = missing.get(call.name)
        if reason is None:
            return None
        text = f"`{call.name}` is not available now: {reason}. Go on without it."
        return Answer(text, details={"outcome": "error"})

    return Bundle(name="availability", transform_context=offered, before_tool_call=answered)


def _reason(tool: LoopTool) -> str:
    return str(getattr(tool, "unavailable", ""))
