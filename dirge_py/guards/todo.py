"""Sends a run back that leaves items of its own todo list open."""

from collections.abc import Callable, Sequence

from dirge_py.guards.gate import excerpt, gate, nudge
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import Message

SHOWN_ITEMS = 5
ITEM_CHARS = 120


def todo(open_items: Callable[[], Sequence[str]], most: int = 3) -> Bundle:
    """A gate that speaks while `open_items` names any."""

    def ask(_info: TurnInfo) -> Sequence[Message]:
        items = open_items()
        if not items:
            return ()
        shown = [f"- {excerpt(item, ITEM_CHARS)}" for item in items[:SHOWN_ITEMS]]
        if len(items) > SHOWN_ITEMS:
            shown.append(f"- and {len(items) - SHOWN_ITEMS} more")
        count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
        advice = (
            "Go on with the next one. Mark what is done, and take off what is no longer needed. "
            "If you cannot go on, say what is missing."
        )
        return nudge("\n".join([f"{count} still open on your todo list:", *shown, advice]))

    return gate("todo", ask, most=most)
