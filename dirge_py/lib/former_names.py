"""Import paths of 0.1 that plugins and programs may still use for one more release.

`import dirge_py.messages` returns a module that looks every name up in `dirge_py.types.messages`
and warns once. Nothing here is loaded unless an old path is imported.
"""

import warnings
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "abort": "types.abort",
    "agent_loop.hooks": "types.hooks",
    "calls": "types.tools",
    "claims": "types.tools",
    "contributions": "types.extensions",
    "durable": "conversation.durable",
    "durable.base": "conversation.durable",
    "errors": "types.errors",
    "events": "types.events",
    "guardrails": "extensions.guardrails",
    "guardrails.verdict": "extensions.guardrails.checks",
    "mailboxes": "conversation.broadcaster",
    "memory": "extensions.memory",
    "memory.base": "types.memory",
    "messages": "types.messages",
    "outcomes": "types.outcomes",
    "plan.desk": "plan.approval",
    "plan_events": "types.events",
    "questions": "types.questions",
    "streams": "types.llm",
    "wiring": "sdk",
    "wiring.build": "sdk.build",
}
"""Maps old modules to new ones, both below `dirge_py`."""

NAMES = {
    "AcceptsAll": "AutoApprove",
    "Action": "MemoryAction",
    "Command": "ShellCommand",
    "Drop": "Reject",
    "Edited": "ReplacePlan",
    "KeepsAll": "DeferAll",
    "Later": "DeferPlan",
    "PlanAgain": "Revise",
    "PlanDesk": "PlanApprover",
    "Remembered": "RecalledMemory",
    "StoreChanged": "MemoryConflict",
}
"""Maps old class names to new ones, where the current module does not have the old name."""


class _Loader:
    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make the module."""

    def exec_module(self, module: ModuleType) -> None:
        today = f"dirge_py.{MODULES[module.__name__.removeprefix('dirge_py.')]}"
        # The warning points at the importer of the old path, not at the import system.
        warnings.warn(
            f"`{module.__name__}` is now `{today}`; the next release removes the old path.",
            DeprecationWarning,
            stacklevel=2,
        )
        vars(module)["__getattr__"] = partial(_find_name, import_module(today))


def _find_name(module: ModuleType, name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(module, name if hasattr(module, name) else NAMES.get(name, name))


def find_spec(name: str) -> ModuleSpec | None:
    """Return how to load the module of that name; None if it never existed."""
    if name.removeprefix("dirge_py.") not in MODULES:
        return None
    spec = ModuleSpec(name, _Loader())  # type: ignore[arg-type]
    spec.submodule_search_locations = []
    return spec
