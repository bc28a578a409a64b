"""Whether a call would change something, as far as its tool says."""

from collections.abc import Mapping
from typing import Any

from dirge_py.calls import LoopTool

_HARMLESS = frozenset(("read", "meta"))


def changes_something(tool: LoopTool, arguments: Mapping[str, Any]) -> bool:
    """Whether it claims more than to read. A tool that cannot say is taken to change things."""
    try:
        return any(claim.op not in _HARMLESS for claim in tool.claims(arguments))
    except Exception:
        return True
