"""Finding the built-in tools: every `<name>.py` in this folder with a `<name>.md` beside it."""

import importlib
from pathlib import Path
from typing import Any

from dirge_py.tools.base import Tool

_FOLDER = Path(__file__).parent


def tool_names() -> list[str]:
    """The names of the built-in tools, sorted; imports none of them."""
    return sorted(text.stem for text in _FOLDER.glob("*.md"))


def discover_tools() -> list[Tool[Any]]:
    """The built-in tools, sorted by name."""
    return [importlib.import_module(f"dirge_py.tools.{name}").TOOL for name in tool_names()]
