"""The agent loop: decides the order of a run, using only the standard library.

The names below are loaded on first use. `Bundle` and `Answer` are former names, to be removed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirge_py.agent_loop.dispatch import execute_tool_calls
    from dirge_py.agent_loop.merge import compose, default_convert_to_llm
    from dirge_py.agent_loop.queues import (
        InputQueue,
        QueuedInput,
        QueueMode,
        followups_from_queue,
        steering_from_queue,
    )
    from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
    from dirge_py.agent_loop.run import run_agent_loop, run_agent_loop_continue, run_loop
    from dirge_py.agent_loop.stream import stream_assistant_response
    from dirge_py.types.abort import AbortSignal
    from dirge_py.types.hooks import (
        AfterToolCallResult,
        Answer,
        BeforeToolCallResult,
        Bundle,
        CallDecision,
        Context,
        Defer,
        EditArgs,
        Hooks,
        LoopConfig,
        RequestSettings,
        StopRun,
        ToolOverride,
        TurnInfo,
        TurnUpdate,
    )
    from dirge_py.types.llm import (
        LlmContext,
        StreamEvent,
        StreamFn,
        StreamOptions,
        ThinkingBudgets,
        ThinkingLevel,
    )
    from dirge_py.types.tools import LoopTool, LoopToolResult, ToolExecutionMode

__all__ = [
    "AbortSignal",
    "AfterToolCallResult",
    "Answer",
    "BeforeToolCallResult",
    "Bundle",
    "CallDecision",
    "Context",
    "Defer",
    "EditArgs",
    "Hooks",
    "InputQueue",
    "LlmContext",
    "LoopConfig",
    "LoopTool",
    "LoopToolResult",
    "QueueMode",
    "QueuedInput",
    "RecoveryPolicy",
    "RequestSettings",
    "StopRun",
    "StormBreaker",
    "StreamEvent",
    "StreamFn",
    "StreamOptions",
    "ThinkingBudgets",
    "ThinkingLevel",
    "ToolExecutionMode",
    "ToolOverride",
    "TurnInfo",
    "TurnUpdate",
    "compose",
    "default_convert_to_llm",
    "execute_tool_calls",
    "followups_from_queue",
    "retrying_stream_fn",
    "run_agent_loop",
    "run_agent_loop_continue",
    "run_loop",
    "steering_from_queue",
    "stream_assistant_response",
]

_MODULES = (
    *("types.abort", "types.hooks", "types.llm", "types.tools"),
    *("agent_loop.queues", "agent_loop.retry", "agent_loop.merge", "agent_loop.dispatch"),
    *("agent_loop.stream", "agent_loop.run", "guards.repetition"),
)
"""The modules that define these names, lighter ones first."""


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        home = import_module(f"dirge_py.{module}")
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module 'dirge_py.agent_loop' has no attribute {name!r}")
