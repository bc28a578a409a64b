"""What a request says differently at its beginning than the one before: why a cache is of no use.

Services keep the beginning of a request and charge less for it as long as the next one begins the
same: tools, system prompt, then message by message.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from operator import is_

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions, ToolSpec
from dirge_py.types.messages import Message

SectionsOf = Callable[[str], Mapping[str, str]]
"""The sections of a system prompt by name; none where nobody knows them."""


@dataclass(frozen=True, slots=True)
class _SentRequest:
    context: LlmContext
    options: StreamOptions


class CachePrefixMonitor:
    """Compares each request of one conversation with the one before it, also where that failed.

    It looks at what is the same object first, and only then at what is equal, so that a look takes
    far less than a millisecond as long as history only grows.
    """

    def __init__(self, sections_of: SectionsOf = lambda text: {}) -> None:
        self._sections_of = sections_of
        self._last: _SentRequest | None = None
        self._changes: dict[str, None] | None = None

    def around(self, stream_fn: StreamFn) -> StreamFn:
        """`stream_fn`, each call of it looked at."""

        def stream(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            self._look(_SentRequest(context, options))
            return stream_fn(context, options, signal)

        return stream

    def take(self) -> tuple[str, ...] | None:
        """What changed since this was asked last; None where there was nothing to compare with."""
        changes, self._changes = self._changes, None
        return None if changes is None else tuple(changes)

    def _look(self, now: _SentRequest) -> None:
        before, self._last = self._last, now
        if before is None:
            return
        if self._changes is None:
            self._changes = {}
        self._changes.update(dict.fromkeys(self._between(before, now)))

    def _between(self, before: _SentRequest, now: _SentRequest) -> Iterator[str]:
        if before.options.model != now.options.model:
            yield f"another model, {now.options.model}"
        if before.options.thinking_level != now.options.thinking_level:
            was, level = before.options.thinking_level, now.options.thinking_level
            yield f"thinking went from {was} to {level}"
        if before.options.tool_choice != now.options.tool_choice:
            yield "which tool must be called changed"
        if before.options.response_schema != now.options.response_schema:
            yield "what the answer must be like changed"
        yield from _tool_changes(before.context.tools, now.context.tools)
        yield from self._prompt_changes(before.context.system_prompt, now.context.system_prompt)
        yield from _message_changes(before.context.messages, now.context.messages)

    def _prompt_changes(self, before: str, now: str) -> Iterator[str]:
        if before == now:
            return
        was, sections = self._sections_of(before), self._sections_of(now)
        names = dict.fromkeys((*was, *sections)) if was and sections else {}
        changed = [name for name in names if was.get(name) != sections.get(name)]
        yield f"the system prompt changed{': ' if changed else ''}{', '.join(changed)}"


def _tool_changes(before: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> Iterator[str]:
    if before == now:
        return
    was, tools = ({tool.name: tool for tool in some} for some in (before, now))
    told = [f"+{name}" for name in tools if name not in was]
    told += [f"-{name}" for name in was if name not in tools]
    told += [
        f"{name} is described differently"
        for name in tools
        if tools[name] != was.get(name, tools[name])
    ]
    yield f"the tools changed: {', '.join(told) or 'their order'}"


def _message_changes(before: Sequence[Message], now: Sequence[Message]) -> Iterator[str]:
    at = min(len(before), len(now))
    if not all(map(is_, before, now)):
        pairs = enumerate(zip(before, now, strict=False))
        at = next((at for at, (a, b) in pairs if a is not b and a != b), at)
    if at == len(before):
        return
    if at == len(now):
        yield f"the messages from {at + 1} of {len(before)} on were left out"
    else:
        yield f"message {at + 1} of {len(before)} changed"
