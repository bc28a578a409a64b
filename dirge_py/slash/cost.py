"""`/cost` and `/cache`: the requests of a session, their price and their cached part."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import format_usd
from dirge_py.lib.text_width import cell_width
from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record
from dirge_py.slash.base import FrontEnd, settings_of
from dirge_py.types.events import OF_TURNS, UsageReported
from dirge_py.types.extensions import Command
from dirge_py.types.messages import Usage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


MAIN = "main"
SUMMARY = "summarize"
ASIDE = "asked on the side"
_FORGOTTEN_AFTER_S = 300.0
"""Most services keep the beginning of a request for about so long after it was used."""
_Row: TypeAlias = tuple[str, ...]
"""The cells of a table, a name first."""
_Line: TypeAlias = str | _Row
_MOST_REQUESTS = 20
_BROKEN_BELOW = 0.5
"""A request that had less than this share from the cache, after one that had more, broke it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredRequest:
    """One answered request."""

    model: str
    """The model that answered."""
    usage: Usage
    """The tokens of the request."""
    cost_usd: float | None
    """The price; None where it is unknown."""
    role: str = MAIN
    """What the model was asked as; `MAIN` answers the turns."""
    is_turn: bool = True
    """Whether the answer is part of the conversation."""
    run: int = 0
    """The number of prompts before it, from 0."""
    since: tuple[str, ...] = ()
    """What changed in the request since the turn before, or happened that changes it; and what
    may have had it forgotten.
    """
    is_compared: bool = False
    """Whether the request was compared with the one of the turn before."""

    @property
    def cached_share(self) -> float:
        """The share of the input that came from the service's cache, 0 to 1."""
        return self.usage.cache_read / self.usage.input if self.usage.input else 0.0


def requests_of(
    records: Sequence[Record], reported: Sequence[UsageReported] = ()
) -> Sequence[AnsweredRequest]:
    """Those that the records tell of, oldest first; without records, those that were `reported`."""
    if records:
        return list(_recorded_requests(records))
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


def _recorded_requests(records: Iterable[Record]) -> Iterator[AnsweredRequest]:
    """A `usage` record behind an answer repeats its tokens; any other is of a hidden request."""
    waiting: tuple[Usage, str] | None = None
    run = 0
    side: AnsweredRequest | None = None
    since: list[str] = []
    last: tuple[str, str] | None = None
    for record in records:
        data = record.data if isinstance(record.data, dict) else {}
        if record.type == "usage":
            usage, model = decode_usage(data.get("usage")), _text(data, "model")
            cost = _price_in(data.get("cost_usd"))
            if side is not None:
                yield side
                side = None
            if waiting is not None and waiting[0] == usage:
                waiting = None
                yield AnsweredRequest(
                    model=model,
                    usage=usage,
                    cost_usd=cost,
                    role=_text(data, "role") or MAIN,
                    run=run,
                    since=_causes(since, last, model, record),
                    is_compared=isinstance(data.get("changed"), list),
                )
                since, last = [], (model, record.ts)
            else:
                role = _text(data, "role") or ASIDE
                side = AnsweredRequest(
                    model=model, usage=usage, cost_usd=cost, role=role, is_turn=False, run=run
                )
        elif record.type == "message" and _is_prompt(data):
            run += 1
        elif record.type == "message" and _is_answer(data):
            if waiting is not None:
                yield AnsweredRequest(model=waiting[1], usage=waiting[0], cost_usd=None, run=run)
            usage, model = decode_usage(data.get("usage")), _text(data, "model")
            waiting = (usage, model) if usage else None
            if waiting is None and data.get("content"):
                # It was answered, and nobody said with how many tokens.
                yield AnsweredRequest(model=model, usage=usage, cost_usd=None, run=run)
        elif record.type == "compaction":
            since.append("old history was folded")
            if side is not None and side.role == ASIDE:
                side = replace(side, role=SUMMARY)
        elif record.type in ("branch", "move"):
            since.append("the conversation went to another point")
        elif record.type == "setting" and data.get("name") == "prompt":
            since.append("another prompt was chosen")
    if side is not None:
        yield side
    if waiting is not None:
        yield AnsweredRequest(model=waiting[1], usage=waiting[0], cost_usd=None, run=run)


def _causes(
    since: Sequence[str], last: tuple[str, str] | None, model: str, record: Record
) -> tuple[str, ...]:
    if last is None:
        return ()
    found = list(dict.fromkeys(since))
    data = record.data if isinstance(record.data, dict) else {}
    if isinstance(data.get("changed"), list):
        found = _changes_seen(data["changed"], found)
    if model != last[0] and not any(cause.startswith("another model") for cause in found):
        found.append("another model")
    waited_s = _seconds(last[1], record.ts)
    if waited_s > _FORGOTTEN_AFTER_S:
        found.append(f"{round(waited_s / 60)} min passed, and services forget")
    return tuple(found)


def _changes_seen(changed: Sequence[Any], happened: Sequence[str]) -> list[str]:
    """What was found to have changed, and of the messages, what had them change."""
    why = f" ({'; '.join(happened)})" if happened else ""
    return [f"{one}{why}" if "message" in str(one) else str(one) for one in changed]


def _seconds(before: str, after: str) -> float:
    try:
        return (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _is_answer(data: Mapping[str, Any]) -> bool:
    return data.get("role") == "assistant" and data.get("origin") != "harness"


def _is_prompt(data: Mapping[str, Any]) -> bool:
    return data.get("role") == "user" and data.get("origin", "user") == "user"


def _price_in(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


async def cost(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    asked = requests_of(conversation.timeline.records(), conversation.reported)
    lines: list[_Line] = ["No model was asked yet."]
    if asked:
        lines = [("", "requests", "input", "output", "cached", "cost"), *_by_model(asked)]
        lines.append(_row("together", asked, conversation.usage, conversation.cost_usd))
        lines += [*_latest(asked), *_by_role(asked)]
        if any(one.cost_usd is None for one in asked) and any(one.cost_usd for one in asked):
            lines += [
                "",
                "A + says that the cost of some requests is unknown.",
            ]
    lines += ["", f"Requests while idle: {conversation.idle_requests}", *_budgets(front)]
    front.show("\n".join(_aligned(lines)))


async def cache(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    asked = requests_of(conversation.timeline.records(), conversation.reported)
    turns = [one for one in asked if one.is_turn]
    if not turns:
        front.show("No model was asked yet.")
        return
    total = _sum(turns)
    share = total.cache_read / total.input if total.input else 0.0
    lines = [
        f"From the cache: {share:.0%} of {total.input:,} input tokens in {_count(turns)}",
        "",
        f"  {'request':>7}  {'input':>10}  {'cached':>10}",
    ]
    first = max(0, len(turns) - _MOST_REQUESTS)
    if first:
        lines.append(f"  {'…':>7}  {first} earlier ones")
    for number, one in enumerate(turns[first:], first + 1):
        before = turns[number - 2] if number > 1 else None
        usage = one.usage
        if not usage:
            lines.append(f"  {number:>7}  {'not told':>10}")
            continue
        row = (
            f"  {number:>7}  {usage.input:>10,}  {usage.cache_read:>10,}  {one.cached_share:>4.0%}"
        )
        lines.append(f"{row}  {_broken(one, before)}".rstrip())
    front.show("\n".join(lines))


def _broken(one: AnsweredRequest, before: AnsweredRequest | None) -> str:
    """What broke the cached beginning, where it was broken."""
    if before is None or one.cached_share >= _BROKEN_BELOW:
        return ""
    if before.cached_share <= one.cached_share and not one.since:
        return ""
    forgotten = "it began the same, and the service had forgotten it"
    return "; ".join(one.since) or (forgotten if one.is_compared else "unknown why")


def _by_model(asked: Sequence[AnsweredRequest]) -> list[_Line]:
    lines: list[_Line] = []
    for model in dict.fromkeys(one.model for one in asked):
        of_model = [one for one in asked if one.model == model]
        lines.append(_row(model or "unknown model", of_model, _sum(of_model), _price(of_model)))
    return lines


def _latest(asked: Sequence[AnsweredRequest]) -> list[_Line]:
    """What the last prompt cost, and the last turn, where they are not all there is."""
    last = asked[-1].run
    of_run = [one for one in asked if one.run == last]
    turns = [one for one in of_run if one.is_turn]
    lines = [("the last prompt", of_run)] if len(of_run) < len(asked) else []
    lines += [("its last turn", turns[-1:])] if 0 < len(turns) < len(of_run) else []
    told = [_row(name, some, _sum(some), _price(some)) for name, some in lines]
    return ["", *told] if told else []


def _by_role(asked: Sequence[AnsweredRequest]) -> list[_Line]:
    """Nothing where the main model made all of it."""
    roles = dict.fromkeys(one.role for one in asked)
    if list(roles) == [MAIN]:
        return []
    lines: list[_Line] = [
        "",
        "By role, with a * where the answers are no part of the conversation:",
    ]
    for role in roles:
        of_role = [one for one in asked if one.role == role]
        name = role if all(one.is_turn for one in of_role) else f"{role} *"
        lines.append(_row(name, of_role, _sum(of_role), _price(of_role)))
    return lines


def _row(name: str, asked: Sequence[AnsweredRequest], usage: Usage, price: float | None) -> _Row:
    counts = (len(asked), usage.input, usage.output, usage.cache_read)
    least = sum(one.cost_usd or 0.0 for one in asked)
    return (name, *(f"{count:,}" for count in counts), format_usd(price, least))


def _aligned(lines: Sequence[_Line]) -> list[str]:
    """The lines, rows of all tables in the same columns, which are no wider than they need be."""
    rows = [line for line in lines if not isinstance(line, str)] or [("",)]
    name_width, *widths = (max(map(cell_width, column)) for column in zip(*rows, strict=True))
    told = []
    for line in lines:
        if isinstance(line, str):
            told.append(line)
            continue
        name, *cells = line
        numbers = (f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        told.append("  " + name + " " * (name_width - cell_width(name)) + "".join(numbers))
    return told


def _budgets(front: FrontEnd) -> list[str]:
    """What ends a run, as far as this front end knows the settings."""
    settings = settings_of(front)
    if settings is None:
        return []
    limits = settings.limits.model_dump(exclude_none=True)
    told = [f"{name} {value:,}" for name, value in limits.items()]
    return [f"Limits of one run: {', '.join(told) or 'none ([limits])'}"]


def _sum(asked: Iterable[AnsweredRequest]) -> Usage:
    total = Usage()
    for one in asked:
        total += one.usage
    return total


def _price(asked: Sequence[AnsweredRequest]) -> float | None:
    prices = [one.cost_usd for one in asked if one.cost_usd is not None]
    return sum(prices) if len(prices) == len(asked) else None


def _count(asked: Sequence[AnsweredRequest]) -> str:
    return f"{len(asked)} request{'' if len(asked) == 1 else 's'}"


COMMANDS = (
    Command(
        name="cost",
        summary="requests, tokens and cost of this session, by model and by role",
        run=cost,
        aliases=("usage", "stats"),
        headless=True,
    ),
    Command(
        name="cache",
        summary="how much of each request came from the service's cache, and what broke it",
        run=cache,
        headless=True,
    ),
)
