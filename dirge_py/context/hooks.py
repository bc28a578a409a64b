"""The context hooks of a conversation, which build each request and record compactions.

Reminders and cut results change the request only, never the history.
"""

import asyncio
import contextlib
import hashlib
import operator
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dirge_py.config.schema import Config, ReminderTable
from dirge_py.context.compaction import effective_window
from dirge_py.context.shape import OmittedMessage
from dirge_py.context.summary import MOST_FILE_BYTES, ReadFile
from dirge_py.context.system_prompt import SystemPrompt
from dirge_py.context.view import (
    BUDGET_CHARS,
    Compaction,
    ContextParts,
    ContextReport,
    ContextRequest,
    ContextView,
    PreparedContext,
    Relay,
)
from dirge_py.files.workspace import Workspace
from dirge_py.lib.text import cut_middle, fair_shares
from dirge_py.processes.output import OutputStore
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import (
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    HistoryMoved,
    LoopEvent,
    Sink,
)
from dirge_py.types.extensions import Summarize
from dirge_py.types.history import GrowingHistory
from dirge_py.types.hooks import Context, Hooks, StopRun, TurnInfo
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    cut_texts,
    text_sizes,
    user_text,
)
from dirge_py.types.outcomes import Failed
from dirge_py.types.tools import MAX_RESULT_CHARS, LoopTool

_TAIL_SHARE = 0.2
_MARKER_CHARS = 200


class ResultBudget:
    """Cuts the results of each batch so that together they have at most `chars` characters.

    A result whose tool has its own limit (`max_result_chars`) is cut to that as well.
    """

    def __init__(self, chars: int = BUDGET_CHARS, *, relay: Relay | None = None) -> None:
        self._chars = chars
        self._relay = relay
        self._history = GrowingHistory[Message]()

    def apply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages, as many as before; the same object when nothing had to be cut."""
        begin = 0
        new = self._history.new(messages)
        for position, message in enumerate(new):
            if isinstance(message, AssistantMessage):
                # The batch before it is complete, so it is always sent like this from now on.
                settled = new[begin:position]
                self._history.add(settled, self._cut_batch(settled))
                begin = position
        sent = (*self._history.made, *self._cut_batch(new[begin:]))
        return messages if all(map(operator.is_, sent, messages)) else sent

    def _cut_batch(self, batch: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with their results cut."""
        messages = list(batch)
        results = {
            n: each for n, each in enumerate(messages) if isinstance(each, ToolResultMessage)
        }
        sizes = [sum(text_sizes(result)) for result in results.values()]
        limits = [each.details.get(MAX_RESULT_CHARS) for each in results.values()]
        wanted = [
            min(size, limit) if isinstance(limit, int) else size
            for size, limit in zip(sizes, limits, strict=True)
        ]
        shares = fair_shares(wanted, self._chars)
        if shares != sizes:
            for at, share in zip(results, shares, strict=True):
                messages[at] = self._shortened(results[at], share)
        return messages

    def _shortened(self, result: ToolResultMessage, share: int) -> ToolResultMessage:
        sizes = text_sizes(result)
        total = sum(sizes)
        if total <= share + _MARKER_CHARS:
            return result
        marker = f"\n[truncated — {total} chars total{self._where(result)}]\n"

        def shorten(text: str, most: int) -> str:
            short = cut_middle(text, most + len(marker), marker, tail=_TAIL_SHARE)
            return short if len(text) <= most or len(short) < len(text) else text[:most]

        return cut_texts(result, fair_shares(sizes, share), shorten)

    def _where(self, result: ToolResultMessage) -> str:
        if self._relay is None:
            return "; ask for less at once"
        try:
            path = self._relay(result.tool_call_id, result.text)
        except Exception:
            # A full disk costs the rest of the text, not the run.
            return "; the rest could not be kept: ask for less at once"
        return f"; all of it is in {path}: `read` it with offset and limit, or `grep` it"


def is_reminder_due(rule: ReminderTable, turn: int, tokens: int) -> bool:
    """Whether the reminder is due in this turn, counted from 1, with a context of this size."""
    is_periodic = rule.every_turns is not None and turn > 0 and turn % rule.every_turns == 0
    return is_periodic or (rule.at_tokens is not None and tokens >= rule.at_tokens)


def add_reminders(
    messages: Sequence[Message], rules: Sequence[ReminderTable], *, turn: int, tokens: int
) -> Sequence[Message]:
    """Return the messages followed by the reminders that are due; the same object when none is."""
    due = [rule.text for rule in rules if is_reminder_due(rule, turn, tokens)]
    if not due:
        return messages
    return (*messages, user_text("\n\n".join(["[Reminder]", *due]), origin="harness"))


Ask: TypeAlias = Callable[[str, str, str], Awaitable[str]]
"""Asks the model of a role: (role, system prompt, prompt) → answer."""
SUMMARY_TIMEOUT_S = 120.0
_SUMMARISER = "You write summaries of transcripts, and nothing else."
_HINT = "Try `/compact`, start over with `/clear`, or use a model with a larger window."
_CHARS_PER_WINDOW_TOKEN = 1.2


class ContextHooks:
    """The context of one conversation: the hooks of its runs, and queries between runs."""

    def __init__(self, parts: ContextParts, *, model: str) -> None:
        self._parts = parts
        self._model = model
        self._view = ContextView(parts)
        self._prompt: str | None = None
        self._budget = self._new_budget()
        self._request = ContextRequest(messages=())
        self._emit: Sink = lambda event: None
        self._view.on_start = lambda size: self._emit(CompactionStarted(tokens_before=size))

    def bundle(self, model: str) -> Hooks:
        """Return the hooks of one run with `model`, made anew for every run."""
        if model != self._model:
            self._model = model
            self._budget = self._new_budget()
        self._view.begin_run()
        self._prompt = None
        return Hooks(name="context", transform_context=self._prepare, prepare_next_turn=self._learn)

    def sink(self, event: LoopEvent) -> None:
        """Reset the view when another history replaces the current one."""
        if isinstance(event, ContextReplaced):
            self._view.reset()
        elif isinstance(event, HistoryMoved):
            self._view.reset(event.compactions)

    async def compact(
        self, messages: Sequence[Message], focus: str = "", *, emit: Sink = lambda event: None
    ) -> ContextCompacted | None:
        """Fold old messages on the user's request; None if that would save nothing."""
        self._emit = emit
        self._view.begin_run()
        return self._recorded(await self._view.compact(self._request_for(messages), focus=focus))

    def dropped(self, messages: Sequence[Message]) -> Sequence[OmittedMessage]:
        """Return the messages that would not be sent as they are."""
        return self._view.dropped(self._budget.apply(messages))

    def show_again(self, messages: Sequence[Message], number: int) -> ContextCompacted | None:
        """Send a message whole again (counted from 1); None if it is not omitted."""
        return self._recorded(self._view.show_again(self._request_for(messages), number))

    def undo(self, messages: Sequence[Message]) -> ContextCompacted | None:
        """Undo the last compaction; None if there was none."""
        return self._recorded(self._view.undo(self._request_for(messages)))

    async def shrink(self) -> bool:
        """Shrink the last request by at least a tenth; False if that is impossible."""
        compacted = self._recorded(await self._view.shrink(self._request))
        if compacted is not None:
            self._emit(compacted)
        return compacted is not None

    def report(
        self,
        messages: Sequence[Message],
        prompt: SystemPrompt | None = None,
        tools: Sequence[LoopTool] = (),
    ) -> ContextReport:
        """Report the next request, with this prompt and these tools instead of those last sent."""
        request = self._request_for(messages)
        if prompt is None:
            return self._view.report(request)
        names = [tool.name for tool in tools]
        request = replace(request, system_prompt=prompt.text(names), tools=tools)
        return self._view.report(request, prompt.parts(names))

    async def close(self) -> None:
        """Stop the summary that is being written in the background."""
        await self._view.close()

    def _new_budget(self) -> ResultBudget:
        window = effective_window(self._window_tokens(), self._parts.settings.target_tokens)
        # One batch must not fill a small window.
        chars = min(self._parts.result_budget_chars, int(window * _CHARS_PER_WINDOW_TOKEN))
        return ResultBudget(chars, relay=self._parts.relay)

    def _request_for(self, messages: Sequence[Message]) -> ContextRequest:
        """Return a request of these messages, with the prompt and the tools that were sent last."""
        window = self._window_tokens()
        return replace(self._request, messages=self._budget.apply(messages), window_tokens=window)

    def _window_tokens(self) -> int:
        return self._parts.settings.window_tokens or self._parts.window_of(self._model)

    async def _prepare(self, info: TurnInfo) -> Context | None:
        context = info.context
        if self._prompt is not None:
            context = replace(context, system_prompt=self._prompt)
        self._emit = info.emit
        self._request = ContextRequest(
            messages=self._budget.apply(context.messages),
            system_prompt=context.system_prompt,
            tools=context.tools,
            window_tokens=self._window_tokens(),
        )
        prepared = await self._prepared(info.signal)
        messages = add_reminders(
            prepared.messages, self._parts.reminders, turn=info.turn, tokens=prepared.tokens
        )
        if prepared.compaction is not None and self._prompt is not None:
            context = replace(context, system_prompt=self._prompt)
        if messages is context.messages and context is info.context:
            return None
        return replace(context, messages=messages)

    async def _prepared(self, signal: AbortSignal) -> PreparedContext:
        if not self._parts.settings.compact:
            return self._view.measured(self._request)
        prepared = await self._view.prepare(self._request, signal)
        if compacted := self._recorded(prepared.compaction):
            self._emit(compacted)
        if prepared.is_stuck:
            share = round(100 * prepared.tokens / prepared.window)
            text = f"The context fills {share} % of its window, and compacting it did not help."
            raise StopRun(Failed(kind="context_length", message=text, hint=_HINT))
        return prepared

    def _learn(self, info: TurnInfo) -> None:
        if info.message is not None and info.message.usage:
            self._view.note_usage(info.message.usage.input)

    def _recorded(self, compaction: Compaction | None) -> ContextCompacted | None:
        """Store the compaction; returns its event."""
        if compaction is None:
            return None
        event = compaction.event
        if event.summary:
            event = replace(event, summary_model=self._parts.summary_model)
        if compaction.record is not None:
            self._parts.save({**compaction.record, "model": event.summary_model})
            self._parts.on_compacted()
            if self._parts.reread is not None:
                # The cached prefix is lost anyway, so update the prompt, too.
                self._prompt = self._parts.reread([tool.name for tool in self._request.tools])
        return event


def context_parts(config: Config, **more: Any) -> ContextParts:
    """Return the parts from the settings and `more`."""
    return ContextParts(
        settings=config.context,
        # Only with a model chosen for summaries, because each costs a call.
        checkpoints=bool(config.roles.summarize),
        result_budget_chars=config.tools.result_budget_chars,
        reminders=tuple(config.reminder),
        **more,
    )


def for_fork(parts: ContextParts) -> ContextParts:
    """Return the same parts for a fork, which has no journal and a separate history."""
    return replace(
        parts, checkpoints=False, save=lambda record: None, on_compacted=lambda: None, records=()
    )


def summarise_with(ask: Ask, *, timeout_s: float = SUMMARY_TIMEOUT_S) -> Summarize:
    """Return a summariser that asks the model of the role `summarize`, for at most `timeout_s`."""

    async def summarise(prompt: str, budget_tokens: int) -> str:
        async with asyncio.timeout(timeout_s):
            return await ask("summarize", _SUMMARISER, prompt)

    return summarise


def file_reader(workspace: Workspace) -> ReadFile:
    """Return a reader of the text files beneath the roots of the workspace."""

    def read(path: str) -> str | None:
        with workspace.at_call("").open(path) as (stream, located, status):
            if status.st_size > MOST_FILE_BYTES or workspace.withheld(located.real):
                return None
            content = stream.read()
        return None if b"\0" in content else content.decode(errors="replace")

    return lambda path: asyncio.to_thread(read, path)


def relay_to(store: OutputStore) -> Relay:
    """Return a `Relay` to the folder of outputs; names of files are made from their content."""

    def relay(call_id: str, text: str) -> str:
        content = text.encode(errors="replace")
        digest = hashlib.sha256(call_id.encode(errors="replace") + content).hexdigest()
        name = f"result-{digest[:16]}"
        path = store.folder / f"{name}.txt"
        with contextlib.suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size == len(content):
                return str(path)
        return store.keep(name, content)

    return relay
