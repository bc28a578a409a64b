"""Converts the records of a branch to messages a provider accepts: each call has one result.

A process can end at any instant, and a disk can lose any record. So missing results are generated
here and surplus ones left out; the journal itself is never rewritten. Only the calls of the last
answer may stay open: those that wait for a decision, and those of a run that was killed
(`InterruptedRun`).
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from typing import Any, Literal, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import REDACTED
from dirge_py.session.codec import Json, decode_message, encode_message
from dirge_py.session.record import Record
from dirge_py.types.history import synthetic_result
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

CallState = Literal["not_started", "reads", "unknown"]
"""`reads`: it started, but only reads, so it may run again. `unknown`: it may have had effects."""
CallChoice = Literal["inspect", "done", "again"]
"""The user's choice about a call in state `unknown`.

`inspect`: the model learns that the outcome is unknown, and checks. `done`: the model learns that
the user saw it done. `again`: it runs once more.
"""
_UNFINISHED: dict[CallState, str] = {
    "not_started": (
        "Not started: dirge ended before this call ran. Call it again if it is still wanted."
    ),
    "reads": (
        "Interrupted: dirge ended while this call ran. It only reads, so nothing was changed; "
        "call it again if it is still wanted."
    ),
    "unknown": (
        "Interrupted: dirge ended while this call ran; its outcome is unknown. "
        "Look before repeating it."
    ),
}
_CONFIRMED = (
    "Interrupted: dirge ended while this call ran. The user says that it was done; "
    "its output is lost. Do not repeat it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedCall:
    """A call of the last answer without a result."""

    call: ToolCallBlock
    """The call."""
    state: CallState
    """How far it came."""
    chosen: CallChoice | None = None
    """The user's earlier choice, if it hasn't run again since."""

    @property
    def may_run(self) -> bool:
        """Whether it can run again: without a removed secret it would be a different call."""
        return REDACTED not in json.dumps(self.call.arguments, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedRun:
    """A run that never ended."""

    run_id: str
    """The id of the run."""
    since: str
    """When its last record was written (ISO 8601)."""
    calls: tuple[InterruptedCall, ...] = ()
    """Its unfinished calls, in order; none if it was cut off between calls."""
    pid: int = 0
    """The process that was killed; 0 if unknown."""

    @property
    def unknown(self) -> tuple[InterruptedCall, ...]:
        """The calls of unknown outcome."""
        return tuple(call for call in self.calls if call.state == "unknown")

    @property
    def undecided(self) -> tuple[InterruptedCall, ...]:
        """The calls of unknown outcome that the user hasn't decided about."""
        return tuple(call for call in self.unknown if call.chosen is None)


def unfinished_result(call: ToolCallBlock, state: CallState) -> ToolResultMessage:
    """The result of an interrupted call that doesn't run again."""
    return synthetic_result(call, _UNFINISHED[state], outcome="aborted", synthetic="interrupted")


def closed_calls_text(names: Sequence[str]) -> str:
    """The notice about interrupted calls of these tools when a prompt is sent instead."""
    return (
        f"{len(names)} interrupted tool call(s) ({', '.join(sorted(set(names)))}) were closed as "
        "not finished; nothing is run again."
    )


def confirmed_result(call: ToolCallBlock) -> ToolResultMessage:
    """The result of an interrupted call that the user saw done."""
    return synthetic_result(call, _CONFIRMED, outcome="ok", synthetic="interrupted")


_UNDECIDED = (
    "Not run: it waited for a decision that never came. It did nothing; "
    "call it again only if it is still wanted."
)
_OF_A_RUN = frozenset({"run_start", "message", "usage", "context", "tool_started", "tool_finished"})


def undecided_result(call: ToolCallBlock) -> ToolResultMessage:
    """The result of a deferred call once the conversation continues without a decision."""
    return synthetic_result(call, _UNDECIDED, outcome="denied", synthetic="undecided")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptRepairs:
    """The result of a call whose own message is missing."""

    result: ToolResultMessage
    """The generated or recovered result."""
    asked_in: str
    """The record of the call, with the index of its message if it holds many: `r7#2`."""

    def as_stored(self) -> Json:
        """The message to record. It names the record of its call, because call ids may repeat."""
        return {**encode_message(self.result), "asked_in": self.asked_in}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoices:
    """The user's choices and stored values of a session, the newest of each."""

    model: str = ""
    """The model chosen last."""
    thinking: str = ""
    """The thinking level chosen last."""
    mode: str = ""
    """The permission mode chosen last."""
    decisions: tuple[Mapping[str, Any], ...] = ()
    """The newest decisions given to `note_decision`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The stored values by name, the newest of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDescription:
    """Title, folder and dates of a session, for lists."""

    title: str = ""
    """The name of the session, or its first prompt."""
    cwd: str = ""
    """The folder it was begun in."""
    created: str = ""
    """When it was begun (ISO 8601); empty if unknown."""
    updated: str = ""
    """When its last record was written (ISO 8601); empty if unknown."""
    forked_from: str = ""
    """The session it was forked from; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSession:
    """A session replayed from its journal: its current branch, and totals of all branches."""

    messages: tuple[Message, ...] = ()
    """The messages of the current branch, each call with its answer."""
    record_ids: tuple[str, ...] = ()
    """The record of each message; "" for an answer that no record holds as a message yet."""
    open_calls: tuple[ToolCallBlock, ...] = ()
    """Calls that wait for a decision, or belong to the `interruption`."""
    healed: tuple[TranscriptRepairs, ...] = ()
    """Results generated now for calls without one."""
    reused: tuple[TranscriptRepairs, ...] = ()
    """Results that were recorded when their call finished, before their message."""
    interruption: InterruptedRun | None = None
    """The unfinished state of the last run if it was killed; None if it ended."""
    compactions: tuple[Mapping[str, Any], ...] = ()
    """The compactions of `messages`, oldest first, as given to `note_compaction`."""
    choices: SessionChoices = field(default_factory=SessionChoices)
    """The user's choices, on any branch."""
    grants: tuple[str, ...] = ()
    """The rules granted for this session."""
    usage: Usage = field(default_factory=Usage)
    """The tokens of all branches."""
    cost_usd: float | None = 0.0
    """The cost of all branches; None as soon as one part is unknown."""
    least_usd: float = 0.0
    """The part of the cost for which prices are known."""
    turns: int = 0
    """Model turns of all branches."""
    description: SessionDescription = SessionDescription()
    """Its title, its folder and its dates."""
    notices: tuple[str, ...] = ()
    """Notices for the user about the journal."""


def read_transcript(records: Iterable[Record], *, copied_to: str | None = None) -> LoadedSession:
    """The messages and open calls of one branch, given in order; `replay` adds the rest.

    A result belongs to the nearest call before it that has its id and no result yet, because some
    providers repeat ids. It is moved directly after its call, in the order of the calls. Records up
    to `copied_to` are copied from another session, so their runs can't be continued.
    """
    reader = _TranscriptReader()
    for record in records:
        reader.read(record)
        if record.id == copied_to:
            reader.leave_run()
    return reader.finish()


@mutable(slots=True, eq=False)
class _Slot:
    """A call and its progress."""

    call: ToolCallBlock
    asked_in: str
    result: ToolResultMessage | None = None
    record_id: str = ""
    finished: ToolResultMessage | None = None
    """Its result, if recorded before its message."""
    is_started: bool = False
    only_reads: bool = False
    is_deferred: bool = False
    is_resumed: bool = False
    """Whether it was deferred and a later run continued with its other calls."""
    is_left: bool = False
    """Whether it was open when the user moved to another point, so it never runs."""
    chosen: CallChoice | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for a decision, and so hasn't run."""
        return self.is_deferred and not self.is_started and not self.is_resumed

    @property
    def state(self) -> CallState:
        if self.chosen is None and not self.is_started:
            return "not_started"
        return "reads" if self.only_reads else "unknown"

    def answer(self) -> ToolResultMessage:
        known = self.result or self.finished
        if known is not None:
            return known
        if self.is_deferred and not self.is_started:
            return undecided_result(self.call)
        return unfinished_result(self.call, self.state)


@mutable(slots=True, eq=False)
class _Entry:
    message: Message
    record_id: str
    slots: list[_Slot] = field(default_factory=list)


class _TranscriptReader:
    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._unanswered: dict[str, list[_Slot]] = {}
        self._last_said: _Entry | None = None
        self._compactions: list[Mapping[str, Any]] = []
        self._surplus_results = 0
        self._unreadable = 0
        self._run_id: str | None = None
        self._pid = 0
        self._since = ""

    def read(self, record: Record) -> None:
        if record.type in _OF_A_RUN:
            self._since = record.ts
        match record.type, record.data:
            case "message", encoded:
                self._read_message(encoded, record.id)
            case "context", {"messages": [*messages]}:
                # These messages replace everything read so far.
                self._entries, self._unanswered, self._compactions = [], {}, []
                self._last_said = None
                for place, encoded in enumerate(messages):
                    # One record holds them all, and call ids may repeat in it.
                    self._read_message(encoded, record.id, asked_in=f"{record.id}#{place}")
            case "compaction", {"messages": int(count), "compaction": dict(compaction)}:
                self._read_compaction(compaction, count)
            case "tool_started", {"call_id": str(call_id), **rest}:
                for slot in self._newest_unanswered(call_id):
                    slot.is_started, slot.chosen = True, None
                    slot.only_reads = rest.get("only_reads") is True
                    self._resume_around(slot)
            case "tool_finished", {"call_id": str(call_id), "result": result}:
                for slot in self._newest_unanswered(call_id):
                    slot.finished = _result_of(result, slot.call)
            case "deferred", {"call_ids": [*call_ids]}:
                for call_id in map(str, call_ids):
                    for slot in self._newest_unanswered(call_id):
                        slot.is_deferred, slot.is_resumed = True, False
            case "interruption", {"choices": dict(choices)}:
                for slot in self._last_slots():
                    choice = choices.get(slot.call.id)
                    if slot.result is None and choice in get_args(CallChoice):
                        slot.chosen = choice
                        # Its next start tells whether it runs again.
                        slot.is_started = slot.is_started and choice != "again"
            case "run_start", {"run_id": str(run_id), **rest}:
                self._run_id = run_id
                pid = rest.get("pid")
                self._pid = pid if isinstance(pid, int) else 0
            case "run_end", _:
                self._run_id = None
            case "move", {"what": "files"}:
                pass
            case (("branch" | "move"), _):
                self.leave_run()

    def leave_run(self) -> None:
        """End the run here: its open calls are not continued from another point."""
        self._run_id = None
        for slot in self._last_slots():
            slot.is_left = slot.result is None and not slot.waits

    def _last_slots(self) -> Sequence[_Slot]:
        return self._last_said.slots if self._last_said else ()

    def _newest_unanswered(self, call_id: str) -> Sequence[_Slot]:
        """The newest call with this id and no result, as a list of at most one."""
        return self._unanswered.get(call_id, ())[-1:]

    def _resume_around(self, slot: _Slot) -> None:
        """Note that a run continues with the other calls of this answer."""
        entries = (entry for entry in reversed(self._entries) if slot in entry.slots)
        for other in next(entries).slots:
            other.is_resumed = other.is_deferred

    def _read_compaction(self, compaction: Mapping[str, Any], count: int) -> None:
        # A compaction names messages by number, which a lost or generated message shifts. Sending
        # too much is better than sending the summary of other messages.
        slots = [slot for entry in self._entries for slot in entry.slots]
        answered = [slot for slot in slots if slot.result is not None]
        if count == len(self._entries) + len(answered) and self._only_waits():
            self._compactions.append(compaction)

    def _only_waits(self) -> bool:
        """Whether only results at the very end are missing, of calls that wait."""
        for entry in self._entries:
            is_missing = False
            for slot in entry.slots:
                is_waiting = entry is self._entries[-1] and self._is_open(entry, slot)
                if slot.result is None and not is_waiting:
                    return False
                if slot.result is not None and is_missing:
                    return False  # The missing result would come before it and shift it.
                is_missing = slot.result is None
        return True

    def _read_message(self, encoded: Any, record_id: str, *, asked_in: str = "") -> None:
        try:
            message = decode_message(encoded)
        except ValueError:
            self._unreadable += 1
            return
        if isinstance(message, ToolResultMessage):
            self._read_result(message, record_id, encoded.get("asked_in"))
            return
        entry = _Entry(message, record_id)
        self._entries.append(entry)
        if isinstance(message, AssistantMessage):
            entry.slots = [_Slot(call, asked_in or record_id) for call in message.calls]
            for slot in entry.slots:
                self._unanswered.setdefault(slot.call.id, []).append(slot)
        if isinstance(message, UserMessage | AssistantMessage):
            self._last_said = entry

    def _read_result(self, result: ToolResultMessage, record_id: str, asked_in: Any) -> None:
        waiting = self._unanswered.get(result.tool_call_id, [])
        meant = [slot for slot in waiting if asked_in in (None, slot.asked_in)]
        if not meant:
            self._surplus_results += 1
            return
        slot = meant[-1]
        slot.result, slot.record_id = result, record_id
        self._unanswered[result.tool_call_id] = [other for other in waiting if other is not slot]
        if asked_in is None:
            self._resume_around(slot)

    def finish(self) -> LoadedSession:
        messages: list[tuple[Message, str]] = []
        healed: list[TranscriptRepairs] = []
        reused: list[TranscriptRepairs] = []
        open_slots: list[_Slot] = []
        for entry in self._entries:
            messages.append((entry.message, entry.record_id))
            for slot in entry.slots:
                if self._is_open(entry, slot):
                    open_slots.append(slot)
                    continue
                messages.append((slot.answer(), slot.record_id))
                if slot.result is None:
                    kept = healed if slot.finished is None else reused
                    kept.append(TranscriptRepairs(result=slot.answer(), asked_in=slot.asked_in))
        return LoadedSession(
            messages=tuple(message for message, _ in messages),
            record_ids=tuple(record_id for _, record_id in messages),
            healed=tuple(healed),
            reused=tuple(reused),
            open_calls=tuple(slot.call for slot in open_slots),
            interruption=self._interruption(open_slots, messages[-1][0] if messages else None),
            compactions=tuple(self._compactions),
            notices=tuple(self._notices(healed)),
        )

    def _notices(self, healed: Sequence[TranscriptRepairs]) -> Iterator[str]:
        if healed:
            yield closed_calls_text([repair.result.tool_name for repair in healed])
        if self._surplus_results:
            yield f"{self._surplus_results} tool result(s) without a call were left out."
        if self._unreadable:
            yield f"{self._unreadable} message(s) of an unknown kind were left out."

    def _is_open(self, entry: _Entry, slot: _Slot) -> bool:
        """Whether the call has no result, and the conversation hasn't continued without it."""
        is_answered = slot.result is not None or slot.finished is not None
        return not is_answered and not slot.is_left and entry is self._last_said

    def _interruption(
        self, open_slots: Sequence[_Slot], last: Message | None
    ) -> InterruptedRun | None:
        if open_slots and all(slot.waits for slot in open_slots):
            return None
        if not open_slots and (self._run_id is None or last is None or _is_whole(last)):
            return None
        calls = tuple(
            InterruptedCall(call=slot.call, state=slot.state, chosen=slot.chosen)
            for slot in open_slots
        )
        return InterruptedRun(
            run_id=self._run_id or "", since=self._since, calls=calls, pid=self._pid
        )


def _result_of(encoded: Any, call: ToolCallBlock) -> ToolResultMessage | None:
    with contextlib.suppress(ValueError):
        message = decode_message(encoded)
        if isinstance(message, ToolResultMessage) and message.tool_call_id == call.id:
            return message
    return None


def _is_whole(message: Message) -> bool:
    """Whether a run that ends with this message is complete."""
    return (
        isinstance(message, AssistantMessage)
        and message.origin == "model"
        and message.stop_reason in ("stop", "toolUse")
    )
