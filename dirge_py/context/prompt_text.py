"""The texts in `prompts/`, which are data and not code."""

import functools
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"


@functools.cache
def prompt_text(name: str) -> str:
    """The text of `prompts/<name>.md`."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
