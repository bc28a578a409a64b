"""Ollama's answer: one JSON object a line, tool calls whole, the last line with the counts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.providers.call_ids import CallIds
from dirge_py.providers.translator import (
    ServiceError,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.errors import ProviderError
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


class OllamaAnswer:
    """A `Translator`. `taken` are call ids of history; calls mostly come without an id here."""

    call_is_open = False

    def __init__(self, taken: frozenset[str], new_id: str) -> None:
        self.is_done = False
        self.has_content = False
        self._ids = CallIds(taken, f"call_{new_id}")
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
            return [StreamError(_only_loaded(self._finish))]
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
        arguments = _written(function.get("arguments"))
        written = (given_id, name, arguments)
        if given_id and written in self._calls:
            return  # the same call once more, on the last line
        key = str(len(self._calls))
        self._calls.append(written)
        self.has_content = True
        call_id = self._ids.free(given_id)
        events.append(ToolCallDelta(key=key, id=call_id, name=name, arguments=arguments))
        events.append(ToolCallEnd(key=key, id=call_id))


def _written(arguments: Any) -> str:
    """Arguments as text; proxies in between send them as text already."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def _only_loaded(reason: str) -> ProviderError:
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
