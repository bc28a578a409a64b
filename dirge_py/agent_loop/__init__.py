"""The agent loop: decides the order of a run, using only the standard library.

The names below are loaded on first use. `Bundle` and `Answer` are former names, to be removed.
"""
# ruff: noqa: F403, F405

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirge_py.agent_loop.dispatch import *
    from dirge_py.agent_loop.merge import *
    from dirge_py.agent_loop.queues import *
    from dirge_py.agent_loop.retry import *
    from dirge_py.agent_loop.run import *
    from dirge_py.agent_loop.stream import *
    from dirge_py.types.abort import *
    from dirge_py.types.hooks import *
    from dirge_py.types.llm import *
    from dirge_py.types.tools import *

__all__ = ["AfterToolCallResult", "Answer", "BeforeToolCallResult", "Bundle", "CallDecision"]
__all__ += ["Context", "Defer", "EditArgs", "Hooks", "LoopConfig", "RequestSettings", "StopRun"]
__all__ += ["AbortSignal", "ToolOverride", "TurnInfo", "TurnUpdate"]
__all__ += ["LlmContext", "StreamEvent", "StreamFn", "StreamOptions"]
__all__ += ["LoopTool", "LoopToolResult", "ThinkingBudgets", "ThinkingLevel", "ToolExecutionMode"]
__all__ += ["InputQueue", "QueueMode", "QueuedInput", "followups_from_queue", "steering_from_queue"]
__all__ += ["RecoveryPolicy", "StormBreaker", "compose", "default_convert_to_llm"]
__all__ += ["execute_tool_calls", "retrying_stream_fn", "run_agent_loop", "run_agent_loop_continue"]
__all__ += ["run_loop", "stream_assistant_response"]

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
