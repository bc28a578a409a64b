"""The requests of a session, one by one: which model was asked what for, and what it cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record
from dirge_py.types.events import OF_TURNS, UsageReported
from dirge_py.types.messages import Usage

MAIN = "main"
SUMMARY = "summarize"
ASIDE = "asked on the side"

_FORGOTTEN_AFTER_S = 300.0
"""Most services keep the beginning of a request for about so long after it was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One answered request. `role` is what the model was asked as; `MAIN` answers the turns.

    `is_turn`: the answer is part of the conversation. `run` counts the prompts before it, from 0.
    `cost_usd` is None where the price is unknown. `since` says what changed in the request since
    the turn before, where the two were compared (`is_compared`), else what happened that changes
    it; and what may have had it forgotten.
    """

    model: str
    usage: Usage
    cost_usd: float | None
    role: str = MAIN
    is_turn: bool = True
    run: int = 0
    since: tuple[str, ...] = ()
    is_compared: bool = False

    @property
    def cached_share(self) -> float:
        """The share of the input that came from the service's cache, 0 to 1."""
        return self.usage.cache_read / self.usage.input if self.usage.input else 0.0


def requests_of(
    records: Sequence[Record], reported: Sequence[UsageReported] = ()
) -> Sequence[Asked]:
    """Those that the records tell of, oldest first; without records, those that were `reported`."""
    if records:
        return list(_recorded(records))
    return [
        Asked(
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


def _recorded(records: Iterable[Record]) -> Iterator[Asked]:
    """A `usage` record behind an answer repeats its tokens; any other is of a hidden request."""
    waiting: tuple[Usage, str] | None = None
    run = 0
    side: Asked | None = None
    since: list[str] = []
    last: tuple[str, str] | None = None
    for record in records:
        data = record.data if isinstance(record.data, dict) else {}
        if record.type == "usage":
            usage, model = decode_usage(data.get("usage")), _text(data, "model")
            cost = _price(data.get("cost_usd"))
            if side is not None:
                yield side
                side = None
            if waiting is not None and waiting[0] == usage:
                waiting = None
                yield Asked(
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
                side = Asked(
                    model=model, usage=usage, cost_usd=cost, role=role, is_turn=False, run=run
                )
        elif record.type == "message" and _is_prompt(data):
            run += 1
        elif record.type == "message" and _is_answer(data):
            if waiting is not None:
                yield Asked(model=waiting[1], usage=waiting[0], cost_usd=None, run=run)
            usage, model = decode_usage(data.get("usage")), _text(data, "model")
            waiting = (usage, model) if usage else None
            if waiting is None and data.get("content"):
                # It was answered, and nobody said with how many tokens.
                yield Asked(model=model, usage=usage, cost_usd=None, run=run)
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
        yield Asked(model=waiting[1], usage=waiting[0], cost_usd=None, run=run)


def _causes(
    since: Sequence[str], last: tuple[str, str] | None, model: str, record: Record
) -> tuple[str, ...]:
    if last is None:
        return ()
    found = list(dict.fromkeys(since))
    data = record.data if isinstance(record.data, dict) else {}
    if isinstance(data.get("changed"), list):
        found = _seen(data["changed"], found)
    if model != last[0] and not any(cause.startswith("another model") for cause in found):
        found.append("another model")
    waited_s = _seconds(last[1], record.ts)
    if waited_s > _FORGOTTEN_AFTER_S:
        found.append(f"{round(waited_s / 60)} min passed, and services forget")
    return tuple(found)


def _seen(changed: Sequence[Any], happened: Sequence[str]) -> list[str]:
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


def _price(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
