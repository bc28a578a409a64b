"""dirge: a terminal coding agent, and the library it is made of.

The names below are loaded on first use.
"""

import sys

from dirge_py.lib.version import __version__

# Read as true by type checkers; importing `typing` for it would cost a start more than the rest.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dirge_py.conversation.broadcaster import Detached
    from dirge_py.extensions.guardrails.checks import Pass, Trip, Warn
    from dirge_py.plan.runner import PlanResult
    from dirge_py.sdk.agent import Agent
    from dirge_py.sdk.agent_inputs import Blocks, Continue, Resume, Text
    from dirge_py.sdk.steps import Compacted, FinalResponse, Step, Steps, Stopped, ToolsExecuted
    from dirge_py.sdk.tool_registry import ToolRegistry
    from dirge_py.tools.base import Hints, ToolContext
    from dirge_py.tools.function_tool import tool
    from dirge_py.types.errors import DirgeError, LoopError, ModelRetry, ToolFailed
    from dirge_py.types.outcomes import (
        AgentResult,
        AwaitingConfirmation,
        Cancelled,
        Done,
        Failed,
        HookTerminated,
        LimitExceeded,
        MaxTurns,
        NeedsMoreTurns,
        NotVerified,
        Outcome,
        Refused,
    )
    from dirge_py.types.sampling import Sampling

_HOMES = {
    "dirge_py.types.errors": ("DirgeError", "LoopError", "ModelRetry", "ToolFailed"),
    "dirge_py.extensions.guardrails.checks": ("Pass", "Trip", "Warn"),
    "dirge_py.conversation.broadcaster": ("Detached",),
    "dirge_py.types.outcomes": (
        "AgentResult",
        "AwaitingConfirmation",
        "Cancelled",
        "Done",
        "Failed",
        "HookTerminated",
        "LimitExceeded",
        "MaxTurns",
        "NeedsMoreTurns",
        "NotVerified",
        "Outcome",
        "Refused",
    ),
    "dirge_py.types.sampling": ("Sampling",),
    "dirge_py.plan.runner": ("PlanResult",),
    "dirge_py.sdk.agent": ("Agent",),
    "dirge_py.sdk.agent_inputs": ("Blocks", "Continue", "Resume", "Text"),
    "dirge_py.sdk.steps": (
        "Compacted",
        "FinalResponse",
        "Step",
        "Steps",
        "Stopped",
        "ToolsExecuted",
    ),
    "dirge_py.sdk.tool_registry": ("ToolRegistry",),
    "dirge_py.tools.base": ("Hints", "ToolContext"),
    "dirge_py.tools.function_tool": ("tool",),
}
_home_of = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentResult",
    "AwaitingConfirmation",
    "Blocks",
    "Cancelled",
    "Compacted",
    "Continue",
    "Detached",
    "DirgeError",
    "Done",
    "Failed",
    "FinalResponse",
    "Hints",
    "HookTerminated",
    "LimitExceeded",
    "LoopError",
    "MaxTurns",
    "ModelRetry",
    "NeedsMoreTurns",
    "NotVerified",
    "Outcome",
    "Pass",
    "PlanResult",
    "Refused",
    "Resume",
    "Sampling",
    "Step",
    "Steps",
    "Stopped",
    "Text",
    "ToolContext",
    "ToolFailed",
    "ToolRegistry",
    "ToolsExecuted",
    "Trip",
    "Warn",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> object:
    if name in _home_of:
        from importlib import import_module

        value: object = getattr(import_module(_home_of[name]), name)
        return value
    raise AttributeError(f"module 'dirge_py' has no attribute {name!r}")


class _FormerNames:
    """Finds modules by the names they had in 0.1; asked when nobody else knows them."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if not name.startswith("dirge_py."):
            return None
        from dirge_py.lib.former_names import find_spec

        return find_spec(name)


sys.meta_path.append(_FormerNames)  # type: ignore[arg-type]
