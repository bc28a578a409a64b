"""Recovers a run that was killed, or that waits for a decision.

After a kill, dirge asks about each call of unknown outcome. A continuation file describes a
waiting run for the program that decides. dirge runs only what the journal holds, and refuses a file
that differs from it.
"""

import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import without_leading_comments
from dirge_py.lib.text import truncate
from dirge_py.processes.process_tree import abandoned_processes, kill_abandoned
from dirge_py.session.codec import Json, decode_usage, usage_counts
from dirge_py.session.history import replay
from dirge_py.session.ids import check_session_id
from dirge_py.session.record import Record, json_text, text_member
from dirge_py.session.recorder import Recorder
from dirge_py.session.transcript import (
    CallChoice,
    InterruptedCall,
    InterruptedRun,
    confirmed_result,
    undecided_result,
    unfinished_result,
)
from dirge_py.session.tree import is_said
from dirge_py.types.errors import FileError, SessionError
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
)
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption
from dirge_py.types.tools import LoopToolResult

_CHOICES: Mapping[str, tuple[CallChoice, str]] = {
    "continue and check first": (
        "inspect",
        "the model is told that the outcome is unknown, and checks",
    ),
    "continue, it is done": ("done", "the model is told that it finished; its output is lost"),
    "continue, run it again": ("again", "once more; deny rules still apply"),
}
"""Each answer of the user, with the choice and what it means."""
_CARRY_ON = "continue"
_NOT_NOW = "not now"


def decide_calls(
    interruption: InterruptedRun, choices: Mapping[str, CallChoice] | None = None
) -> Sequence[CallDecision]:
    """Decide about the calls of unknown outcome; the other calls just run.

    `choices` are the user's, by call id. A call without one is inspected, never run again. A call
    whose arguments held a secret can't run again, because secrets are not stored.
    """
    chosen = choices or {}
    return [
        _decision(call, chosen.get(call.call.id) or call.chosen or "inspect")
        for call in interruption.calls
        if call.state == "unknown" or not call.may_run
    ]


def complete_decisions(
    decisions: Sequence[CallDecision], interruption: InterruptedRun, recorder: Recorder
) -> Sequence[CallDecision]:
    """`decisions`, with those of `decide_calls` for the other calls; the journal gets the choices.

    If a call runs again, commands of the killed process that still run are ended first.
    """
    cannot_run = {call.call.id for call in interruption.calls if not call.may_run}
    by_id = {decision.tool_call_id: decision for decision in decide_calls(interruption)}
    by_id |= {
        d.tool_call_id: d for d in decisions if not (d.allow and d.tool_call_id in cannot_run)
    }
    choices: dict[str, CallChoice] = {}
    for call in interruption.unknown:
        decision = by_id[call.call.id]
        is_unknown = decision.answer is None or decision.answer.is_error
        choices[call.call.id] = "again" if decision.allow else "inspect" if is_unknown else "done"
    if choices:
        data = {"run_id": interruption.run_id, "choices": choices}
        recorder.note("interruption", data, sync=True)
    if "again" in choices.values():
        kill_abandoned(abandoned_processes(interruption.pid))
    return list(by_id.values())


def result_of_skipped_call(
    call: ToolCallBlock, interruption: InterruptedRun | None
) -> ToolResultMessage:
    """The result of an open call when the user sends a new prompt instead."""
    for interrupted in interruption.calls if interruption is not None else ():
        if interrupted.call.id == call.id:
            return _result_of_unrepeated(interrupted, interrupted.chosen)
    return undecided_result(call)


def recovery_questions(interruption: InterruptedRun) -> Sequence[Question]:
    """The questions before continuing: one for each call of unknown outcome, or one in all."""
    asked = interruption.undecided
    if not asked:
        running = [call for call in interruption.calls if call.state != "not_started"]
        if running:
            text = _cut_off_text(running[0])
        elif interruption.calls:
            title = title_of_call(interruption.calls[0].call)
            text = f"The last run was cut off before `{title}` ran."
        else:
            text = "The last run was cut off while the model was answering."
        options = (QuestionOption(label=_CARRY_ON), QuestionOption(label=_NOT_NOW))
        return [Question(question=text, options=options, is_open=False)]
    pids = [str(process.pid) for process in abandoned_processes(interruption.pid)]
    noun = "process" if len(pids) == 1 else "processes"
    still = f" It is still running, as {noun} {', '.join(pids)}; running it again ends that first."
    return [
        Question(
            question=_cut_off_text(call) + (still if pids else ""),
            options=tuple(_choice_options(call)),
            is_open=False,
        )
        for call in asked
    ]


def choices_from_answers(
    interruption: InterruptedRun, answers: Sequence[QuestionAnswer] | None
) -> Mapping[str, CallChoice] | None:
    """The choices in the answers to `recovery_questions`, by call id; None if not now."""
    labels = [label for answer in answers or () for label in answer.chosen[:1]]
    if answers is None or len(labels) < len(answers) or _NOT_NOW in labels:
        return None
    asked = interruption.undecided
    return {call.call.id: _CHOICES[label][0] for call, label in zip(asked, labels, strict=False)}


def _cut_off_text(call: InterruptedCall) -> str:
    return f"The last run was cut off while `{title_of_call(call.call)}` ran."


def _choice_options(call: InterruptedCall) -> Iterator[QuestionOption]:
    for label, (choice, description) in _CHOICES.items():
        if choice != "again" or call.may_run:
            yield QuestionOption(label=label, description=description)
    yield QuestionOption(label=_NOT_NOW, description="/continue asks again; a new prompt skips it")


def _result_of_unrepeated(call: InterruptedCall, choice: CallChoice | None) -> ToolResultMessage:
    is_done = choice == "done"
    return confirmed_result(call.call) if is_done else unfinished_result(call.call, call.state)


def _decision(call: InterruptedCall, choice: CallChoice) -> CallDecision:
    result = _result_of_unrepeated(call, choice)
    answer = LoopToolResult(
        content=result.content, details=result.details, is_error=result.is_error
    )
    is_again = choice == "again" and call.may_run
    return CallDecision(tool_call_id=call.call.id, allow=is_again, answer=answer)


VERSION = 1
_MOST_BYTES = 32 * 1024 * 1024
_TITLE_LENGTH = 80
# Records that continue a conversation. Choices and notices don't, so viewing a session is free.
_MOVING_TYPES = frozenset({"message", "tool_started", "context", "branch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The state of a run that waits for a decision."""

    session_id: str
    """The id of the session."""
    project: str = ""
    """The name of the project's session folder."""
    cwd: str = ""
    """The folder in which the session began."""
    journal_seq: int = 0
    """The last record of the session when this was written."""
    turn: int = 0
    """How many turns the session had."""
    usage: Usage = Usage()
    """The tokens of the session."""
    calls: tuple[Mapping[str, Any], ...]
    """The calls of the last answer, with `id, name, args, title` each."""
    awaiting: str
    """The id of the call to decide; later calls follow in later continuations."""
    completed: tuple[str, ...] = ()
    """The ids of the calls that have a result, in order."""
    description: str = ""
    """The run's description of the decision."""

    @property
    def call(self) -> Mapping[str, Any]:
        """The call to decide."""
        return next(call for call in self.calls if call["id"] == self.awaiting)

    def as_json(self) -> Json:
        lists = {"calls": [dict(call) for call in self.calls], "completed": list(self.completed)}
        return {"v": VERSION, **asdict(self), **lists, "usage": usage_counts(self.usage)}


def title_of_call(call: ToolCallBlock) -> str:
    """The call on one line of at most 80 characters, as `bash: make test`."""
    texts = _texts(call.arguments)
    # The command with its working folder, else the first text that isn't empty.
    command = without_leading_comments(texts.get("command", ""))
    text = command or next(iter(texts.values()), "")
    is_elsewhere = "command" in texts and "workdir" in texts
    return _title(call.name, f"({texts['workdir']}) {text}" if is_elsewhere else text)


def _title(name: str, text: str) -> str:
    line = f"{name}: {' '.join(text.split())}" if text else name
    return truncate(line, _TITLE_LENGTH)


def _texts(arguments: Any) -> Mapping[str, str]:
    """The arguments that are texts and not empty, in order."""
    named = arguments if isinstance(arguments, Mapping) else {"": arguments}
    return {name: each for name, each in named.items() if isinstance(each, str) and each.strip()}


def continuation_at(messages: Sequence[Message], **facts: Any) -> Continuation | None:
    """The continuation of the last answer with further fields `facts`; None if no call waits."""
    from_end = iter(messages[::-1])
    last = next(from_end, None)
    completed: list[str] = []
    while isinstance(last, ToolResultMessage):
        completed.insert(0, last.tool_call_id)
        last = next(from_end, None)
    asked = last.calls if isinstance(last, AssistantMessage) else ()
    waiting = [call.id for call in asked if call.id not in completed]
    if not waiting:
        return None
    calls = tuple(
        {"id": c.id, "name": c.name, "args": c.arguments, "title": title_of_call(c)} for c in asked
    )
    facts = {"session_id": "", **facts}
    return Continuation(calls=calls, awaiting=waiting[0], completed=tuple(completed), **facts)


def continuation_of(records: Sequence[Record], *, session_id: str, project: str) -> Continuation:
    """The continuation of a session. Raises SessionError: it waits for no decision."""
    loaded = replay(records)
    found = continuation_at(loaded.messages) if loaded.open_calls else None
    if found is None:
        raise SessionError(
            f"Session {session_id} has no call that waits for a decision.",
            hint=f"`dirge --session {session_id}` continues it.",
        )
    deferred = [record.data for record in records if record.type == "deferred"]
    return replace(
        found,
        session_id=session_id,
        project=project,
        cwd=loaded.description.cwd,
        journal_seq=records[-1].seq,
        turn=loaded.turns,
        usage=loaded.usage,
        description=str(deferred[-1].get("description", "")) if deferred else "",
    )


def save_continuation(continuation: Mapping[str, Any], folder: Path) -> Path:
    """Write it to a new private file in `folder`; returns the path. Raises SessionError."""
    name = f"{continuation['session_id']}-{secrets.token_hex(4)}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(folder / name, json_text(dict(continuation)).encode() + b"\n", mode=0o600)
    except (OSError, FileError) as error:
        raise SessionError(
            f"Cannot write the continuation to {str(folder)!r}: {error}.",
            hint="Make the state folder writable, or set DIRGE_STATE_DIR.",
        ) from error
    return folder / name


def load_continuation(path: Path) -> Continuation:
    """The continuation in a file. Raises SessionError: unreadable, or another version."""
    shown = f"The continuation {str(path)!r}"
    hint = "Name the file that the paused run gave as `continuation`."
    try:
        content = _read_file(path)
    except (OSError, SessionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SessionError(f"{shown} cannot be read: {why}.", hint=hint) from error
    try:
        return parse_continuation(json.loads(content, object_pairs_hook=_without_doubles))
    except (ValueError, RecursionError) as error:
        why = f"it is cut off, or not a continuation ({error})"
        raise SessionError(f"{shown} cannot be used: {why}.", hint=hint) from error


def parse_continuation(value: Any) -> Continuation:
    """Parse a continuation. Raises ValueError, or SessionError if another version wrote it."""
    if not isinstance(value, Mapping) or type(value.get("v")) is not int:
        raise ValueError("it has no version")
    if value["v"] != VERSION:
        raise SessionError(
            f"The continuation has the format {value['v']}; this dirge reads {VERSION}.",
            hint="Resume it with the dirge that wrote it, or update this one.",
        )
    members = _members(value, _MEMBERS)
    calls = [{**_members(call, _CALL_MEMBERS), "args": call.get("args")} for call in value["calls"]]
    if members["awaiting"] not in [call["id"] for call in calls]:
        raise ValueError(f"the call {members['awaiting']!r} is not among its calls")
    check_session_id(members["session_id"])
    members |= {"calls": tuple(calls), "completed": tuple(map(str, members["completed"]))}
    continuation = Continuation(usage=decode_usage(value.get("usage")), **members)
    # The program in which the user decides could show unknown content, so refuse it.
    if continuation.as_json() != value:
        raise ValueError("it has content that dirge did not write")
    return continuation


def check_call(continuation: Continuation, tool_call_id: str) -> None:
    """Raise SessionError unless this is the call that waits."""
    if tool_call_id != continuation.awaiting:
        raise SessionError(
            f"The continuation waits for a decision about {continuation.awaiting!r}, "
            f"not about {tool_call_id!r}.",
            hint="Nothing was run. Decide the call that waits, or leave --tool-call-id out.",
        )


def check_continuation(continuation: Continuation, records: Sequence[Record]) -> None:
    """Raise SessionError unless the session still stands where the continuation left it."""
    name = continuation.session_id
    since = [r for r in records if r.seq > continuation.journal_seq and r.type in _MOVING_TYPES]
    # Later calls may have the same id, because some services restart ids in every answer.
    at_once = takewhile(lambda record: not is_said(record), since)
    if any(_is_about(record, continuation.awaiting) for record in at_once):
        raise SessionError(
            f"The continuation was used already: {continuation.call['title']!r} has been decided.",
            hint=f"`dirge --session {name}` continues the session.",
        )
    if since:
        raise SessionError(
            f"The continuation is stale: session {name} has continued without it.",
            hint="Nothing was run. If another call waits now, it has its own file.",
        )
    if not _fits(continuation, records):
        raise SessionError(
            f"The continuation does not fit session {name}: it was changed, or its calls are not "
            "those that wait.",
            hint="Nothing was run. Use the file as it was written.",
        )


def _fits(continuation: Continuation, records: Sequence[Record]) -> bool:
    """Whether it equals the journal word for word, because users may decide by any part of it."""
    known = [record for record in records if record.seq <= continuation.journal_seq]
    try:
        expected = continuation_of(
            known, session_id=continuation.session_id, project=continuation.project
        )
    except SessionError:
        return False
    # Earlier versions named a call by its first text.
    titles = (_title(c["name"], next(iter(_texts(c["args"]).values()), "")) for c in expected.calls)
    calls = [{**call, "title": title} for call, title in zip(expected.calls, titles, strict=True)]
    return continuation == expected or (
        _waits_since_an_earlier_version(known, expected.awaiting)
        and continuation == replace(expected, calls=tuple(calls))
    )


def _waits_since_an_earlier_version(records: Sequence[Record], call_id: str) -> bool:
    """Whether an earlier version deferred the call, which didn't record what it would run."""
    return not any(
        record.type == "decision"
        and isinstance(record.data, Mapping)
        and (record.data.get("call_id"), record.data.get("effect")) == (call_id, "defer")
        and "files" in record.data
        for record in records
    )


def _without_doubles(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate names in a JSON object, because parsers differ in which one they use."""
    if len(dict(members)) < len(members):
        raise ValueError("it has a duplicate key")
    return dict(members)


def _is_about(record: Record, call_id: str) -> bool:
    """Whether the record says that the call ran, or was answered after a decision."""
    match record.type, record.data:
        case "tool_started", {"call_id": str(started)}:
            return started == call_id
        case "message", {"role": "toolResult", "tool_call_id": str(answered), **rest}:
            synthetic = text_member(rest.get("details"), "synthetic")
            return answered == call_id and synthetic != "undecided"
        case _:
            return False


def _read_file(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise SessionError("it is not a regular file")
        if status.st_uid != os.geteuid():
            raise SessionError("it belongs to another user")
        if status.st_size > _MOST_BYTES:
            raise SessionError("it is larger than 32 MiB")
        return file.read()


_MEMBERS: Mapping[str, type] = {
    **dict.fromkeys(("session_id", "project", "cwd", "description", "awaiting"), str),
    "journal_seq": int,
    "turn": int,
    "calls": list,
    "completed": list,
}
_CALL_MEMBERS = dict.fromkeys(("id", "name", "title"), str)


def _members(value: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The members of these types. Raises ValueError: one is missing, or has another type."""
    for name, kind in kinds.items():
        if not isinstance(value, Mapping) or type(value.get(name)) is not kind:
            raise ValueError(f"its {name!r} is missing or wrong")
    return {name: value[name] for name in kinds}
