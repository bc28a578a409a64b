"""dirge: a terminal coding agent.

The names below are loaded on first use, so that `dirge --version` pays for none of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirge_py.sdk import Agent, tool

__all__ = ["Agent", "tool"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from dirge_py import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module 'dirge_py' has no attribute {name!r}")
