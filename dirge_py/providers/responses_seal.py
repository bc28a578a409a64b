"""Where OpenAI's own items are kept between two requests.

A Responses answer is a list of items, and some hold what only the service can read: what the model
thought, encrypted, and which part of its work a message belongs to. Both have to come back in their
place. A `ThinkingBlock` carries such an item as JSON in its `signature`: a `reasoning` item in the
place where it stood, a `message` item without its text behind that text.
"""

import json
from collections.abc import Mapping
from typing import Any

from dirge_py.providers.translator import as_objects, as_text

_KINDS = frozenset({"reasoning", "message"})
# Longer ids are refused, though some backends give them out.
_LONGEST_ID = 64


def sealed(item: Mapping[str, Any]) -> str:
    """The `ThinkingBlock.signature` that keeps `item`, every member as it came."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def unsealed(signature: str | None) -> Mapping[str, Any] | None:
    """The item that `sealed` kept; None for anything else, such as another service's signature."""
    if not signature or not signature.startswith("{"):
        return None
    try:
        item = json.loads(signature)
    except (ValueError, RecursionError):
        return None
    return item if isinstance(item, dict) and item.get("type") in _KINDS else None


def message_seal(item: Mapping[str, Any]) -> str | None:
    """The signature that keeps what a message says about itself; None where that is nothing."""
    phase = as_text(item.get("phase"))
    return sealed({"type": "message", "phase": phase}) if phase else None


def reasoning_seal(item: Mapping[str, Any]) -> str | None:
    """The signature that keeps a `reasoning` item; None where there is nothing to send back."""
    return sealed(item) if sendable_reasoning(item) is not None else None


def sendable_reasoning(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A `reasoning` item as input.

    None without content: its id alone names something that the service was told not to keep.
    """
    encrypted, content = as_text(item.get("encrypted_content")), as_objects(item.get("content"))
    if not (encrypted or content):
        return None
    given = as_text(item.get("id"))
    written: dict[str, Any] = {"type": "reasoning"}
    if given and len(given) <= _LONGEST_ID:
        written["id"] = given
    written["summary"] = as_objects(item.get("summary"))
    # Readable thoughts are what open models' servers take; OpenAI refuses them beside its own form.
    return written | ({"encrypted_content": encrypted} if encrypted else {"content": content})
