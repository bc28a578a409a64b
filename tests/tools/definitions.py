"""Writes `dirge_py/tools/definitions.json` from the modules of the tools: `make definitions`."""

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dirge_py import tools
from dirge_py.tools.base import Tool

FOLDER = Path(tools.__file__).parent
FILE = FOLDER / "definitions.json"
_NAMES = ("label", "mode", "timeout_s", "output_schema", "max_result_chars", "polls")
_DEFAULTS = {name: getattr(Tool, name, None) for name in _NAMES}


def built_in_tools() -> dict[str, Tool[Any]]:
    """The tools of the modules with a description beside them, sorted by name."""
    names = sorted(text.stem for text in FOLDER.glob("*.md"))
    return {name: importlib.import_module(f"dirge_py.tools.{name}").TOOL for name in names}


def definition(tool: Tool[Any]) -> dict[str, Any]:
    own = {name: getattr(tool, name) for name in _DEFAULTS}
    return {
        "description": tool.description,
        "parameters": tool.parameters,
        "needs": list(tool.needs),
        "hints": {name: value for name, value in asdict(tool.hints).items() if value is not None},
        "properties": {name: value for name, value in own.items() if value != _DEFAULTS[name]},
    }


def rendered() -> str:
    """The content of the file."""
    definitions = {name: definition(tool) for name, tool in built_in_tools().items()}
    return json.dumps(definitions, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
