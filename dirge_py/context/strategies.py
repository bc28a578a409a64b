"""The ways to truncate a history without asking anybody, and how they follow each other."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from dirge_py.context.compaction import CompactionJob, boundaries, unseen_from, with_caps
from dirge_py.context.shape import ViewShape
from dirge_py.types.messages import ToolResultMessage

StrategyName = Literal["clear_results", "summarize", "window"]

Strategy: TypeAlias = Callable[[CompactionJob, ViewShape], Awaitable[ViewShape | None]]
"""Gets the shape so far; returns one that shows less, or None if it has nothing to offer."""

_CHARS_PER_TOKEN = 4
_WORDS_SHARE = 10
_LEAST_WORDS_CHARS, _MOST_WORDS_CHARS = 400, 40_000
_SQUEEZED_TO = (8_000, 2_000, 500, 120, 30)


async def truncate(job: CompactionJob, strategies: Mapping[StrategyName, Strategy]) -> ViewShape:
    """The shape after each strategy in its turn, until the history is short enough.

    Long results that a model has seen are cut first. Results that were cleared before a summary
    made it needless are shown again.
    """
    shape = with_caps(job, job.shape)
    for name, strategy in strategies.items():
        if job.fits(shape):
            break
        shorter = await strategy(job, shape)
        if shorter is None:
            continue
        if name == "summarize":
            uncleared = replace(shorter, clear_before=job.shape.clear_before)
            is_enough = job.level == "asked" or job.fits(uncleared)
            shorter = uncleared if is_enough else shorter
        shape = shorter
    return shape if not job.is_urgent else fit_to_limit(job, shape)


def fit_to_limit(job: CompactionJob, shape: ViewShape) -> ViewShape:
    """A shape that is within the job's limit, made by leaving out ever more.

    What no model has seen is touched only where the request would be larger than the window.
    """
    if job.size_of(shape) <= job.limit:
        return shape
    for tighter in _tighter(job, shape, unseen_from(job.messages)):
        shape = tighter
        if job.size_of(shape) <= job.limit:
            return shape
    if job.size_of(shape) <= job.window and job.level != "overflow":
        return shape
    for tighter in _tighter(job, shape, len(job.messages)):
        shape = tighter
        if job.size_of(shape) <= job.limit:
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


def clear_results(keep: int) -> Strategy:
    """Show the results but for the newest `keep` as placeholders, where that saves anything."""

    async def clear(job: CompactionJob, shape: ViewShape) -> ViewShape | None:
        results = [
            position
            for position in range(shape.last, len(job.messages))
            if isinstance(job.messages[position], ToolResultMessage)
        ]
        seen = unseen_from(job.messages)
        old = [position for position in results[: len(results) - keep] if position < seen]
        if not old or old[-1] < shape.clear_before:
            return None
        return replace(shape, clear_before=old[-1] + 1)

    return clear


def window(
    keep: int, *, is_allowed: Callable[[CompactionJob], bool] = lambda job: True
) -> Strategy:
    """Leave out all but about the newest `keep` messages; never parts a call and its result."""

    async def leave_out(job: CompactionJob, shape: ViewShape) -> ViewShape | None:
        most = len(job.messages) - keep
        cuts = [cut for cut in boundaries(job.messages) if shape.last < cut <= most]
        return windowed(job, shape, cuts[-1]) if cuts and is_allowed(job) else None

    return leave_out


def windowed(job: CompactionJob, shape: ViewShape, cut: int) -> ViewShape:
    """The shape without the messages before `cut`; a summary of earlier ones stays."""
    return replace(shape, last=cut, words_chars=words_chars(job.window))


def words_chars(window_tokens: int) -> int:
    """How much of what people said is quoted when it is folded."""
    room = window_tokens * _CHARS_PER_TOKEN // _WORDS_SHARE
    return min(_MOST_WORDS_CHARS, max(_LEAST_WORDS_CHARS, room))
