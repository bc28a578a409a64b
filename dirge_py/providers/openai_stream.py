"""The answer of Chat Completions, also as servers write it that only resemble OpenAI's.

OpenRouter's `reasoning_details`, what a model thought as its maker wants it back, come in pieces
and go back whole, in order, with every member as it came.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dirge_py.providers.errors import declined_error
from dirge_py.providers.stream_parser import (
    CallIdAllocator,
    ServiceError,
    as_amount,
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

_STOP_REASONS: Mapping[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_REFUSED = frozenset({"content_filter", "refusal", "sensitive"})
_FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})


@dataclass(slots=True)
class _OpenCall:
    key: str
    id: str
    given_id: str
    """As the service wrote it."""
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    whole: Any = None


class OpenAIParser:
    """A `StreamParser`. `taken` are call ids of history: a service that reuses one gets a new one.

    `keeps_details`: the `reasoning_details` of the answer are kept as signatures of its thinking.
    `tells_cost`: as in `Quirks`.
    """

    def __init__(
        self,
        taken: frozenset[str],
        new_id: str,
        *,
        keeps_details: bool = False,
        tells_cost: bool = False,
    ) -> None:
        self.is_done = False
        self.has_content = False
        self._ids = CallIdAllocator(taken, f"call_{new_id}")
        self._is_started = False
        self._is_thinking = False
        self._details = ReasoningDetails() if keeps_details else None
        self._tells_cost = tells_cost
        self._finish = ""
        self._refusal = ""
        self._usage: Usage | None = None
        self._calls: list[_OpenCall] = []
        self._at_index: dict[Any, _OpenCall] = {}

    @property
    def is_settled(self) -> bool:
        return bool(self._finish)

    @property
    def call_is_open(self) -> bool:
        return bool(self._calls) and not self._finish

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        events: list[StreamEvent] = []
        if not self._is_started:
            self._is_started = True
            events.append(StreamStart(as_text(payload.get("model"))))
        choices = payload.get("choices")
        choice = as_object(choices[0]) if isinstance(choices, list) and choices else {}
        usage = _told_usage(payload, choice)
        if usage:
            charged_usd = _charged_usd(usage) if self._tells_cost else None
            self._usage = replace(_usage(usage), charged_usd=charged_usd)
        if choice:
            if choice.get("error"):
                raise ServiceError(choice)
            self._delta(as_object(choice.get("delta")), events)
            if "message" in choice:
                self._message(as_object(choice["message"]), events)
            self._finish = as_text(choice.get("finish_reason")) or self._finish
        return events

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if not as_objects(payload.get("choices")):
            raise ServiceError(payload)
        events = self.event("", payload)
        self._finish = self._finish or "stop"
        return events

    def finish(self) -> Sequence[StreamEvent]:
        if self.is_done or not (self._finish or self.has_content):
            return ()
        self.is_done = True
        if self._finish in _REFUSED or self._refusal:
            return [StreamError(declined_error(self._refusal))]
        if self._finish in _FAILED:
            return [StreamError(_stopped_with_an_error())]
        ends: list[StreamEvent] = []
        self._end_thinking(ends)
        ends += [_ended(call) for call in self._calls]
        return [*ends, StreamDone(stop_reason=self._stop_reason(), usage=self._usage)]

    def _stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self._finish, "stop")
        return "toolUse" if self._calls and reason == "stop" else reason

    def _delta(self, delta: Mapping[str, Any], events: list[StreamEvent]) -> None:
        text = delta.get("content")
        if text and isinstance(text, str):
            self._text(text, events)
            if len(delta) == 1:
                return
        self._think(delta, events)
        for part in as_objects(text):
            self._part(part, events)
        refusal = as_text(delta.get("refusal"))
        if refusal:
            self._refusal += refusal
            self._text(refusal, events)
        for position, call in enumerate(as_objects(delta.get("tool_calls"))):
            self._end_thinking(events)
            self._call(call, position, events)

    def _think(self, delta: Mapping[str, Any], events: list[StreamEvent]) -> None:
        details = as_objects(delta.get("reasoning_details"))
        # Services differ in the name, and some send the same under two.
        thinking = as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning"))
        self._thought(thinking or reasoning_text(details), events)
        if self._details is not None:
            self._details.add(details)

    def _part(self, part: Mapping[str, Any], events: list[StreamEvent]) -> None:
        """A part of a list of content: Mistral's models think in such."""
        if part.get("type") != "thinking":
            self._text(as_text(part.get("text")), events)
            return
        inner = part.get("thinking")
        said = "".join(as_text(each.get("text")) for each in as_objects(inner))
        self._thought(as_text(inner) or said, events)

    def _thought(self, text: str, events: list[StreamEvent]) -> None:
        if text:
            self._is_thinking = self.has_content = True
            events.append(ThinkingDelta(text))

    def _message(self, message: Mapping[str, Any], events: list[StreamEvent]) -> None:
        """A whole message: the answer itself, or its repetition behind the deltas."""
        calls = as_objects(message.get("tool_calls"))
        said = {"refusal": message.get("refusal")} if self.has_content else message
        self._delta({**said, "tool_calls": None}, events)
        for position, call in enumerate(calls):
            self._call({"index": position, **call}, position, events)

    def _text(self, text: str, events: list[StreamEvent]) -> None:
        if text:
            self._end_thinking(events)
            self.has_content = True
            events.append(TextDelta(text))

    def _end_thinking(self, events: list[StreamEvent]) -> None:
        details = self._details.taken() if self._details is not None else None
        if self._is_thinking or details:
            self._is_thinking = False
            events.append(ThinkingEnd(signature=details))

    def _call(self, raw: Mapping[str, Any], position: int, events: list[StreamEvent]) -> None:
        function = as_object(raw.get("function"))
        name, given_id = as_text(function.get("name")), as_text(raw.get("id"))
        arguments = function.get("arguments")
        call = self._known(raw.get("index"), given_id, name)
        if call is None:
            call = self._new_call(raw.get("index", position), given_id)
            events.append(ToolCallDelta(key=call.key, id=call.id, name=name))
        elif name and not call.pieces:
            events.append(ToolCallDelta(key=call.key, name=name))
        if isinstance(arguments, dict):
            call.whole = arguments
        elif isinstance(arguments, str) and arguments and not _repeats(call, arguments):
            call.pieces.append(arguments)
            call.chars += len(arguments)
            events.append(ToolCallDelta(key=call.key, arguments=arguments))

    def _known(self, index: Any, given_id: str, name: str) -> _OpenCall | None:
        """The call a piece belongs to, None for a new one.

        Most number their calls; some number all of them 0 and tell them apart by id; some do
        neither and send each call whole.
        """
        at_index = self._at_index.get(index) if index is not None else None
        if at_index is not None:
            is_other = given_id and name and at_index.pieces and given_id != at_index.given_id
            return None if is_other and _is_whole(at_index) else at_index
        by_id = next((call for call in self._calls if given_id and call.given_id == given_id), None)
        if by_id is not None and (index is None or not _is_whole(by_id)):
            return by_id
        if index is None and not given_id and not name and self._calls:
            return self._calls[-1]
        return None

    def _new_call(self, index: Any, given_id: str) -> _OpenCall:
        call = _OpenCall(str(len(self._calls)), self._ids.free(given_id), given_id)
        self._calls.append(call)
        self._at_index[index] = call
        self.has_content = True
        return call


def _repeats(call: _OpenCall, arguments: str) -> bool:
    """Whether this is the whole call once more, behind its own pieces."""
    is_as_long = len(arguments) == call.chars
    return is_as_long and "".join(call.pieces) == arguments and _is_whole(call)


def _is_whole(call: _OpenCall) -> bool:
    if call.whole is not None:
        return True
    # Looked at first: to read all of it for each of thousands of pieces would take minutes.
    if not (call.pieces and call.pieces[-1].rstrip().endswith("}")):
        return False
    try:
        return isinstance(json.loads("".join(call.pieces)), dict)
    except (ValueError, RecursionError):
        return False


def _ended(call: _OpenCall) -> ToolCallEnd:
    return ToolCallEnd(key=call.key, id=call.id, arguments=call.whole)


def _stopped_with_an_error() -> ProviderError:
    return ProviderError("The model stopped with an error.", kind="server", phase="stream")


def _told_usage(payload: Mapping[str, Any], choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The counts, from wherever a service puts them; empty where it sent none."""
    usage = as_object(payload.get("usage")) or as_object(choice.get("usage"))
    return usage or as_object(as_object(payload.get("x_groq")).get("usage"))


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = as_object(usage.get("prompt_tokens_details"))
    read, written = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
    thought = as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if thought and as_count(usage.get("total_tokens")) == read + written + thought:
        # Some count thinking beside the answer, where most count it in.
        written += thought
    return Usage(
        input=read,
        output=written,
        cache_read=as_count(details.get("cached_tokens"))
        or as_count(usage.get("prompt_cache_hit_tokens")),
        cache_write=as_count(details.get("cache_write_tokens")),
    )


def _charged_usd(usage: Mapping[str, Any]) -> float | None:
    """What the call cost. With a key of one's own the bill comes from the model's maker as well."""
    charged = as_amount(usage.get("cost"))
    if charged is None or usage.get("is_byok") is not True:
        return charged
    made = as_amount(as_object(usage.get("cost_details")).get("upstream_inference_cost"))
    return None if made is None else charged + made


_GROWING = ("text", "summary", "data")


class _ReasoningDetail:
    """One of them, growing."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._members = dict(first)
        self._texts = {
            name: [text] for name in _GROWING if isinstance(text := first.get(name), str)
        }

    def is_continued_by(self, piece: Mapping[str, Any]) -> bool:
        # Encrypted ones come whole, and several may stand in a row.
        here = self._members
        if piece.get("type") != here.get("type") or "data" in piece:
            return False
        same_id = piece.get("id") is None or piece.get("id") == here.get("id")
        return piece.get("index") == here.get("index") and same_id and not here.get("signature")

    def grow(self, piece: Mapping[str, Any]) -> None:
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value is not None:
                self._members[name] = value
            else:
                self._members.setdefault(name, None)

    def joined(self) -> dict[str, Any]:
        return self._members | {name: "".join(pieces) for name, pieces in self._texts.items()}


class ReasoningDetails:
    """The details of one stretch of thinking, put together from their pieces."""

    def __init__(self) -> None:
        self._whole: list[_ReasoningDetail] = []

    def add(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        """Take what one chunk brought."""
        for piece in pieces:
            last = self._whole[-1] if self._whole else None
            if last is not None and last.is_continued_by(piece):
                last.grow(piece)
            else:
                self._whole.append(_ReasoningDetail(piece))

    def taken(self) -> str | None:
        """All of them as a JSON text, to be kept as a signature; None if there are none."""
        whole, self._whole = [detail.joined() for detail in self._whole], []
        return json.dumps(whole, ensure_ascii=False) if whole else None


def reasoning_text(pieces: Sequence[Mapping[str, Any]]) -> str:
    """What a person can read in them."""
    return "".join(as_text(piece.get("text")) or as_text(piece.get("summary")) for piece in pieces)


def unpack_details(signature: str | None) -> list[Mapping[str, Any]]:
    """The details in a signature that `taken` made; none if it was made by something else."""
    if not signature or not signature.startswith("["):
        return []
    try:
        return as_objects(json.loads(signature))
    except (ValueError, RecursionError):
        return []
