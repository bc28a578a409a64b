"""What a strict service of each format rejects in a request, for fake services."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

KEYWORDS = frozenset(
    {
        *("type", "format", "description", "nullable", "enum", "items", "minItems", "maxItems"),
        *("minimum", "maximum", "properties", "required", "propertyOrdering", "anyOf"),
    }
)
"""Every keyword of Gemini's `Schema`."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def problems(kind: str, body: Mapping[str, Any]) -> list[str]:
    """Everything a strict service of that provider type would reject; empty: nothing."""
    return [*_CHECKS[kind](body), *_without_tools(body)]


def _without_tools(body: Mapping[str, Any]) -> Iterator[str]:
    for member in ("tool_choice", "parallel_tool_calls", "toolConfig"):
        if member in body and not body.get("tools"):
            yield f"{member} without tools"


def _odd(at: int, names: Iterable[str]) -> Iterator[str]:
    """Ids and tool names must consist of letters, digits, `_` and `-`, at most 64."""
    yield from (f"at {at}: {name!r}" for name in names if not _PLAIN.fullmatch(name))


def _chat(body: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"message {at}: a result nobody waits for"
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            yield f"message {at}: {message['role']} before the results of {waiting}"
            waiting = []
        if message["role"] == "assistant":
            calls = message.get("tool_calls", ())
            waiting = [call["id"] for call in calls]
            yield from _twice(at, waiting, seen)
            yield from _odd(at, [*waiting, *(call["function"]["name"] for call in calls)])
            yield from (
                f"message {at}: arguments are no object"
                for call in calls
                if not isinstance(json.loads(call["function"]["arguments"]), dict)
            )
            if not waiting and not message.get("content"):
                yield f"message {at}: an answer that holds nothing"
        elif not message["content"]:
            yield f"message {at}: empty"
    if waiting:
        yield f"no results for {waiting}"


def _messages(body: Mapping[str, Any]) -> Iterator[str]:
    before, waiting = "assistant", list[str]()
    seen: set[str] = set()
    for at, message in enumerate(body["messages"]):
        if message["role"] == before:
            yield f"message {at}: {before} twice in a row"
        before = message["role"]
        blocks = message["content"]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield f"message {at}: results of {results}, while {waiting} wait"
        if any(b["type"] != "tool_result" for b in blocks[: len(results)]):
            yield f"message {at}: results come first"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
        yield from _twice(at, waiting, seen)
        yield from _odd(at, [*waiting, *(b["name"] for b in blocks if b["type"] == "tool_use")])
        yield from (
            f"message {at}: empty text"
            for b in blocks
            if b["type"] == "text" and not b["text"].strip()
        )
        if not blocks:
            yield f"message {at}: empty"
    if waiting:
        yield f"no results for {waiting}"
    thinking = body.get("thinking", {})
    budget = thinking.get("budget_tokens")
    if budget is not None and not 1024 <= budget < body["max_tokens"]:
        yield "the thinking budget is too small, or leaves no room for an answer"
    if thinking.get("type") in ("enabled", "adaptive"):
        if body.get("tool_choice", {}).get("type") in ("any", "tool"):
            yield "whoever thinks cannot be made to call"
    elif '"signature"' in json.dumps(body["messages"]):
        yield "thoughts, while thinking is off"
    if thinking.get("type") == "enabled":
        yield from _begins_with_thought(body["messages"])
    if json.dumps(body).count('"cache_control"') > 4:
        yield "more than four cache marks"


def _begins_with_thought(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Whether the current turn, with its rounds of calls, began with its thought."""
    first = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            if not any(block["type"] == "tool_use" for block in message["content"]):
                break
            first = message["content"]
    kinds = [b["type"] for b in first or () if b["type"] != "compaction"]
    if kinds and kinds[0] not in ("thinking", "redacted_thinking"):
        yield f"a turn that thinks begins with {kinds[0]}"


def _responses(body: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    seen: set[str] = set()
    for at, item in enumerate(body["input"]):
        match item.get("type", "message"):
            case "function_call":
                yield from _twice(at, [item["call_id"]], seen)
                yield from _odd(at, [item["call_id"], item["name"]])
                waiting.append(item["call_id"])
                json.loads(item["arguments"])
            case "function_call_output":
                if item["call_id"] not in waiting:
                    yield f"item {at}: an output nobody waits for"
                else:
                    waiting.remove(item["call_id"])
            case "message":
                # An answer may go on behind a call that it made.
                if waiting and item["role"] != "assistant":
                    yield f"item {at}: a message before the outputs of {waiting}"
                if not item["content"]:
                    yield f"item {at}: empty"
            case "reasoning":
                following = body["input"][at + 1 : at + 2]
                if not following or following[0].get("role") == "user":
                    yield f"item {at}: reasoning without the item that it led to"
    if waiting:
        yield f"no outputs for {waiting}"


def _gemini(body: Mapping[str, Any]) -> Iterator[str]:
    before, waiting = "model", list[str]()
    for at, content in enumerate(body["contents"]):
        if content["role"] == before:
            yield f"content {at}: {before} twice in a row"
        before = content["role"]
        parts = content["parts"]
        answered = [p["functionResponse"]["name"] for p in parts if "functionResponse" in p]
        if answered != waiting:
            yield f"content {at}: responses of {answered} to calls of {waiting}"
        waiting = [p["functionCall"]["name"] for p in parts if "functionCall" in p]
        yield from _odd(at, waiting)
        # An empty text is how a signature comes, and goes back, that belongs to no other part.
        if not parts or {"text": ""} in parts:
            yield f"content {at}: empty"
    if waiting:
        yield "no responses to the last calls"


def _ollama(body: Mapping[str, Any]) -> Iterator[str]:
    waiting = 0
    for at, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            waiting -= 1
            if waiting < 0:
                yield f"message {at}: a result nobody waits for"
        elif waiting > 0:
            yield f"message {at}: {message['role']} before all results"
        if message["role"] == "assistant":
            calls = message.get("tool_calls", ())
            waiting = len(calls)
            if not all(isinstance(call["function"]["arguments"], dict) for call in calls):
                yield f"message {at}: arguments are no object"
    if waiting > 0:
        yield "no results for the last calls"


def _twice(at: int, ids: list[str], seen: set[str]) -> Iterator[str]:
    for call_id in ids:
        if call_id in seen:
            yield f"message {at}: the id {call_id} a second time"
        seen.add(call_id)


_CHECKS = {
    "openai": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
    "ollama": _ollama,
}
