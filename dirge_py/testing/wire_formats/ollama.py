"""Streams of Ollama's chat, one JSON object per line."""

import json
from collections.abc import Mapping
from typing import Any

from dirge_py.testing.wire_formats.model_reply import ModelReply, split

_HEAD = {"model": "fake", "created_at": "2026-01-01T00:00:00.000000Z"}


def events(say: ModelReply) -> list[str]:
    """The answer as Ollama streams it: whole calls, and usage on the last line."""

    def line(message: Mapping[str, Any], **end: Any) -> str:
        said = {**_HEAD, "message": {"role": "assistant", **message}, "done": False, **end}
        return json.dumps(said, ensure_ascii=False) + "\n"

    sent = [line({"content": "", "thinking": p}) for p in split(say.thinking, say.delta_chars)]
    sent += [line({"content": piece}) for piece in split(say.text, say.delta_chars)]
    for index, (name, arguments) in enumerate(say.calls):
        function = {"index": index, "name": name, "arguments": arguments}
        sent.append(line({"content": "", "tool_calls": [{"function": function}]}))
    used_in, out, _, _ = say.usage
    counts = {
        "total_duration": 5043500667,
        "load_duration": 5025959,
        "prompt_eval_count": used_in,
        "prompt_eval_duration": 325953000,
        "eval_count": out,
        "eval_duration": 4709213000,
    }
    return [*sent, line({"content": ""}, done=True, done_reason=say.stop or "stop", **counts)]
