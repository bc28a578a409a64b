"""Replacing old history by a summary that a model writes, now or ahead of time.

Here is what the model is shown, what is accepted as a summary, when it is no longer asked, the
summaries written in the background, and the files that are shown again behind a summary.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass as mutable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dirge_py.context.compaction import LEAST_SAVING, CompactionJob, boundaries
from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.shape import RestoredFile, ViewShape
from dirge_py.context.strategies import Strategy, words_chars
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

ReadFile: TypeAlias = Callable[[str], Awaitable[str | None]]
"""The text of a file as it is now; None if it cannot or may not be read, or is too large."""
MOST_FILE_BYTES = 2 * 1024 * 1024
"""Readers return None for a file larger than this."""
_FILE_TOOLS = frozenset({"read", "edit", "write", "apply_patch"})
_FILE_TOKENS = 5_000
_CHARS_PER_FILE_TOKEN = 4


def files_of(messages: Sequence[Message]) -> list[str]:
    """Paths of the files that tools opened, newest first, each once."""
    paths: dict[str, None] = {}
    for message in reversed(messages):
        if not isinstance(message, ToolResultMessage) or message.is_error:
            continue
        if message.tool_name not in _FILE_TOOLS:
            continue
        named = message.details.get("paths") or [message.details.get("path")]
        for path in named:
            if isinstance(path, str):
                paths.setdefault(path)
    return list(paths)


async def restore_files(
    folded: Sequence[Message], kept: Sequence[Message], *, read: ReadFile, most: int, room: int
) -> tuple[RestoredFile, ...]:
    """At most `most` files of `folded` that `kept` does not show, in `room` characters in all."""
    still_shown = set(files_of(kept))
    files: list[RestoredFile] = []
    for path in files_of(folded):
        if len(files) == most:
            break
        if path in still_shown:
            continue
        text = await _try_read(read, path)
        if not text:
            continue
        text = cut_middle(text, _FILE_TOKENS * _CHARS_PER_FILE_TOKEN, "\n[…]\n", tail=0.3)
        if len(text) > room:
            break
        room -= len(text)
        files.append(RestoredFile(path=path, text=text))
    return tuple(files)


async def _try_read(read: ReadFile, path: str) -> str | None:
    try:
        return await read(path)
    except Exception:
        # A file that is gone or forbidden by now is no reason to lose the summary.
        return None


Summarise: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Gets the whole prompt and the tokens the answer may have; may raise whatever it likes."""
Redact: TypeAlias = Callable[[str], str]
BREAKER = 3
"""Failures in a row after which no more summaries are asked for in a run."""
_BUDGET_SHARE = 0.20
_LEAST_BUDGET, _MOST_BUDGET = 2_000, 12_000
_MESSAGE_CHARS = (2_000, 1_000, 500, 250, 125)
_ARGUMENTS_SHARE = 4
_CHARS_PER_SUMMARY_TOKEN = 3
_TOO_LONG = 6
_HEADING = re.compile(
    r"^[#*\s]*(active task|goal|completed actions|remaining work)\b", re.IGNORECASE | re.MULTILINE
)
_FENCES = re.compile(r"<{3,}|>{3,}")
_logger = logging.getLogger(__name__)


class Summariser:
    """Summaries of old history. `failures` counts those in a row that came to nothing."""

    def __init__(self, summarise: Summarise, redact: Redact = lambda text: text) -> None:
        self._summarise = summarise
        self._redact = redact
        self.failures = 0

    @property
    def is_off(self) -> bool:
        """Whether it failed so often that it is not asked again in this run."""
        return self.failures >= BREAKER

    async def write(self, job: CompactionJob, shape: ViewShape, cut: int) -> str | None:
        """A summary of everything before `cut`, the summary so far included; None: it failed."""
        budget = budget_tokens(job, shape, cut)
        prompt = prompt_for(job, shape, cut, budget)
        try:
            summary = accept_summary(await self._summarise(self._redact(prompt), budget), budget)
        except Exception as error:
            _logger.warning("no summary: %r", error)
            summary = None
        self.failures = self.failures + 1 if summary is None else 0
        return None if summary is None else self._redact(summary)


def budget_tokens(job: CompactionJob, shape: ViewShape, cut: int) -> int:
    """How long the summary may be: a fifth of what it stands for, within bounds."""
    folded = sum(job.sizes(shape)[: cut - shape.last]) * job.scale
    bounded = min(_MOST_BUDGET, max(_LEAST_BUDGET, int(folded * _BUDGET_SHARE)))
    return min(bounded, max(100, job.window // 4))


def prompt_for(job: CompactionJob, shape: ViewShape, cut: int, budget: int) -> str:
    """The whole request to the summarising model, the transcript fenced as material."""
    most = job.window * _CHARS_PER_SUMMARY_TOKEN // 2
    parts = [prompt_text("summary"), f"Use at most {budget} tokens."]
    if job.focus:
        parts.append(f"Give 60 to 70 % of that room to this topic: {_unfenced(job.focus)}")
    if shape.summary:
        parts.append(
            "An earlier part was summarised before. Update that summary: keep every fact that "
            "still holds, and change what the transcript changes.\n"
            f"<<<\n{_unfenced(shape.summary)}\n>>>"
        )
    material = _transcript(job.messages[shape.last : cut], most)
    parts.append(f"The transcript:\n<<<\n{_unfenced(material)}\n>>>")
    return "\n\n".join(parts)


def accept_summary(text: str, budget: int) -> str | None:
    """The summary in what a model answered, without fences; None if it holds no known heading."""
    text = _FENCES.sub("", text).strip()
    if not _HEADING.search(text):
        return None
    return cut_middle(text, budget * _TOO_LONG, "\n[…]\n", tail=0.3)


def _unfenced(text: str) -> str:
    return _FENCES.sub(" ", text)


def _transcript(messages: Sequence[Message], most_chars: int) -> str:
    """The messages as text; the larger the whole, the less of each, and at last of the oldest."""
    lines: list[str] = []
    for message_chars in _MESSAGE_CHARS:
        told = (_message_text(message, message_chars) for message in messages)
        lines = [line for line in told if line]
        if sum(map(len, lines)) <= most_chars:
            return "\n\n".join(lines)
    room = most_chars
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return "\n\n".join(["[… the oldest messages are left out …]", *reversed(kept)])


def _message_text(message: Message, most: int) -> str:
    match message:
        case UserMessage():
            who = "user" if message.origin != "harness" else "harness"
            return f"[{who}] {_cut(message.text, most)}"
        case AssistantMessage():
            if message.withheld:
                return ""
            calls = [_call_text(call, most // _ARGUMENTS_SHARE) for call in message.calls]
            return "\n".join([f"[assistant] {_cut(message.text, most)}".rstrip(), *calls])
        case ToolResultMessage():
            status = " (error)" if message.is_error else ""
            return f"[result of {message.tool_name}{status}] {_cut(message.text, most)}"
        case CustomMessage():
            return ""
    return f"[reference] {_cut(message.text, most)}"


def _call_text(call: ToolCallBlock, most: int) -> str:
    return f"[calls {call.name}] {_cut(_as_json(call.arguments), most)}"


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _cut(text: str, most: int) -> str:
    return cut_middle(text, most, " […] ", tail=0.3)


OnStart: TypeAlias = Callable[[int], None]
"""Told the size of the context before a model is asked to summarise it."""
_URGENT_SAVING = 0.10
_MOST_RESTORED_AT = 0.50
_CHARS_PER_RESTORED_TOKEN = 2


@mutable(slots=True, kw_only=True)
class SummaryAttempt:
    """What became of the summary in one pass. `epoch` counts the passes before it.

    `skipped`: there was too little to fold; `off`: it had failed too often; empty: there is nobody
    to ask.
    """

    epoch: int
    on_start: OnStart
    outcome: Literal["", "skipped", "off", "failed", "written"] = ""


class SummaryStrategy:
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

    def strategy(self, attempt: SummaryAttempt) -> Strategy:
        """`summarize`, telling `attempt` what became of it."""

        async def summarize(job: CompactionJob, shape: ViewShape) -> ViewShape | None:
            folded = await self._folded(job, shape, attempt)
            if folded is None:
                return None
            standing = self._redact(self._standing())
            return await self._with_files(job, replace(folded, standing=standing))

        return summarize

    def write_ahead(self, job: CompactionJob, *, epoch: int) -> None:
        """Begin a summary in the background if the context has grown past a mark."""
        ahead = self._ahead
        if ahead is None or not self.checkpoints.is_due(job.size, job.window):
            return
        job = replace(job, messages=tuple(job.messages))
        cut = job.cut(job.shape)
        if cut <= job.shape.last:
            return

        async def write() -> SummaryCheckpoint | None:
            summary = await ahead.write(job, job.shape, cut)
            return SummaryCheckpoint(epoch=epoch, last=cut, summary=summary) if summary else None

        self.checkpoints.start(write)

    async def _folded(
        self, job: CompactionJob, shape: ViewShape, attempt: SummaryAttempt
    ) -> ViewShape | None:
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

    def _from_checkpoint(
        self, job: CompactionJob, shape: ViewShape, epoch: int
    ) -> ViewShape | None:
        """The fold for which a summary was written ahead, if it is of use now."""
        ready = self.checkpoints.newest
        if ready is None or ready.epoch != epoch or job.focus or ready.last <= shape.last:
            return None
        if ready.last not in boundaries(job.messages):
            return None
        folded = _with_summary(job, shape, ready.last, ready.summary)
        return folded if job.size_of(folded) <= job.window * job.fold_at else None

    async def _with_files(self, job: CompactionJob, shape: ViewShape) -> ViewShape:
        room_tokens = int(job.window * _MOST_RESTORED_AT) - job.size_of(shape)
        if self._read_file is None or not self._restore_files or room_tokens <= 0:
            return shape
        files = await restore_files(
            job.messages[: shape.last],
            job.messages[shape.last :],
            read=self._read_file,
            most=self._restore_files,
            room=room_tokens * _CHARS_PER_RESTORED_TOKEN,
        )
        clean = tuple(replace(file, text=self._redact(file.text)) for file in files)
        return replace(shape, restored=clean)


def _is_worth_asking(job: CompactionJob, shape: ViewShape, cut: int) -> bool:
    """Whether a summary of usual length would save enough."""
    if cut <= shape.last or job.level == "asked":
        return cut > shape.last
    saving = _URGENT_SAVING if job.is_urgent else LEAST_SAVING
    expected = job.size_of(replace(shape, last=cut)) + budget_tokens(job, shape, cut)
    return expected <= job.size * (1 - saving)


def _with_summary(job: CompactionJob, shape: ViewShape, cut: int, summary: str) -> ViewShape:
    words = words_chars(job.window)
    return replace(shape, last=cut, summary=summary, words_chars=words, restored=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCheckpoint:
    """A summary of the messages before `last`, made while there had been `epoch` folds."""

    epoch: int
    last: int
    summary: str


def checkpoint_marks(window_tokens: int) -> tuple[float, ...]:
    """The shares of the window at which a checkpoint is written."""
    if window_tokens < 25_000:
        return ()
    if window_tokens <= 200_000:
        step = 20
    elif window_tokens <= 500_000:
        step = 10
    else:
        step = 5
    stop = 100 if step < 20 else 81
    marks = tuple(percent / 100 for percent in range(step, stop, step))
    return marks[:18]


class Checkpoints:
    """Owns the background task; one at a time, and none outlives `close`.

    Each mark starts one once until `reset`; marks passed together start one together. A summary
    that fails or is late leaves no trace.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._task: asyncio.Task[None] | None = None
        self.newest: SummaryCheckpoint | None = None

    def is_due(self, size: int, window_tokens: int) -> bool:
        """Whether a mark was passed that was not passed before; counts it as passed."""
        share = size / window_tokens
        marks = [mark for mark in checkpoint_marks(window_tokens) if self._passed < mark <= share]
        if not marks or self.is_busy:
            return False
        self._passed = marks[-1]
        return True

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, write: Callable[[], Awaitable[SummaryCheckpoint | None]]) -> None:
        """Write one in the background. Nothing waits for it."""

        async def keep() -> None:
            self.newest = await write() or self.newest

        self._task = asyncio.get_running_loop().create_task(keep())

    def reset(self) -> None:
        """Forget what was written: there was a fold. All marks count anew."""
        self._passed = 0.0
        self.newest = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Stop what is being written."""
        task = self._task
        self.reset()
        if task is not None:
            await asyncio.wait([task])

    async def settled(self) -> None:
        """Return when nothing is being written any more."""
        if self._task is not None:
            await asyncio.wait([self._task])
