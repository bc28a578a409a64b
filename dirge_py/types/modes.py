"""The names of the permission modes, also those of Claude Code."""

from collections.abc import Mapping

MODES = ("standard", "accept", "restrictive", "plan", "yolo")
CLAUDE_MODES: Mapping[str, str] = {
    "default": "restrictive",
    "acceptEdits": "accept",
    "bypassPermissions": "yolo",
    "dontAsk": "restrictive",
}
"""Modes of Claude Code with the mode here that comes closest and allows no more without asking."""


def mode_named(name: str) -> str:
    """Return the mode of this name, also of Claude Code's; any other name as it is."""
    return CLAUDE_MODES.get(name, name)
