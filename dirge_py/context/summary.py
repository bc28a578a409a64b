"""Summaries of old history, which a model writes when they are needed or ahead of time."""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Any, Literal, TypeAlias

from dirge_py.context.compaction import LEAST_SAVING, CompactionJob, boundaries, windowed
from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.shape import RestoredFile, ViewShape
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle, one_line
from dirge_py.types.abort import AbortSignal
from dirge_py.types.extensions import Summarize
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
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
    """Return the paths of the files that tools opened, newest first, each once."""
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
    """Return up to `most` files of `folded` that `kept` doesn't show, `room` characters in all."""
    still_shown = set(files_of(kept))
    files: list[RestoredFile] = []
    for path in files_of(folded):
        if len(files) == most:
            break
        text = None
        if path not in still_shown:
            with suppress(Exception):  # keep the summary even if a file is gone or forbidden by now
                text = await read(path)
        if not text:
            continue
        text = cut_middle(text, _FILE_TOKENS * _CHARS_PER_FILE_TOKEN, "\n[…]\n", tail=0.3)
        if len(text) > room:
            break
        room -= len(text)
        files.append(RestoredFile(path=path, text=text))
    return tuple(files)


Redact: TypeAlias = Callable[[str], str]
BREAKER = 3
"""Failures in a row after which no more summaries are asked for in a run."""
_BUDGET_SHARE = 0.20
_LEAST_BUDGET, _MOST_BUDGET = 2_000, 12_000
_MESSAGE_CHARS = (2_000, 1_000, 500, 250, 125)
_ARGUMENTS_SHARE = 4
_CHARS_PER_SUMMARY_TOKEN = 3
_TOO_LONG = 6
_HEADING = late_pattern(
    r"^[#*\s]*(active task|goal|completed actions|remaining work)\b", re.IGNORECASE | re.MULTILINE
)
_NO_HEADINGS = "the model's answer had none of the headings that a summary must have"
_PROBLEM_CHARS = 300
_FENCES = late_pattern(r"<{3,}|>{3,}")
_logger = logging.getLogger(__name__)


class Summariser:
    """Writes summaries of old history; `failures` counts consecutive failures."""

    def __init__(self, summarise: Summarize, redact: Redact = lambda text: text) -> None:
        self._summarise = summarise
        self._redact = redact
        self.failures = 0
        self.problem = ""
        """Why the last summary failed; empty if it didn't."""

    @property
    def is_off(self) -> bool:
        """Whether it failed so often that it isn't asked again in this run."""
        return self.failures >= BREAKER

    async def write(self, job: CompactionJob, shape: ViewShape, cut: int) -> str | None:
        """Return a summary of all before `cut`, with the summary so far; None if it failed."""
        budget = budget_tokens(job, shape, cut)
        prompt = prompt_for(job, shape, cut, budget)
        self.problem, summary = "", None
        try:
            answer = await self._summarise(self._redact(prompt), budget)
            summary = accept_summary(answer, budget)
        except Exception as error:
            _logger.warning("no summary: %r", error)
            self.problem = _describe_failure(error)
        else:
            if summary is None:
                self.problem = _NO_HEADINGS if answer.strip() else "the model returned nothing"
        self.failures = self.failures + 1 if summary is None else 0
        return None if summary is None else self._redact(summary)


def _describe_failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the model took too long"
    return one_line(str(error), _PROBLEM_CHARS).rstrip(".") or type(error).__name__


def budget_tokens(job: CompactionJob, shape: ViewShape, cut: int) -> int:
    """Return the most tokens of a summary: a fifth of what it replaces, within bounds."""
    folded = sum(job.sizes(shape)[: cut - shape.last]) * job.scale
    bounded = min(_MOST_BUDGET, max(_LEAST_BUDGET, int(folded * _BUDGET_SHARE)))
    return min(bounded, max(100, job.window // 4))


def prompt_for(job: CompactionJob, shape: ViewShape, cut: int, budget: int) -> str:
    """Return the request to the summarising model, with the transcript between fences."""
    most = job.window * _CHARS_PER_SUMMARY_TOKEN // 2
    parts = [prompt_text("summary"), f"Use at most {budget} tokens."]
    if job.focus:
        parts.append(f"Give 60 to 70 % of that room to this topic: {_unfenced(job.focus)}")
    if shape.summary:
        parts.append(
            "An earlier part was summarized before. Update that summary: keep every fact that "
            "still holds, and change what the transcript changes.\n"
            f"<<<\n{_unfenced(shape.summary)}\n>>>"
        )
    material = _transcript(job.messages[shape.last : cut], most)
    parts.append(f"The transcript:\n<<<\n{_unfenced(material)}\n>>>")
    return "\n\n".join(parts)


def accept_summary(text: str, budget: int) -> str | None:
    """Return the summary in a model's answer, without fences; None if it has no known heading."""
    text = _FENCES.sub("", text).strip()
    if not _HEADING.search(text):
        return None
    return cut_middle(text, budget * _TOO_LONG, "\n[…]\n", tail=0.3)


def _unfenced(text: str) -> str:
    return _FENCES.sub(" ", text)


def _transcript(messages: Sequence[Message], most_chars: int) -> str:
    """Return the messages as text, cut shorter the more there are; the oldest are left out."""
    lines: list[str] = []
    for message_chars in _MESSAGE_CHARS:
        lines = [text for message in messages if (text := _message_text(message, message_chars))]
        if sum(map(len, lines)) <= most_chars:
            return "\n\n".join(lines)
    sizes = accumulate(map(len, reversed(lines)))
    count = sum(1 for _ in takewhile(lambda size: size <= most_chars, sizes))
    newest = lines[len(lines) - count :]
    return "\n\n".join(["[… the oldest messages are left out …]", *newest])


def _message_text(message: Message, most: int) -> str:
    match message:
        case UserMessage():
            who = "user" if message.origin != "harness" else "harness"
            return f"[{who}] {_cut(message.text, most)}"
        case AssistantMessage():
            if message.withheld:
                return ""
            lines = [f"[assistant] {_cut(message.text, most)}".rstrip()]
            for call in message.calls:
                arguments = call.arguments
                if not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False, default=repr)
                lines.append(f"[calls {call.name}] {_cut(arguments, most // _ARGUMENTS_SHARE)}")
            return "\n".join(lines)
        case ToolResultMessage():
            status = " (error)" if message.is_error else ""
            return f"[result of {message.tool_name}{status}] {_cut(message.text, most)}"
        case CustomMessage():
            return ""
    return f"[reference] {_cut(message.text, most)}"


def _cut(text: str, most: int) -> str:
    return cut_middle(text, most, " […] ", tail=0.3)


OnStart: TypeAlias = Callable[[int], None]
"""Called with the size of the context before a model is asked for a summary."""
_URGENT_SAVING = 0.10
_MOST_RESTORED_AT = 0.50
_CHARS_PER_RESTORED_TOKEN = 2


class SummaryStrategy:
    """The strategy `summarize`; each summary must keep the text that `standing` returns."""

    def __init__(
        self,
        *,
        summarise: Summarize | None,
        redact: Redact,
        read_file: ReadFile | None,
        restore_files: int,
        standing: Callable[[], str] = str,
    ) -> None:
        self._summariser = Summariser(summarise, redact) if summarise else None
        # Its failures don't count, because a fold then writes its own summary.
        self._ahead = Summariser(summarise, redact) if summarise else None
        self._redact = redact
        self._read_file = read_file
        self._restore_files = restore_files
        self._standing = standing
        self.checkpoints = Checkpoints()
        self.outcome: Literal["", "skipped", "off", "failed", "written"] = ""
        """`skipped`: too little to fold; `off`: failed too often; empty: no model to ask."""
        self._epoch = 0
        self._on_start: OnStart = lambda size: None

    def begin_run(self) -> None:
        """Let the summariser try again."""
        if self._summariser is not None:
            self._summariser.failures = 0

    @property
    def problem(self) -> str:
        """Why this pass has no summary; empty if it has one, or needs none."""
        summariser = self._summariser
        return summariser.problem if summariser and self.outcome in ("failed", "off") else ""

    def begin_pass(self, epoch: int, on_start: OnStart) -> None:
        """Begin a pass after `epoch` others; `on_start` is called before a model is asked."""
        self.outcome = ""
        self._epoch, self._on_start = epoch, on_start

    async def fold(self, job: CompactionJob, shape: ViewShape) -> ViewShape | None:
        """Return the shape with a summary, and set `outcome`: the strategy of this pass."""
        folded = await self._folded(job, shape)
        if folded is None:
            return None
        shape = replace(folded, standing=self._redact(self._standing()))
        return replace(shape, restored=await self._files(job, shape))

    def write_ahead(self, job: CompactionJob, signal: AbortSignal | None, *, epoch: int) -> None:
        """Begin a summary in the background if the context has grown past a mark."""
        ahead = self._ahead
        if ahead is None or not self.checkpoints.is_due(job.size, job.window):
            return
        job = replace(job, messages=tuple(job.messages))
        cut = job.cut(job.shape)
        if cut <= job.shape.last:
            return

        async def write() -> None:
            if signal is not None and signal.aborted:
                return
            if summary := await ahead.write(job, job.shape, cut):
                ready = SummaryCheckpoint(epoch=epoch, last=cut, summary=summary)
                self.checkpoints.newest = ready

        self.checkpoints.start(write())

    async def _folded(self, job: CompactionJob, shape: ViewShape) -> ViewShape | None:
        if self._summariser is None:
            return None
        if ready := self._from_checkpoint(job, shape):
            self.outcome = "written"
            return ready
        cut = job.cut(shape)
        if not _is_worth_asking(job, shape, cut):
            self.outcome = "skipped"
            return None
        if self._summariser.is_off:
            self.outcome = "off"
            return None
        self._on_start(job.size)
        summary = await self._summariser.write(job, shape, cut)
        self.outcome = "failed" if summary is None else "written"
        return None if summary is None else _with_summary(job, shape, cut, summary)

    def _from_checkpoint(self, job: CompactionJob, shape: ViewShape) -> ViewShape | None:
        """Return the shape with a summary that was written ahead, if there is one that fits."""
        ready = self.checkpoints.newest
        if ready is None or ready.epoch != self._epoch or job.focus:
            return None
        if ready.last <= shape.last or ready.last not in boundaries(job.messages):
            return None
        folded = _with_summary(job, shape, ready.last, ready.summary)
        return folded if job.size_of(folded) <= job.window * job.fold_at else None

    async def _files(self, job: CompactionJob, shape: ViewShape) -> tuple[RestoredFile, ...]:
        room_tokens = int(job.window * _MOST_RESTORED_AT) - job.size_of(shape)
        if self._read_file is None or not self._restore_files or room_tokens <= 0:
            return shape.restored
        files = await restore_files(
            job.messages[: shape.last],
            job.messages[shape.last :],
            read=self._read_file,
            most=self._restore_files,
            room=room_tokens * _CHARS_PER_RESTORED_TOKEN,
        )
        return tuple(replace(file, text=self._redact(file.text)) for file in files)


def _is_worth_asking(job: CompactionJob, shape: ViewShape, cut: int) -> bool:
    """Whether a summary of usual length would save enough."""
    if cut <= shape.last or job.level == "asked":
        return cut > shape.last
    saving = _URGENT_SAVING if job.is_urgent else LEAST_SAVING
    expected = job.size_of(replace(shape, last=cut)) + budget_tokens(job, shape, cut)
    return expected <= job.size * (1 - saving)


def _with_summary(job: CompactionJob, shape: ViewShape, cut: int, summary: str) -> ViewShape:
    return replace(windowed(job, shape, cut), summary=summary, restored=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCheckpoint:
    """A summary that was written ahead."""

    epoch: int
    """How many compaction passes there had been."""
    last: int
    """It covers the messages before this index."""
    summary: str
    """The text."""


def checkpoint_marks(window_tokens: int) -> tuple[float, ...]:
    """Return the shares of the window at which a checkpoint is written."""
    if window_tokens < 25_000:
        return ()
    step = 20 if window_tokens <= 200_000 else 10 if window_tokens <= 500_000 else 5
    stop = 100 if step < 20 else 81
    return tuple(percent / 100 for percent in range(step, stop, step))[:18]


class Checkpoints:
    """Owns the background task that writes summaries ahead: one at a time, until `close`.

    Each mark starts a task once until `reset`. A summary that fails or comes late is ignored.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._task: asyncio.Task[None] | None = None
        self.newest: SummaryCheckpoint | None = None

    def is_due(self, size: int, window_tokens: int) -> bool:
        """Whether a mark was passed that was not passed before; counts it as passed."""
        share = size / window_tokens
        marks = [mark for mark in checkpoint_marks(window_tokens) if self._passed < mark <= share]
        if not marks or (self._task is not None and not self._task.done()):
            return False
        self._passed = marks[-1]
        return True

    def start(self, writing: Coroutine[Any, Any, None]) -> None:
        """Write a summary in the background, which sets `newest`."""
        self._task = asyncio.get_running_loop().create_task(writing)

    def reset(self) -> None:
        """Forget the summary and the passed marks: there was a fold."""
        self._passed = 0.0
        self.newest = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Cancel the task that is running."""
        task = self._task
        self.reset()
        if task is not None:
            await asyncio.wait([task])
