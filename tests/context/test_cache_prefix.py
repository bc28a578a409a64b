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


def asked(*words: str) -> LlmContext:
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


HISTORY = asked("one", "two", "three")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (asked("one", "two", "three", "four"), ()),
        (asked("one", "2", "three", "four"), ("message 2 of 3 changed",)),
        (asked("one"), ("the messages from 2 of 3 on were left out",)),
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
def test_each_part_that_changed_is_named(now: LlmContext, told: tuple[str, ...]) -> None:
    assert CacheDriver().between(HISTORY, now) == told


def test_tools_in_another_order_break_it_too() -> None:
    before = replace(HISTORY, tools=(tool("a"), tool("b")))
    now = replace(HISTORY, tools=(tool("b"), tool("a")))
    assert CacheDriver().between(before, now) == ("the tools changed: their order",)


def test_the_sections_of_the_prompt_that_changed_are_named() -> None:
    texts = {
        "old": {"identity": "I", "environment": "main", "memory": "x"},
        "new": {"identity": "I", "environment": "topic", "prompt": "y"},
    }
    before, now = (replace(HISTORY, system_prompt=text) for text in texts)
    [told] = CacheDriver(texts).between(before, now) or ()
    assert told == "the system prompt changed: environment, memory, prompt"


def test_model_and_thinking_are_part_of_it_and_changes_add_up_until_they_are_taken() -> None:
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
def test_nothing_is_told_just_where_one_request_begins_with_the_other(
    before: list[str], more: list[str]
) -> None:
    told = CacheDriver().between(asked(*before), asked(*more))
    assert (told == ()) == (more[: len(before)] == before)
