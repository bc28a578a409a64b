"""What is taken out of records before they are stored, and what has to stay as it is."""

from collections.abc import Callable, Mapping
from typing import Any

from dirge_py.session.codec import Json

Redact = Callable[[str], str]

# By type of block: what a provider wants back byte for byte. It holds nothing a person could read.
_OPAQUE = {"thinking": ("signature", "redacted"), "compaction": ("data",)}


def redacted_record(type_name: str, data: Any, redact: Redact) -> Any:
    """The data of a record of this type with every text in it redacted.

    Only blocks of assistant messages have parts that are left alone: anything else that looks like
    such a block was written by a model, a tool or a person.
    """
    if type_name == "message" and isinstance(data, Mapping):
        return _redacted_message(data, redact)
    if type_name == "context":
        return {"messages": [_redacted_message(message, redact) for message in data["messages"]]}
    return redacted(data, redact)


def redacted(value: Any, redact: Redact) -> Any:
    """`value` with every text in it redacted, names of members included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            redact(name) if isinstance(name, str) else name: redacted(item, redact)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(item, redact) for item in value]
    return value


def _redacted_message(message: Mapping[str, Any], redact: Redact) -> Json:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return dict(redacted(message, redact))
    rest = {name: value for name, value in message.items() if name != "content"}
    role = {"role": message["role"], "content": [_redacted_block(b, redact) for b in content]}
    return {**role, **redacted(rest, redact)}


def _redacted_block(block: Mapping[str, Any], redact: Redact) -> Json:
    opaque = _OPAQUE.get(block["type"], ())
    return {
        name: value if name in opaque else redacted(value, redact) for name, value in block.items()
    }
