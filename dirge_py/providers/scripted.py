"""A model that answers from a script: for tests, demonstrations and offline use.

It is a provider like any other. In code:

    script = Script([Reply(calls=[("read", {"path": "a.txt"})]), Reply(text="Done.")])
    run_agent_loop(..., stream_fn=script.stream)
    assert script.seen[1].messages[-1].text == "…"

As a file (`type = "scripted"`, `script = "replies.toml"`), TOML or JSON with the same names:

    [[replies]]
    thinking = "The test comes first."
    calls = [{ name = "read", arguments = { path = "a.txt" } }]

    [[replies]]
    text = "Done."
    usage = { input = 100, output = 5 }
"""

import asyncio
import json
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.providers.errors import aborted_error
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import AssistantMessage, StopReason, ToolCallBlock, Usage

if TYPE_CHECKING:
    from dirge_py.providers.client import HttpClient

Gate: TypeAlias = Callable[[], Awaitable[object]]
"""Something to wait for, such as `asyncio.Event().wait`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: thinking, then text, then calls, then its end."""

    text: str = ""
    """The text."""
    thinking: str = ""
    """The thinking."""
    calls: Sequence[tuple[str, Any] | ToolCallBlock] = ()
    """The calls as `(name, arguments)`, or as `ToolCallBlock` with an id. Text is sent as it is."""
    stop_reason: StopReason | None = None
    """Why the answer ends; None: `toolUse` with calls, else `stop`."""
    usage: Usage | None = None
    """The tokens; None for none."""
    error: ProviderError | None = None
    """Ends the answer after everything else."""
    chunk_chars: int = 0
    """The length of the pieces of text, thinking and arguments; 0: one piece."""
    pause_s: float = 0.0
    """The time between two pieces."""
    wait: Gate | None = None
    """Delays the start of the answer until it opens, or the run is aborted."""
    hold: Gate | None = None
    """Delays the end of the answer until it opens, or the run is aborted."""
    events: Sequence[StreamEvent] = ()
    """Sent as they are, instead of everything else."""


ReplyMaker: TypeAlias = Callable[[LlmContext], Reply]
"""A reply that depends on the request."""


@dataclass(slots=True, eq=False, repr=False)
class Script:
    """Replies in order. A call beyond the last reply ends in a `StreamError`."""

    replies: Sequence[Reply | ReplyMaker]
    """The replies."""
    seen: list[LlmContext] = field(default_factory=list)
    """The context of each call."""
    options: list[StreamOptions] = field(default_factory=list)
    """The options of each call."""

    @property
    def is_spent(self) -> bool:
        """Whether every reply was used."""
        return len(self.seen) >= len(self.replies)

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """A `StreamFn`: the next reply, as deltas."""
        turn = len(self.seen)
        self.seen.append(context)
        self.options.append(options)
        if signal.aborted:
            yield StreamError(aborted_error())
            return
        if turn >= len(self.replies):
            last = context.messages[-1].role if context.messages else "nothing"
            message = f"The script has {turn} replies, but one more was requested, after {last}."
            hint = "Add a reply to the script."
            yield StreamError(ProviderError(message, kind="invalid_request", hint=hint))
            return
        chosen = self.replies[turn]
        reply = chosen if isinstance(chosen, Reply) else chosen(context)
        async for event in _answer(reply, context, options, signal):
            yield event


async def _answer(
    reply: Reply, context: LlmContext, options: StreamOptions, signal: AbortSignal
) -> AsyncIterator[StreamEvent]:
    if reply.wait is not None:
        await _wait_at(reply.wait, signal)
    began = asyncio.get_running_loop().time()
    for number, event in enumerate(reply.events or _deltas(reply, context, options), 1):
        if reply.pause_s:
            # By the clock, so that late timers and slow readers don't add up.
            due_in_s = began + number * reply.pause_s - asyncio.get_running_loop().time()
            await _wait_at(partial(asyncio.sleep, max(0.0, due_in_s)), signal)
        if signal.aborted:
            yield StreamError(aborted_error())
            return
        yield event
    if reply.hold is not None:
        await _wait_at(reply.hold, signal)
    if signal.aborted:
        yield StreamError(aborted_error())
    elif reply.error is not None and not reply.events:
        yield StreamError(reply.error)
    elif not reply.events:
        natural: StopReason = "toolUse" if reply.calls else "stop"
        yield StreamDone(stop_reason=reply.stop_reason or natural, usage=reply.usage)


def _deltas(reply: Reply, context: LlmContext, options: StreamOptions) -> Iterator[StreamEvent]:
    yield StreamStart(options.model)
    if reply.thinking:
        for piece in _pieces(reply.thinking, reply.chunk_chars):
            yield ThinkingDelta(piece)
        yield ThinkingEnd()
    for piece in _pieces(reply.text, reply.chunk_chars):
        yield TextDelta(piece)
    for call in _calls(reply, context):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        yield ToolCallDelta(key=call.id, id=call.id, name=call.name)
        for piece in _pieces(text, reply.chunk_chars):
            yield ToolCallDelta(key=call.id, arguments=piece)
        yield ToolCallEnd(key=call.id)


def _calls(reply: Reply, context: LlmContext) -> Iterator[ToolCallBlock]:
    # A script restarts in every process, but a resumed history has ids already: skip those.
    answers = (m for m in context.messages if isinstance(m, AssistantMessage))
    taken = {call.id for answer in answers for call in answer.calls}
    number = len(taken)
    for call in reply.calls:
        if isinstance(call, ToolCallBlock):
            yield call
            continue
        number += 1
        while f"call_{number}" in taken:
            number += 1
        yield ToolCallBlock(id=f"call_{number}", name=call[0], arguments=call[1])


def _pieces(text: str, chunk_chars: int) -> Iterator[str]:
    width = chunk_chars or len(text) or 1
    for start in range(0, len(text), width):
        yield text[start : start + width]


async def _wait_at(gate: Gate, signal: AbortSignal) -> None:
    """Return when the gate opens or the run is aborted."""
    opened = asyncio.ensure_future(gate())
    aborted = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({opened, aborted}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        opened.cancel()
        aborted.cancel()


_KEYS = {member.name for member in fields(Reply)} - {"wait", "hold", "events"}
"""The names that a reply in a file may have; gates and events exist only in code."""


def load_script(path: str) -> Script:
    """The script in a TOML or JSON file. Raises ConfigError: it can't be read, or is invalid."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"script {path} cannot be read: {error}.") from error
    try:
        content: Any = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"script {path} does not parse: {error}.") from error
    replies = content.get("replies") if isinstance(content, dict) else None
    if not isinstance(replies, list) or set(content) != {"replies"}:
        raise ConfigError(f"{path} must contain a list `replies` and nothing else.")
    return Script([_reply(reply, f"{path}, reply {n}") for n, reply in enumerate(replies, start=1)])


def _reply(reply: Any, where: str) -> Reply:
    if not isinstance(reply, dict):
        raise ConfigError(f"{where} is not a table.")
    if unknown := sorted(set(reply) - _KEYS):
        hint = f"There are: {', '.join(sorted(_KEYS))}."
        raise ConfigError(f"{where}: a reply has no `{unknown[0]}`.", hint=hint)
    values = dict(reply)
    try:
        if "calls" in values:
            values["calls"] = [
                ToolCallBlock(arguments=call.get("arguments", {}), id=call["id"], name=call["name"])
                if "id" in call
                else (call["name"], call.get("arguments", {}))
                for call in values["calls"]
            ]
        if "usage" in values:
            values["usage"] = Usage(**values["usage"])
        if "error" in values:
            error = dict(values["error"])
            values["error"] = ProviderError(error.pop("message", "scripted error"), **error)
        return Reply(**values)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}.", hint="See `Reply` for the names.") from error


def _make(settings: ProviderSettings, _http: "HttpClient") -> StreamFn:
    # `ProviderEntry` requires a script.
    return load_script(settings.script or "").stream


PROVIDER = Provider(name="scripted", make=_make)
