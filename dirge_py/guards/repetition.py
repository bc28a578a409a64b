"""The storm breaker: stops repeated calls without progress in three steps: reflect, pivot, end."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dirge_py.agent_loop.tool_calls import signature
from dirge_py.guards.tool_hooks import claims_of
from dirge_py.lib.text import truncate
from dirge_py.types.hooks import Hooks, StopRun, ToolOverride, TurnInfo
from dirge_py.types.messages import TYPED_ORIGINS, TextBlock, UserMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import LoopToolResult, ToolCall

POLLERS = frozenset({"bash_output", "task_status", "task_output"})
"""Tools that are called repeatedly by design; others say so with a true `polls`."""

_AFTER_TIMEOUT = 2
_SHOWN_CHARS = 120
_LONGEST_SIGNATURE = 400
_LONGEST_NORMALIZED = 64 * 1024
_UNSTABLE = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]"  # colours and cursor movements
    r"|\b0x[0-9a-fA-F]{6,16}\b"  # addresses
    r"|\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns)\b"  # how long something took
    r"|\b\d+\.\d+\s?s(?:ec(?:onds?)?)?\b"
)

_PIVOT = """\
Not run: you made the same call before, and what it gives has not changed. Stop and think first:
1. State the goal, and why this approach does not reach it.
2. Question one assumption behind it, using results you already have.
3. Name two or three fundamentally different approaches, and choose one.
4. Continue with that one; if it cannot be done at all, say so plainly.
Approaches abandoned in this run, not to be tried again:
"""
_PARTIAL = (
    "Not run: the same call was made {before} before, and what it gives has not changed. "
    "Use the earlier result, or take a different step."
)
_CLOSING = (
    "I kept repeating {tools} without learning anything new, so I stopped rather than continue in "
    "circles. Could you give me a hint: what should I try instead, or what am I missing?"
)

Kind = Literal["edit", "execute", "other"]


class StormBreaker:
    """Watches the last `window` calls; answers the `threshold`-th repetition instead of running it.

    Calls are equal if name and arguments are, as the model wrote them, whether or not they could
    run. Only repetition *without progress* counts: a different result forgets the earlier equal
    calls, a successful edit every other call, a compaction or a user message everything. A new
    command that succeeds may have been an edit, too: it forgets all calls except those that timed
    out. After a timeout, the second equal call is answered. Cycles of a few calls are answered in
    their `threshold`-th round.

    When every call of a turn is answered, the model is asked to change its approach; when that
    happens again before it edits something or rests, the run ends with a message to the user.

    `exempt` are tools that may repeat, besides those that poll; `mutating` those that change
    something, besides tools that claim to edit or execute.
    Raises ValueError if `threshold` is below 2, or `window` below `threshold`.
    """

    def __init__(
        self,
        window: int = 6,
        threshold: int = 3,
        *,
        exempt: Iterable[str] = (),
        mutating: Iterable[str] = (),
        enabled: bool = True,
    ) -> None:
        if not 2 <= threshold <= window:
            raise ValueError("`threshold` must be at least 2 and at most `window`.")
        self.window = window
        self.threshold = threshold
        self.compactions = 0
        self._exempt = POLLERS.union(exempt)
        self._mutating = frozenset(mutating)
        self._is_enabled = enabled

    def bundle(self) -> Hooks:
        """Return the hooks of one run, which remember only that run."""
        if not self._is_enabled:
            return Hooks(name="storm")
        watch = _Watch(self)
        before, after = watch.before_call, watch.after_call
        return Hooks(name="storm", before_tool_call=before, after_tool_call=after)

    def note_compaction(self) -> None:
        """Forget all calls: the model may no longer have their results."""
        self.compactions += 1

    def is_exempt(self, call: ToolCall) -> bool:
        """Whether a call may repeat."""
        polls = bool(getattr(call.tool, "polls", False))
        return polls or not call.name or call.name in self._exempt

    def kind_of(self, call: ToolCall) -> Kind:
        """Return what a call would do, by its own claims; an unknown one counts as nothing."""
        if call.name in self._mutating:
            return "edit"
        operations = {claim.op for claim in claims_of(call)} if call.problem is None else set()
        if "edit" in operations:
            return "edit"
        return "execute" if "execute" in operations else "other"


@dataclass(slots=True, eq=False)
class _Passed:
    """A call that was allowed to run."""

    call_id: str
    turn: int
    signature: str
    kind: Kind
    is_new: bool = True
    """Whether no equal call was made recently."""
    digest: str | None = None
    """The digest of its result; None until it has one."""


class _Memory:
    """The relevant calls since the agent last stopped."""

    def __init__(self, breaker: StormBreaker) -> None:
        self._breaker = breaker
        self._window: list[_Passed] = []
        self._trail: list[_Passed] = []
        self.awaited: dict[str, _Passed] = {}
        self._timed_out: set[str] = set()
        self.has_pivoted = False

    def forget(self) -> None:
        self._window.clear()
        self._trail.clear()
        self._timed_out.clear()

    def judge(self, passing: _Passed) -> int:
        """Return 0 and remember the call if it may run; else its number among equal calls."""
        known = sum(entry.signature == passing.signature for entry in self._window)
        threshold = self._breaker.threshold
        is_slow = passing.signature in self._timed_out
        allowed = min(threshold, _AFTER_TIMEOUT) if is_slow else threshold
        repetition = known + 1 if known + 1 >= allowed else 0
        if not repetition and self._comes_round(passing.signature):
            repetition = threshold
        passing.is_new = all(entry.signature != passing.signature for entry in self._trail)
        # Answered calls count, too: a cycle shows in the model's requests, not in what runs.
        longest = threshold * max(self._breaker.window // 2, 2)
        self._trail = [*self._trail, passing][-longest:]
        if not repetition:
            self.awaited[passing.call_id] = passing
            if passing.kind != "other":
                self._window = [entry for entry in self._window if entry.kind != "other"]
            self._window = [*self._window, passing][-self._breaker.window :]
        return repetition

    def on_result(self, call_id: str, result: LoopToolResult) -> None:
        """Record a call's result: a new one makes repetitions worthwhile again."""
        entry = self.awaited.pop(call_id, None)
        if entry is None:
            return
        entry.digest = result_digest(result)
        outcome = result.details.get("outcome", "ok")
        self._timed_out.discard(entry.signature)
        if outcome == "timeout":
            self._timed_out.add(entry.signature)
        self._window = [item for item in self._window if not _is_outdated(item, entry)]
        if outcome != "ok" or result.is_error:
            return
        if entry.kind == "edit":
            self._timed_out &= {entry.signature}
            self.has_pivoted = False
            self._forget_before(entry)
        elif entry.kind == "execute" and entry.is_new:
            self._forget_before(entry)

    def _forget_before(self, edit: _Passed) -> None:
        """Forget the calls before an edit; those that timed out stay until a file has changed."""
        place = self._window.index(edit) if edit in self._window else len(self._window)
        lasting = {edit.signature, *self._timed_out}
        older, newer = self._window[:place], self._window[place:]
        self._window = [*(item for item in older if item.signature in lasting), *newer]

    def _comes_round(self, latest: str) -> bool:
        """Whether `latest` completes the threshold-th round of a cycle in which nothing changed."""
        signatures = [*(entry.signature for entry in self._trail), latest]
        digests = [*(entry.digest for entry in self._trail), None]
        for period in range(2, max(self._breaker.window // 2, 2) + 1):
            start = len(signatures) - period * self._breaker.threshold
            if start < 0 or len(set(signatures[start:])) == 1:
                continue
            if all(
                signatures[n] == signatures[n + period]
                and (digests[n] == digests[n + period] or None in (digests[n], digests[n + period]))
                for n in range(start, len(signatures) - period)
            ):
                return True
        return False


class _Watch:
    """Watches one run."""

    def __init__(self, breaker: StormBreaker) -> None:
        self._breaker = breaker
        self._seen_compactions = breaker.compactions
        self._memory = _Memory(breaker)
        self._abandoned: dict[str, None] = {}
        self._outer_turn = 0
        self._seen_messages = 0
        self._turn = 0
        self._repeated: dict[str, tuple[int, str]] = {}
        """The count and the signature of each call of the batch that is answered, by its id."""

    def before_call(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        if self._turn != info.turn:
            self._turn = info.turn
            self._judge_batch(info)
        if call.id not in self._repeated:
            return None
        count, full_signature = self._repeated[call.id]
        storm = {"count": count, "signature": short_signature(full_signature)}
        details = {"outcome": "suppressed", "synthetic": "suppressed", "storm": storm}
        if len(self._repeated) < len(info.calls):
            before = {1: "once", 2: "twice"}.get(count - 1, f"{count - 1} times")
            text = _PARTIAL.format(before=before)
            return ToolOverride(text, is_error=True, details=details)
        abandoned = "\n".join(f"- {approach}" for approach in self._abandoned)
        return ToolOverride(_PIVOT + abandoned, is_error=False, details=details)

    def after_call(self, info: TurnInfo, call: ToolCall, result: LoopToolResult) -> None:
        self._memory.on_result(call.id, result)

    def _judge_batch(self, info: TurnInfo) -> None:
        """Judge the whole batch in order, before any of it runs."""
        self._forget_outdated(info)
        self._memory.awaited.clear()  # earlier calls without a result will never get one
        self._repeated = {}
        for call in info.calls:
            if self._breaker.is_exempt(call):
                continue
            # Compared as the model wrote them.
            arguments = call.arguments if call.written is None else call.written
            full_signature = signature(call.name, arguments)
            kind = self._breaker.kind_of(call)
            count = self._memory.judge(_Passed(call.id, info.turn, full_signature, kind))
            if count:
                self._repeated[call.id] = (count, full_signature)
                shown = truncate(full_signature.partition("\0")[2], _SHOWN_CHARS)
                self._abandoned.setdefault(f"{call.name}({shown})")
        if len(self._repeated) == len(info.calls):
            if self._memory.has_pivoted:
                names = list(dict.fromkeys(f"`{each.name}`" for each in info.calls))
                tools = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
                closing = _CLOSING.format(tools=tools)
                raise StopRun(Done(stopped_by="storm"), say=closing, finalize=True)
            self._memory.has_pivoted = True

    def _forget_outdated(self, info: TurnInfo) -> None:
        since = info.new_messages[self._seen_messages :]
        self._seen_messages = len(info.new_messages)
        # Steering by the user may have changed what calls return, or ask for it again.
        origins = {message.origin for message in since if isinstance(message, UserMessage)}
        is_steered = not origins.isdisjoint(TYPED_ORIGINS)
        if self._outer_turn != info.outer_turn or is_steered:
            self._outer_turn = info.outer_turn
            self._memory = _Memory(self._breaker)
        if self._seen_compactions != self._breaker.compactions:
            self._seen_compactions = self._breaker.compactions
            self._memory.forget()


def _is_outdated(item: _Passed, latest: _Passed) -> bool:
    """Whether the same call had another result before; one that still runs has none yet."""
    if item is latest or item.signature != latest.signature or item.digest == latest.digest:
        return False
    return item.digest is not None or item.turn != latest.turn


def short_signature(full_signature: str) -> str:
    """Return a signature in the form that results store: long arguments as their SHA-256."""
    if len(full_signature) <= _LONGEST_SIGNATURE:
        return full_signature
    name, _, arguments = full_signature.partition("\0")
    return f"{name}\0sha256:{hashlib.sha256(arguments.encode()).hexdigest()}"


def result_digest(result: LoopToolResult) -> str:
    """Return a hash of a result's text that ignores colours, addresses, durations and the like."""
    text = result.text
    if len(text) <= _LONGEST_NORMALIZED:
        text = _UNSTABLE.sub("", text)
    lines = [line.rstrip() for line in text.splitlines()]
    assets = [block.asset_id for block in result.content if not isinstance(block, TextBlock)]
    parts = [result.is_error, result.details.get("outcome"), lines, assets]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]
