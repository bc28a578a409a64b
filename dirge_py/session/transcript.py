"""From the records of one branch to messages a provider accepts: every call has its one answer.

A process can end at any instant, and a disk can lose any record. What is missing is answered here,
what is too much is left out; the journal itself is never rewritten.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.session.codec import Json, decode_message, encode_message
from dirge_py.session.record import Record

_OUTCOME_UNKNOWN = (
    "Interrupted: dirge ended while this call ran. Its outcome is unknown; "
    "check before repeating it."
)
_READ_ONLY = (
    "Interrupted: dirge ended while this call ran. It only reads, so nothing was changed; "
    "call it again if it is still wanted."
)
_NOT_STARTED = "Not started: dirge ended before this call ran. Call it again if it is still wanted."
_UNDECIDED = (
    "Not run: it waited for a decision that never came. It did nothing; "
    "call it again only if it is still wanted."
)


def undecided(call: ToolCallBlock) -> ToolResultMessage:
    """The answer to a deferred call once the conversation goes on without a decision about it."""
    return _made_up(call, _UNDECIDED, outcome="denied", synthetic="undecided")


def _made_up(call: ToolCallBlock, text: str, **details: str) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(text),),
        details=details,
        is_error=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """An answer made up for a call that has none; `asked_in` is the record that holds the call.

    Where a record holds many messages, their place in it follows, as in `r7#2`.
    """

    result: ToolResultMessage
    asked_in: str

    def as_stored(self) -> Json:
        """The message to record. It names its call's record, as ids of calls may occur twice."""
        return {**encode_message(self.result), "asked_in": self.asked_in}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The messages of a branch, healed.

    `record_ids` has one entry per message, "" for an answer that no record holds yet: those are in
    `healed`. `open_calls` wait for a decision and have no answer on purpose. `compactions` are only
    those that were made of these very messages.
    """

    messages: tuple[Message, ...]
    record_ids: tuple[str, ...]
    healed: tuple[Healing, ...] = ()
    open_calls: tuple[ToolCallBlock, ...] = ()
    compactions: tuple[Mapping[str, Any], ...] = ()
    surplus_results: int = 0
    unreadable: int = 0


def read_transcript(records: Iterable[Record]) -> Transcript:
    """The transcript of one branch, given in order.

    A result belongs to the nearest call before it that has its id and no answer yet, because some
    providers use the same ids in every turn. It is moved right behind its call, in the order of the
    calls.
    """
    reading = _Reading()
    for record in records:
        reading.take(record)
    return reading.finish()


@dataclass(slots=True)
class _Slot:
    """A call and what became of it."""

    call: ToolCallBlock
    asked_in: str
    result: ToolResultMessage | None = None
    record_id: str = ""
    is_started: bool = False
    only_reads: bool = False
    is_deferred: bool = False

    def answer(self) -> ToolResultMessage:
        if self.result is not None:
            return self.result
        if self.is_deferred and not self.is_started:
            return undecided(self.call)
        unknown = _READ_ONLY if self.only_reads else _OUTCOME_UNKNOWN
        text = unknown if self.is_started else _NOT_STARTED
        return _made_up(self.call, text, outcome="aborted", synthetic="interrupted")


@dataclass(slots=True)
class _Entry:
    message: Message
    record_id: str
    slots: list[_Slot] = field(default_factory=list)


class _Reading:
    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._unanswered: dict[str, list[_Slot]] = {}
        self._last_said: _Entry | None = None
        self._compactions: list[Mapping[str, Any]] = []
        self._surplus_results = 0
        self._unreadable = 0

    def take(self, record: Record) -> None:
        match record.type, record.data:
            case "message", encoded:
                self._take_message(encoded, record.id)
            case "context", {"messages": [*messages]}:
                self._begin_again(messages, record.id)
            case "compaction", {"messages": int(count), "compaction": dict(compaction)}:
                self._take_compaction(compaction, count)
            case "tool_started", {"call_id": str(call_id), **rest}:
                for slot in self._unanswered.get(call_id, ())[-1:]:
                    slot.is_started = True
                    slot.only_reads = rest.get("only_reads") is True
            case "deferred", {"call_ids": [*call_ids]}:
                for call_id in map(str, call_ids):
                    for slot in self._unanswered.get(call_id, ())[-1:]:
                        slot.is_deferred = True

    def _begin_again(self, messages: Sequence[Any], record_id: str) -> None:
        """Let these messages stand for all that was read so far."""
        self._entries, self._unanswered, self._compactions = [], {}, []
        self._last_said = None
        for place, encoded in enumerate(messages):
            # One record holds them all, and ids of calls may occur twice in it.
            self._take_message(encoded, record_id, asked_in=f"{record_id}#{place}")

    def _take_compaction(self, compaction: Mapping[str, Any], count: int) -> None:
        # It names messages by their number. Where one was lost, or will be made up, those are
        # others now: better to send too much than the summary of something else.
        slots = [slot for entry in self._entries for slot in entry.slots]
        answered = [slot for slot in slots if slot.result is not None]
        if count == len(self._entries) + len(answered) and self._only_waits():
            self._compactions.append(compaction)

    def _only_waits(self) -> bool:
        """Whether no answer is missing but those behind everything else, which are waited for."""
        last = self._entries[-1] if self._entries else None
        for entry in self._entries:
            is_missing = False
            for slot in entry.slots:
                is_waiting = entry is last and self._is_waiting(entry, slot)
                if slot.result is None and not is_waiting:
                    return False
                if slot.result is not None and is_missing:
                    return False  # the missing one would come before it, and move it on
                is_missing = slot.result is None
        return True

    def _take_message(self, encoded: Any, record_id: str, *, asked_in: str = "") -> None:
        try:
            message = decode_message(encoded)
        except ValueError:
            self._unreadable += 1
            return
        if isinstance(message, ToolResultMessage):
            self._take_result(message, record_id, encoded.get("asked_in"))
            return
        entry = _Entry(message, record_id)
        self._entries.append(entry)
        if isinstance(message, AssistantMessage):
            entry.slots = [_Slot(call, asked_in or record_id) for call in message.calls]
            for slot in entry.slots:
                self._unanswered.setdefault(slot.call.id, []).append(slot)
        if isinstance(message, UserMessage | AssistantMessage):
            self._last_said = entry

    def _take_result(self, result: ToolResultMessage, record_id: str, asked_in: Any) -> None:
        waiting = self._unanswered.get(result.tool_call_id, [])
        meant = [slot for slot in waiting if asked_in in (None, slot.asked_in)]
        if not meant:
            self._surplus_results += 1
            return
        slot = meant[-1]
        slot.result, slot.record_id = result, record_id
        self._unanswered[result.tool_call_id] = [other for other in waiting if other is not slot]

    def finish(self) -> Transcript:
        messages: list[tuple[Message, str]] = []
        healed = []
        open_calls = []
        for entry in self._entries:
            messages.append((entry.message, entry.record_id))
            for slot in entry.slots:
                if slot.result is None and self._is_waiting(entry, slot):
                    open_calls.append(slot.call)
                    continue
                messages.append((slot.answer(), slot.record_id))
                if slot.result is None:
                    healed.append(Healing(result=slot.answer(), asked_in=slot.asked_in))
        return Transcript(
            messages=tuple(message for message, _ in messages),
            record_ids=tuple(record_id for _, record_id in messages),
            healed=tuple(healed),
            open_calls=tuple(open_calls),
            compactions=tuple(self._compactions),
            surplus_results=self._surplus_results,
            unreadable=self._unreadable,
        )

    def _is_waiting(self, entry: _Entry, slot: _Slot) -> bool:
        """Deferred, not begun since, and the conversation has not gone on without it."""
        return slot.is_deferred and not slot.is_started and entry is self._last_said
