"""History as any service accepts it, put right before it is sent. Pure.

Whatever is done to a history (a crash, a hook, an import) it may miss results or hold too many.
Here every call gets its one result, right behind it. What is stored stays as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle, fair_shares
from dirge_py.types.messages import (
    UNFINISHED,
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    Message,
    ResultBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)

RESULT_CHARS = 40_000
"""The most text that one result is sent with."""

_NO_RESULT = (
    "No result of this call was recorded. It may have run in part or not at all; "
    "look before you repeat it."
)
_NEVER_RAN = "Not run: the answer that held this call was not finished. Call again if still needed."
_NEVER_RUN: frozenset[StopReason] = frozenset({"length", "error", "aborted"})

# One object each: who remembers what came of a message remembers these, too.
_BEGINNING = user_text("[The beginning is left out.]", origin="harness")
_GO_ON = user_text("[Go on.]", origin="harness")


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedHistory:
    """Messages that can be sent: `closed` results were made up, `dropped` ones left out."""

    messages: tuple[Message, ...]
    closed: int = 0
    dropped: int = 0


def normalize_history(
    messages: Sequence[Message], *, result_chars: int = RESULT_CHARS
) -> NormalizedHistory:
    """`messages` as a strict service takes them; the same tuple when nothing is wrong.

    * Every call has one result, behind its message, in the order of the calls. Missing ones are
      made up, those without a call and repeated ones are left out; what stood between follows.
    * Within a message every call has an id of its own.
    * Empty and withheld answers, empty input and what no model reads are left out.
    * An answer never comes first, nor right behind another one, unless that one was unfinished.
    * A result is at most `result_chars` long.
    """
    return HistoryNormalizer(result_chars=result_chars).heal(messages)


class HistoryNormalizer:
    """Normalizes a history that grows, with the result of `normalize_history`.

    What it has seen before costs next to nothing.
    """

    def __init__(self, *, result_chars: int = RESULT_CHARS) -> None:
        self._result_chars = result_chars
        self._turns: list[_Checked] = []
        self._seen: list[Message] = []
        self._healed: list[Message] = []

    def heal(self, messages: Sequence[Message]) -> NormalizedHistory:
        """As the function `normalize_history`."""
        given = messages if isinstance(messages, tuple) else tuple(messages)
        self._forget_changed(given)
        start = self._turns[-1].seen if self._turns else 0
        for turn in _turns(given, start):
            self._take(turn)
        healed = tuple(self._healed)
        last = self._turns[-1] if self._turns else _NOTHING
        self._drop_open_turn()
        return NormalizedHistory(
            messages=healed if last.is_changed else given,
            closed=last.closed,
            dropped=last.dropped,
        )

    def _forget_changed(self, given: Sequence[Message]) -> None:
        """Keep the whole turns with which `given` begins."""
        known = len(self._seen)
        # One comparison in C: messages that are the same object are not looked into.
        if list(given[:known]) == self._seen:
            return
        same = 0
        for old, new in zip(self._seen, given, strict=False):
            if old is not new and old != new:
                break
            same += 1
        while self._turns and self._turns[-1].seen > same:
            self._turns.pop()
        self._trim()

    def _take(self, turn: Sequence[Message]) -> None:
        before = self._turns[-1] if self._turns else _NOTHING
        healed = _normalized_turn(turn, self._result_chars)
        messages = [*_opening(self._healed, healed.messages), *healed.messages]
        is_same = len(messages) == len(turn) and all(map(_is, messages, turn))
        self._seen += turn
        self._healed += messages
        self._turns.append(
            _Checked(
                seen=len(self._seen),
                healed=len(self._healed),
                closed=before.closed + healed.closed,
                dropped=before.dropped + healed.dropped,
                is_changed=before.is_changed or not is_same,
            )
        )

    def _drop_open_turn(self) -> None:
        """Forget the last turn: its results may still be coming in."""
        if self._turns:
            self._turns.pop()
            self._trim()

    def _trim(self) -> None:
        last = self._turns[-1] if self._turns else _NOTHING
        del self._seen[last.seen :], self._healed[last.healed :]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """Sums up to the end of one turn: messages seen, messages made of them, what was mended."""

    seen: int = 0
    healed: int = 0
    closed: int = 0
    dropped: int = 0
    is_changed: bool = False


_NOTHING = _Checked()


def _is(one: Message, other: Message) -> bool:
    return one is other


def _turns(messages: Sequence[Message], start: int) -> Iterator[Sequence[Message]]:
    """The messages from `start` on: each answer that is sent, with all up to the next one."""
    begin = start
    for position in range(start, len(messages)):
        message = messages[position]
        if position > begin and isinstance(message, AssistantMessage) and _is_sent(message):
            yield messages[begin:position]
            begin = position
    if begin < len(messages):
        yield messages[begin:]


def _opening(before: Sequence[Message], turn: Sequence[Message]) -> Sequence[Message]:
    """What has to come before the answer that begins this turn."""
    if not turn or not isinstance(turn[0], AssistantMessage):
        return ()
    if not before:
        return (_BEGINNING,)
    last = before[-1]
    if isinstance(last, AssistantMessage) and last.stop_reason not in UNFINISHED:
        return (_GO_ON,)
    return ()


def _normalized_turn(turn: Sequence[Message], result_chars: int) -> NormalizedHistory:
    first = turn[0]
    sent: list[Message] = []
    closed = 0
    results: dict[str, list[ToolResultMessage]] = {}
    for message in turn:
        if isinstance(message, ToolResultMessage):
            results.setdefault(message.tool_call_id, []).append(message)
    if isinstance(first, AssistantMessage) and _is_sent(first):
        renamed = _with_own_ids(first)
        sent.append(renamed)
        for call, asked in zip(renamed.calls, first.calls, strict=True):
            found = results.get(asked.id)
            if found:
                sent.append(_capped(_under(call.id, found.pop(0)), result_chars))
            else:
                closed += 1
                sent.append(_made_up(call, first.stop_reason))
    sent += (message for message in turn if not isinstance(message, _PAIRED) and _is_sent(message))
    withheld = {
        call.id
        for message in turn
        if isinstance(message, AssistantMessage) and message.withheld
        for call in message.calls
    }
    dropped = sum(len(left) for call_id, left in results.items() if call_id not in withheld)
    return NormalizedHistory(messages=tuple(sent), closed=closed, dropped=dropped)


_PAIRED = (AssistantMessage, ToolResultMessage)


def _is_sent(message: Message) -> bool:
    if isinstance(message, CustomMessage):
        return False
    if isinstance(message, AssistantMessage):
        return not message.withheld and any(map(_says_something, message.content))
    if isinstance(message, ToolResultMessage):
        return True
    return any(not isinstance(block, TextBlock) or block.text.strip() for block in message.content)


def _says_something(block: AssistantBlock) -> bool:
    """Whether an answer of this block alone can be sent. Thinking alone is refused."""
    if isinstance(block, TextBlock):
        return bool(block.text.strip())
    if isinstance(block, CompactionBlock):
        return bool(block.data)
    return not isinstance(block, ThinkingBlock)


def _with_own_ids(message: AssistantMessage) -> AssistantMessage:
    ids = [call.id for call in message.calls]
    if all(ids) and len(set(ids)) == len(ids):
        return message
    taken: set[str] = set(ids)
    used: set[str] = set()
    content: list[AssistantBlock] = []
    for block in message.content:
        if isinstance(block, ToolCallBlock):
            if not block.id or block.id in used:
                block = replace(block, id=_free_id(block.id or "call", taken))
            taken.add(block.id)
            used.add(block.id)
        content.append(block)
    return replace(message, content=tuple(content))


def _free_id(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _under(call_id: str, result: ToolResultMessage) -> ToolResultMessage:
    return result if result.tool_call_id == call_id else replace(result, tool_call_id=call_id)


def _made_up(call: ToolCallBlock, stop_reason: StopReason) -> ToolResultMessage:
    never_ran = stop_reason in _NEVER_RUN
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(_NEVER_RAN if never_ran else _NO_RESULT),),
        details={"outcome": "suppressed" if never_ran else "aborted", "synthetic": "missing"},
        is_error=True,
    )


def _capped(result: ToolResultMessage, most: int) -> ToolResultMessage:
    sizes = [len(block.text) if isinstance(block, TextBlock) else 0 for block in result.content]
    total = sum(sizes)
    if total <= most:
        return result
    marker = f"\n[… cut: this result has {total} characters; ask for less at once …]\n"
    shares = fair_shares(sizes, most)
    content: list[ResultBlock] = [
        TextBlock(cut_middle(block.text, share, marker)) if isinstance(block, TextBlock) else block
        for block, share in zip(result.content, shares, strict=True)
    ]
    return replace(result, content=tuple(content))
