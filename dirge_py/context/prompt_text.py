"""The texts in `prompts/`, which are data and not code, and quotations within a prompt."""

import functools
import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"


@functools.cache
def prompt_text(name: str, folder: Path = _FOLDER) -> str:
    """Return the text of `<name>.md` in the folder of prompts."""
    return (folder / f"{name}.md").read_text(encoding="utf-8").strip()


def quote_text(title: str, text: str) -> str:
    """Return `text` between lines with a title and its digest, which it can't contain itself."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"--- {title} ({mark}) ---\n{text}\n--- end ({mark}) ---"
