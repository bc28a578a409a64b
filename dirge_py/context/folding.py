"""Folding old history into a summary: written now or ahead of time, with the files behind it."""

from collections.abc import Callable
from dataclasses import dataclass as mutable
from dataclasses import replace
from typing import Literal, TypeAlias

from dirge_py.context.checkpoints import Checkpoint, Checkpoints
from dirge_py.context.compaction import LEAST_SAVING, Job, boundaries
from dirge_py.context.restore import ReadFile, restored
from dirge_py.context.shape import Shape
from dirge_py.context.strategies import Strategy, words_chars
from dirge_py.context.summary import Redact, Summarise, Summariser, budget_tokens

OnStart: TypeAlias = Callable[[int], None]
"""Told the size of the context before a model is asked to summarise it."""

_URGENT_SAVING = 0.10
_MOST_RESTORED_AT = 0.50
_CHARS_PER_RESTORED_TOKEN = 2


@mutable(slots=True, kw_only=True)
class Attempt:
    """What became of the summary in one pass. `epoch` counts the passes before it.

    `skipped`: there was too little to fold; `off`: it had failed too often; empty: there is nobody
    to ask.
    """

    epoch: int
    on_start: OnStart
    outcome: Literal["", "skipped", "off", "failed", "written"] = ""


class Folding:
    """The strategy `summarize`, and the summaries written ahead for it.

    `standing` tells what is kept outside of the history and must not be forgotten with it.
    """

    def __init__(
        self,
        *,
        summarise: Summarise | None,
        redact: Redact,
        read_file: ReadFile | None,
        restore_files: int,
        standing: Callable[[], str] = str,
    ) -> None:
        self._summariser = Summariser(summarise, redact) if summarise else None
        # Its failures are nobody's concern: a fold writes its own summary then.
        self._ahead = Summariser(summarise, redact) if summarise else None
        self._redact = redact
        self._read_file = read_file
        self._restore_files = restore_files
        self._standing = standing
        self.checkpoints = Checkpoints()

    def begin_run(self) -> None:
        """Let the summariser try again."""
        if self._summariser is not None:
            self._summariser.failures = 0

    def strategy(self, attempt: Attempt) -> Strategy:
        """`summarize`, telling `attempt` what became of it."""

        async def summarize(job: Job, shape: Shape) -> Shape | None:
            folded = await self._folded(job, shape, attempt)
            if folded is None:
                return None
            standing = self._redact(self._standing())
            return await self._with_files(job, replace(folded, standing=standing))

        return summarize

    def write_ahead(self, job: Job, *, epoch: int) -> None:
        """Begin a summary in the background if the context has grown past a mark."""
        ahead = self._ahead
        if ahead is None or not self.checkpoints.is_due(job.size, job.window):
            return
        job = replace(job, messages=tuple(job.messages))
        cut = job.cut(job.shape)
        if cut <= job.shape.last:
            return

        async def write() -> Checkpoint | None:
            summary = await ahead.write(job, job.shape, cut)
            return Checkpoint(epoch=epoch, last=cut, summary=summary) if summary else None

        self.checkpoints.start(write)

    async def _folded(self, job: Job, shape: Shape, attempt: Attempt) -> Shape | None:
        if self._summariser is None:
            return None
        ready = self._from_checkpoint(job, shape, attempt.epoch)
        if ready is not None:
            attempt.outcome = "written"
            return ready
        cut = job.cut(shape)
        if not _is_worth_asking(job, shape, cut):
            attempt.outcome = "skipped"
            return None
        if self._summariser.is_off:
            attempt.outcome = "off"
            return None
        attempt.on_start(job.size)
        summary = await self._summariser.write(job, shape, cut)
        attempt.outcome = "failed" if summary is None else "written"
        return None if summary is None else _with_summary(job, shape, cut, summary)

    def _from_checkpoint(self, job: Job, shape: Shape, epoch: int) -> Shape | None:
        """The fold for which a summary was written ahead, if it is of use now."""
        ready = self.checkpoints.newest
        if ready is None or ready.epoch != epoch or job.focus or ready.last <= shape.last:
            return None
        if ready.last not in boundaries(job.messages):
            return None
        folded = _with_summary(job, shape, ready.last, ready.summary)
        return folded if job.size_of(folded) <= job.window * job.fold_at else None

    async def _with_files(self, job: Job, shape: Shape) -> Shape:
        room_tokens = int(job.window * _MOST_RESTORED_AT) - job.size_of(shape)
        if self._read_file is None or not self._restore_files or room_tokens <= 0:
            return shape
        files = await restored(
            job.messages[: shape.last],
            job.messages[shape.last :],
            read=self._read_file,
            most=self._restore_files,
            room=room_tokens * _CHARS_PER_RESTORED_TOKEN,
        )
        clean = tuple(replace(file, text=self._redact(file.text)) for file in files)
        return replace(shape, restored=clean)


def _is_worth_asking(job: Job, shape: Shape, cut: int) -> bool:
    """Whether a summary of usual length would save enough."""
    if cut <= shape.last or job.level == "asked":
        return cut > shape.last
    saving = _URGENT_SAVING if job.is_urgent else LEAST_SAVING
    expected = job.size_of(replace(shape, last=cut)) + budget_tokens(job, shape, cut)
    return expected <= job.size * (1 - saving)


def _with_summary(job: Job, shape: Shape, cut: int, summary: str) -> Shape:
    words = words_chars(job.window)
    return replace(shape, last=cut, summary=summary, words_chars=words, restored=())
