"""The storm breaker: notices runs without progress, asks for another approach, then ends them."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

from dirge_py.agent_loop.tool_calls import signature
from dirge_py.guards.reminders import FailureTracker
from dirge_py.guards.stop_checks import nudge
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import starts_program, with_single_spaces
from dirge_py.lib.text import truncate
from dirge_py.types.hooks import AfterToolCallResult, Hooks, StopRun, ToolOverride, TurnInfo
from dirge_py.types.messages import TYPED_ORIGINS, Message, TextBlock, UserMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import LoopToolResult, Operation, Proceed, ShellCommand, ToolCall

POLLERS = frozenset({"bash_output", "task_status", "task_output"})
"""Tools that are called repeatedly by design; others say so with a true `polls`."""
MOST_POLLS = 20
"""How often a call that waits for something may be made with the same result."""
SLOW_S = 2.0
"""A command or a call of another service that takes longer counts as one that waits."""

_REMOTE: frozenset[Operation] = frozenset({"network", "mcp", "plugin"})
_AFTER_TIMEOUT = 2
_MOST_TRUNCATED = 2
_MOST_STALLED = 3
_LONGEST_CYCLE = 6
_SHOWN_CHARS = 120
_LONGEST_SIGNATURE = 400
_LONGEST_NORMALIZED = 64 * 1024
_UNSTABLE = late_pattern(
    r"\x1b\[[0-9;?]*[A-Za-z]"  # colours and cursor movements
    r"|\b0x[0-9a-fA-F]{6,16}\b"  # addresses
    r"|\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns)\b"  # how long something took
    r"|\b\d+\.\d+\s?s(?:ec(?:onds?)?)?\b"
)
_POSITIONS = frozenset({"offset", "start", "start_line", "line_start", "page", "skip"})
"""Arguments that say from where on a part of something is asked for."""
_SIZES = frozenset({"limit", "end", "end_line", "line_end", "page_size", "max_lines"})

_PIVOT = """\
Not run: {reason}. Stop and think first:
1. State the goal, and why this approach does not reach it.
2. Question one assumption behind it, using results you already have.
3. Name two or three fundamentally different approaches, and choose one.
4. Continue with that one; if it cannot be done at all, say so plainly.
Approaches abandoned in this run, not to be tried again:
"""
_PARTIAL = "Not run: {reason}. Use the earlier result, or take a different step."
_SAME = "you made this call of `{name}` {before} before, and what it gives has not changed"
_PARTS = (
    "the last {count} calls of `{name}` asked for later parts and got the same, so there is "
    "nothing new further on"
)
_CYCLE = (
    "you repeat the same {count} calls in turn ({names}), and none of their results has changed"
)
_CLOSING = (
    "I kept repeating {tools} without learning anything new, so I stopped rather than continue in "
    "circles. My last call was {last}. Could you give me a hint: what should I try instead, or "
    "what am I missing?"
)
_CUT_OFF = (
    "{count} calls in a row ({tools}) arrived incomplete, most likely because each was longer than "
    "one answer may be, so I stopped rather than write it again. Could you ask me for a smaller "
    "part, or allow longer answers (`max_output_tokens`)?"
)
_POLLED = (
    "[The result was the same {count} times. If you wait for something, wait inside one "
    "command that ends when it has happened, such as "
    "`for i in $(seq 30); do CHECK && break; sleep 10; done` with a `timeout` that is long enough. "
    "If you do not, take a different step. After {most} equal results the call is no longer run.]"
)

Kind = Literal["edit", "execute", "remote", "other"]
"""What a call would do; `remote`: ask another service or a plugin."""


class StormBreaker:
    """Notices calls without progress among the last `window`, and ends a run that makes none.

    The `threshold`-th repetition of a call is answered instead of run. Calls are equal if name and
    arguments are, as the model wrote them, whether or not they could run; in commands, the spaces
    between words don't count. Only repetition *without progress* counts: a different result forgets
    the earlier equal calls, a new edit that succeeds every other call, a compaction or a user
    message everything. A new command that succeeds may have been an edit, too: it forgets all but
    those that timed out. After a timeout, the second equal call is answered. Cycles of up to 6
    calls are answered when their `threshold`-th round begins, and so are calls that ask for later
    and later parts of something and get the same. A call that sleeps, follows a `sleep`, or took
    longer than 2 s may have the same result 20 times; a hint in the result says how to wait.

    When every call of a turn is answered, the model is asked to change its approach; when that
    happens again before it edits something or rests, the run ends with a message to the user. It
    ends so, too, after three turns with repeated calls and without progress, after two turns in a
    row with truncated calls, and when a reminder about failures is due for the third time.

    `exempt` are tools that may repeat, besides those that poll; `mutating` those that change
    something, besides tools that claim to edit or execute. `failures` is how many failures in a
    row lead to a reminder, also if the rest is not `enabled`; 0: no reminders. `clock` returns
    seconds. Raises ValueError if `threshold` is below 2, or `window` below `threshold`.
    """

    def __init__(
        self,
        window: int = 6,
        threshold: int = 3,
        *,
        exempt: Iterable[str] = (),
        mutating: Iterable[str] = (),
        enabled: bool = True,
        failures: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 2 <= threshold <= window:
            raise ValueError("`threshold` must be at least 2 and at most `window`.")
        self.window = window
        self.threshold = threshold
        self.failures = failures
        self.compactions = 0
        self.durations_s: dict[str, float] = {}
        """How long calls took whose results were not recorded yet, by call id."""
        self._exempt = POLLERS.union(exempt)
        self._mutating = frozenset(mutating)
        self._is_enabled = enabled
        self._clock = clock

    def bundle(self) -> Hooks:
        """Return the hooks of one run, which remember only that run."""
        self.durations_s.clear()
        watch = _Watch(self)
        checkpoints = watch.due_checkpoints if self.failures else None
        if not self._is_enabled:
            return Hooks(name="storm", get_steering_messages=checkpoints)
        return Hooks(
            name="storm",
            before_tool_call=watch.before_call,
            after_tool_call=watch.after_call,
            should_stop_after_turn=watch.after_turn,
            get_steering_messages=checkpoints,
        )

    async def time_call(self, call: ToolCall, proceed: Proceed) -> LoopToolResult:
        """Run a call and note how long it took. An interceptor; without it only `sleep` waits."""
        began = self._clock()
        try:
            return await proceed()
        finally:
            self.durations_s[call.id] = self._clock() - began

    def note_compaction(self) -> None:
        """Forget all calls: the model may no longer have their results."""
        self.compactions += 1

    def is_exempt(self, call: ToolCall) -> bool:
        """Whether a call may repeat."""
        polls = bool(getattr(call.tool, "polls", False))
        return polls or not call.name or call.name in self._exempt

    def describe(self, call: ToolCall) -> "_MadeCall":
        """Return what is compared of a call. What it would do is unknown if it cannot run."""
        claims = (call.claims or ()) if call.problem is None else ()
        operations = {claim.op for claim in claims}
        kind: Kind = "other" if operations.isdisjoint(_REMOTE) else "remote"
        kind = "execute" if "execute" in operations else kind
        if "edit" in operations or call.name in self._mutating:
            kind = "edit"
        # Compared as the model wrote them.
        arguments = call.arguments if call.written is None else call.written
        resources = [claim.resource for claim in claims]
        commands = [each.text for each in resources if isinstance(each, ShellCommand)]
        family, position = "", 0.0
        if isinstance(arguments, Mapping):
            if commands and isinstance(written := arguments.get("command"), str):
                arguments = {**arguments, "command": with_single_spaces(written)}
            if kind in ("remote", "other"):
                family, position = _part_of(call.name, arguments)
        equal = signature(call.name, arguments)
        return _MadeCall(
            signature=equal,
            kind=kind,
            family=family or equal,
            position=position,
            sleeps=any(starts_program(command, "sleep") for command in commands),
        )


@dataclass(slots=True, eq=False, kw_only=True)
class _MadeCall:
    """A call that the model made, and what came of it."""

    signature: str
    kind: Kind
    family: str
    """The signature without the arguments that choose a part of the result."""
    position: float
    """Where the part begins."""
    sleeps: bool
    """Whether it is a command that starts `sleep`."""
    is_new: bool = True
    """Whether no equal call was made recently."""
    is_polling: bool = False
    """Whether it looks again at something after a `sleep`."""
    sleeps_before: int = 0
    """How many calls before it slept."""
    repeats: int = 0
    """Its number among equal calls, if it is answered instead of run."""
    reason: str = ""
    """Why it is answered; "" if it runs."""
    digest: str | None = None
    """The digest of its result; None until it has one."""
    has_failed: bool = False
    was_slow: bool = False
    """Whether it took long, maybe because something else had to happen first."""
    is_change: bool = False
    """Whether it succeeded, and may have changed something."""
    is_repeat: bool = False
    """Whether its result was known before."""

    @property
    def name(self) -> str:
        return self.signature.partition("\0")[0]


class _Watch:
    """Watches one run: which of its calls repeat, fail, or achieve something.

    A call makes progress if it succeeds and its result was not known before, or if it may have
    changed something.
    """

    def __init__(self, breaker: StormBreaker) -> None:
        self._breaker = breaker
        self._seen_compactions = breaker.compactions
        self._abandoned: dict[str, None] = {}
        self._outer_turn = self._seen_messages = self._turn = self._recorded_turn = 0
        self._truncated: list[str] = []
        """The tools of the batch's truncated calls."""
        self._batch: dict[str, _MadeCall] = {}
        """The calls of the batch that may not repeat, by id."""
        self._is_all_repeated = False
        self._begin()

    def _begin(self) -> None:
        """Forget everything, as after a message of the user."""
        self._sleeps = self._truncated_turns = self._stalled_turns = 0
        self._has_pivoted = self._has_changed = False
        self._failures = FailureTracker(self._breaker.failures)
        self._forget_calls()

    def _forget_calls(self) -> None:
        """Forget all calls, but not the failures in a row."""
        self._window: list[_MadeCall] = []
        self._trail: list[_MadeCall] = []
        self._timed_out: set[str] = set()
        self._results: set[int] = set()
        """The hashes of all families with the digests of their results."""

    def before_call(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        if self._turn != info.turn:
            self._turn = info.turn
            self._judge_batch(info)
        made = self._batch.get(call.id)
        if made is None or not made.reason:
            return None
        if self._is_excused(made):
            self._admit(made)
            return None
        storm = {"count": made.repeats, "signature": short_signature(made.signature)}
        details = {"outcome": "suppressed", "synthetic": "suppressed", "storm": storm}
        if not self._is_all_repeated:
            return ToolOverride(_PARTIAL.format(reason=made.reason), is_error=True, details=details)
        abandoned = "\n".join(f"- {approach}" for approach in self._abandoned)
        text = _PIVOT.format(reason=made.reason) + abandoned
        return ToolOverride(text, is_error=False, details=details)

    def after_call(
        self, _info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        """Record a call's result, and add a hint to it if it waits for something."""
        took_s = self._breaker.durations_s.pop(call.id, 0.0)
        made = self._batch.get(call.id)
        if made is None:
            return None
        outcome = result.details.get("outcome", "ok")
        made.digest = result_digest(result)
        made.has_failed = outcome != "ok" or result.is_error
        made.was_slow = took_s > SLOW_S and made.kind in ("execute", "remote")
        seen = hash((made.family, made.digest))
        made.is_repeat = seen in self._results
        self._results.add(seen)
        self._sleeps += made.sleeps
        self._timed_out.discard(made.signature)
        if outcome == "timeout":
            self._timed_out.add(made.signature)
        self._window = [each for each in self._window if not self._is_outdated(each, made)]
        is_new = made.is_new or (made.kind == "edit" and not made.is_repeat)
        if not made.has_failed and is_new and made.kind in ("edit", "execute"):
            self._on_change(made)
        count = sum(each.signature == made.signature for each in self._window)
        may_wait = made.is_polling or made.sleeps or made.was_slow
        if not may_wait or count != self._breaker.threshold:
            return None
        hint = TextBlock(_POLLED.format(count=count, most=MOST_POLLS))
        return AfterToolCallResult(content=(*result.content, hint))

    def after_turn(self, info: TurnInfo) -> bool:
        words = self._record_turn(info)
        if words and info.wants_more and not info.signal.interjected:
            raise StopRun(Done(stopped_by="storm"), say=words, finalize=True)
        return False

    def due_checkpoints(self, info: TurnInfo) -> Sequence[Message]:
        self._record_turn(info)
        # A run that is about to end is not continued for this; the reminder waits for the next.
        texts = self._failures.due_checkpoints() if info.wants_more else ()
        return [each for text in texts for each in nudge(text)]

    def _record_turn(self, info: TurnInfo) -> str:
        """Record a turn, if that was not done yet; return the closing words if it is the last."""
        if not info.tool_results or self._recorded_turn == info.turn:
            return ""
        self._recorded_turn = info.turn
        if self._turn != info.turn:
            self._batch, self._truncated = {}, []
        has_progress, repeated = False, []
        for result in info.tool_results:
            call = self._batch.get(result.tool_call_id)
            if call is None:
                has_progress |= self._failures.record(result)
            elif "storm" in result.details:
                repeated.append(call)
            elif not (call.is_polling and call.has_failed):
                has_progress |= self._failures.record(
                    result,
                    is_new=call.is_change or not call.is_repeat,
                    is_edit=call.kind == "edit",
                    is_change=call.is_change,
                )
        if self._truncated:
            self._truncated_turns += 1
            if self._truncated_turns >= _MOST_TRUNCATED:
                tools = _names(self._truncated)
                return _CUT_OFF.format(count=self._truncated_turns, tools=tools)
        elif has_progress:
            self._truncated_turns = 0
        self._stalled_turns = 0 if has_progress else self._stalled_turns + bool(repeated)
        if repeated and self._stalled_turns >= _MOST_STALLED:
            return _closing_words(repeated)
        return self._failures.closing_words()

    def _judge_batch(self, info: TurnInfo) -> None:
        """Judge the whole batch in order, before any of it runs."""
        self._forget_outdated(info)
        self._batch, self._has_changed = {}, False
        self._truncated = [call.name for call in info.calls if call.problem == "truncated"]
        for call in info.calls:
            if not self._breaker.is_exempt(call):
                self._batch[call.id] = made = self._breaker.describe(call)
                self._judge(made)
        repeated = [each for each in self._batch.values() if each.reason]
        self._abandoned |= dict.fromkeys(map(_shown, repeated))
        self._is_all_repeated = len(repeated) == len(info.calls)
        if self._is_all_repeated:
            if self._has_pivoted:
                words = _closing_words(repeated)
                raise StopRun(Done(stopped_by="storm"), say=words, finalize=True)
            self._has_pivoted = True

    def _forget_outdated(self, info: TurnInfo) -> None:
        since = info.new_messages[self._seen_messages :]
        self._seen_messages = len(info.new_messages)
        # Steering by the user may have changed what calls return, or ask for it again.
        origins = {message.origin for message in since if isinstance(message, UserMessage)}
        if not origins.isdisjoint(TYPED_ORIGINS):
            self._begin()
        elif self._outer_turn != info.outer_turn:
            self._forget_calls()
            self._has_pivoted = False
        self._outer_turn = info.outer_turn
        if self._seen_compactions != self._breaker.compactions:
            self._seen_compactions = self._breaker.compactions
            self._forget_calls()

    def _judge(self, call: _MadeCall) -> None:
        """Remember a call of the batch, and find out whether it is answered instead of run."""
        known = [each for each in self._window if each.signature == call.signature]
        call.sleeps_before = self._sleeps
        has_slept = call.sleeps or (bool(known) and known[-1].sleeps_before < self._sleeps)
        call.is_polling = bool(known) and has_slept
        call.is_new = all(each.signature != call.signature for each in self._trail)
        call.repeats, call.reason = self._repetition(call, known)
        # Answered calls count, too: a cycle shows in the model's requests, not in what runs.
        self._trail = [*self._trail, call][-self._breaker.threshold * _LONGEST_CYCLE :]
        if not call.reason:
            self._admit(call)

    def _admit(self, call: _MadeCall) -> None:
        """Remember a call that runs. Calls whose result was known push no others out."""
        call.reason = ""
        kept, count = [call], 1
        for each in reversed(self._window):
            count += not each.is_repeat
            if count > self._breaker.window:
                break
            kept.append(each)
        self._window = kept[::-1]

    def _is_excused(self, call: _MadeCall) -> bool:
        """Whether a change earlier in the same batch makes a repetition worthwhile after all.

        One that still runs may succeed.
        """
        if call.signature in self._timed_out:
            return False
        if self._has_changed:
            return True
        if call.repeats > self._breaker.threshold:
            return False
        earlier = takewhile(lambda each: each is not call, self._batch.values())
        return any(
            each.kind == "edit" and each.digest is None and not each.reason for each in earlier
        )

    def _repetition(self, call: _MadeCall, known: Sequence[_MadeCall]) -> tuple[int, str]:
        """Return how often a call was made, and why it is answered; `""` if it may run."""
        threshold, count = self._breaker.threshold, len(known) + 1
        most = threshold
        if call.signature in self._timed_out:
            most = min(threshold, _AFTER_TIMEOUT)
        elif call.sleeps or call.is_polling or (known and known[-1].was_slow):
            most = max(threshold, MOST_POLLS + 1)
        if count >= most:
            before = {1: "once", 2: "twice"}.get(count - 1, f"{count - 1} times")
            return count, _SAME.format(name=call.name, before=before)
        parts = self._equal_parts(call)
        if parts + 1 >= threshold:
            return parts + 1, _PARTS.format(count=parts, name=call.name)
        if period := self._period(call):
            names = _names([each.name for each in self._trail[-period:]])
            return threshold, _CYCLE.format(count=period, names=names)
        return 0, ""

    def _is_outdated(self, item: _MadeCall, latest: _MadeCall) -> bool:
        """Whether the same call had another result before; one that still runs has none yet."""
        if item.signature != latest.signature or item.digest == latest.digest:
            return False
        return item.digest is not None or item not in self._batch.values()

    def _on_change(self, change: _MadeCall) -> None:
        """Forget the calls before a change; those that timed out stay until a file has changed."""
        change.is_change = True
        self._has_changed = True
        if change.kind == "edit":
            self._timed_out &= {change.signature}
            self._has_pivoted = False
        place = self._window.index(change) if change in self._window else len(self._window)
        lasting = {change.signature, *self._timed_out}
        older, newer = self._window[:place], self._window[place:]
        self._window = [*(each for each in older if each.signature in lasting), *newer]

    def _equal_parts(self, call: _MadeCall) -> int:
        """Return how many calls before asked for ever later parts of the same, and got the same."""
        count, later = 0, call
        for each in reversed(self._window):
            if each.family != call.family or each.digest is None:
                continue
            # All failures of a family count as the same.
            is_same = (each.has_failed and later.has_failed) or each.digest == later.digest
            if each.position > later.position or not (is_same or later is call):
                break
            if each.position < later.position:
                count, later = count + 1, each
        return count

    def _period(self, latest: _MadeCall) -> int:
        """Return the length of the cycle whose threshold-th round begins with `latest`; else 0.

        Cycles in which a call waits are bounded by the number of equal calls.
        """
        calls = [*self._trail, latest]
        for period in range(2, _LONGEST_CYCLE + 1):
            start = len(calls) - period * (self._breaker.threshold - 1) - 1
            if start < 0:
                break
            rounds = calls[start:]
            is_varied = len({each.signature for each in rounds}) > 1
            if is_varied and all(
                each.signature == later.signature
                and (each.digest == later.digest or None in (each.digest, later.digest))
                and not (each.sleeps or each.was_slow)
                for each, later in zip(rounds, rounds[period:], strict=False)
            ):
                return period
        return 0


def _names(tools: Iterable[str]) -> str:
    """Return names of tools as a list in words, each once: `a`, `b` and `c`."""
    names = [f"`{name}`" for name in dict.fromkeys(tools)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _shown(call: _MadeCall) -> str:
    arguments = call.signature.partition("\0")[2]
    return f"{call.name}({truncate(arguments, _SHOWN_CHARS)})"


def _closing_words(repeated: Sequence[_MadeCall]) -> str:
    tools = _names([call.name for call in repeated])
    return _CLOSING.format(tools=tools, last=f"`{_shown(repeated[-1])}`")


def _part_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, float]:
    """Return the signature without the arguments that choose a part, and where the part begins."""
    starts = [value for key, value in arguments.items() if key in _POSITIONS]
    position = max((each for each in starts if isinstance(each, int | float)), default=0)
    rest = {key: value for key, value in arguments.items() if key not in _POSITIONS | _SIZES}
    return signature(name, rest), position


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
