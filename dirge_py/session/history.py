"""What a journal says when it is read from end to end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import reduce
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.interruption import Interruption
from dirge_py.session.record import Record
from dirge_py.session.spending import Spending
from dirge_py.session.transcript import Healing, Transcript, read_transcript
from dirge_py.session.tree import branch
from dirge_py.types.messages import Message, ToolCallBlock, Usage, UserMessage

_DECISIONS = 200
_TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session as it stands.

    `messages` are those of the current branch, healed; `record_ids` names the record of each, ""
    for an answer that no record holds as a message yet: it was made up just now (`healed`) or kept
    when its call finished (`reused`). `open_calls` wait for a decision, or belong to the
    `interruption`: what the last run left when it was killed, None if it came to an end.
    `compactions` are about `messages`, oldest first, as they were given to `note_compaction`;
    `decisions` are the newest of those given to `note_decision`.
    Everything else is of the whole session: usage and cost of abandoned branches were paid for too.
    `cost_usd` is None as soon as one part is unknown. `created` and `updated` are ISO 8601 or "".
    """

    messages: tuple[Message, ...] = ()
    record_ids: tuple[str, ...] = ()
    open_calls: tuple[ToolCallBlock, ...] = ()
    healed: tuple[Healing, ...] = ()
    reused: tuple[Healing, ...] = ()
    interruption: Interruption | None = None
    compactions: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    thinking: str = ""
    mode: str = ""
    grants: tuple[str, ...] = ()
    decisions: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    turns: int = 0
    title: str = ""
    cwd: str = ""
    created: str = ""
    updated: str = ""
    forked_from: str = ""
    notices: tuple[str, ...] = ()


def replay(records: Sequence[Record], *, notices: Iterable[str] = ()) -> Loaded:
    """The session told by `records`. A notice that was recorded is not given again."""
    header = _newest(records, "session")
    copied_to = _text(header, "forked_at") or None
    transcript = read_transcript(branch(records), copied_to=copied_to)
    choices = _choices(records)
    spending = reduce(Spending.after, records, Spending())
    told = {record.data.get("content") for record in _of_type(records, "notice")}
    return Loaded(
        messages=transcript.messages,
        record_ids=transcript.record_ids,
        open_calls=transcript.open_calls,
        healed=transcript.healed,
        reused=transcript.reused,
        interruption=transcript.interruption,
        compactions=transcript.compactions,
        **choices,
        usage=spending.whole_usage,
        cost_usd=spending.whole_cost_usd,
        turns=spending.turns,
        title=_text(_newest(records, "title"), "title") or _first_title(transcript.messages),
        cwd=_text(header, "cwd"),
        created=_text(header, "created"),
        updated=records[-1].ts if records else "",
        forked_from=_text(header, "forked_from"),
        notices=tuple(n for n in (*notices, *_remarks(transcript)) if n not in told),
    )


def title_of(message: UserMessage) -> str:
    """A prompt on one line of at most 80 characters."""
    return in_a_title(message.text)


def in_a_title(text: str) -> str:
    """The same for any text."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"


def _first_title(messages: Iterable[Message]) -> str:
    prompts = (m for m in messages if isinstance(m, UserMessage) and m.origin == "user")
    return next(map(title_of, prompts), "")


def _choices(records: Sequence[Record]) -> dict[str, Any]:
    model = _newest(records, "model")
    grants: dict[str, None] = {}
    for record in _of_type(records, "grant"):
        rule = _text(record.data, "rule")
        if record.data.get("action") == "added":
            grants[rule] = None
        else:
            grants.pop(rule, None)
    settings = {
        _text(record.data, "name"): record.data.get("value")
        for record in _of_type(records, "setting")
    }
    return {
        "model": _text(model, "model"),
        "thinking": _text(model, "thinking"),
        "mode": _text(_newest(records, "mode"), "mode"),
        "grants": tuple(grants),
        "decisions": tuple(record.data for record in _of_type(records, "decision")[-_DECISIONS:]),
        "settings": settings,
    }


def _remarks(transcript: Transcript) -> Iterable[str]:
    if transcript.healed:
        names = ", ".join(sorted({healing.result.tool_name for healing in transcript.healed}))
        yield (
            f"{len(transcript.healed)} interrupted tool call(s) ({names}) were closed as not "
            "finished; nothing is run again."
        )
    if transcript.surplus_results:
        yield f"{transcript.surplus_results} tool result(s) without a call were left out."
    if transcript.unreadable:
        yield f"{transcript.unreadable} message(s) of an unknown kind were left out."


def _of_type(records: Iterable[Record], type_name: str) -> list[Record]:
    return [r for r in records if r.type == type_name and isinstance(r.data, dict)]


def _newest(records: Sequence[Record], type_name: str) -> Mapping[str, Any]:
    for record in reversed(records):
        if record.type == type_name and isinstance(record.data, dict):
            return record.data
    return {}


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
