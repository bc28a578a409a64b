"""The file of a scripted provider: `{"replies": [...]}` as JSON or TOML."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dirge_py.types.errors import ConfigError

# A gate or a raw event has no form in a file.
KEYS = frozenset(
    {"text", "thinking", "calls", "stop_reason", "usage", "error", "chunk_chars", "pause_s"}
)


def load_replies(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each reply's values with its number, from 1.

    Raises:
        ConfigError: the file is unreadable, no object with `replies`, or has an unknown name.
    """
    content = _parsed(path)
    replies = content.get("replies") if isinstance(content, dict) else None
    if not isinstance(replies, list) or set(content) != {"replies"}:
        raise ConfigError(f"{path} holds no list `replies`, or something besides it.")
    for number, reply in enumerate(replies, start=1):
        if not isinstance(reply, dict):
            raise ConfigError(f"{path}, reply {number} is no table.")
        unknown = sorted(set(reply) - KEYS)
        if unknown:
            raise ConfigError(
                f"{path}, reply {number}: no `{unknown[0]}` in a reply.",
                hint=f"There are: {', '.join(sorted(KEYS))}.",
            )
        yield number, reply


def _parsed(path: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"script {path} cannot be read: {error}.") from error
    try:
        return json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"script {path} does not parse: {error}.") from error
