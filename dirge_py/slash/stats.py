"""`/stats`: tokens and cost of the stored sessions by day, model and project."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from pathlib import PurePath

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.text import clean, format_usd, plural
from dirge_py.lib.text_width import align_columns
from dirge_py.session.ids import project_id
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.index.sources import DaySpending
from dirge_py.slash.base import FrontEnd, command
from dirge_py.slash.session import folder_of_state
from dirge_py.types.errors import UsageError

DAYS = 30
"""How many days are counted by default."""


@command(
    "stats",
    "show tokens and cost of all stored sessions, for the last DAYS (30)",
    usage="[DAYS]",
    headless=True,
)
async def stats(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if args and not (args.isdecimal() and 0 < int(args[:6]) < 100_000):
        raise UsageError(f"/stats cannot count {args!r} days.", hint="For example: /stats 7")
    days = int(args or DAYS)
    index = SessionIndex(folder_of_state(conversation), project_id(conversation.cwd))
    spent = await asyncio.to_thread(index.spending)
    front.show(format_spending(newest_days(spent, days), days))


def newest_days(spent: Iterable[DaySpending], days: int) -> list[DaySpending]:
    """What was spent today and on the `days` - 1 days before."""
    first = (date.today() - timedelta(days=min(days, 30_000) - 1)).isoformat()
    return [each for each in spent if each.day >= first]


def format_spending(spent: Sequence[DaySpending], days: int) -> str:
    """Tables by day, model and project, and the total."""
    when = f"the last {plural(days, 'day')}"
    if not spent:
        return f"No stored requests in {when}."
    rows: list[tuple[str, ...]] = [("", "requests", "input", "output", "cost")]
    tables = {
        "day": sorted(_groups(spent, lambda each: each.day), reverse=True),
        "model": _by_cost(_groups(spent, lambda each: each.model or "unknown model")),
        "project": _by_cost(_groups(spent, lambda each: PurePath(each.cwd).name or each.cwd)),
    }
    for title, groups in tables.items():
        rows += [(f"By {title}", "", "", "", ""), *(_row(f"  {n}", each) for n, each in groups)]
    rows.append(_row("Total", spent))
    lines = [f"Stored sessions, {when}", *align_columns(rows, right=range(1, 5))]
    if any(each.unpriced for each in spent):
        lines += ["", "A + or unknown means that the price of some requests is unknown."]
    return "\n".join(line.rstrip() for line in lines)


_Group = tuple[str, list[DaySpending]]


def _groups(spent: Iterable[DaySpending], name: Callable[[DaySpending], str]) -> list[_Group]:
    groups: dict[str, list[DaySpending]] = {}
    for each in spent:
        groups.setdefault(clean(name(each)), []).append(each)
    return list(groups.items())


def _by_cost(groups: Iterable[_Group]) -> list[_Group]:
    """The groups, the most expensive first, then the most used."""

    def cost(group: _Group) -> tuple[float, int]:
        return -sum(e.cost_usd for e in group[1]), -sum(e.input_tokens for e in group[1])

    return sorted(groups, key=cost)


def _row(name: str, spent: Sequence[DaySpending]) -> tuple[str, ...]:
    known = sum(each.cost_usd for each in spent)
    price = None if any(each.unpriced for each in spent) else known
    counts = (
        sum(each.requests for each in spent),
        sum(each.input_tokens for each in spent),
        sum(each.output_tokens for each in spent),
    )
    return (name, *(f"{count:,}" for count in counts), format_usd(price, known))
