"""Replays a journal from end to end: messages, choices, costs and plan phases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line
from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record, StoredRecord, text_member
from dirge_py.session.transcript import LoadedSession as LoadedSession
from dirge_py.session.transcript import SessionChoices as SessionChoices
from dirge_py.session.transcript import SessionDescription as SessionDescription
from dirge_py.session.transcript import read_transcript
from dirge_py.session.tree import branch
from dirge_py.types.events import EvidenceOutcome, EvidenceTaken, PhaseName, PlanPhase
from dirge_py.types.messages import UNFINISHED, Usage, UserMessage

_MAX_DECISIONS = 200
_TITLE_LENGTH = 80


def replay(records: Sequence[Record], *, notices: Iterable[str] = ()) -> LoadedSession:
    """The session that `records` describe. Already recorded notices are not repeated."""
    header = _newest(records, "session")
    copied_to = text_member(header, "forked_at") or None
    spending = SessionSpending()
    on_branch = {id(record) for record in branch(records)}

    def branch_in_order() -> Iterator[Record]:
        """Read each record once, also those of other branches, and keep the data of one."""
        nonlocal spending
        for record in records:
            spending = spending.after(record)
            if id(record) in on_branch:
                yield record
            if isinstance(record, StoredRecord):
                record.release()

    loaded = read_transcript(branch_in_order(), copied_to=copied_to)
    prompts = (m for m in loaded.messages if isinstance(m, UserMessage) and m.origin == "user")
    recorded = {record.data.get("content") for record in _of_type(records, "notice")}
    return replace(
        loaded,
        choices=_choices(records),
        grants=_grants(records),
        usage=spending.whole_usage,
        cost_usd=spending.whole_cost_usd,
        least_usd=spending.least_usd,
        turns=spending.turns,
        description=SessionDescription(
            title=text_member(_newest(records, "title"), "title")
            or next(map(title_of, prompts), ""),
            cwd=text_member(header, "cwd"),
            created=text_member(header, "created"),
            updated=records[-1].ts if records else "",
            forked_from=text_member(header, "forked_from"),
        ),
        notices=tuple(n for n in (*notices, *loaded.notices) if n not in recorded),
    )


def title_of(message: UserMessage) -> str:
    """A prompt on one line of at most 80 characters."""
    return shorten_title(message.text)


def shorten_title(text: str) -> str:
    """A text on one line of at most 80 characters."""
    return one_line(text, _TITLE_LENGTH)


def _choices(records: Sequence[Record]) -> SessionChoices:
    model = _newest(records, "model")
    settings = (record.data for record in _of_type(records, "setting"))
    return SessionChoices(
        model=text_member(model, "model"),
        thinking=text_member(model, "thinking"),
        mode=text_member(_newest(records, "mode"), "mode"),
        decisions=tuple(record.data for record in _of_type(records, "decision")[-_MAX_DECISIONS:]),
        settings={text_member(data, "name"): data.get("value") for data in settings},
    )


def _grants(records: Sequence[Record]) -> tuple[str, ...]:
    grants: dict[str, None] = {}
    for record in _of_type(records, "grant"):
        rule = text_member(record.data, "rule")
        if record.data.get("action") == "added":
            grants[rule] = None
        else:
            grants.pop(rule, None)
    return tuple(grants)


def _of_type(records: Iterable[Record], type_name: str) -> list[Record]:
    return [r for r in records if r.type == type_name and isinstance(r.data, dict)]


def _newest(records: Sequence[Record], type_name: str) -> Mapping[str, Any]:
    newest = (r.data for r in reversed(records) if r.type == type_name and isinstance(r.data, dict))
    return next(newest, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpending:
    """Tokens, cost and model turns of the records so far.

    The `usage` record after a message repeats its tokens and adds the price. After a crash between
    the two, the tokens are counted and the price stays unknown, as when the service reports no
    tokens. Other `usage` records belong to side requests, which cost money but are not turns.
    """

    usage: Usage = field(default_factory=Usage)
    """All tokens."""
    unpriced: Usage = field(default_factory=Usage)
    """The tokens of the last answer, until its price is recorded."""
    cost_usd: float | None = 0.0
    """The cost of all priced answers; None as soon as one price is unknown."""
    least_usd: float = 0.0
    """The sum of the known prices."""
    turns: int = 0
    """The number of model turns."""

    def after(self, record: Record) -> "SessionSpending":
        """The totals including `record`, the next in order. Never raises, even if it is damaged."""
        if record.type not in ("message", "usage") or not isinstance(record.data, dict):
            return self
        if record.type == "usage":
            return self._after_usage(record.data)
        is_answer = record.type == "message" and record.data.get("role") == "assistant"
        if is_answer and record.data.get("origin") != "harness":
            return self._after_answer(record.data)
        return self

    @property
    def whole_usage(self) -> Usage:
        return self.usage + self.unpriced

    @property
    def whole_cost_usd(self) -> float | None:
        """The cost; None if any part of it is unknown."""
        return None if self.unpriced else self.cost_usd

    def _after_answer(self, answer: Mapping[str, Any]) -> "SessionSpending":
        unpriced = decode_usage(answer.get("usage"))
        has_no_price = answer.get("content") and not unpriced
        # An answer that was cut off and requested again doesn't count as a turn.
        is_final = answer.get("stop_reason") not in (*UNFINISHED,)
        return SessionSpending(
            usage=self.whole_usage,
            unpriced=unpriced,
            cost_usd=None if has_no_price else self.whole_cost_usd,
            least_usd=self.least_usd,
            turns=self.turns + (is_final and answer.get("error_kind") != "context_length"),
        )

    def _after_usage(self, reported: Mapping[str, Any]) -> "SessionSpending":
        usage, price = decode_usage(reported.get("usage")), reported.get("cost_usd")
        return SessionSpending(
            usage=self.usage + usage,
            unpriced=Usage() if usage == self.unpriced else self.unpriced,
            cost_usd=self.cost_usd + price
            if self.cost_usd is not None and isinstance(price, int | float)
            else None,
            least_usd=self.least_usd + (price if isinstance(price, int | float) else 0.0),
            turns=self.turns,
        )


PlanRecordEvent: TypeAlias = PlanPhase | EvidenceTaken


def plan_events_in(records: Sequence[Record]) -> Sequence[tuple[int, PlanRecordEvent]]:
    """The plan events of the current branch, each with the number of messages before it.

    An implementation comes before its messages, although it is recorded when it ends, so that its
    heading is at its beginning. Damaged events are left out.
    """
    events: list[tuple[int, PlanRecordEvent]] = []
    messages = begins = 0
    for record in branch(records):
        data = record.data if isinstance(record.data, Mapping) else {}
        match record.type:
            case "message":
                messages += 1
            case "context":
                kept = data.get("messages")
                messages = begins = len(kept) if isinstance(kept, list) else 0
            case "phase" | "evidence":
                event = _decode_plan_event(record.type, data)
                if isinstance(event, PlanPhase):
                    events.append((begins if event.phase == "implement" else messages, event))
                    begins = messages
                elif event is not None and event.phase != "implement":
                    events.append((messages, event))
    return sorted(events, key=lambda event: event[0])


def _decode_plan_event(kind: str, data: Mapping[str, Any]) -> PlanRecordEvent | None:
    """The event of a record of this kind, `phase` or `evidence`; None if it is damaged."""
    name: Any = data.get("phase")
    outcome: Any = data.get("outcome")
    cost, code = data.get("cost_usd"), data.get("exit_code")
    if name not in get_args(PhaseName):
        return None
    step = max(1, _count(data, "step"))
    if kind == "phase":
        return PlanPhase(
            phase=name,
            step=step,
            state="ended",
            duration_ms=max(0, _count(data, "duration_ms")),
            usage=decode_usage(data.get("usage")),
            cost_usd=cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
            **{text: text_member(data, text) for text in ("summary", "text", "shut_in")},
        )
    if outcome not in get_args(EvidenceOutcome):
        return None
    return EvidenceTaken(
        phase=name,
        step=step,
        outcome=outcome,
        exit_code=code if isinstance(code, int) else None,
        **{text: text_member(data, text) for text in ("id", "command", "output_sha256", "tree")},
    )


def _count(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0
