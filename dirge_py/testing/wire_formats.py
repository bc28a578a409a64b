"""The answer of a fake model, as each wire format of `FakeService` streams it."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

BreakKind = Literal["reset", "close", "stall"]
"""How a connection breaks: reset, closed too early, or open and silent."""
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A model's answer, which `FakeService` streams in the format that the request asks for."""

    text: str = ""
    """The text."""
    thinking: str = ""
    """The thinking before it."""
    signature: str = "sig"
    """The signature of the thinking."""
    calls: Sequence[tuple[str, Any]] = ()
    """Tool calls: names and arguments; a string is sent as it is, so that it may be broken."""
    stop: str = ""
    """The stop reason in the words of the service; empty: the usual one."""
    usage: tuple[int, int, int, int] = (10, 5, 0, 0)
    """Tokens: input, output, cache read, cache write."""
    delta_chars: int = 0
    """Characters in each delta; 0: all in one."""
    chunk_bytes: int = 0
    """Send the body in pieces of this length, regardless of lines and characters; 0: by event."""
    cut_seed: int | None = None
    """Send it in pieces of random length, by this seed."""
    gap_s: float = 0.0
    """Seconds between the pieces."""
    after_bytes: int | None = None
    """Send only so much of the body; then do `then`."""
    then: BreakKind = "close"
    """How the connection breaks."""
    line_end: str = "\n"
    """The end of each line."""

    def split(self, text: str) -> list[str]:
        """Return `text` in pieces of `delta_chars` characters."""
        width = self.delta_chars or len(text) or 1
        return [text[at : at + width] for at in range(0, len(text), width)]


def _as_json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _data(payload: JsonObject) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"


def _named(payload: JsonObject) -> str:
    return f"event: {payload['type']}\n{_data(payload)}"


_CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}


def _openai(say: ModelReply) -> Iterator[str]:
    def chunk(delta: JsonObject, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**_CHUNK, "choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    yield from (chunk({"reasoning_content": piece}) for piece in say.split(say.thinking))
    yield from (chunk({"content": piece}) for piece in say.split(say.text))
    for index, (name, arguments) in enumerate(say.calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
        for piece in say.split(_as_json(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, say.stop or ("tool_calls" if say.calls else "stop"))
    used_in, out, read, _ = say.usage
    usage = {
        "prompt_tokens": used_in,
        "completion_tokens": out,
        "total_tokens": used_in + out,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    yield _data({**_CHUNK, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _anthropic(say: ModelReply) -> Iterator[str]:
    used_in, out, read, write = say.usage
    message: JsonObject = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": used_in,
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": read,
            "output_tokens": 1,
        },
    }
    yield _named({"type": "message_start", "message": message})
    yield _named({"type": "ping"})
    for index, (opening, deltas) in enumerate(_anthropic_blocks(say)):
        at = {"index": index}
        yield _named({"type": "content_block_start", **at, "content_block": opening})
        for kind, member, value in deltas:
            delta = {"type": f"{kind}_delta", member: value}
            yield _named({"type": "content_block_delta", **at, "delta": delta})
        yield _named({"type": "content_block_stop", **at})
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    end: JsonObject = {"stop_reason": stop, "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": out}})
    yield _named({"type": "message_stop"})


def _anthropic_blocks(say: ModelReply) -> Iterator[tuple[JsonObject, list[tuple[str, str, str]]]]:
    """Each block as it starts, and its deltas: type, member and value."""
    if say.thinking:
        deltas = [("thinking", "thinking", piece) for piece in say.split(say.thinking)]
        opening: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}
        yield opening, [*deltas, ("signature", "signature", say.signature)]
    if say.text:
        deltas = [("text", "text", piece) for piece in say.split(say.text)]
        yield {"type": "text", "text": ""}, deltas
    for number, (name, arguments) in enumerate(say.calls, bool(say.thinking) + bool(say.text)):
        pieces = ["", *say.split(_as_json(arguments))]
        opening = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        yield opening, [("input_json", "partial_json", piece) for piece in pieces]


def _gemini(say: ModelReply) -> Iterator[str]:
    """Usage is on every chunk, the reason on the last; calls come whole and without an id.

    With `thinking` the answer is signed: the first call, else the end.
    """
    used_in, out, read, _ = say.usage
    thoughts = min(1, out) if say.thinking else 0
    signature = {"thoughtSignature": say.signature} if say.thinking else {}

    def chunk(parts: list[Any], usage: JsonObject, **end: str) -> str:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **end}
        counts = {"promptTokenCount": used_in, **usage}
        named = {"modelVersion": "fake", "responseId": "r1"}
        return _data({"candidates": [candidate], "usageMetadata": counts, **named})

    so_far = {"totalTokenCount": used_in}
    for piece in say.split(say.thinking):
        yield chunk([{"text": piece, "thought": True}], so_far)
    for piece in say.split(say.text):
        yield chunk([{"text": piece}], so_far)
    for number, (name, arguments) in enumerate(say.calls):
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        signed = signature if number == 0 else {}
        yield chunk([{"functionCall": {"name": name, "args": given}, **signed}], so_far)
    counts = {
        "candidatesTokenCount": out - thoughts,
        "totalTokenCount": used_in + out,
        **({"thoughtsTokenCount": thoughts} if thoughts else {}),
        **({"cachedContentTokenCount": read} if read else {}),
    }
    last = [] if say.calls else [{"text": "", **signature}]
    yield chunk(last, counts, finishReason=say.stop or "STOP")


def _ollama(say: ModelReply) -> Iterator[str]:
    """One JSON object per line, with whole calls, and usage on the last line."""

    def line(message: JsonObject, **end: Any) -> str:
        head = {"model": "fake", "created_at": "2026-01-01T00:00:00.000000Z", "done": False}
        said = {"role": "assistant", "content": "", **message}
        return json.dumps({**head, "message": said, **end}, ensure_ascii=False) + "\n"

    yield from (line({"thinking": piece}) for piece in say.split(say.thinking))
    yield from (line({"content": piece}) for piece in say.split(say.text))
    for index, (name, arguments) in enumerate(say.calls):
        function = {"index": index, "name": name, "arguments": arguments}
        yield line({"tool_calls": [{"function": function}]})
    used_in, out, _, _ = say.usage
    counts = {
        "total_duration": 5043500667,
        "load_duration": 5025959,
        "prompt_eval_count": used_in,
        "prompt_eval_duration": 325953000,
        "eval_count": out,
        "eval_duration": 4709213000,
    }
    yield line({}, done=True, done_reason=say.stop or "stop", **counts)


_INCOMPLETE = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


def _responses(say: ModelReply) -> Iterator[str]:
    numbers = itertools.count()

    def event(kind: str, members: JsonObject) -> str:
        return _named({"type": f"response.{kind}", **members, "sequence_number": next(numbers)})

    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
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
    yield event("created", {"response": response})
    yield event("in_progress", {"response": response})
    items: list[JsonObject] = []
    for kind, members in _response_items(say, items):
        yield event(kind, members)
    why = _INCOMPLETE.get(say.stop)
    status = "incomplete" if why else "completed"
    used_in, out, read, write = say.usage
    last = {
        **response,
        "status": status,
        "output": items,
        "incomplete_details": {"reason": why} if why else None,
        "usage": {
            "input_tokens": used_in,
            "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
            "output_tokens": out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used_in + out,
        },
    }
    yield event(status, {"response": last})


_Events: TypeAlias = Iterator[tuple[str, JsonObject]]


def _response_items(say: ModelReply, items: list[JsonObject]) -> _Events:
    if say.thinking:
        part: JsonObject = {"type": "summary_text", "text": say.thinking}
        opening: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": ""}
        ending: JsonObject = {"summary": [part], "encrypted_content": say.signature}
        subject = "reasoning_summary_text"
        yield from _response_item(say, items, subject, say.thinking, opening, ending, part)
    if say.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": say.text}
        opening = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
        ending = {"status": "completed", "content": [part]}
        yield from _response_item(say, items, "output_text", say.text, opening, ending, part)
    for number, (name, arguments) in enumerate(say.calls):
        text, subject = _as_json(arguments), "function_call_arguments"
        call = {"type": "function_call", "call_id": f"call_{number}", "name": name}
        opening = {**call, "status": "in_progress", "arguments": ""}
        ending = {"status": "completed", "arguments": text}
        yield from _response_item(say, items, subject, text, opening, ending)


_SUBJECTS = {
    "reasoning_summary_text": ("rs", "text", "reasoning_summary_part", "summary_index"),
    "output_text": ("msg", "text", "content_part", "content_index"),
    "function_call_arguments": ("fc", "arguments", "", ""),
}
"""What an event's name begins with → the start of the item's id, the member with the whole text,
and the name and the number of the part that holds it."""


def _response_item(
    say: ModelReply,
    items: list[JsonObject],
    subject: str,
    text: str,
    opening: JsonObject,
    ending: JsonObject,
    part: JsonObject | None = None,
) -> _Events:
    """The events of an item, which is added to `items`: it starts, grows, and comes complete."""
    prefix, member, part_name, part_index = _SUBJECTS[subject]
    place = {"output_index": len(items)}
    opening = {"id": f"{prefix}_{len(items)}", **opening}
    at = {"item_id": opening["id"], **place, **({part_index: 0} if part else {})}
    logprobs: JsonObject = {"logprobs": []} if subject == "output_text" else {}
    yield "output_item.added", {**place, "item": opening}
    if part:
        yield f"{part_name}.added", {**at, "part": {**part, "text": ""}}
    for piece in say.split(text):
        yield f"{subject}.delta", {**at, "delta": piece, **logprobs}
    yield f"{subject}.done", {**at, member: text, **logprobs}
    if part:
        yield f"{part_name}.done", {**at, "part": part}
    items.append({**opening, **ending})
    yield "output_item.done", {**place, "item": items[-1]}


@dataclass(frozen=True)
class FakeFormat:
    """How the services of a provider type answer."""

    base_path: str
    """What their base URL ends in."""
    path: str
    """A part of the path of requests."""
    stream: Callable[[ModelReply], Iterator[str]]
    """An answer as events or lines."""
    content_type: str = "text/event-stream"
    """The type of an answer."""


WIRE_FORMATS = {
    "anthropic": FakeFormat("", "/v1/messages", _anthropic),
    "openai-responses": FakeFormat("/v1", "/responses", _responses),
    "gemini": FakeFormat("", ":streamGenerateContent", _gemini),
    "ollama": FakeFormat("", "/api/chat", _ollama, "application/x-ndjson"),
    "openai": FakeFormat("/v1", "/chat/completions", _openai),
}
"""The formats by provider type."""


def wire_events(kind: str, say: ModelReply) -> list[str]:
    """Return the answer in pieces, as a service of that provider type streams it."""
    return list(WIRE_FORMATS[kind].stream(say))


def wire_at(path: str) -> FakeFormat:
    """Return the format of requests to `path`."""
    formats = WIRE_FORMATS.values()
    return next((wire for wire in formats if wire.path in path), WIRE_FORMATS["openai"])
