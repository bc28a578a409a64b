"""How a request's beginning differs from the previous request."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.context.system_prompt import CachePrefixMonitor
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    ResponseSchema,
    StreamDone,
    StreamEvent,
    StreamOptions,
    ToolSpec,
)
from dirge_py.types.messages import user_text


def tool(name: str, description: str = "") -> ToolSpec:
    return ToolSpec(name=name, description=description, parameters={})


def request_of(*words: str) -> LlmContext:
    messages = tuple(user_text(word) for word in words)
    return LlmContext(system_prompt="Be brief.", messages=messages, tools=(tool("read"),))


async def silent(*_: Any) -> AsyncIterator[StreamEvent]:
    yield StreamDone()


class CacheDriver:
    def __init__(self, sections: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.watch = CachePrefixMonitor(lambda text: (sections or {}).get(text, {}))
        self._stream = self.watch.around(silent)

    def send(self, context: LlmContext, **options: Any) -> None:
        self._stream(context, StreamOptions(**{"model": "a/m", **options}), AbortSignal())

    def between(self, before: LlmContext, now: LlmContext) -> tuple[str, ...] | None:
        self.send(before)
        self.watch.pop_changes()
        self.send(now)
        return self.watch.pop_changes()


HISTORY = request_of("one", "two", "three")


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        (request_of("one", "two", "three", "four"), ()),
        (request_of("one", "2", "three", "four"), ("message 2 of 3 changed",)),
        (request_of("one"), ("the messages from 2 of 3 on were left out",)),
        (replace(HISTORY, system_prompt="Be long."), ("the system prompt changed",)),
        (
            replace(HISTORY, tools=(tool("write"), tool("edit"))),
            ("the tools changed: +write, +edit, -read",),
        ),
        (
            replace(HISTORY, tools=(tool("read", "Reads."),)),
            ("the tools changed: read is described differently",),
        ),
    ],
)
def test_cache_break_names_each_changed_part(now: LlmContext, changes: tuple[str, ...]) -> None:
    assert CacheDriver().between(HISTORY, now) == changes


def test_changed_tool_order_breaks_cache_prefix() -> None:
    before = replace(HISTORY, tools=(tool("a"), tool("b")))
    now = replace(HISTORY, tools=(tool("b"), tool("a")))
    assert CacheDriver().between(before, now) == ("the tools changed: their order",)


def test_cache_break_names_changed_system_prompt_sections() -> None:
    texts = {
        "old": {"identity": "I", "environment": "main", "memory": "x"},
        "new": {"identity": "I", "environment": "topic", "prompt": "y"},
    }
    before, now = (replace(HISTORY, system_prompt=text) for text in texts)
    [changes] = CacheDriver(texts).between(before, now) or ()
    assert changes == "the system prompt changed: environment, memory, prompt"


def test_changes_of_model_and_thinking_accumulate_until_popped() -> None:
    watched = CacheDriver()
    watched.send(HISTORY)
    assert watched.watch.pop_changes() is None

    watched.send(HISTORY, model="b/n")
    watched.send(HISTORY, model="b/n", thinking_level="high")

    assert watched.watch.pop_changes() == ("another model, b/n", "thinking went from off to high")
    assert watched.watch.pop_changes() is None

    schema = ResponseSchema(name="answer", schema={})
    watched.send(HISTORY, model="b/n", thinking_level="high", tool_choice="none")
    watched.send(HISTORY, model="b/n", thinking_level="high", response_schema=schema)
    assert watched.watch.pop_changes() == (
        "which tool must be called changed",
        "the schema of the answer changed",
    )


@given(st.lists(st.text(max_size=3), max_size=6), st.lists(st.text(max_size=3), max_size=6))
def test_no_change_is_reported_only_if_request_extends_previous_request(
    before: list[str], more: list[str]
) -> None:
    changes = CacheDriver().between(request_of(*before), request_of(*more))
    assert (changes == ()) == (more[: len(before)] == before)
