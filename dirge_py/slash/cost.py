"""`/cost` and `/cache`: the requests of a session, their price and their cached part."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from typing import TypeAlias

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import format_usd, plural
from dirge_py.lib.text_width import align_columns
from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.events import OF_TURNS, UsageReported
from dirge_py.types.messages import Usage

MAIN = "main"
SUMMARY = "summarize"
ASIDE = "side questions"
_SOME_UNKNOWN = "A + means that the cost of some requests, such as interrupted ones, is unknown."
_UNKNOWN = 'The price is unknown. Set `price_in` and `price_out` under [models."ALIAS/MODEL"].'
_FORGOTTEN_AFTER_S = 300.0
"""How long most services cache the prefix of a request after its last use."""
_Row: TypeAlias = tuple[str, ...]
"""The cells of a table, a name first."""
_Line: TypeAlias = str | _Row
_REASONING = 4
"""The column of the reasoning tokens, which are part of the output."""
_MOST_REQUESTS = 20
_BROKEN_BELOW = 0.5
"""A request with a cached share below this, after one above it, broke the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRequest:
    """One answered request."""

    model: str
    """The model that answered."""
    usage: Usage
    """The tokens of the request."""
    cost_usd: float | None
    """The price; None if unknown."""
    role: str = MAIN
    """The role of the model; `MAIN` answers the turns."""
    is_turn: bool = True
    """Whether the answer is part of the conversation."""
    run: int = 0
    """The number of prompts before it, from 0."""
    since: tuple[str, ...] = ()
    """Why the cache may not cover it: what changed since the turn before, or that it expired."""
    is_compared: bool = False
    """Whether the request was compared with that of the turn before."""

    @property
    def cached_share(self) -> float:
        """The share of the input that came from the service's cache, 0 to 1."""
        return self.usage.cache_read / self.usage.input if self.usage.input else 0.0


def requests_of(
    records: Sequence[Record], reported: Sequence[UsageReported] = ()
) -> Sequence[AnsweredRequest]:
    """The requests in `records`, oldest first; without records, those that were `reported`."""
    if records:
        return _recorded_requests(records)
    return [
        AnsweredRequest(
            model=event.model,
            usage=event.usage,
            cost_usd=event.cost_usd,
            role=event.role or MAIN,
            is_turn=event.role in OF_TURNS,
            since=event.changed or (),
            is_compared=event.changed is not None,
        )
        for event in reported
    ]


def _recorded_requests(records: Iterable[Record]) -> list[AnsweredRequest]:
    """The requests, oldest first. A `usage` record without an answer is a hidden request."""
    requests: list[AnsweredRequest] = []
    unpriced: int | None = None  # The index of the last answer until its `usage` record follows.
    run = 0
    since: list[str] = []
    last: tuple[str, str] | None = None
    for record in records:
        data = record.data if isinstance(record.data, dict) else {}
        origin = data.get("origin", "user") if record.type == "message" else ""
        role, price = data.get("role"), data.get("cost_usd")
        request = AnsweredRequest(
            model=str(data.get("model") or ""),
            usage=decode_usage(data.get("usage")),
            cost_usd=float(price) if isinstance(price, int | float) else None,
            run=run,
        )
        if record.type == "usage":
            if unpriced is not None and requests[unpriced].usage == request.usage:
                requests[unpriced] = replace(
                    request,
                    role=role or MAIN,
                    since=_causes(since, last, request.model, record),
                    is_compared=isinstance(data.get("changed"), list),
                )
                unpriced, since, last = None, [], (request.model, record.ts)
            else:
                requests.append(replace(request, role=role or ASIDE, is_turn=False))
        elif origin == "user" and role == "user":
            run += 1
        elif origin not in ("", "harness") and role == "assistant":
            unpriced = len(requests) if request.usage else None
            if request.usage or data.get("content"):
                requests.append(request)
        elif record.type == "compaction":
            since.append("the context was compacted")
            if requests and requests[-1].role == ASIDE:
                requests[-1] = replace(requests[-1], role=SUMMARY)
        elif record.type in ("branch", "move"):
            since.append("the conversation was rewound")
        elif record.type == "setting" and data.get("name") == "prompt":
            since.append("you chose another prompt")
    return requests


def _causes(
    since: Sequence[str], last: tuple[str, str] | None, model: str, record: Record
) -> tuple[str, ...]:
    """The changes since the `last` turn (its model and time) that the records show."""
    if last is None:
        return ()
    causes = list(dict.fromkeys(since))
    changed = record.data.get("changed") if isinstance(record.data, dict) else None
    if isinstance(changed, list):
        why = f" ({'; '.join(causes)})" if causes else ""
        causes = [f"{name}{why}" if "message" in str(name) else str(name) for name in changed]
    if model != last[0] and not any(cause.startswith("another model") for cause in causes):
        causes.append("another model")
    with suppress(ValueError, TypeError):
        waited = datetime.fromisoformat(record.ts) - datetime.fromisoformat(last[1])
        if waited.total_seconds() > _FORGOTTEN_AFTER_S:
            passed = f"{waited.total_seconds() / 60:.0f} min passed"
            causes.append(f"{passed}: the cache may have expired")
    return tuple(causes)


@command(
    "cost",
    "show requests, tokens and cost of this session, by model and by role",
    aliases=("usage",),
    headless=True,
)
async def cost(args: str, conversation: Conversation, front: FrontEnd) -> None:
    requests = requests_of(conversation.timeline.records(), conversation.reported)
    lines: list[_Line] = ["No requests yet."]
    if requests:
        models = dict.fromkeys(request.model for request in requests)
        lines = [("", "requests", "input", "output", "reasoning", "cached", "cost")]
        lines += [
            _row(model or "unknown model", [r for r in requests if r.model == model])
            for model in models
        ]
        total = (conversation.usage, conversation.cost_usd)
        lines += [_row("total", requests, total), *_latest(requests), *_by_role(requests)]
        if any(r.cost_usd is None for r in requests):
            some = any(r.cost_usd for r in requests)
            lines += ["", _SOME_UNKNOWN if some else _UNKNOWN]
    lines += ["", f"Requests while idle: {conversation.idle_requests}"]
    limits = asdict(conversation.settings.limits.most)
    shown = ", ".join(f"{name} {most:,}" for name, most in limits.items() if most is not None)
    lines.append(f"Limits: {shown or 'none ([limits])'}")
    front.show("\n".join(_aligned(lines)))


@command(
    "cache",
    "show how much of each request came from the prompt cache, and what broke it",
    headless=True,
)
async def cache(args: str, conversation: Conversation, front: FrontEnd) -> None:
    requests = requests_of(conversation.timeline.records(), conversation.reported)
    turns = [request for request in requests if request.is_turn]
    if not turns:
        front.show("No requests yet.")
        return
    total = _sum(turns)
    share = total.cache_read / total.input if total.input else 0.0
    count = plural(len(turns), "request")
    lines = [
        f"From the cache: {share:.0%} of {total.input:,} input tokens in {count}",
        "",
        f"  {'request':>7}  {'input':>10}  {'cached':>10}",
    ]
    if first := max(0, len(turns) - _MOST_REQUESTS):
        lines.append(f"  {'…':>7}  {first} earlier requests")
    for number, turn in enumerate(turns[first:], first + 1):
        before = turns[number - 2] if number > 1 else None
        usage = turn.usage
        row = f"{usage.input:>10,}  {usage.cache_read:>10,}  {turn.cached_share:>4.0%}"
        row = f"{row}  {_break_cause(turn, before)}" if usage else f"{'unknown':>10}"
        lines.append(f"  {number:>7}  {row}".rstrip())
    front.show("\n".join(lines))


def _break_cause(turn: AnsweredRequest, before: AnsweredRequest | None) -> str:
    """Why less came from the cache than in the turn before; "" if it didn't."""
    if before is None or turn.cached_share >= _BROKEN_BELOW:
        return ""
    if before.cached_share <= turn.cached_share and not turn.since:
        return ""
    forgotten = "same beginning, but no longer in the service's cache"
    return "; ".join(turn.since) or (forgotten if turn.is_compared else "unknown cause")


def _latest(requests: Sequence[AnsweredRequest]) -> list[_Line]:
    """The rows of the last prompt and its last turn; none where they equal the total."""
    of_run = [request for request in requests if request.run == requests[-1].run]
    turns = [request for request in of_run if request.is_turn]
    rows: list[_Line] = []
    if len(of_run) < len(requests):
        rows.append(_row("the last prompt", of_run))
    if 0 < len(turns) < len(of_run):
        rows.append(_row("its last turn", turns[-1:]))
    return ["", *rows] if rows else []


def _by_role(requests: Sequence[AnsweredRequest]) -> list[_Line]:
    """A table by role; empty if the main model made every request."""
    roles = dict.fromkeys(request.role for request in requests)
    if list(roles) == [MAIN]:
        return []
    lines: list[_Line] = ["", "By role (* the answers are not part of the conversation):"]
    for role in roles:
        of_role = [request for request in requests if request.role == role]
        name = role if all(request.is_turn for request in of_role) else f"{role} *"
        lines.append(_row(name, of_role))
    return lines


def _row(
    name: str, requests: Sequence[AnsweredRequest], total: tuple[Usage, float | None] | None = None
) -> _Row:
    """A row about these requests; `total` replaces their summed usage and price."""
    prices = [request.cost_usd for request in requests if request.cost_usd is not None]
    is_known = len(prices) == len(requests)
    usage, price = total or (_sum(requests), sum(prices) if is_known else None)
    counts = (len(requests), usage.input, usage.output, usage.reasoning, usage.cache_read)
    return (name, *(f"{count:,}" for count in counts), format_usd(price, sum(prices)))


def _aligned(lines: Sequence[_Line]) -> list[str]:
    """The lines, with the rows of all tables in the same columns, as narrow as they can be."""
    rows = [line for line in lines if not isinstance(line, str)]
    if all(row[_REASONING] == "0" for row in rows[1:]):
        # Many services don't report it.
        rows = [row[:_REASONING] + row[_REASONING + 1 :] for row in rows]
    aligned = iter(align_columns(rows, right=range(1, 7)))
    return [line if isinstance(line, str) else f"  {next(aligned)}" for line in lines]


def _sum(requests: Iterable[AnsweredRequest]) -> Usage:
    return sum((request.usage for request in requests), Usage())
