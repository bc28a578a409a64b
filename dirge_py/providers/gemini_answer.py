"""A generateContent answer: parts of text, thought and calls, in chunks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dirge_py.providers.call_ids import CallIds
from dirge_py.providers.gemini_partial import PartialArguments
from dirge_py.providers.gemini_refusals import blocked, broken_off
from dirge_py.providers.gemini_request import MADE_UP
from dirge_py.providers.gemini_signatures import Piece, sealed
from dirge_py.providers.translator import (
    ServiceError,
    as_count,
    as_object,
    as_objects,
    as_text,
)
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

_TOO_LONG = frozenset({"MAX_TOKENS", "CONTINUATION"})
_COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)


@dataclass(slots=True)
class _Call:
    key: str
    id: str
    name: str
    arguments: PartialArguments


class ContentAnswer:
    """A `Translator`. `taken` are call ids of history: calls without an id, or with one of these,
    get a new one.

    The end of the stream is the end of the answer: chunks may follow the one with the reason.
    """

    def __init__(self, taken: frozenset[str], new_id: str) -> None:
        self.is_done = False
        self.has_content = False
        self._ids = CallIds(taken, f"{MADE_UP}{new_id}")
        self._is_started = False
        self._finish = ""
        self._finish_words = ""
        self._blocked = ""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._open_call: _Call | None = None
        self._run: Literal["", "text", "thought"] = ""
        self._length = 0
        self._signed: list[Piece] = []

    @property
    def is_settled(self) -> bool:
        return bool(self._finish or self._blocked)

    @property
    def call_is_open(self) -> bool:
        return self._open_call is not None

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        events: list[StreamEvent] = []
        if not self._is_started:
            self._is_started = True
            events.append(StreamStart(as_text(payload.get("modelVersion"))))
        counted = as_object(payload.get("usageMetadata"))
        self._counts |= {name: as_count(counted[name]) for name in _COUNTS if name in counted}
        feedback = as_object(payload.get("promptFeedback"))
        if as_text(feedback.get("blockReason")):
            self._blocked = as_text(feedback.get("blockReason"))
            self._finish_words = as_text(feedback.get("blockReasonMessage"))
        for candidate in as_objects(payload.get("candidates"))[:1]:
            for part in as_objects(as_object(candidate.get("content")).get("parts")):
                self._part(part, events)
            self._finish = as_text(candidate.get("finishReason")) or self._finish
            self._finish_words = as_text(candidate.get("finishMessage")) or self._finish_words
        return events

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        is_answer = as_objects(payload.get("candidates")) or payload.get("promptFeedback")
        # The last of several chunks, when they came as one list, may only count.
        if not is_answer and not (self._is_started and "usageMetadata" in payload):
            raise ServiceError(payload)
        events = self.event("", payload)
        self._finish = self._finish or "STOP"
        return events

    def finish(self) -> Sequence[StreamEvent]:
        if self.is_done or not self.is_settled:
            return ()
        self.is_done = True
        events: list[StreamEvent] = []
        self._end_run(events)
        self._end_call(events, is_whole=self._finish not in _TOO_LONG)
        if self._blocked:
            return [*events, StreamError(blocked(self._blocked, self._finish_words))]
        phase: Literal["stream", "establish"] = "stream" if self.has_content else "establish"
        error = broken_off(self._finish, self._finish_words, phase)
        if error is not None:
            return [*events, StreamError(error)]
        return [*events, StreamDone(stop_reason=self._stop_reason(), usage=self._usage())]

    def _stop_reason(self) -> StopReason:
        if self._finish in _TOO_LONG:
            return "length"
        return "toolUse" if self._calls else "stop"

    def _usage(self) -> Usage | None:
        if not self._counts:
            return None
        prompt, of_tools, said, thought, cached = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(input=prompt + of_tools, output=said + thought, cache_read=cached)

    def _part(self, part: Mapping[str, Any], events: list[StreamEvent]) -> None:
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), dict):
            self._call(part["functionCall"], signature, events)
        elif isinstance(part.get("text"), str):
            kind: Literal["text", "thought"] = "thought" if part.get("thought") is True else "text"
            self._words(kind, part["text"], signature, events)
        elif signature:
            self._words(self._run or "text", "", signature, events)

    def _words(
        self,
        kind: Literal["text", "thought"],
        text: str,
        signature: str,
        events: list[StreamEvent],
    ) -> None:
        if not (text or signature):
            return
        if kind != self._run:
            self._end_run(events)
            self._run = kind
        start, self._length = self._length, self._length + len(text)
        if text:
            self.has_content = True
            events.append(TextDelta(text) if kind == "text" else ThinkingDelta(text))
        if signature:
            self._signed.append(Piece(start, self._length, signature))

    def _end_run(self, events: list[StreamEvent]) -> None:
        """Close a run of text or thought, and keep what was signed in it.

        Only now: a block in the middle of a text would make two of it.
        """
        if self._run:
            signature = sealed(self._run, self._length, self._signed)
            if self._run == "thought" or signature:
                events.append(ThinkingEnd(signature=signature))
        self._run, self._length, self._signed = "", 0, []

    def _call(self, raw: Mapping[str, Any], signature: str, events: list[StreamEvent]) -> None:
        name, given_id = as_text(raw.get("name")), as_text(raw.get("id"))
        if not self._continues(raw, name, given_id):
            self._end_call(events)
            if not name:
                return
            self._end_run(events)
            if signature:
                kept = sealed("call", 0, [Piece(0, 0, signature)])
                events.append(ThinkingEnd(signature=kept))
            self._open_call = self._new_call(name, given_id, as_object(raw.get("args")))
            self.has_content = True
            call = self._open_call
            events.append(ToolCallDelta(key=call.key, id=call.id, name=name))
        assert self._open_call is not None
        for partial in as_objects(raw.get("partialArgs")):
            self._open_call.arguments.put(partial)
        if raw.get("willContinue") is not True:
            self._end_call(events)

    def _continues(self, raw: Mapping[str, Any], name: str, given_id: str) -> bool:
        call = self._open_call
        if call is None or "args" in raw:
            return False
        return name in ("", call.name) and given_id in ("", call.id)

    def _new_call(self, name: str, given_id: str, whole: Mapping[str, Any]) -> _Call:
        call = _Call(str(self._calls), self._ids.free(given_id), name, PartialArguments(whole))
        self._calls += 1
        return call

    def _end_call(self, events: list[StreamEvent], *, is_whole: bool = True) -> None:
        call = self._open_call
        if call is None:
            return
        self._open_call = None
        arguments = call.arguments.whole()
        text = json.dumps(arguments, ensure_ascii=False)
        # Cut in the middle, it must not look like a call that was meant so.
        events.append(ToolCallDelta(key=call.key, arguments=text if is_whole else text[:-1]))
        whole = arguments if is_whole else None
        events.append(ToolCallEnd(key=call.key, id=call.id, arguments=whole))
