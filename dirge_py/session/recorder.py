"""Records a session's events, and tool calls before they run, with secrets removed."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dirge_py.git.repository import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import redacted
from dirge_py.session.codec import Json, encode_message, encode_usage
from dirge_py.session.history import LoadedSession, replay, shorten_title
from dirge_py.session.journal import Clock, Journal
from dirge_py.session.record import Record
from dirge_py.session.transcript import InterruptedRun
from dirge_py.types.errors import SessionError
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    ContextReplaced,
    EvidenceTaken,
    LoopEvent,
    MessageEnd,
    PermissionAsked,
    PlanPhase,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    UsageReported,
)
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Outcome
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall, changes_something, text_result

Redact = Callable[[str], str]

_RECORDED_ELSEWHERE = ("result", "continuation")
_NOT_SAVED = (
    "Not run: the session cannot be saved to disk at the moment, so a crash could run this twice. "
    "Tools that only read still work; tell the user to free space."
)
# By type of block: members that a provider wants back byte for byte, and that nobody can read.
_OPAQUE = {"thinking": ("signature", "redacted"), "compaction": ("data",)}


def redacted_record(type_name: str, data: Any, redact: Redact) -> Any:
    """The data of a record of this type with every text in it redacted.

    Only blocks of assistant messages have parts that aren't redacted: a model, a tool or the user
    may write anything else that looks like such a block.
    """
    if type_name == "message" and isinstance(data, Mapping):
        return _redacted_message(data, redact)
    if type_name == "context":
        return {"messages": [_redacted_message(message, redact) for message in data["messages"]]}
    return redacted(data, redact)


def _redacted_message(message: Mapping[str, Any], redact: Redact) -> Json:
    clean, content = dict(redacted(message, redact)), message.get("content")
    if message.get("role") == "assistant" and isinstance(content, list):
        for block, shown in zip(content, clean["content"], strict=True):
            opaque = _OPAQUE.get(block["type"], ())
            shown |= {name: block[name] for name in opaque if name in block}
    return clean


@dataclass(slots=True)
class _Progress:
    """The progress of a call without a result message."""

    is_announced: bool = False
    has_begun: bool = False
    is_mutating: bool = False


class Recorder:
    """Records one session while it runs.

    Writes nothing before the first message, so that an empty session leaves no trace. If the disk
    refuses a write, records wait in memory in order and are retried before the next one; the user
    is notified once, and tools that change anything don't run.

    `redact` is applied to every text before it is stored; `on_notice` gets lines for the user. The
    git branch of `cwd` is recorded with each run.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        redact: Redact | None = None,
        cwd: Path | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
        clock: Clock = time.time,
    ) -> None:
        self._journal = journal
        self._redact = redact
        self._cwd = cwd
        self._on_notice = on_notice
        self._clock = clock
        self._waiting: list[Callable[[], Record]] = []
        self._has_messages = not journal.is_new
        self._is_failing = False
        self._is_closed = False
        self._run_id = ""
        self._model = self._title = ""
        self._message_count = 0
        self._calls: dict[str, _Progress] = {}
        self.interruption: InterruptedRun | None = None
        """The unfinished state of a killed run, until the conversation continues."""
        self.written_seq: int | None = None
        """The number of the last event's record; None if it has none (yet)."""
        self.written_id = ""
        """The id of that record."""

    @property
    def session_id(self) -> str:
        return self._journal.id

    @property
    def last_id(self) -> str:
        """The id of the newest record; "" for none."""
        return self._journal.last_id

    @property
    def path(self) -> Path:
        """The first file of the session."""
        return self._journal.path

    @property
    def is_saving(self) -> bool:
        """Whether all records are on disk; false while the disk refuses writes."""
        return not self._is_failing

    def load(self) -> LoadedSession:
        """Load the session. After a killed run, the calls of its last answer stay open.

        Records generated and recovered results, and notices, so that they are history from now on.
        """
        self._flush()
        loaded = replay(self._journal.records(), notices=self._journal.notices)
        self._model, self._title = loaded.choices.model, loaded.description.title
        self._message_count = len(loaded.messages)
        self.interruption = loaded.interruption
        self._calls = {call.id: _Progress() for call in loaded.open_calls}
        if self._has_messages:
            for healing in (*loaded.healed, *loaded.reused):
                self._save("message", healing.as_stored())
            for notice in loaded.notices:
                self._save("notice", {"content": notice}, sync=True)
        return loaded

    def sink(self, event: LoopEvent) -> None:
        """Record an event, unless the recorder is closed. Never raises."""
        self.written_seq = None
        if self._is_closed:
            return
        try:
            self._record(event)
        except Exception as error:
            self._on_notice(f"dirge couldn't record an event ({event.type}): {error!r}.")

    async def interceptor(self, call: ToolCall, proceed: Proceed) -> LoopToolResult:
        """Record on disk that the call starts, before it does.

        After a crash, a recorded start without a result means an unknown outcome. If the start
        can't be recorded, only calls that change nothing may run.
        """
        is_mutating = changes_something(call)
        started = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        started["only_reads"] = not is_mutating
        if not self._save("tool_started", started, sync=is_mutating):
            # The call doesn't start, so don't record its start later.
            self._waiting.pop()
            if is_mutating:
                return text_result(_NOT_SAVED, outcome="error", is_error=True)
        if progress := self._calls.get(call.id):
            progress.has_begun, progress.is_mutating = True, is_mutating
        return await proceed()

    def add_message(self, message: Message) -> None:
        """Record a message for which there is no event.

        It is on disk when this returns, but for answers with calls and for results before the last
        of an answer, unless the call changed something. Those are on disk before a call changes
        anything, and before the next message.
        """
        encoded = encode_message(message)
        if not self._has_messages and isinstance(message, UserMessage):
            self._save("title", {"title": self.redacted_title(message.text)})
        self._has_messages = True
        self._message_count += 1
        self.interruption = None
        is_settled = True
        if isinstance(message, AssistantMessage):
            self._calls = {call.id: _Progress() for call in message.calls}
            is_settled = not self._calls
        elif isinstance(message, ToolResultMessage):
            progress = self._calls.pop(message.tool_call_id, None)
            is_settled = not self._calls or (progress is not None and progress.is_mutating)
        self._save("message", encoded, sync=is_settled)

    def begin(self, title: str) -> None:
        """Write the session to disk before its first message, with a `title` of any length."""
        if not self._has_messages:
            self._has_messages = True
            self._save("title", {"title": self.redacted_title(title)}, sync=True)

    def redacted_title(self, text: str) -> str:
        """A text as the title of a session: without secrets, on one line, cut."""
        # Redact before cutting, because half of a secret isn't recognized.
        return shorten_title(self._redact(text) if self._redact is not None else text)

    def note_model(self, model: str, *, thinking: str = "off") -> None:
        """Record the choice of a model, `alias/id`."""
        self._model = model
        self._save("model", {"model": model, "thinking": thinking})

    def note_mode(self, mode: str) -> None:
        self._save("mode", {"mode": mode})

    def note_grant(self, rule: str) -> None:
        """Record that `rule` (`op:pattern`) is allowed from now on."""
        self._save("grant", {"action": "added", "rule": rule}, sync=True)

    def note_grant_removed(self, rule: str) -> None:
        self._save("grant", {"action": "removed", "rule": rule}, sync=True)

    def note_setting(self, name: str, value: Any) -> None:
        """Record a value for `SessionChoices.settings`, such as the todo list."""
        self._save("setting", {"name": name, "value": value})

    def note(self, type_name: str, data: Mapping[str, Any], *, sync: bool = False) -> None:
        """Record other data without an event or a place in `LoadedSession`, such as a snapshot."""
        self._save(type_name, dict(data), sync=sync)

    def records(self) -> list[Record]:
        """All records on disk, in order."""
        self._flush()
        return self._journal.records()

    def note_decision(self, record: Mapping[str, Any]) -> None:
        """Record a decision about a call, for `SessionChoices.decisions`."""
        self._save("decision", dict(record))

    def note_compaction(self, record: Mapping[str, Any]) -> None:
        """Record that a summary replaces old messages; see `LoadedSession.compactions`."""
        data = {"messages": self._message_count, "compaction": dict(record)}
        self._save("compaction", data, sync=True)

    def go_on_from(self, record_id: str) -> LoadedSession:
        """Make the record the tip of a new branch; later records stay in the journal."""
        self._save("branch", {}, parent=record_id, sync=True)
        return self.load()

    def close(self) -> None:
        """Write the waiting records if possible and release the session; may be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._has_messages and not self._flush():
            self._on_notice(
                f"{len(self._waiting)} records of session {self.session_id} were not saved."
            )
        self._journal.close()

    def _record(self, event: LoopEvent) -> None:
        match event:
            case MessageEnd(message):
                self.add_message(message)
            case ToolExecutionStart(tool_call_id=call_id) if call_id in self._calls:
                self._calls[call_id].is_announced = True
            case ToolExecutionEnd(deferred=False):
                self._keep_result(event)
            case UsageReported(usage=usage, model=model, cost_usd=cost_usd, role=role):
                data: Json = {"usage": encode_usage(usage), "model": model, "cost_usd": cost_usd}
                if event.changed is not None:
                    data["changed"] = list(event.changed)
                self._save("usage", data | ({"role": role} if role else {}))
            case ContextReplaced(messages=messages):
                self._message_count = len(messages)
                self._save("context", {"messages": [encode_message(m) for m in messages]})
            case PermissionAsked():
                # A person may take long to answer.
                with suppress(OSError):
                    self._journal.sync()
            case PlanPhase(state="ended"):
                self._save("phase", {**_fields_of(event), "usage": encode_usage(event.usage)})
            case EvidenceTaken():
                self._save("evidence", _fields_of(event))
            case AgentStart(run_id=run_id):
                self._run_id = run_id
                # After a kill, recovery uses the pid to find commands that still run.
                started: Json = {"run_id": run_id, "pid": os.getpid()}
                if self._cwd is not None and (name := branch_of(self._cwd)):
                    started["git_branch"] = name
                self._save("run_start", started)
            case AgentEnd(outcome=outcome):
                self._record_end(outcome)
            case SystemNotice(content):
                self._save("notice", {"content": content})

    def _keep_result(self, event: ToolExecutionEnd) -> None:
        """Record the result of a call whose message has to wait for other calls."""
        progress = self._calls.get(event.tool_call_id)
        others = (of for of in self._calls.values() if of is not progress)
        if progress is None or not any(of.is_announced or not progress.has_begun for of in others):
            return
        message = ToolResultMessage(
            tool_call_id=event.tool_call_id,
            tool_name=event.tool_name,
            content=event.result.content,
            details=event.result.details,
            is_error=event.is_error,
        )
        data = {"call_id": event.tool_call_id, "result": encode_message(message)}
        self._save("tool_finished", data, sync=progress.is_mutating)

    def _record_end(self, outcome: Outcome) -> None:
        if isinstance(outcome, AwaitingConfirmation):
            self.interruption = None
            call_ids = list(outcome.call_ids)
            self._save("deferred", {"call_ids": call_ids, "description": outcome.description})
        end = {
            "run_id": self._run_id,
            "outcome": type(outcome).__name__,
            "why": _fields_of(outcome),
            # Lists of sessions read it, because they read only the end of a journal.
            "messages": self._message_count,
            "model": self._model,
            "title": self._title,
        }
        self._save("run_end", end, sync=True)

    def _save(
        self, type_name: str, data: Any, *, parent: str | None = None, sync: bool = False
    ) -> bool:
        """Queue a record and write all waiting ones; returns False if it stays in memory."""
        if self._redact is not None:
            data = redacted_record(type_name, data, self._redact)
        if type_name == "title":
            self._title = data["title"]
        at = self._clock()
        self._waiting.append(
            partial(self._journal.append, type_name, data, parent=parent, at=at, sync=sync)
        )
        return self._flush()

    def _flush(self) -> bool:
        if not self._has_messages:
            return True
        while self._waiting:
            try:
                record = self._waiting[0]()
            except SessionError as error:
                if not self._is_failing:
                    self._is_failing = True
                    self._on_notice(
                        f"{error.message} dirge keeps it in memory, and tools that change anything "
                        f"are blocked. {error.hint}"
                    )
                return False
            self._waiting.pop(0)
            self.written_seq, self.written_id = record.seq, record.id
        if self._is_failing:
            self._is_failing = False
            self._on_notice("The session is saved again; nothing was lost.")
        return True


def _fields_of(value: PlanPhase | EvidenceTaken | Outcome) -> dict[str, Any]:
    """The fields of an event or an outcome, without those that other records hold."""
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if name not in _RECORDED_ELSEWHERE}


class SessionMetadata:
    """JSON values of a session by name; `note` stores one, `begin` begins the session."""

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        note: Callable[[str, Any], None] = lambda name, value: None,
        begin: Callable[[str], None] = lambda title: None,
    ) -> None:
        self._values = dict(values or {})
        self._note = note
        self.begin = begin
        """Writes the session to disk with a title, unless it is on disk already."""

    def get(self, name: str) -> Any:
        """The value with this name; None if there is none."""
        return self._values.get(name)

    def load(self, name: str, value: Any) -> None:
        """Set a value that is stored already."""
        self._values[name] = value

    def put(self, name: str, value: Any) -> None:
        """Store `value`; None removes what was stored."""
        self._values[name] = value
        self._note(name, value)
