"""Streams of OpenAI's Responses."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dirge_py.testing.wire_formats.model_reply import ModelReply, as_json, split

_STOPS = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}


def events(say: ModelReply) -> list[str]:
    """The answer as Responses streams it: each item starts, grows, and is repeated complete."""
    numbers = itertools.count()
    items: list[Mapping[str, Any]] = []
    sent = [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.in_progress", "response": _response("in_progress")},
    ]
    if say.thinking:
        sent += _reasoning(say, items)
    if say.text:
        sent += _message(say, items)
    for index in range(len(say.calls)):
        sent += _call(say, index, items)
    why = _STOPS.get(say.stop, say.stop)
    status = "incomplete" if why in {"max_output_tokens", "content_filter"} else "completed"
    used_in, out, read, write = say.usage
    last = {
        **_response(status),
        "output": items,
        "incomplete_details": {"reason": why} if status == "incomplete" else None,
        "usage": {
            "input_tokens": used_in,
            "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
            "output_tokens": out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used_in + out,
        },
    }
    sent.append({"type": f"response.{status}", "response": last})
    return [_named({**event, "sequence_number": next(numbers)}) for event in sent]


def _response(status: str) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "fake",
        "output": [],
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _reasoning(say: ModelReply, items: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    at = {"item_id": f"rs_{len(items)}", "output_index": len(items)}
    opening = {"id": at["item_id"], "type": "reasoning", "summary": []}
    yield _item("added", at, {**opening, "encrypted_content": ""})
    part = {**at, "summary_index": 0}
    name = "response.reasoning_summary"
    empty = {"type": "summary_text", "text": ""}
    whole = {"type": "summary_text", "text": say.thinking}
    yield {"type": f"{name}_part.added", **part, "part": empty}
    for piece in split(say.thinking, say.delta_chars):
        yield {"type": f"{name}_text.delta", **part, "delta": piece}
    yield {"type": f"{name}_text.done", **part, "text": say.thinking}
    yield {"type": f"{name}_part.done", **part, "part": whole}
    items.append({**opening, "summary": [whole], "encrypted_content": say.signature})
    yield _item("done", at, items[-1])


def _message(say: ModelReply, items: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    at = {"item_id": f"msg_{len(items)}", "output_index": len(items)}
    opening = {"id": at["item_id"], "type": "message", "role": "assistant"}
    yield _item("added", at, {**opening, "status": "in_progress", "content": []})
    part = {**at, "content_index": 0}
    empty = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    yield {"type": "response.content_part.added", **part, "part": empty}
    for piece in split(say.text, say.delta_chars):
        yield {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **part, "text": say.text, "logprobs": []}
    whole = {**empty, "text": say.text}
    yield {"type": "response.content_part.done", **part, "part": whole}
    items.append({**opening, "status": "completed", "content": [whole]})
    yield _item("done", at, items[-1])


def _call(say: ModelReply, index: int, items: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    at = {"item_id": f"fc_{len(items)}", "output_index": len(items)}
    name, arguments = say.calls[index]
    text = as_json(arguments)
    call = {
        "id": at["item_id"],
        "type": "function_call",
        "status": "in_progress",
        "arguments": "",
        "call_id": f"call_{index}",
        "name": name,
    }
    yield _item("added", at, call)
    for piece in split(text, say.delta_chars):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **at, "arguments": text}
    items.append({**call, "status": "completed", "arguments": text})
    yield _item("done", at, items[-1])


def _item(step: str, at: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": f"response.output_item.{step}",
        "output_index": at["output_index"],
        "item": item,
    }


def _named(payload: Mapping[str, Any]) -> str:
    return f"event: {payload['type']}\ndata: {json.dumps(payload, ensure_ascii=False)}\n\n"
