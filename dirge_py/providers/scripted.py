"""A model that says what a script tells it to: for tests, demonstrations and offline use.

It is a provider like any other and is shipped. In code:

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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
"""Something to wait for, made when it is needed: `asyncio.Event().wait`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: thinking, then text, then calls, then its end.

    `calls` are `(name, arguments)`, or whole `ToolCallBlock`s where the id matters; arguments that
    are a string are sent as they are, so that they may be broken. `error` ends the answer after
    everything else was said. `wait` holds it back before its first word, `hold` before its end;
    an abort passes both. `chunk_chars` cuts text, thinking and arguments into pieces (0: whole),
    pieces come `pause_s` apart. `events` are sent as they are, instead of all of this.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[tuple[str, Any] | ToolCallBlock] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    error: ProviderError | None = None
    chunk_chars: int = 0
    pause_s: float = 0.0
    wait: Gate | None = None
    hold: Gate | None = None
    events: Sequence[StreamEvent] = ()


ReplyMaker: TypeAlias = Callable[[LlmContext], Reply]
"""A reply that depends on what was asked."""


@dataclass(slots=True)
class Script:
    """Replies in order; `seen` and `options` keep what each call was given.

    `stream` is a `StreamFn`. A call beyond the last reply ends in a `StreamError` that counts them.
    """

    replies: Sequence[Reply | ReplyMaker]
    seen: list[LlmContext] = field(default_factory=list)
    options: list[StreamOptions] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        """Whether every reply was asked for."""
        return len(self.seen) >= len(self.replies)

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """The next reply, as deltas."""
        turn = len(self.seen)
        self.seen.append(context)
        self.options.append(options)
        if signal.aborted:
            yield _aborted()
            return
        if turn >= len(self.replies):
            yield StreamError(_spent(turn, context))
            return
        chosen = self.replies[turn]
        reply = chosen if isinstance(chosen, Reply) else chosen(context)
        async for event in _spoken(reply, context, options, signal):
            yield event


async def _spoken(
    reply: Reply, context: LlmContext, options: StreamOptions, signal: AbortSignal
) -> AsyncIterator[StreamEvent]:
    if reply.wait is not None:
        await _passed(reply.wait, signal)
    began = asyncio.get_running_loop().time()
    for number, event in enumerate(reply.events or _said(reply, context, options), 1):
        if reply.pause_s:
            # By the clock, as a service sends: late timers and slow readers do not add up.
            await _passed(partial(_until, began + number * reply.pause_s), signal)
        if signal.aborted:
            yield _aborted()
            return
        yield event
    if reply.hold is not None:
        await _passed(reply.hold, signal)
    if signal.aborted:
        yield _aborted()
    elif not reply.events:
        yield _ending(reply)


def _said(reply: Reply, context: LlmContext, options: StreamOptions) -> Iterator[StreamEvent]:
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


def _ending(reply: Reply) -> StreamEvent:
    if reply.error is not None:
        return StreamError(reply.error)
    natural: StopReason = "toolUse" if reply.calls else "stop"
    return StreamDone(stop_reason=reply.stop_reason or natural, usage=reply.usage)


def _calls(reply: Reply, context: LlmContext) -> Iterator[ToolCallBlock]:
    # A script starts over in every process, a resumed history does not: ids skip those in use.
    taken = {
        call.id
        for message in context.messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
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


async def _until(due: float) -> None:
    """Wait until the event loop's clock shows `due`; give way to others in any case."""
    await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))


async def _passed(gate: Gate, signal: AbortSignal) -> None:
    """Return when the gate opened or the run was aborted, whichever is first."""
    opened = asyncio.ensure_future(gate())
    aborted = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({opened, aborted}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        opened.cancel()
        aborted.cancel()


def _aborted() -> StreamError:
    return StreamError(ProviderError("Stopped.", kind="aborted", phase="stream"))


def _spent(turn: int, context: LlmContext) -> ProviderError:
    last = context.messages[-1].role if context.messages else "nothing"
    return ProviderError(
        f"The script holds {turn} replies and was asked for one more, after {last}.",
        kind="invalid_request",
        hint="Add a reply to the script.",
    )


def load_script(path: str) -> Script:
    """The script in a TOML or JSON file.

    Raises:
        ConfigError: the file cannot be read, or names something that a reply does not have.
    """
    return Script([_reply(values, f"{path}, reply {n}") for n, values in load_replies(path)])


def _reply(values: dict[str, Any], where: str) -> Reply:
    fields = dict(values)
    try:
        if "calls" in fields:
            fields["calls"] = [_call(call) for call in fields["calls"]]
        if "usage" in fields:
            fields["usage"] = Usage(**fields["usage"])
        if "error" in fields:
            error = dict(fields["error"])
            fields["error"] = ProviderError(error.pop("message", "scripted error"), **error)
        return Reply(**fields)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}.", hint="See `Reply` for the names.") from error


def _call(values: dict[str, Any]) -> tuple[str, Any] | ToolCallBlock:
    arguments = values.get("arguments", {})
    if "id" in values:
        return ToolCallBlock(id=values["id"], name=values["name"], arguments=arguments)
    return values["name"], arguments


def _make(settings: ProviderSettings, _http: "HttpClient") -> StreamFn:
    if settings.script is None:
        raise ConfigError(
            f"provider `{settings.alias}` is scripted but has no script.",
            hint='Set `script = "replies.toml"`.',
        )
    return load_script(settings.script).stream


PROVIDER = Provider(name="scripted", make=_make)


# A gate or a raw event has no form in a file.
REPLY_KEYS = frozenset(
    {"text", "thinking", "calls", "stop_reason", "usage", "error", "chunk_chars", "pause_s"}
)


def load_replies(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each reply's values with its number, from 1.

    Raises:
        ConfigError: the file is unreadable, no object with `replies`, or has an unknown name.
    """
    content = _parse_script(path)
    replies = content.get("replies") if isinstance(content, dict) else None
    if not isinstance(replies, list) or set(content) != {"replies"}:
        raise ConfigError(f"{path} holds no list `replies`, or something besides it.")
    for number, reply in enumerate(replies, start=1):
        if not isinstance(reply, dict):
            raise ConfigError(f"{path}, reply {number} is no table.")
        unknown = sorted(set(reply) - REPLY_KEYS)
        if unknown:
            raise ConfigError(
                f"{path}, reply {number}: no `{unknown[0]}` in a reply.",
                hint=f"There are: {', '.join(sorted(REPLY_KEYS))}.",
            )
        yield number, reply


def _parse_script(path: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"script {path} cannot be read: {error}.") from error
    try:
        return json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"script {path} does not parse: {error}.") from error
