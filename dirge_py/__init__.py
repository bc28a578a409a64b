"""dirge: a terminal coding agent, and the library it is made of.

The names below are loaded on first use.
"""

# Read as true by type checkers; importing `typing` for it would cost a start more than the rest.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dirge_py.guardrails.verdict import Pass, Trip, Warn
    from dirge_py.mailboxes import Detached
    from dirge_py.plan.runner import PlanResult
    from dirge_py.sdk.agent import Agent
    from dirge_py.sdk.inputs import Blocks, Continue, Resume, Text
    from dirge_py.sdk.steps import Compacted, FinalResponse, Step, Steps, Stopped, ToolsExecuted
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

__version__ = "0.1.0"

_HOMES = {
    "errors": ("DirgeError", "LoopError", "ModelRetry", "ToolFailed"),
    "guardrails.verdict": ("Pass", "Trip", "Warn"),
    "mailboxes": ("Detached",),
    "outcomes": (
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
    "plan.runner": ("PlanResult",),
    "sdk.agent": ("Agent",),
    "sdk.inputs": ("Blocks", "Continue", "Resume", "Text"),
    "sdk.steps": ("Compacted", "FinalResponse", "Step", "Steps", "Stopped", "ToolsExecuted"),
    "tools.base": ("Hints", "ToolContext"),
    "tools.function_tool": ("tool",),
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
    "Step",
    "Steps",
    "Stopped",
    "Text",
    "ToolContext",
    "ToolFailed",
    "ToolsExecuted",
    "Trip",
    "Warn",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> object:
    if name in _home_of:
        from importlib import import_module  # noqa: PLC0415 - a start that needs none loads none

        value: object = getattr(import_module(f"dirge_py.{_home_of[name]}"), name)
        return value
    raise AttributeError(f"module 'dirge_py' has no attribute {name!r}")
