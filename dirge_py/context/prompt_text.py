"""The texts in `prompts/`, which are data and not code, and quotations within a prompt."""

import functools
import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"


@functools.cache
def prompt_text(name: str) -> str:
    """The text of `prompts/<name>.md`."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


def quote_text(title: str, text: str) -> str:
    """`text` between lines with its title and a digest of it, which it cannot hold itself."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"--- {title} ({mark}) ---\n{text}\n--- end ({mark}) ---"
