"""Whether a call would change something, as far as its tool says."""

from collections.abc import Collection, Mapping
from typing import Any

from dirge_py.calls import LoopTool
from dirge_py.claims import Operation

_HARMLESS = frozenset(("read", "meta"))


def changes_something(tool: LoopTool, arguments: Mapping[str, Any]) -> bool:
    """Whether it claims more than to read. A tool that cannot say is taken to change things."""
    try:
        return any(claim.op not in _HARMLESS for claim in tool.claims(arguments))
    except Exception:
        return True


def claims_only(
    tool: LoopTool, arguments: Mapping[str, Any], operations: Collection[Operation]
) -> bool:
    """Whether it claims nothing but these operations. A tool marked as read-only only reads."""
    if getattr(getattr(tool, "hints", None), "read_only", None) is True:
        return True
    try:
        return all(claim.op in operations for claim in tool.claims(arguments))
    except Exception:
        return False
