"""dirge: a terminal coding agent.

The names below are loaded on first use, so that `dirge --version` pays for none of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirge_py.sdk import Agent, tool

__all__ = ["Agent", "__version__", "tool"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("Agent", "tool"):
        from dirge_py import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module 'dirge_py' has no attribute {name!r}")
