"""Streams of Gemini's generateContent."""

import json
from collections.abc import Mapping
from typing import Any

from dirge_py.testing.wire_formats.model_reply import ModelReply, split


def events(say: ModelReply) -> list[str]:
    """The answer as Gemini streams it, with usage on every chunk and the reason on the last.

    Calls come whole and without an id. With `thinking` the answer is signed: the first call, else
    the end.
    """
    used_in, out, read, _ = say.usage
    thoughts = min(1, out) if say.thinking else 0
    prompt = {"promptTokenCount": used_in, "totalTokenCount": used_in}
    signature = {"thoughtSignature": say.signature} if say.thinking else {}
    sent = [
        _chunk([{"text": piece, "thought": True}], prompt)
        for piece in split(say.thinking, say.delta_chars)
    ]
    sent += [_chunk([{"text": piece}], prompt) for piece in split(say.text, say.delta_chars)]
    for number, (name, arguments) in enumerate(say.calls):
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        signed = signature if number == 0 else {}
        sent.append(_chunk([{"functionCall": {"name": name, "args": given}, **signed}], prompt))
    last = [] if say.calls else [{"text": "", **signature}]
    counts = {
        "promptTokenCount": used_in,
        "candidatesTokenCount": out - thoughts,
        "totalTokenCount": used_in + out,
        **({"thoughtsTokenCount": thoughts} if thoughts else {}),
        **({"cachedContentTokenCount": read} if read else {}),
    }
    return [*sent, _chunk(last, counts, say.stop or "STOP")]


def _chunk(parts: list[Any], usage: Mapping[str, Any], reason: str = "") -> str:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    chunk = {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "fake",
        "responseId": "r1",
    }
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
