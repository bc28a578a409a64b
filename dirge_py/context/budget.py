"""How much of the results of one batch is shown, and where the rest is to be found."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dirge_py.lib.cut import cut_middle, fair_shares
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ResultBlock,
    TextBlock,
    ToolResultMessage,
)

BUDGET_CHARS = 80_000

Relay: TypeAlias = Callable[[str, str], str]
"""Keeps the whole text of a call's result and returns the path at which it can be read.

The same call and text give the same path, also in another process. Raises OSError or DirgeError.
"""

_TAIL = 0.2
_MARKER_CHARS = 200


class ResultBudget:
    """Cuts the results of each batch so that together they have at most `chars` characters.

    Small results stay whole and leave their room to the large ones. What a batch is cut to depends
    on that batch alone, so it stays the same from request to request.
    """

    def __init__(self, chars: int = BUDGET_CHARS, *, relay: Relay | None = None) -> None:
        self._chars = chars
        self._relay = relay
        self._seen: list[Message] = []
        self._cut: list[Message] = []
        self._is_changed = False

    def apply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, as many as before; the same object when nothing had to be cut."""
        known = len(self._seen)
        if list(messages[:known]) != self._seen:
            self._forget()
            known = 0
        batch: list[int] = []
        for position in range(known, len(messages)):
            message = messages[position]
            if isinstance(message, AssistantMessage):
                self._settle(messages, batch, position)
                batch = []
            elif isinstance(message, ToolResultMessage):
                batch.append(position)
        open_batch = list(messages[len(self._seen) :])
        is_cut = self._cut_batch(open_batch, [at - len(self._seen) for at in batch])
        if not is_cut and not self._is_changed:
            return messages
        return (*self._cut, *open_batch)

    def _settle(self, messages: Sequence[Message], batch: list[int], end: int) -> None:
        """Remember what came of the messages before `end`: their batch is complete."""
        begin = len(self._seen)
        settled = list(messages[begin:end])
        self._seen += settled
        self._is_changed |= self._cut_batch(settled, [at - begin for at in batch])
        self._cut += settled

    def _forget(self) -> None:
        self._seen, self._cut, self._is_changed = [], [], False

    def _cut_batch(self, messages: list[Message], batch: Sequence[int]) -> bool:
        """Cut the results at these positions, in place; False if they may stay."""
        results = [
            message for at in batch if isinstance(message := messages[at], ToolResultMessage)
        ]
        sizes = [_chars(result) for result in results]
        if sum(sizes) <= self._chars:
            return False
        for at, result, share in zip(batch, results, fair_shares(sizes, self._chars), strict=True):
            messages[at] = self._shortened(result, share)
        return True

    def _shortened(self, result: ToolResultMessage, share: int) -> ToolResultMessage:
        total = _chars(result)
        if total <= share + _MARKER_CHARS:
            return result
        marker = f"\n[truncated — {total} chars total{self._where(result)}]\n"
        sizes = [len(block.text) if isinstance(block, TextBlock) else 0 for block in result.content]
        content: list[ResultBlock] = []
        for block, room in zip(result.content, fair_shares(sizes, share), strict=True):
            if isinstance(block, TextBlock) and len(block.text) > room:
                text = cut_middle(block.text, room + len(marker), marker, tail=_TAIL)
                block = TextBlock(text if len(text) < len(block.text) else block.text[:room])
            content.append(block)
        return replace(result, content=tuple(content))

    def _where(self, result: ToolResultMessage) -> str:
        if self._relay is None:
            return "; ask for less at once"
        try:
            path = self._relay(result.tool_call_id, result.text)
        except Exception:
            # A full disk costs the rest of the text, not the run.
            return "; the rest could not be kept: ask for less at once"
        return f"; all of it is in {path}: `read` it with offset and limit, or `grep` it"


def _chars(result: ToolResultMessage) -> int:
    return sum(len(block.text) for block in result.content if isinstance(block, TextBlock))
