"""Each strategy that truncates a history, alone and combined."""

from dataclasses import replace
from typing import Any

import pytest

from dirge_py.context.compaction import boundaries, clear_results, truncate, window
from dirge_py.context.shape import ViewShape, shown
from dirge_py.context.tokens import TokenCounter
from dirge_py.context.view import ContextRequest
from dirge_py.types.messages import Message, SystemMessage, TextBlock, ToolResultMessage, user_text
from tests.support.histories import (
    Summaries,
    assistant_text,
    at,
    chat,
    job,
    single_prompt_run,
    step,
    view,
)


def results(messages: Any) -> list[ToolResultMessage]:
    return [message for message in messages if isinstance(message, ToolResultMessage)]


async def test_a28_window_strategy_keeps_system_messages_and_newest_messages():
    reference = SystemMessage(content=(TextBlock("style guide"),))
    messages = (reference, *chat(3)[:-1])
    task = job(messages, window=500)

    shape = await window(task, ViewShape(), keep=2)

    assert shape is not None
    sent = shown(messages, shape)
    assert sent[0] is reference
    assert sent[2:] == list(messages[-2:])


async def test_a28_size_exactly_at_threshold_does_not_compact():
    one = view(None, set={"strategies": ["window"], "keep_messages": 2})
    assert (await at(one, chat(12), 0.75)).compaction is None
    assert (await at(one, chat(12), 0.7501)).compaction is not None


async def test_a30_old_tool_results_are_cleared_and_keep_id_and_error_flag():
    messages: tuple[Message, ...] = (
        user_text("go"),
        *step(0, "x" * 300),
        *step(1, "y" * 300, is_error=True),
        *step(2, "short"),
        *step(3, "z" * 300),
        *step(4, "w" * 300),
        assistant_text("done"),
    )

    shape = await clear_results(job(messages), ViewShape(), keep=2)

    assert shape is not None
    before, after = results(messages), results(shown(messages, shape))
    assert [r.text.startswith("[tool result cleared") for r in after] == [True, True] + [False] * 3
    assert "call read again" in after[0].text
    assert [r.tool_call_id for r in after] == [r.tool_call_id for r in before]
    assert [r.is_error for r in after] == [False, True, False, False, False]
    assert after[2:] == before[2:]


async def test_tool_results_not_yet_sent_to_model_are_never_cleared():
    messages = (user_text("go"), *step(0, "x" * 300), *step(1, "y" * 300))
    shape = await clear_results(job(messages), ViewShape(), keep=0)
    assert shape is not None
    assert results(shown(messages, shape))[1] is messages[-1]


async def test_a31_summary_precedes_newest_messages():
    summaries = Summaries()
    messages = chat(12)
    prepared = await at(view(summaries, set={"strategies": ["summarize"]}), messages, 0.76)

    assert len(summaries.prompts) == 1
    assert prepared.messages[0].text.startswith("[Summary of earlier conversation]")
    kept = prepared.messages[1:]
    assert kept == messages[-len(kept) :]


async def test_a31_short_history_is_not_summarized():
    summaries = Summaries()
    prepared = await at(view(summaries), (user_text("x" * 900),), 0.79)
    assert summaries.prompts == []
    assert len(prepared.messages) == 1


ORDERS = [["clear_results", "summarize", "window"], ["summarize", "clear_results"]]


@pytest.mark.parametrize(("order", "asked"), [(ORDERS[0], 0), (ORDERS[1], 1)])
async def test_a33_strategies_stop_after_the_first_that_suffices(order: list[str], asked: int):
    summaries = Summaries()
    messages = single_prompt_run(40, chars=2_000)
    prepared = await at(view(summaries, set={"strategies": order}), messages, 0.76)

    assert prepared.compaction is not None
    assert len(summaries.prompts) == asked
    assert prepared.tokens <= 0.75 * 10_000


async def test_a33_context_view_uses_the_given_token_counter():
    class Twice(TokenCounter):
        def text(self, text: str) -> int:
            return 2 * super().text(text)

    messages = chat(40)
    size = TokenCounter().count(messages)
    fits = ContextRequest(messages=messages, window_tokens=int(size * 1.5))

    assert (await view(None, counter=TokenCounter()).prepare(fits)).compaction is None
    assert (await view(None, counter=Twice()).prepare(fits)).compaction is not None


async def test_tool_results_kept_by_summary_are_not_cleared():
    messages = (
        *single_prompt_run(60),
        *step(98, "v" * 400),
        *step(99),
        *step(100),
        assistant_text("x"),
    )
    one = view(Summaries(), set={"keep_results": 1})
    prepared = await at(one, messages, 0.76)

    assert prepared.compaction.event.kind == "summary"
    assert "v" * 400 in [r.text for r in results(prepared.messages)]


def test_history_is_never_split_between_call_and_result():
    asked, answer = step(0)
    messages = (user_text("a"), asked, user_text("wait", "steering"), answer, assistant_text("b"))
    assert boundaries(messages) == [1, 4]
    assert boundaries((user_text("a"), user_text("b"))) == [1]
    assert boundaries(()) == []


async def test_truncated_results_are_not_truncated_again():
    messages = (*single_prompt_run(3), *step(9, "x" * 50_000), assistant_text("y"))
    task = job(messages)
    once = await truncate(task, {})
    again = await truncate(replace(task, shape=once, size=task.size_of(once)), {})
    assert shown(messages, again) == shown(messages, once)
