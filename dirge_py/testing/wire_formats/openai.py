"""Streams of OpenAI's Chat Completions."""

import json
from collections.abc import Mapping
from typing import Any

from dirge_py.testing.wire_formats.model_reply import ModelReply, as_json, split

_CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "fake",
}


def events(say: ModelReply) -> list[str]:
    """The answer as Chat Completions streams it."""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**_CHUNK, "choices": [choice], "usage": None})

    sent = [chunk({"role": "assistant", "content": "", "refusal": None})]
    sent += [chunk({"reasoning_content": p}) for p in split(say.thinking, say.delta_chars)]
    sent += [chunk({"content": piece}) for piece in split(say.text, say.delta_chars)]
    for index, (name, arguments) in enumerate(say.calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        sent.append(chunk({"tool_calls": [call]}))
        for piece in split(as_json(arguments), say.delta_chars):
            part = {"index": index, "function": {"arguments": piece}}
            sent.append(chunk({"tool_calls": [part]}))
    sent.append(chunk({}, say.stop or ("tool_calls" if say.calls else "stop")))
    used_in, out, read, _ = say.usage
    usage = {
        "prompt_tokens": used_in,
        "completion_tokens": out,
        "total_tokens": used_in + out,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    sent.append(_data({**_CHUNK, "choices": [], "usage": usage}))
    return [*sent, "data: [DONE]\n\n"]


def _data(payload: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"
