"""Changes at the beginning of a request, which make the service's cache useless.

Services cache the beginning of a request and charge less for it as long as the next one begins the
same: tools, system prompt, then message by message.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from operator import is_

from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions, ToolSpec
from dirge_py.types.messages import Message

SectionsOf = Callable[[str], Mapping[str, str]]
"""The sections of a system prompt by name; empty if they are unknown."""


class CachePrefixMonitor:
    """Compares each request of one conversation with the one before, also if that failed.

    It compares identities first, so a comparison takes far less than a millisecond as long as
    history only grows.
    """

    def __init__(self, sections_of: SectionsOf = lambda text: {}) -> None:
        self._sections_of = sections_of
        self._last: tuple[LlmContext, StreamOptions] | None = None
        self._changes: dict[str, None] | None = None

    def around(self, stream_fn: StreamFn) -> StreamFn:
        """`stream_fn` with each request compared."""

        def stream(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            last, self._last = self._last, (context, options)
            if last is not None:
                changes = self._between(*last, context, options)
                self._changes = {**(self._changes or {}), **dict.fromkeys(changes)}
            return stream_fn(context, options, signal)

        return stream

    def pop_changes(self) -> tuple[str, ...] | None:
        """The changes since the last call; None if there was nothing to compare with."""
        changes, self._changes = self._changes, None
        return None if changes is None else tuple(changes)

    def _between(
        self, before: LlmContext, was: StreamOptions, now: LlmContext, options: StreamOptions
    ) -> Iterator[str]:
        if was.model != options.model:
            yield f"another model, {options.model}"
        if was.thinking_level != options.thinking_level:
            yield f"thinking went from {was.thinking_level} to {options.thinking_level}"
        if was.tool_choice != options.tool_choice:
            yield "which tool must be called changed"
        if was.response_schema != options.response_schema:
            yield "what the answer must be like changed"
        yield from _tool_changes(before.tools, now.tools)
        if before.system_prompt != now.system_prompt:
            old, new = map(self._sections_of, (before.system_prompt, now.system_prompt))
            names = dict.fromkeys((*old, *new)) if old and new else {}
            changed = [name for name in names if old.get(name) != new.get(name)]
            yield f"the system prompt changed{': ' if changed else ''}{', '.join(changed)}"
        yield from _message_changes(before.messages, now.messages)


def _tool_changes(before: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> Iterator[str]:
    if before == now:
        return
    old, new = ({tool.name: tool for tool in tools} for tools in (before, now))
    changes = [f"+{name}" for name in new if name not in old]
    changes += [f"-{name}" for name in old if name not in new]
    changes += [f"{n} is described differently" for n in new if new[n] != old.get(n, new[n])]
    yield f"the tools changed: {', '.join(changes) or 'their order'}"


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
