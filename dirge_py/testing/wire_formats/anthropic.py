"""Streams of Anthropic's Messages."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.testing.wire_formats.model_reply import ModelReply, as_json, split


def events(say: ModelReply) -> list[str]:
    """The answer as Messages streams it."""
    used_in, out, read, write = say.usage
    usage = {
        "input_tokens": used_in,
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "usage": usage,
    }
    sent = [_named({"type": "message_start", "message": message}), _named({"type": "ping"})]
    number = itertools.count()
    if say.thinking:
        deltas: list[Mapping[str, Any]] = [
            {"type": "thinking_delta", "thinking": piece}
            for piece in split(say.thinking, say.delta_chars)
        ]
        deltas.append({"type": "signature_delta", "signature": say.signature})
        opening = {"type": "thinking", "thinking": "", "signature": ""}
        sent += _block(next(number), opening, deltas)
    if say.text:
        texts = split(say.text, say.delta_chars)
        deltas = [{"type": "text_delta", "text": piece} for piece in texts]
        sent += _block(next(number), {"type": "text", "text": ""}, deltas)
    for name, arguments in say.calls:
        index = next(number)
        tool_use: dict[str, Any] = {
            "type": "tool_use",
            "id": f"toolu_{index}",
            "name": name,
            "input": {},
        }
        pieces = ["", *split(as_json(arguments), say.delta_chars)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        sent += _block(index, tool_use, deltas)
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    sent.append(_named({"type": "message_delta", "delta": delta, "usage": {"output_tokens": out}}))
    return [*sent, _named({"type": "message_stop"})]


def _block(
    index: int, opening: Mapping[str, Any], deltas: Sequence[Mapping[str, Any]]
) -> list[str]:
    events = [_named({"type": "content_block_start", "index": index, "content_block": opening})]
    events += [
        _named({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas
    ]
    return [*events, _named({"type": "content_block_stop", "index": index})]


def _named(payload: Mapping[str, Any]) -> str:
    return f"event: {payload['type']}\n{_data(payload)}"


def _data(payload: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"
