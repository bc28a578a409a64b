"""The context view of a conversation: which part of its history is sent, and in what shape.

The view never changes the history. The newest of its records restores a resumed session's view.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

from dirge_py.config.schema import ContextTable, ReminderTable
from dirge_py.context.compaction import (
    AGGRESSIVE_AT,
    FORCED_AT,
    START_AT,
    CompactionJob,
    CompactionLevel,
    Strategy,
    StrategyName,
    clear_results,
    effective_window,
    level_of,
    truncate,
    window,
)
from dirge_py.context.shape import (
    OmittedMessage,
    ViewShape,
    omitted_messages,
    shapes_of,
    shown,
    shown_from,
)
from dirge_py.context.summary import OnStart, ReadFile, SummaryStrategy
from dirge_py.context.tokens import TokenCounter
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import CompactionKind, ContextCompacted
from dirge_py.types.extensions import Summarize
from dirge_py.types.history import GrowingHistory
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.types.tools import LoopTool

_LEAST_GAIN = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """The content of the next request: the whole history, the system prompt and the tools."""

    messages: Sequence[Message]
    """The history."""
    system_prompt: str = ""
    """The system prompt."""
    tools: Sequence[LoopTool] = ()
    """The tools that the model may call."""
    window_tokens: int = 128_000
    """The size of the model's window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One pass that shortened the view, or failed to."""

    event: ContextCompacted
    """What the pass did; doesn't name the model of the summary."""
    record: Mapping[str, Any] | None = None
    """The record to store; None if the pass changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedContext:
    """The messages to send, and their size as far as it is known."""

    messages: tuple[Message, ...]
    """The messages."""
    tokens: int
    """The size of the whole request."""
    window: int
    """How much of the model's window is used."""
    compaction: Compaction | None = None
    """The pass that shortened the view for this request."""
    is_stuck: bool = False
    """Whether the request is still too large after everything was tried; the run should end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPart:
    """One kind of content in a request."""

    name: str
    """Its name, for people."""
    tokens: int
    """Its estimated tokens."""
    count: int = 0
    """The number of its messages or tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """The content of the next request, for people."""

    parts: tuple[ContextPart, ...]
    """The kinds of content, without those that are empty."""
    sections: tuple[tuple[str, int], ...]
    """Name and tokens of each section of the system prompt."""
    tokens: int
    """The estimated size of the request."""
    window: int
    """How much of the model's window is used."""
    model_window: int
    """The size of the model's window."""
    marks: tuple[tuple[str, float], ...]
    """The shares of the window at which the context is compacted, each with a label."""
    messages: int
    """How many messages the history has."""
    folded_messages: int
    """How many of them are replaced by a summary or left out."""
    compactions: int
    """How often the context was compacted."""


_KINDS: Mapping[str, CompactionKind] = {
    "written": "summary", "failed": "failed_summary", "off": "summary_off",
}  # fmt: skip
_MESSAGE_PARTS: Mapping[str, type] = {
    "summaries": SystemMessage,
    "your messages": UserMessage,
    "answers": AssistantMessage,
    "tool results": ToolResultMessage,
}


BUDGET_CHARS = 80_000
Relay: TypeAlias = Callable[[str, str], str]
"""Stores the full text of a call's result, always at the same path; returns the path to read it.
Raises OSError or DirgeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts:
    """The settings and services that the context of one conversation uses."""

    settings: ContextTable = field(default_factory=ContextTable)
    """The window to use, when the view is shortened, and how."""
    checkpoints: bool = False
    """Whether to write summaries ahead in the background, which costs model calls."""
    result_budget_chars: int = BUDGET_CHARS
    """How many characters the results of one batch may have together."""
    reminders: Sequence[ReminderTable] = ()
    """The reminders that are repeated in requests."""
    window_of: Callable[[str], int] = lambda model: 128_000
    """The window of a model (`alias/id`), in tokens."""
    summarise: Summarize | None = None
    """Asks a model for a summary; None turns summaries off."""
    summary_model: str = ""
    """The name of that model."""
    read_file: ReadFile | None = None
    """Reads the files that are shown again after a summary."""
    relay: Relay | None = None
    """Stores the full text of a result that was cut."""
    redact: Callable[[str], str] = lambda text: text
    """Removes secrets from a text."""
    save: Callable[[Mapping[str, Any]], None] = lambda record: None
    """Stores a compaction for `records` of the next start."""
    on_compacted: Callable[[], None] = lambda: None
    """Called after a compaction."""
    records: Sequence[Mapping[str, Any]] = ()
    """The compactions of earlier starts, oldest first."""
    standing: Callable[[], str] = str
    """The todo list as text, which a summary must not lose."""
    reread: Callable[[Sequence[str]], str] | None = None
    """Rereads the instruction files and returns the system prompt for tools with these names."""


class ContextView:
    """The view of one conversation, for one caller at a time."""

    def __init__(self, parts: ContextParts | None = None) -> None:
        parts = parts or ContextParts()
        self.settings = parts.settings
        self._writes_ahead = parts.checkpoints
        self.counter = TokenCounter()
        self.shape, self._earlier = shapes_of(parts.records)
        self.compactions = len(parts.records)
        self._folding = SummaryStrategy(
            summarise=parts.summarise,
            redact=parts.redact,
            read_file=parts.read_file,
            restore_files=self.settings.restore_files,
            standing=parts.standing,
        )
        self.on_start: OnStart = lambda size: None
        self._sent_count = 0
        self._measured: tuple[int, int] | None = None
        """The counted and the reported size of the last request with this shape."""
        self._limit_to_prove = 0
        self._is_stuck = False
        self._history = GrowingHistory[Message]()

    # -- for every request

    async def prepare(
        self, request: ContextRequest, signal: AbortSignal | None = None
    ) -> PreparedContext:
        """Return the messages to send for this history, shortened first if that is due.

        After an abort of the run whose `signal` this is, no summary is begun in the background.
        """
        prepared = self.measured(request)
        _, is_measured = self._size(self._sent_count)
        fold_at = self.settings.fold_at
        level = level_of(prepared.tokens, prepared.window, is_measured=is_measured, fold_at=fold_at)
        if level is None:
            if self._writes_ahead and is_measured:
                job = self._job(request, "fold")
                self._folding.write_ahead(job, signal, epoch=self.compactions)
            return prepared
        if level == "forced" and self._is_stuck:
            return replace(prepared, is_stuck=True)
        compaction = await self._pass(self._job(request, level))
        sent = self.shown(request.messages)
        self._sent_count = self._count(request, sent)
        size = compaction.event.tokens_after if compaction is not None else prepared.tokens
        limit = int(prepared.window * FORCED_AT)
        self._limit_to_prove = limit if level == "forced" else 0
        is_stuck = level == "forced" and size > limit
        return replace(
            prepared, messages=sent, tokens=size, compaction=compaction, is_stuck=is_stuck
        )

    def measured(self, request: ContextRequest) -> PreparedContext:
        """Return the messages to send with the current shape, and their size; shortens nothing."""
        sent = self.shown(request.messages)
        self._sent_count = self._count(request, sent)
        size, _ = self._size(self._sent_count)
        limit = effective_window(request.window_tokens, self.settings.target_tokens)
        return PreparedContext(messages=sent, tokens=size, window=limit)

    def note_usage(self, input_tokens: int) -> None:
        """Calibrate with the service's count for the last prepared request."""
        if self._sent_count <= 0 or input_tokens <= 0:
            return
        self.counter.calibrate(self._sent_count, input_tokens)
        self._measured = self._sent_count, input_tokens
        # Only this count shows whether a forced pass helped; a second one wouldn't do better.
        self._is_stuck = 0 < self._limit_to_prove < input_tokens
        self._limit_to_prove = 0

    # -- on request

    async def compact(self, request: ContextRequest, *, focus: str = "") -> Compaction | None:
        """Fold old messages before it is due; None if that would save nothing."""
        return await self._pass(self._job(request, "asked", focus))

    async def shrink(self, request: ContextRequest) -> Compaction | None:
        """Make the next request at least 10 % smaller by any means; None if that's impossible."""
        compaction = await self._pass(self._job(request, "overflow"))
        return compaction if compaction is not None and compaction.record is not None else None

    def dropped(self, messages: Sequence[Message]) -> Sequence[OmittedMessage]:
        """Return the messages that would be omitted or shortened."""
        self._check_history(messages)
        return tuple(omitted_messages(messages, self.shape))

    def show_again(self, request: ContextRequest, number: int) -> Compaction | None:
        """Send this message whole again (counted from 1); None if it is not omitted."""
        if number not in {item.number for item in self.dropped(request.messages)}:
            return None
        self._earlier.append(self.shape)
        kept = tuple(sorted({*self.shape.kept, number - 1}))
        return self._changed(request, replace(self.shape, kept=kept), "shown_again")

    def undo(self, request: ContextRequest) -> Compaction | None:
        """Undo the last compaction; None if there was none."""
        self._check_history(request.messages)
        if not self._earlier:
            return None
        return self._changed(request, self._earlier.pop(), "undone")

    def begin_run(self) -> None:
        """Forget the failures of the last run, so that compaction is tried again."""
        self._is_stuck, self._limit_to_prove = False, 0
        self._folding.begin_run()

    def reset(self, records: Sequence[Mapping[str, Any]] = ()) -> None:
        """Start over for another history, with the shape of `records` if given."""
        shape, self._earlier = shapes_of(records)
        self._show_as(shape)
        self.compactions = len(records)
        self._folding.checkpoints.reset()

    async def close(self) -> None:
        await self._folding.checkpoints.close()

    def report(
        self, request: ContextRequest, sections: Sequence[tuple[str, int]] = ()
    ) -> ContextReport:
        """Report this request before it is shortened."""
        counter, sent = self.counter, self.shown(request.messages)
        sizes = {
            "system prompt": [counter.text(request.system_prompt)],
            "tools": [counter.tool(tool) for tool in request.tools],
        }
        for name, kind in _MESSAGE_PARTS.items():
            sizes[name] = counter.sizes([each for each in sent if isinstance(each, kind)])
        parts = tuple(
            ContextPart(name=name, tokens=tokens, count=0 if name == "system prompt" else len(each))
            for name, each in sizes.items()
            if (tokens := counter.corrected(sum(each)))
        )
        return ContextReport(
            parts=parts,
            sections=tuple((name, counter.corrected(tokens)) for name, tokens in sections),
            tokens=sum(part.tokens for part in parts),
            window=effective_window(request.window_tokens, self.settings.target_tokens),
            model_window=request.window_tokens,
            marks=(
                ("at", self.settings.fold_at),
                ("stronger at", AGGRESSIVE_AT),
                ("forced at", FORCED_AT),
                ("on the first request at", START_AT),
            ),
            messages=len(request.messages),
            folded_messages=self.shape.last,
            compactions=self.compactions,
        )

    # -- internals

    def _changed(
        self, request: ContextRequest, shape: ViewShape, kind: CompactionKind
    ) -> Compaction:
        """Change the shape on the user's request."""
        before, _ = self._size(self._count(request, self.shown(request.messages)))
        self._show_as(shape)
        self._folding.checkpoints.reset()
        self.compactions += 1
        after = self.counter.corrected(self._count(request, self.shown(request.messages)))
        return _compaction(shape, kind, before, after)

    def _check_history(self, messages: Sequence[Message]) -> None:
        if self.shape.last and self.shape.last >= len(messages):
            # These are not the messages that were folded.
            self.reset()

    def shown(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages to send now; the same tuple as `messages` if nothing is omitted."""
        self._check_history(messages)
        if self.shape == ViewShape():
            return messages if isinstance(messages, tuple) else tuple(messages)
        new = self._history.new(messages)
        if known := len(self._history.seen):
            self._history.add(new, shown_from(messages, known, self.shape))
        else:
            self._history.add(new, shown(messages, self.shape))
        return tuple(self._history.made)

    def _show_as(self, shape: ViewShape) -> None:
        self.shape = shape
        self._history = GrowingHistory[Message]()
        self._sent_count = 0
        self._measured = None

    def _count(self, request: ContextRequest, messages: Sequence[Message]) -> int:
        prompt, tools = request.system_prompt, request.tools
        return self.counter.count(messages, system_prompt=prompt, tools=tools)

    def _size(self, count: int) -> tuple[int, bool]:
        """Return the size of a request with this count, and whether a service reported it."""
        if self._measured is None or count < self._measured[0]:
            return self.counter.corrected(count), False
        counted, reported = self._measured
        return reported + self.counter.corrected(count - counted), True

    def _job(
        self, request: ContextRequest, level: CompactionLevel, focus: str = ""
    ) -> CompactionJob:
        count = self._count(request, self.shown(request.messages))
        size, _ = self._size(count)
        return CompactionJob(
            messages=request.messages,
            shape=self.shape,
            counter=self.counter,
            fixed=self._count(request, ()),
            window=effective_window(request.window_tokens, self.settings.target_tokens),
            size=size,
            scale=size / max(1, count),
            level=level,
            fold_at=self.settings.fold_at,
            focus=focus,
        )

    async def _pass(self, job: CompactionJob) -> Compaction | None:
        """Shorten the view once, if that saves enough to be worth a changed prefix."""
        folding = self._folding
        folding.begin_pass(self.compactions, self.on_start)
        shape = await truncate(job, self._strategies())
        size = job.size_of(shape)
        was = job.shape
        is_left_out = shape.last > was.last or shape.squeeze_before > was.squeeze_before
        kind = _KINDS.get(folding.outcome, "overflow" if is_left_out else "prune")
        any_gain_counts = job.level in ("asked", "forced", "start")
        if not (size < job.size if any_gain_counts else size <= job.size * (1 - _LEAST_GAIN)):
            if folding.outcome != "failed":
                return None
            unchanged = _compaction(job.shape, kind, job.size, job.size, problem=folding.problem)
            return replace(unchanged, record=None)
        if shape.last != job.shape.last:
            folding.checkpoints.reset()
        self._earlier.append(self.shape)
        self._show_as(shape)
        self.compactions += 1
        summary = shape.summary if folding.outcome == "written" else ""
        return _compaction(shape, kind, job.size, size, summary, problem=folding.problem)

    def _strategies(self) -> dict[StrategyName, Strategy]:
        async def leave_out(job: CompactionJob, shape: ViewShape) -> ViewShape | None:
            # If it isn't urgent, retry a failed summary in the next turn.
            outcome = self._folding.outcome
            is_allowed = (job.is_urgent and outcome != "written") or outcome in ("", "off")
            return (
                await window(job, shape, keep=self.settings.keep_messages) if is_allowed else None
            )

        known: dict[StrategyName, Strategy] = {
            "clear_results": partial(clear_results, keep=self.settings.keep_results),
            "summarize": self._folding.fold,
            "window": leave_out,
        }
        return {name: known[name] for name in self.settings.strategies}


def _compaction(
    shape: ViewShape,
    kind: CompactionKind,
    before: int,
    after: int,
    summary: str = "",
    *,
    problem: str = "",
) -> Compaction:
    """Return the compaction that led to `shape`, with its record."""
    event = ContextCompacted(
        kind=kind,
        tokens_before=before,
        tokens_after=after,
        first_kept_index=shape.last,
        summary=summary,
        problem=problem,
    )
    numbers = {"kind": kind, "tokens_before": before, "tokens_after": after}
    return Compaction(event=event, record={**shape.as_record(), **numbers})
