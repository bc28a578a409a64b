"""Tools for agents in tests; `tool_log` records their calls."""

from collections.abc import Sequence
from typing import Any

from dirge_py import tool
from dirge_py.tools.base import Tool
from dirge_py.types.messages import Message, ToolResultMessage

tool_log: list[str] = []


@tool(op="read")
async def echo(text: str) -> str:
    """Return the text."""
    tool_log.append(f"echo {text}")
    return text


@tool(op="plugin", mode="parallel")
async def deploy(target: str) -> str:
    """Ship it."""
    tool_log.append(f"deploy {target}")
    return f"shipped to {target}"


TOOLS: tuple[Tool[Any], ...] = (echo, deploy)


def results(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]
