"""History as a strict service accepts it: every tool call has one result, directly after it.

A crash, a hook, an import or another program may leave calls without a result, results without a
call, repeated ids or empty messages. `normalize_history` repairs that in what is sent; what is
stored stays as it is. With a `WireFormat` it also writes ids, names and blocks as the services'
formats require. Reading a journal needs more than messages, because a journal knows how far each
call came (`session/transcript.py`); it shares `synthetic_result`.
"""

import hashlib
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, takewhile
from typing import Generic, TypeVar

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle, fair_shares
from dirge_py.types.messages import (
    UNFINISHED,
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    cut_texts,
    text_sizes,
    user_text,
)
from dirge_py.types.tools import ToolOutcome

RESULT_CHARS = 40_000
"""The most characters of a result that are sent."""

NO_RESULT = (
    "No result of this call was recorded. It may have run in part or not at all; "
    "look before you repeat it."
)
_NEVER_RAN = "Not run: the answer that held this call was not finished. Call again if still needed."
_NEVER_RUN: frozenset[StopReason] = frozenset({"length", "error", "aborted"})

# One object each, as results are remembered by the identity of messages.
_BEGINNING = user_text("[The beginning is left out.]", origin="harness")
_GO_ON = user_text("[Go on.]", origin="harness")

_WIRE_ID = late_pattern(r"[A-Za-z0-9_-]{1,40}")
_WIRE_NAME = late_pattern(r"[A-Za-z0-9_-]{1,64}")
_NO_NAME = late_pattern(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """What a service's format requires besides a result for each call."""

    unsigned_thinking: bool = False
    """Whether thinking without a signature is sent back."""
    call_id_chars: int | None = None
    """Length of every call id, letters and digits only; None: 1 to 40, `_` and `-` too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedHistory:
    """Messages that can be sent, and how much had to be repaired."""

    messages: tuple[Message, ...]
    closed: int = 0
    """Results that were generated."""
    dropped: int = 0
    """Results without a call; with `wire`, the first of each id is sent as text."""


def normalize_history(
    messages: Sequence[Message],
    *,
    result_chars: int | None = RESULT_CHARS,
    wire: WireFormat | None = None,
) -> NormalizedHistory:
    """Return `messages` as a strict service accepts them; the same tuple if nothing is wrong.

    * Every call has one result, after its message, in the order of the calls. Missing results are
      generated; repeated ones and those without a call are left out; other messages follow.
    * Within a message every call has its own id.
    * Empty and withheld answers, empty input and messages that models don't read are left out.
    * An answer never comes first, nor directly after another one, unless that is unfinished.
    * A result is at most `result_chars` long; None: of any length.

    With `wire` they are also written as a service reads them, and the order of answers is left to
    its adapter:

    * Every call id is used once in the whole history. Ids and names have only characters that all
      services accept: a model may have used a whole command as a tool's name.
    * Blocks a service refuses are left out of answers: empty text, thinking it can't check.
    * System messages become user messages at their place: in the system prompt they would change
      the cached prefix.
    * A result without its call becomes a user message, for a caller that sends part of a history.
    """
    return HistoryNormalizer(result_chars=result_chars, wire=wire).normalize(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NormalizedTurn:
    """Totals up to the end of one turn."""

    seen: int = 0
    """Messages received."""
    sent: int = 0
    """Messages produced from them."""
    closed: int = 0
    dropped: int = 0
    is_changed: bool = False
    """Whether the produced messages differ from the received ones."""
    new_ids: tuple[str, ...] = ()
    """The call ids that are used first in this turn."""


_NOTHING = _NormalizedTurn()


Made = TypeVar("Made")


class GrowingHistory(Generic[Made]):
    """The part of a growing history that was handled before, and what was made of it."""

    def __init__(self) -> None:
        self.seen: list[Message] = []
        self.made: list[Made] = []

    def new(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages after the handled ones; all, if those are not the same any more."""
        # One comparison in C: messages that are the same object are not looked into.
        if list(messages[: len(self.seen)]) != self.seen:
            self.seen, self.made = [], []
        return messages[len(self.seen) :]

    def add(self, seen: Sequence[Message], made: Iterable[Made]) -> None:
        """Note what was made of the next messages."""
        self.seen += seen
        self.made += made


class HistoryNormalizer:
    """Normalizes a growing history as `normalize_history` does; known messages cost nothing."""

    def __init__(
        self, *, result_chars: int | None = RESULT_CHARS, wire: WireFormat | None = None
    ) -> None:
        self._result_chars = result_chars
        self._wire = wire
        chars = wire.call_id_chars if wire is not None else None
        self._wire_id = _WIRE_ID if chars is None else re.compile(f"[A-Za-z0-9]{{{chars}}}")
        self._used_ids: set[str] = set()
        self._new_ids: list[str] = []
        """The ids that the turn at hand added to them."""
        self._turns = [_NOTHING]
        self._seen: list[Message] = []
        self._normalized: list[Message] = []

    def normalize(self, messages: Sequence[Message]) -> NormalizedHistory:
        """Return `messages` normalized, like `normalize_history`."""
        given = messages if isinstance(messages, tuple) else tuple(messages)
        self._forget_changed(given)
        for turn in self._split(given, self._turns[-1].seen):
            self._add_turn(turn)
        normalized, last = tuple(self._normalized), self._turns[-1]
        if last is not _NOTHING:
            # The results of the last turn may still be coming in.
            self._forget_last()
            self._trim()
        return NormalizedHistory(
            messages=normalized if last.is_changed else given,
            closed=last.closed,
            dropped=last.dropped,
        )

    def _forget_changed(self, given: Sequence[Message]) -> None:
        """Keep the complete turns with which `given` begins."""
        known = len(self._seen)
        # One comparison in C: messages that are the same object are not looked into.
        if list(given[:known]) != self._seen:
            pairs = zip(self._seen, given, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            while self._turns[-1].seen > same:
                self._forget_last()
        if 0 < (known := self._turns[-1].seen) < len(given):
            first = given[self._turns[-2].seen]
            if not self._begins_turn(given[known], first):
                # Messages were removed, and others follow in the turn before them.
                self._forget_last()
        self._trim()

    def _forget_last(self) -> None:
        self._used_ids.difference_update(self._turns.pop().new_ids)

    def _add_turn(self, turn: Sequence[Message]) -> None:
        before = self._turns[-1]
        self._new_ids = []
        sent, closed, dropped = self._sent(turn)
        self._seen += turn
        self._normalized += sent
        is_same = len(sent) == len(turn) and all(map(operator.is_, sent, turn))
        self._turns.append(
            _NormalizedTurn(
                seen=len(self._seen),
                sent=len(self._normalized),
                closed=before.closed + closed,
                dropped=before.dropped + dropped,
                is_changed=before.is_changed or not is_same,
                new_ids=tuple(self._new_ids),
            )
        )

    def _trim(self) -> None:
        last = self._turns[-1]
        del self._seen[last.seen :], self._normalized[last.sent :]

    def _split(self, messages: Sequence[Message], start: int) -> Iterator[Sequence[Message]]:
        """Yield the turns from `start` on.

        An answer that isn't sent begins a turn, too, because it came before the results after it.
        Results after a withheld answer belong to its turn and are withheld, too.
        """
        begin = start
        for position in range(start + 1, len(messages)):
            if self._begins_turn(messages[position], messages[begin]):
                yield messages[begin:position]
                begin = position
        if begin < len(messages):
            yield messages[begin:]

    def _begins_turn(self, message: Message, first: Message) -> bool:
        """Whether `message` begins a turn after the one that begins with `first`."""
        if not isinstance(message, AssistantMessage):
            return False
        is_withheld = isinstance(first, AssistantMessage) and bool(first.withheld)
        return not is_withheld or bool(self._content(message))

    def _sent(self, turn: Sequence[Message]) -> tuple[list[Message], int, int]:
        """Return the turn as it is sent, how many results were made, and how many dropped."""
        sent: list[Message] = []
        closed = 0
        results: dict[str, list[ToolResultMessage]] = {}
        for message in turn:
            if isinstance(message, ToolResultMessage):
                results.setdefault(message.tool_call_id, []).append(message)
        asked: list[str] = []
        answer = turn[0]
        if isinstance(answer, AssistantMessage) and (content := self._content(answer)):
            asked = [block.id for block in content if isinstance(block, ToolCallBlock)]
            content = self._spelled(content, asked)
            renamed = answer if content == answer.content else replace(answer, content=content)
            sent += [*self._opening(), renamed]
            for call, call_id in zip(renamed.calls, asked, strict=True):
                found = results.get(call_id)
                closed += not found
                sent.append(
                    self._result(call, found.pop(0))
                    if found
                    else _missing_result(call, answer.stop_reason)
                )
        answers = (m for m in turn if isinstance(m, AssistantMessage) and m.withheld)
        withheld = {call.id for message in answers for call in message.calls}
        stray = {call_id: left for call_id, left in results.items() if call_id not in withheld}
        quoted = {id(left[0]) for call_id, left in stray.items() if left and call_id not in asked}
        sent += filter(None, (self._other(message, quoted) for message in turn))
        return sent, closed, sum(map(len, stray.values()))

    def _content(self, answer: AssistantMessage) -> tuple[AssistantBlock, ...]:
        """Return the blocks of an answer that are sent; none if it is left out."""
        blocks = answer.content
        if self._wire is not None:
            blocks = tuple(filter(self._is_wire_block, blocks))
        is_sent = not answer.withheld and any(map(_says_something, blocks))
        return blocks if is_sent else ()

    def _is_wire_block(self, block: AssistantBlock) -> bool:
        if isinstance(block, ThinkingBlock):
            is_back = self._wire is not None and self._wire.unsigned_thinking
            return bool(block.signature or block.redacted or (is_back and block.text))
        if isinstance(block, ToolCallBlock):
            return bool(block.name)
        return _says_something(block)

    def _opening(self) -> Sequence[Message]:
        """Return the messages needed before an answer."""
        if self._wire is not None:
            return ()
        if not self._normalized:
            return (_BEGINNING,)
        last = self._normalized[-1]
        is_whole = isinstance(last, AssistantMessage) and last.stop_reason not in UNFINISHED
        return (_GO_ON,) if is_whole else ()

    def _spelled(
        self, content: tuple[AssistantBlock, ...], call_ids: Sequence[str]
    ) -> tuple[AssistantBlock, ...]:
        """Return `content` with ids and names of calls as they are sent."""
        if self._wire is None:
            # Stored messages refer to these ids, so only repeated ones change.
            if all(call_ids) and len(set(call_ids)) == len(call_ids):
                return content
            self._used_ids.clear()
        ids = iter(self._unique_ids(call_ids))
        return tuple(
            self._renamed(block, next(ids)) if isinstance(block, ToolCallBlock) else block
            for block in content
        )

    def _renamed(self, call: ToolCallBlock, call_id: str) -> ToolCallBlock:
        name = self._name(call.name)
        is_same = (call.id, call.name) == (call_id, name)
        return call if is_same else replace(call, id=call_id, name=name)

    def _unique_ids(self, call_ids: Sequence[str]) -> Iterator[str]:
        for call_id in call_ids:
            unique = self._id(call_id)
            if not unique or unique in self._used_ids:
                repeats = (self._id(f"{call_id or 'call'}_{number}") for number in count(2))
                taken = self._used_ids.union(call_ids)
                unique = next(name for name in repeats if name not in taken)
            self._used_ids.add(unique)
            self._new_ids.append(unique)
            yield unique

    def _id(self, call_id: str) -> str:
        if self._wire is None or self._wire_id.fullmatch(call_id):
            return call_id
        digest = hashlib.sha256(call_id.encode(errors="replace")).hexdigest()
        chars = self._wire.call_id_chars
        return f"call_{digest[:16]}" if chars is None else digest[:chars]

    def _name(self, name: str) -> str:
        if self._wire is None or _WIRE_NAME.fullmatch(name):
            return name
        return _NO_NAME.sub("_", name)[:64]

    def _result(self, call: ToolCallBlock, result: ToolResultMessage) -> ToolResultMessage:
        name = result.tool_name if self._wire is None else call.name
        if (result.tool_call_id, result.tool_name) != (call.id, name):
            result = replace(result, tool_call_id=call.id, tool_name=name)
        return result if self._result_chars is None else _capped(result, self._result_chars)

    def _other(self, message: Message, quoted: set[int]) -> Message | None:
        """Return the form in which any other message than an answer or a result is sent."""
        match message:
            case ToolResultMessage() if self._wire is not None and id(message) in quoted:
                return user_text(f"Result of {message.tool_name}:\n{message.text}", "harness")
            case SystemMessage() if self._wire is not None and message.text.strip():
                return user_text(message.text, "harness")
            case UserMessage() | SystemMessage():
                is_empty = not any(map(_says_something, message.content))
                return None if is_empty else message
            case _:
                return None


def _says_something(block: AssistantBlock | UserBlock) -> bool:
    """Whether a message of only this block can be sent; services refuse thinking alone."""
    if isinstance(block, TextBlock):
        return bool(block.text.strip())
    if isinstance(block, CompactionBlock):
        return bool(block.data)
    return not isinstance(block, ThinkingBlock)


def _missing_result(call: ToolCallBlock, stop_reason: StopReason) -> ToolResultMessage:
    if stop_reason in _NEVER_RUN:
        return synthetic_result(call, _NEVER_RAN, outcome="suppressed", synthetic="missing")
    return synthetic_result(call, NO_RESULT, outcome="aborted", synthetic="missing")


def synthetic_result(
    call: ToolCallBlock, text: str, *, outcome: ToolOutcome, synthetic: str
) -> ToolResultMessage:
    """Return a result that the tool itself did not return; `synthetic` says why."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(text),),
        details={"outcome": outcome, "synthetic": synthetic},
        is_error=outcome != "ok",
    )


def _capped(result: ToolResultMessage, most: int) -> ToolResultMessage:
    sizes = text_sizes(result)
    total = sum(sizes)
    if total <= most:
        return result
    marker = f"\n[… cut: this result has {total} characters; ask for less at once …]\n"
    return cut_texts(
        result, fair_shares(sizes, most), lambda text, share: cut_middle(text, share, marker)
    )
