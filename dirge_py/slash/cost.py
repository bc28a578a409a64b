"""`/cost` and `/cache`: what was asked of which model, what it cost, what came from a cache."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.messages import Usage
from dirge_py.slash.account import TURN, Asked, requests_of
from dirge_py.slash.base import FrontEnd, settings_of

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation

_MOST_REQUESTS = 20
_BROKEN_BELOW = 0.5
"""A request that had less than this share from the cache, after one that had more, broke it."""


async def cost(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    asked = requests_of(conversation.timeline.records(), conversation.messages)
    if not asked:
        lines = ["No model was asked yet."]
    else:
        lines = [_row("", "requests", "input", "output", "cached", "cost"), *_by_model(asked)]
        lines.append(_line("together", asked, conversation.usage, conversation.cost_usd))
        lines += _hidden(asked)
    lines += ["", f"Requests while idle: {conversation.idle_requests}", *_budgets(front)]
    front.show("\n".join(lines))


async def cache(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    asked = requests_of(conversation.timeline.records(), conversation.messages)
    turns = [one for one in asked if one.what == TURN]
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
        row = (
            f"  {number:>7}  {usage.input:>10,}  {usage.cache_read:>10,}  {one.cached_share:>4.0%}"
        )
        lines.append(f"{row}  {_broken(one, before)}".rstrip())
    front.show("\n".join(lines))


def _broken(one: Asked, before: Asked | None) -> str:
    """What broke the cached beginning, where it was broken."""
    if before is None or one.cached_share >= _BROKEN_BELOW:
        return ""
    if before.cached_share <= one.cached_share and not one.since:
        return ""
    return "; ".join(one.since) or "unknown why"


def _by_model(asked: Sequence[Asked]) -> list[str]:
    lines = []
    for model in dict.fromkeys(one.model for one in asked):
        of_model = [one for one in asked if one.model == model]
        lines.append(_line(model or "unknown model", of_model, _sum(of_model), _price(of_model)))
    return lines


def _hidden(asked: Sequence[Asked]) -> list[str]:
    hidden = [one for one in asked if one.what != TURN]
    if not hidden:
        return []
    lines = ["", "Of these hidden, as no part of the conversation:"]
    for what in dict.fromkeys(one.what for one in hidden):
        of_kind = [one for one in hidden if one.what == what]
        lines.append(_line(what, of_kind, _sum(of_kind), _price(of_kind)))
    return lines


def _line(name: str, asked: Sequence[Asked], usage: Usage, price: float | None) -> str:
    tokens = (f"{n:,}" for n in (usage.input, usage.output, usage.cache_read))
    return _row(name, str(len(asked)), *tokens, dollars(price))


def _row(*cells: str) -> str:
    name, requests, *rest = cells
    return f"  {name:<32} {requests:>8}" + "".join(f" {cell:>11}" for cell in rest)


def dollars(price: float | None) -> str:
    """A price for people."""
    return "unknown" if price is None else f"${price:.4f}"


def _budgets(front: FrontEnd) -> list[str]:
    """What ends a run, as far as this front end knows the settings."""
    settings = settings_of(front)
    if settings is None:
        return []
    limits = settings.limits.model_dump(exclude_none=True)
    told = [f"{name} {value:,}" for name, value in limits.items()]
    return [f"Limits of one run: {', '.join(told) or 'none ([limits])'}"]


def _sum(asked: Iterable[Asked]) -> Usage:
    total = Usage()
    for one in asked:
        total += one.usage
    return total


def _price(asked: Sequence[Asked]) -> float | None:
    prices = [one.cost_usd for one in asked if one.cost_usd is not None]
    return sum(prices) if len(prices) == len(asked) else None


def _count(asked: Sequence[Asked]) -> str:
    return f"{len(asked)} request{'' if len(asked) == 1 else 's'}"


COMMANDS = (
    Command(
        name="cost",
        summary="requests, tokens and cost of this session, by model; hidden requests, too",
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
