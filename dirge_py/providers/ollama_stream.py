"""Ollama's answer: one JSON object a line, tool calls whole, the last line with the counts.

`explain_error` adds to its errors what the owner of the server can do about them.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirge_py.providers.stream_parser import (
    CallIdAllocator,
    ServiceError,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.llm import (
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import StopReason, Usage

_NOTHING_SAID = frozenset({"load", "unload"})


class OllamaParser:
    """A `StreamParser`. `taken` are call ids of history; calls mostly come without an id here."""

    call_is_open = False

    def __init__(self, taken: frozenset[str], new_id: str) -> None:
        self.is_done = False
        self.has_content = False
        self._ids = CallIdAllocator(taken, f"call_{new_id}")
        self._is_started = False
        self._is_thinking = False
        self._finish = ""
        self._usage: Usage | None = None
        self._calls: list[tuple[str, str, str]] = []
        """As the server wrote them: id, name, arguments."""

    @property
    def is_settled(self) -> bool:
        return bool(self._finish)

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if payload.get("error"):
            raise ServiceError(payload)
        events: list[StreamEvent] = []
        if not self._is_started:
            self._is_started = True
            events.append(StreamStart(as_text(payload.get("model"))))
        self._message(as_object(payload.get("message")), events)
        if payload.get("done") is True:
            self._finish = as_text(payload.get("done_reason")) or "stop"
            self._usage = _usage(payload)
            events += self.finish()
        return events

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if not as_object(payload.get("message")):
            raise ServiceError(payload)
        return self.event("", {**payload, "done": True})

    def finish(self) -> Sequence[StreamEvent]:
        if self.is_done or not self._finish:
            return ()
        self.is_done = True
        if self._finish in _NOTHING_SAID and not self.has_content:
            return [StreamError(_only_loaded_error(self._finish))]
        ends: list[StreamEvent] = []
        self._end_thinking(ends)
        return [*ends, StreamDone(stop_reason=self._stop_reason(), usage=self._usage)]

    def _stop_reason(self) -> StopReason:
        if self._finish == "length":
            return "length"
        return "toolUse" if self._calls else "stop"

    def _message(self, message: Mapping[str, Any], events: list[StreamEvent]) -> None:
        thinking = as_text(message.get("thinking"))
        if thinking:
            self._is_thinking = self.has_content = True
            events.append(ThinkingDelta(thinking))
        text = as_text(message.get("content"))
        if text:
            self._end_thinking(events)
            self.has_content = True
            events.append(TextDelta(text))
        for call in as_objects(message.get("tool_calls")):
            self._end_thinking(events)
            self._call(call, events)

    def _end_thinking(self, events: list[StreamEvent]) -> None:
        if self._is_thinking:
            self._is_thinking = False
            events.append(ThinkingEnd())

    def _call(self, raw: Mapping[str, Any], events: list[StreamEvent]) -> None:
        function = as_object(raw.get("function"))
        name, given_id = as_text(function.get("name")), as_text(raw.get("id"))
        arguments = _encode_arguments(function.get("arguments"))
        written = (given_id, name, arguments)
        if given_id and written in self._calls:
            return  # the same call once more, on the last line
        key = str(len(self._calls))
        self._calls.append(written)
        self.has_content = True
        call_id = self._ids.free(given_id)
        events.append(ToolCallDelta(key=key, id=call_id, name=name, arguments=arguments))
        events.append(ToolCallEnd(key=key, id=call_id))


def _encode_arguments(arguments: Any) -> str:
    """Arguments as text; proxies in between send them as text already."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def _only_loaded_error(reason: str) -> ProviderError:
    # A retry finds the model loaded.
    return ProviderError(
        f"Ollama answered nothing: it {reason}ed the model.",
        kind="server",
        hint="Ask again.",
    )


def _usage(payload: Mapping[str, Any]) -> Usage | None:
    used = Usage(
        input=as_count(payload.get("prompt_eval_count")),
        output=as_count(payload.get("eval_count")),
    )
    return used or None


_Case = tuple[re.Pattern[str], ErrorKind | None, Callable[[str], str]]


def _case(words: str, kind: ErrorKind | None, hint: Callable[[str], str] | str) -> _Case:
    hint_for = hint if callable(hint) else lambda _, text=hint: text
    return re.compile(words, re.IGNORECASE), kind, hint_for


_NO_MODEL = _case(
    r"model\b.{0,200}\bnot found",
    "invalid_request",
    lambda model: f"`ollama pull {model}` fetches it; `/model` or `--model` chooses another.",
)
_CASES: tuple[_Case, ...] = (
    _NO_MODEL,
    _case(
        r"requires more (?:system |gpu )?memory|out of memory|insufficient memory",
        "invalid_request",
        lambda model: (
            "Free memory, choose a smaller model, or a smaller `window_tokens` in "
            f'[models."{model}"].'
        ),
    ),
    _case(
        r"does not support (?:tools|chat|completion)",
        "invalid_request",
        "dirge works with tools: choose a model that `ollama show` lists as able to use them.",
    ),
    _case(
        r"missing data required for image input|does not support (?:images?|vision)",
        "invalid_request",
        "Choose a model that `ollama show` lists as able to see.",
    ),
    _case(
        r"(?:context length|context window|context size)",
        "context_length",
        "`/compact` shortens the conversation.",
    ),
    _case(
        r"server busy|maximum pending requests|loading model|runner (?:to start|process has)|"
        r"model runner has unexpectedly stopped|model failed to load|running the model",
        "server",
        "Try again later; the log of `ollama serve` says more.",
    ),
)
# Part of the message: the hint is the loop's, once it has tried to make the request smaller.
_WINDOW = (
    ' Ollama serves what `window_tokens` in [models."{model}"] says, else its own few thousand '
    "tokens."
)
_REFUSES_THINKING = re.compile(r"does not support thinking|\bthink value\b", re.IGNORECASE)


def explain_error(error: ProviderError, *, model: str, is_at_home: bool) -> ProviderError:
    """`error` with the kind and the hint that fit Ollama. `is_at_home`: its address is the usual.

    The words decide: servers give most of these with the status 500, or in the middle of an answer.
    """
    if error.status is None and "No connection to" in error.message and is_at_home:
        return _with_hint(error, None, "Is Ollama running? `ollama serve` starts it.")
    if error.kind in {"auth", "aborted", "rate_limit"}:
        return error
    for words, kind, hint in _CASES:
        if words.search(error.raw):
            more = _WINDOW.format(model=model) if kind == "context_length" else ""
            return _with_hint(error, kind, hint(model), more)
    if error.status == 404:
        path = "`base_url` is the server's address alone, without `/v1`."
        return _with_hint(error, None, f"{error.hint} {path}")
    return error


def is_thinking_refusal(error: ProviderError) -> bool:
    """Whether the model cannot think, or not in the way that was asked for."""
    return error.status == 400 and bool(_REFUSES_THINKING.search(error.raw))


def _with_hint(
    error: ProviderError, kind: ErrorKind | None, hint: str, more: str = ""
) -> ProviderError:
    return ProviderError(
        error.message + more,
        kind=kind or error.kind,
        status=error.status,
        retry_after_s=error.retry_after_s,
        raw=error.raw,
        hint=hint,
        phase=error.phase,
    )
