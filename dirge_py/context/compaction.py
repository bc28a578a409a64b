"""Compaction without a model: when a history is shortened, where it is cut, and how."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal, TypeAlias

from dirge_py.context.shape import ViewShape, head, shown_from
from dirge_py.context.tokens import TokenCounter
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage

CompactionLevel = Literal["fold", "aggressive", "forced", "start", "asked", "overflow"]
"""The urgency: `start` relies on an estimate alone, `asked` is the user's wish, `overflow` follows
a request that was too long for the service."""

AGGRESSIVE_AT = 0.78
FORCED_AT = 0.80
START_AT = 0.90
_TIGHT_AT = 0.60

_CAP_TOKENS, _TIGHT_CAP_TOKENS = 3000, 1000
_CHARS_PER_TOKEN = 4
LEAST_SAVING = 0.30
_OVERFLOW_AIM, _OVERFLOW_SAVING = 0.40, 0.15


def effective_window(window_tokens: int, target_tokens: int) -> int:
    """Return the tokens of a model's window that dirge uses."""
    return max(1, min(window_tokens, target_tokens))


def level_of(
    size: int, window: int, *, is_measured: bool, fold_at: float
) -> Literal["fold", "aggressive", "forced", "start"] | None:
    """Return the level of compaction that a request needs, if any; estimates have one mark only."""
    share = size / window
    if not is_measured:
        return "start" if share > START_AT else None
    if share > FORCED_AT:
        return "forced"
    if share > AGGRESSIVE_AT:
        return "aggressive"
    return "fold" if share > fold_at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """A history to shorten, with the data to predict the size of a shape."""

    messages: Sequence[Message]
    """The whole history."""
    shape: ViewShape
    """Its current shape."""
    counter: TokenCounter
    """Counts messages; its factor corrects messages that no service has counted."""
    fixed: int
    """The counted tokens of the system prompt and the tools."""
    window: int
    """How much of the model's window is used."""
    size: int
    """The reported or estimated size of the request with `shape`."""
    scale: float
    """The reported tokens for one counted token."""
    level: CompactionLevel
    """How urgent it is."""
    fold_at: float
    """The share of the window from which it is shortened."""
    focus: str = ""
    """The topic of the summary, in the user's words."""

    @property
    def is_urgent(self) -> bool:
        """Whether the history must become shorter, even without a good summary."""
        return self.level in ("forced", "start", "overflow")

    @property
    def tail_tokens(self) -> int:
        """How many tokens of the newest history stay unchanged."""
        if self.level == "asked":
            return self.size // 5
        if self.level == "overflow":
            return min(self.window // 10, self.size // 5)
        return self.window // (5 if self.level == "fold" else 10)

    @property
    def target(self) -> int:
        """The size at which a pass has done enough."""
        if self.level == "asked":
            return 0
        saved = int(self.size * (1 - LEAST_SAVING))
        if self.level == "overflow":
            return min(int(self.size * (1 - _OVERFLOW_AIM)), int(self.window * FORCED_AT))
        if self.level == "forced":
            return min(saved, int(self.window * min(self.fold_at, FORCED_AT)))
        return min(saved, int(self.window * self.fold_at))

    @property
    def limit(self) -> int:
        """The size above which the request must not be sent."""
        if self.level == "overflow":
            return min(int(self.size * (1 - _OVERFLOW_SAVING)), int(self.window * FORCED_AT))
        return int(self.window * (FORCED_AT if self.level == "forced" else START_AT))

    def size_of(self, shape: ViewShape) -> int:
        """Return the tokens of the request with this shape."""
        tail = sum(self.sizes(shape))
        new = sum(self.counter.sizes(head(self.messages, shape)))
        factor = self.counter.factor
        # A stretch that was folded before is part of the measured size.
        is_old = (shape.last, shape.summary) == (self.shape.last, self.shape.summary)
        return round((self.fixed + tail) * self.scale + new * (self.scale if is_old else factor))

    def sizes(self, shape: ViewShape) -> list[int]:
        """Return the counted tokens of each message that is not folded."""
        return self.counter.sizes(shown_from(self.messages, shape.last, shape))

    def cut(self, shape: ViewShape) -> int:
        """Return where the tail begins: the first turn boundary that keeps it within its tokens."""
        cuts = [cut for cut in boundaries(self.messages) if cut > shape.last]
        kept = list(accumulate(reversed(self.sizes(shape))))[::-1]
        fitting = (c for c in cuts if kept[c - shape.last] * self.scale <= self.tail_tokens)
        return next(fitting, cuts[-1] if cuts else shape.last)


def boundaries(messages: Sequence[Message]) -> list[int]:
    """Return the indexes at which a history may begin without separating a result from its call."""
    cuts: list[int] = []
    has_results = False
    for position in range(len(messages) - 1, 0, -1):
        message = messages[position]
        if isinstance(message, ToolResultMessage):
            has_results = True
        elif isinstance(message, AssistantMessage) or not has_results:
            has_results = False
            cuts.append(position)
    return cuts[::-1]


def unseen_from(messages: Sequence[Message]) -> int:
    """Return the index from which on no model has seen the messages."""
    backwards = reversed(range(len(messages)))
    return next((n + 1 for n in backwards if isinstance(messages[n], AssistantMessage)), 0)


def with_caps(job: CompactionJob, shape: ViewShape) -> ViewShape:
    """Return the shape with the results that a model has seen capped."""
    seen = unseen_from(job.messages)
    loose = replace(shape, cap_before=seen, cap_chars=_CAP_TOKENS * _CHARS_PER_TOKEN)
    if shape.cap_chars and shape.cap_chars < loose.cap_chars:
        # A result that was sent capped stays capped.
        loose = replace(loose, cap_chars=shape.cap_chars)
    if job.size_of(loose) <= job.window * _TIGHT_AT:
        return loose
    return replace(loose, cap_chars=_TIGHT_CAP_TOKENS * _CHARS_PER_TOKEN)


StrategyName = Literal["clear_results", "summarize", "window"]
Strategy: TypeAlias = Callable[[CompactionJob, ViewShape], Awaitable[ViewShape | None]]
"""Gets the shape so far; returns one that shows less, or None if it can't shorten it."""

_WORDS_SHARE = 10
_LEAST_WORDS_CHARS, _MOST_WORDS_CHARS = 400, 40_000
_SQUEEZED_TO = (8_000, 2_000, 500, 120, 30)


async def truncate(job: CompactionJob, strategies: Mapping[StrategyName, Strategy]) -> ViewShape:
    """Return the shape after each strategy in turn, until the history is short enough."""
    shape = with_caps(job, job.shape)
    for name, strategy in strategies.items():
        if job.size_of(shape) <= job.target:
            break
        shorter = await strategy(job, shape)
        if shorter is None:
            continue
        shape = shorter
        if name == "summarize":
            uncleared = replace(shape, clear_before=job.shape.clear_before)
            if job.level == "asked" or job.size_of(uncleared) <= job.target:
                shape = uncleared
    return fit_to_limit(job, shape) if job.is_urgent else shape


def fit_to_limit(job: CompactionJob, shape: ViewShape) -> ViewShape:
    """Return a shape within the job's limit, made by leaving out more and more.

    Messages that no model has seen are touched only if the request exceeds the whole window.
    """
    if job.size_of(shape) <= job.limit:
        return shape
    for before in (unseen_from(job.messages), len(job.messages)):
        for tighter in _tighter(job, shape, before):
            shape = tighter
            if job.size_of(shape) <= job.limit:
                return shape
        if job.size_of(shape) <= job.window and job.level != "overflow":
            break
    return shape


def _tighter(job: CompactionJob, shape: ViewShape, before: int) -> Iterator[ViewShape]:
    cuts = boundaries(job.messages)
    for cut in (job.cut(shape), cuts[-1] if cuts else 0):
        if cut > shape.last:
            shape = windowed(job, shape, cut)
            yield shape
    shape = replace(shape, clear_before=max(shape.clear_before, min(before, len(job.messages))))
    yield shape
    for chars in _SQUEEZED_TO:
        shape = replace(shape, squeeze_before=before, squeeze_chars=chars, restored=())
        yield shape


async def clear_results(job: CompactionJob, shape: ViewShape, *, keep: int) -> ViewShape | None:
    """Replace all results but the newest `keep` by placeholders."""
    later = range(shape.last, len(job.messages))
    results = [at for at in later if isinstance(job.messages[at], ToolResultMessage)]
    seen = unseen_from(job.messages)
    old = [at for at in results[: len(results) - keep] if at < seen]
    if not old or old[-1] < shape.clear_before:
        return None
    return replace(shape, clear_before=old[-1] + 1)


async def window(job: CompactionJob, shape: ViewShape, *, keep: int) -> ViewShape | None:
    """Leave out all but about the newest `keep` messages."""
    most = len(job.messages) - keep
    cuts = [cut for cut in boundaries(job.messages) if shape.last < cut <= most]
    return windowed(job, shape, cuts[-1]) if cuts else None


def windowed(job: CompactionJob, shape: ViewShape, cut: int) -> ViewShape:
    """Return the shape without the messages before `cut`; a summary of earlier ones stays."""
    return replace(shape, last=cut, words_chars=words_chars(job.window))


def words_chars(window_tokens: int) -> int:
    """Return how many characters of the user's messages are quoted when they are folded."""
    room = window_tokens * _CHARS_PER_TOKEN // _WORDS_SHARE
    return min(_MOST_WORDS_CHARS, max(_LEAST_WORDS_CHARS, room))
