"""What of a conversation is sent: the history itself, until it no longer fits.

The view never changes the history. What it leaves out is told by its records, each of which holds
the whole shape, so the newest one is enough to see a resumed session as it was seen before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirge_py.context.compaction import (
    FORCED_AT,
    CompactionJob,
    CompactionLevel,
    effective_window,
    level_of,
)
from dirge_py.context.shape import (
    OmittedMessage,
    ViewShape,
    omitted_messages,
    shapes_of,
    shown,
    shown_message,
    with_kept,
)
from dirge_py.context.strategies import Strategy, StrategyName, clear_results, truncate, window
from dirge_py.context.summary import (
    OnStart,
    ReadFile,
    Redact,
    Summarise,
    SummaryAttempt,
    SummaryStrategy,
)
from dirge_py.context.tokens import DescribedTool, TokenCounter, high_counter
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import CompactionKind
from dirge_py.types.messages import Message

_LEAST_GAIN = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSettings:
    """When a view is shortened, and how."""

    is_compacting: bool = True
    """Shorten it without being asked."""
    target_tokens: int = 250_000
    """How much of a larger window is used."""
    fold_at: float = 0.75
    """The share of the window from which on it is shortened."""
    strategies: Sequence[StrategyName] = ("clear_results", "summarize", "window")
    """What is tried, in order."""
    keep_results: int = 5
    """How many of the newest results `clear_results` keeps."""
    keep_messages: int = 20
    """How many of the newest messages `window` keeps."""
    restore_files: int = 5
    """How many files are shown again behind a summary."""
    checkpoints: bool = False
    """Write summaries ahead, in the background, which costs model calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """What a model is about to be sent: the whole history and what goes with it."""

    messages: Sequence[Message]
    system_prompt: str = ""
    tools: Sequence[DescribedTool] = ()
    window_tokens: int = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One pass that shortened the view, or failed to. `record` is to be kept; None: no change."""

    kind: CompactionKind
    tokens_before: int
    tokens_after: int
    last: int
    summary: str = ""
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedContext:
    """The messages to send, and their size in tokens as far as it is known.

    `is_stuck`: the request is too large although everything was done; the run should end.
    """

    messages: tuple[Message, ...]
    tokens: int
    window: int
    compaction: Compaction | None = None
    is_stuck: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A request of the present shape: what it counts here, and what the service made of it."""

    count: int
    reported: int


class ContextView:
    """The view of one conversation. One caller at a time.

    `summarise` asks a model; without it nothing is summarised. `read_file` gives the files that are
    shown again after a fold, `standing` what the todo list says. `redact` takes secrets out of all
    that is written anew.
    """

    def __init__(
        self,
        settings: ViewSettings | None = None,
        *,
        counter: TokenCounter | None = None,
        summarise: Summarise | None = None,
        read_file: ReadFile | None = None,
        redact: Redact = lambda text: text,
        standing: Callable[[], str] = str,
        records: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.settings = settings or ViewSettings()
        self.counter = counter or high_counter()
        self.shape, self._earlier = shapes_of(records)
        self.compactions = len(records)
        self._folding = SummaryStrategy(
            summarise=summarise,
            redact=redact,
            read_file=read_file,
            restore_files=self.settings.restore_files,
            standing=standing,
        )
        self._sent_count = 0
        self._measured: _Measured | None = None
        self._limit_to_prove = 0
        self._is_stuck = False
        self._seen: list[Message] = []
        self._shown: list[Message] = []

    # -- for every request

    async def prepare(
        self, request: ContextRequest, *, on_start: OnStart = lambda size: None
    ) -> PreparedContext:
        """The messages to send for this history, shortened first if that is due."""
        self._check_history(request.messages)
        window_tokens = effective_window(request.window_tokens, self.settings.target_tokens)
        sent = self._rendered(request.messages)
        count = self._count(request, sent)
        size, is_measured = self._size(count)
        level = level_of(
            size, window_tokens, is_measured=is_measured, fold_at=self.settings.fold_at
        )
        if level is None:
            if self.settings.checkpoints and is_measured:
                job = self._job(request, size, count, "fold")
                self._folding.write_ahead(job, epoch=self.compactions)
            self._sent_count = count
            return PreparedContext(messages=sent, tokens=size, window=window_tokens)
        if level == "forced" and self._is_stuck:
            return PreparedContext(messages=sent, tokens=size, window=window_tokens, is_stuck=True)
        compaction = await self._pass(self._job(request, size, count, level), on_start)
        sent = self._rendered(request.messages)
        self._sent_count = self._count(request, sent)
        size = compaction.tokens_after if compaction is not None else size
        limit = int(window_tokens * FORCED_AT)
        self._limit_to_prove = limit if level == "forced" else 0
        return PreparedContext(
            messages=sent,
            tokens=size,
            window=window_tokens,
            compaction=compaction,
            is_stuck=level == "forced" and size > limit,
        )

    def measured(self, request: ContextRequest) -> PreparedContext:
        """The messages to send as things are, and how large they are; nothing is shortened."""
        self._check_history(request.messages)
        sent = self._rendered(request.messages)
        self._sent_count = self._count(request, sent)
        size, _ = self._size(self._sent_count)
        limit = effective_window(request.window_tokens, self.settings.target_tokens)
        return PreparedContext(messages=sent, tokens=size, window=limit)

    def note_usage(self, input_tokens: int) -> None:
        """Learn what the service counted for the request prepared last."""
        if self._sent_count <= 0 or input_tokens <= 0:
            return
        self.counter.calibrate(self._sent_count, input_tokens)
        self._measured = _Measured(count=self._sent_count, reported=input_tokens)
        # What a forced pass was worth shows only now: a second one would do no better.
        self._is_stuck = 0 < self._limit_to_prove < input_tokens
        self._limit_to_prove = 0

    # -- when asked for

    async def compact(
        self, request: ContextRequest, *, focus: str = "", on_start: OnStart = lambda size: None
    ) -> Compaction | None:
        """Fold what can be folded, though nothing is due; None if nothing would be saved."""
        return await self._at_once(request, "asked", focus, on_start)

    async def shrink(
        self, request: ContextRequest, *, on_start: OnStart = lambda size: None
    ) -> Compaction | None:
        """Make the next request at least 10 % smaller, whatever it takes; None if it cannot be."""
        compaction = await self._at_once(request, "overflow", "", on_start)
        return compaction if compaction is not None and compaction.record is not None else None

    def dropped(self, messages: Sequence[Message]) -> Sequence[OmittedMessage]:
        """What would not be sent as it is."""
        self._check_history(messages)
        return tuple(omitted_messages(messages, self.shape))

    def show_again(self, request: ContextRequest, number: int) -> Compaction | None:
        """Send this message whole again (counted from 1); None if it is not left out."""
        if number not in {item.number for item in self.dropped(request.messages)}:
            return None
        self._earlier.append(self.shape)
        return self._changed(request, with_kept(self.shape, number - 1), "shown_again")

    def undo(self, request: ContextRequest) -> Compaction | None:
        """See the history as before the last compaction; None if there was none."""
        self._check_history(request.messages)
        if not self._earlier:
            return None
        return self._changed(request, self._earlier.pop(), "undone")

    def begin_run(self) -> None:
        """Forget what went wrong in the run before: it may be tried again."""
        self._is_stuck, self._limit_to_prove = False, 0
        self._folding.begin_run()

    def reset(self, records: Sequence[Mapping[str, Any]] = ()) -> None:
        """Another history took the place of the old one: show all of it, or as `records` tell."""
        shape, self._earlier = shapes_of(records)
        self._show_as(shape)
        self.compactions = len(records)
        self._folding.checkpoints.reset()

    async def close(self) -> None:
        await self._folding.checkpoints.close()

    def shown(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages that would be sent for this history now."""
        self._check_history(messages)
        return self._rendered(messages)

    async def settled(self) -> None:
        """Return when no summary is being written in the background."""
        await self._folding.checkpoints.settled()

    # -- inside

    def _changed(
        self, request: ContextRequest, shape: ViewShape, kind: CompactionKind
    ) -> Compaction:
        """Another shape, because a person wanted it."""
        before, _ = self._size(self._count(request, self._rendered(request.messages)))
        self._show_as(shape)
        self._folding.checkpoints.reset()
        self.compactions += 1
        after = self.counter.corrected(self._count(request, self._rendered(request.messages)))
        told = {"kind": kind, "tokens_before": before, "tokens_after": after}
        return Compaction(
            kind=kind,
            tokens_before=before,
            tokens_after=after,
            last=shape.last,
            record={**shape.as_record(), **told},
        )

    def _check_history(self, messages: Sequence[Message]) -> None:
        if self.shape.last and self.shape.last >= len(messages):
            # These are not the messages that were folded.
            self.reset()

    def _rendered(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """What is sent; messages that were looked at for the last request are not looked at again.

        The same tuple as `messages` where nothing is left out.
        """
        if self.shape == ViewShape():
            return messages if isinstance(messages, tuple) else tuple(messages)
        known = len(self._seen)
        if not known or list(messages[:known]) != self._seen:
            self._shown = shown(messages, self.shape)
        else:
            self._shown += [
                shown_message(messages[position], position, self.shape)
                for position in range(known, len(messages))
            ]
        self._seen = list(messages)
        return tuple(self._shown)

    def _show_as(self, shape: ViewShape) -> None:
        self.shape = shape
        self._seen, self._shown = [], []
        self._sent_count = 0
        self._measured = None

    def _count(self, request: ContextRequest, messages: Sequence[Message]) -> int:
        return self.counter.count(
            messages, system_prompt=request.system_prompt, tools=request.tools
        )

    def _size(self, count: int) -> tuple[int, bool]:
        """The size of a request that counts so much, and whether a service's report is behind it.

        What was reported for the last request is sure; only what was added since is estimated.
        """
        known = self._measured
        if known is None or count < known.count:
            return self.counter.corrected(count), False
        return known.reported + self.counter.corrected(count - known.count), True

    def _job(
        self,
        request: ContextRequest,
        size: int,
        count: int,
        level: CompactionLevel,
        focus: str = "",
    ) -> CompactionJob:
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

    async def _at_once(
        self, request: ContextRequest, level: CompactionLevel, focus: str, on_start: OnStart
    ) -> Compaction | None:
        self._check_history(request.messages)
        count = self._count(request, self._rendered(request.messages))
        size, _ = self._size(count)
        return await self._pass(self._job(request, size, count, level, focus), on_start)

    async def _pass(self, job: CompactionJob, on_start: OnStart) -> Compaction | None:
        """Shorten the view once, if that saves enough to be worth a changed prefix."""
        attempt = SummaryAttempt(epoch=self.compactions, on_start=on_start)
        shape = await truncate(job, self._strategies(attempt))
        size = job.size_of(shape)
        kind = _kind(job, shape, attempt)
        if not _is_worth_it(job, size):
            if attempt.outcome != "failed":
                return None
            return Compaction(
                kind=kind, tokens_before=job.size, tokens_after=job.size, last=job.shape.last
            )
        if shape.last != job.shape.last:
            self._folding.checkpoints.reset()
        self._earlier.append(self.shape)
        self._show_as(shape)
        self.compactions += 1
        told = {"kind": kind, "tokens_before": job.size, "tokens_after": size}
        return Compaction(
            kind=kind,
            tokens_before=job.size,
            tokens_after=size,
            last=shape.last,
            summary=shape.summary if attempt.outcome == "written" else "",
            record={**shape.as_record(), **told},
        )

    def _strategies(self, attempt: SummaryAttempt) -> dict[StrategyName, Strategy]:
        def may_leave_out(job: CompactionJob) -> bool:
            # Where there is still time, a summary that failed is rather tried again next turn.
            return attempt.outcome in ("", "off") or (
                job.is_urgent and attempt.outcome != "written"
            )

        known: dict[StrategyName, Strategy] = {
            "clear_results": clear_results(self.settings.keep_results),
            "summarize": self._folding.strategy(attempt),
            "window": window(self.settings.keep_messages, is_allowed=may_leave_out),
        }
        return {name: known[name] for name in self.settings.strategies}


def _is_worth_it(job: CompactionJob, size: int) -> bool:
    if job.level in ("asked", "forced", "start"):
        return size < job.size
    return size <= job.size * (1 - _LEAST_GAIN)


def _kind(job: CompactionJob, shape: ViewShape, attempt: SummaryAttempt) -> CompactionKind:
    if attempt.outcome in _KINDS:
        return _KINDS[attempt.outcome]
    is_left_out = shape.last > job.shape.last or shape.squeeze_before > job.shape.squeeze_before
    return "overflow" if is_left_out else "prune"


_KINDS: Mapping[str, CompactionKind] = {
    "written": "summary",
    "failed": "failed_summary",
    "off": "summary_off",
}
