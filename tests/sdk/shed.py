"""Tools for agents in tests; `ran` is what they did."""

from collections.abc import Sequence
from typing import Any

from dirge_py import tool
from dirge_py.tools.base import Tool
from dirge_py.types.messages import Message, ToolResultMessage

ran: list[str] = []


@tool(op="read")
async def echo(text: str) -> str:
    """Say it again."""
    ran.append(f"echo {text}")
    return text


@tool(op="plugin")
async def deploy(target: str) -> str:
    """Ship it."""
    ran.append(f"deploy {target}")
    return f"shipped to {target}"


TOOLS: tuple[Tool[Any], ...] = (echo, deploy)


def results(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]
