"""Where a Messages request is cached: at most four places, each behind what stays as it is.

A later request finds the longest marked beginning that it shares, but looks back no further than
some twenty blocks from each of its own marks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Blocks = list[dict[str, Any]]
MOST = 4


def mark(
    *, tools: Blocks, system: Blocks, messages: Sequence[Blocks], cache_ttl: str | None
) -> None:
    """Mark the last tool, every part of the system prompt, and user messages from the last one on.

    `messages` are the contents of the user messages up to the last that the next request will hold
    as well. Of them as many are marked as there are marks left: the one before the last lies where
    the last request was marked, however much the turn added.
    """
    kept = {"type": "ephemeral"} if cache_ttl in {None, "5m"} else _kept(cache_ttl)
    for _, block in zip(range(MOST), _behind(tools, system, messages), strict=False):
        block["cache_control"] = kept


def _kept(cache_ttl: str | None) -> dict[str, Any]:
    return {"type": "ephemeral", "ttl": cache_ttl}


def _behind(tools: Blocks, system: Blocks, messages: Sequence[Blocks]) -> Iterator[dict[str, Any]]:
    yield from tools[-1:]
    yield from system
    for content in reversed(messages[-2:]):
        yield from content[-1:]
