"""Which messages are sent, and when the view is compacted."""

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.context.compaction import effective_window, level_of
from dirge_py.context.tokens import TokenCounter
from dirge_py.context.view import ContextParts, ContextRequest, ContextView
from dirge_py.types.history import normalize_history
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from tests.support.histories import (
    GOOD,
    Summaries,
    assistant_text,
    at,
    chat,
    single_prompt_run,
    step,
    view,
)
from tests.support.history_faults import faults


def texts(messages: Any) -> str:
    return "\n".join(message.text for message in messages)


# -- thresholds


def test_case_112_effective_window_is_smaller_of_model_window_and_limit():
    assert effective_window(1_000_000, 250_000) == 250_000
    assert effective_window(128_000, 250_000) == 128_000


@pytest.mark.parametrize(
    ("size", "is_measured", "level"),
    [
        (7_500, True, None),
        (7_501, True, "fold"),
        (7_801, True, "aggressive"),
        (8_000, True, "aggressive"),
        (8_001, True, "forced"),
        (9_000, False, None),
        (9_001, False, "start"),
    ],
)
def test_compaction_level_starts_strictly_above_each_threshold(
    size: int, is_measured: bool, level: str | None
):
    assert level_of(size, 10_000, is_measured=is_measured, fold_at=0.75) == level


async def test_below_thresholds_same_message_object_is_sent():
    messages = single_prompt_run(5)
    prepared = await at(view(Summaries()), messages, 0.74)
    assert prepared.messages is messages
    assert prepared.compaction is None


async def test_messages_added_since_last_usage_report_count_toward_threshold():
    one = view(Summaries())
    messages = single_prompt_run(20)
    assert (await at(one, messages, 0.74)).compaction is None

    more = (*messages, *step(99, "x" * 4_000))
    prepared = await one.prepare(ContextRequest(messages=more, window_tokens=10_000))

    assert prepared.compaction is not None


# -- compaction


async def test_run_with_one_prompt_can_be_compacted():
    summaries = Summaries()
    messages = single_prompt_run(40)

    prepared = await at(view(summaries), messages, 0.76)

    assert prepared.compaction.event.kind == "summary"
    assert prepared.messages[0].role == "system"
    assert prepared.messages[1].role == "assistant"
    assert prepared.messages[-1] is messages[-1]
    assert faults(prepared.messages) == []
    assert prepared.tokens < 0.75 * 10_000


async def test_case_115_compaction_leaves_one_reference_only_summary_and_newest_message():
    messages = chat(11)
    prepared = await at(view(Summaries()), messages, 0.76)

    systems = [m for m in prepared.messages if isinstance(m, SystemMessage)]
    assert len(systems) == 1
    assert systems[0] is prepared.messages[0]
    assert systems[0].text.startswith("[Summary of earlier conversation]")
    assert "reference only, not instructions" in systems[0].text
    assert "Go on with 1." in systems[0].text
    assert prepared.messages[-1] is messages[-1]
    assert len(prepared.messages) < len(messages)


@pytest.mark.parametrize(("share", "tail"), [(0.76, 0.20), (0.79, 0.10)])
async def test_kept_tail_stays_within_its_share_of_window(share: float, tail: float):
    messages = single_prompt_run(80)
    counter = TokenCounter()
    prepared = await at(view(Summaries(), counter=counter), messages, share)

    scale = 10_000 * share / TokenCounter().count(messages)
    kept = TokenCounter().count(prepared.messages[1:]) * scale
    assert 0.5 * tail * 10_000 < kept <= tail * 10_000


async def test_user_messages_are_quoted_verbatim_in_summary():
    first_prompt = "Never touch `vendor/`; the port is 8931 — and mind the *umlauts*: äöü."
    messages = (
        user_text(first_prompt),
        *single_prompt_run(30)[1:],
        user_text("use tabs", "steering"),
        user_text("[Verifier] run the tests", "harness"),
        *single_prompt_run(30)[1:],
    )
    prepared = await at(view(Summaries()), messages, 0.79)

    summary = prepared.messages[0].text
    assert first_prompt in summary
    assert "use tabs" in summary
    assert "[Verifier]" not in summary


async def test_long_folded_prompt_is_quoted_with_start_and_end():
    messages = (user_text("begin " + "z" * 60_000 + " end"), *single_prompt_run(30)[1:])
    prepared = await at(view(Summaries()), messages, 0.95, window_tokens=20_000)

    summary = prepared.messages[0].text
    assert "begin zzz" in summary
    assert "zzz end" in summary
    assert len(summary) < 20_000


async def test_t19_second_summary_prompt_contains_first_summary():
    summaries = Summaries(answers=["## Goal\nfact-of-epoch-1 holds", GOOD])
    one = view(summaries)
    messages = (user_text("go"), *step(777), *single_prompt_run(40)[1:])
    await at(one, messages, 0.76)
    assert "step 777" in summaries.prompts[0]

    more = (*messages, *single_prompt_run(40)[1:])
    prepared = await at(one, more, 0.76)

    assert prepared.compaction.event.kind == "summary"
    assert "fact-of-epoch-1 holds" in summaries.prompts[1]
    assert "step 777" not in summaries.prompts[1]
    assert len([m for m in prepared.messages if m.role == "system"]) == 1


async def test_no_second_compaction_without_new_usage_report():
    summaries = Summaries()
    one = view(summaries)
    messages = single_prompt_run(40)
    await at(one, messages, 0.79)

    again = await one.prepare(
        ContextRequest(messages=(*messages, assistant_text("x")), window_tokens=10_000)
    )

    assert again.compaction is None
    assert len(summaries.prompts) == 1


# -- failures


async def test_case_115_without_summarizer_oldest_messages_are_left_out():
    messages = single_prompt_run(40)
    prepared = await at(view(None), messages, 0.76)

    assert prepared.compaction.event.kind == "overflow"
    assert "there is no summary of it" in prepared.messages[0].text
    assert "Make the tests pass, please." in prepared.messages[0].text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no headings here", "none of the headings"),
        ("", "returned nothing"),
        (RuntimeError("The service is down."), "The service is down"),
        (TimeoutError(), "took too long"),
    ],
)
async def test_case_115_failed_summary_sends_history_with_cleared_results(answer: Any, reason: str):
    messages = (user_text("go"), *step(99, "z" * 2_500), *single_prompt_run(40)[1:])
    prepared = await at(view(Summaries(answers=[answer])), messages, 0.76)

    assert prepared.compaction.event.kind == "failed_summary"
    assert reason in prepared.compaction.event.problem
    assert len(prepared.messages) == len(messages)
    assert "cleared to save room" in prepared.messages[2].text
    assert prepared.messages[-1] is messages[-1]


async def test_case_115_after_three_failures_summarizer_is_off_until_next_run():
    summaries = Summaries(answers=["bad"] * 3)
    one = view(summaries, set={"strategies": ["summarize"]})
    messages = single_prompt_run(40)
    kinds = [(await at(one, messages, 0.76)).compaction for _ in range(3)]

    prepared = await at(one, messages, 0.76)
    assert [item.event.kind for item in kinds] == ["failed_summary"] * 3
    assert prepared.compaction is None
    assert len(summaries.prompts) == 3

    one.begin_run()
    assert (await at(one, messages, 0.76)).compaction.event.kind == "summary"


async def test_with_summarizer_off_window_strategy_drops_oldest_messages():
    one = view(Summaries(answers=["bad"] * 3), set={"strategies": ["summarize", "window"]})
    messages = single_prompt_run(40)
    for _ in range(3):
        await at(one, messages, 0.76)

    assert (await at(one, messages, 0.76)).compaction.event.kind == "summary_off"


# -- forced compaction


async def test_context_over_80_percent_shrinks_below_even_if_summary_fails():
    messages = single_prompt_run(40)
    prepared = await at(view(Summaries(answers=["bad"])), messages, 0.85)

    assert prepared.compaction.event.kind == "failed_summary"
    assert prepared.tokens <= 8_000
    assert not prepared.is_stuck


async def test_context_over_80_percent_that_cannot_shrink_is_stuck():
    messages = (user_text("x"), *step(0, "the only result, not seen yet" * 99))
    prepared = await at(view(Summaries()), messages, 0.85)
    assert prepared.is_stuck


async def test_forced_compaction_without_effect_is_stuck_until_next_run():
    one = view(Summaries())
    messages = single_prompt_run(40)
    assert not (await at(one, messages, 0.85)).is_stuck
    assert (await at(one, messages, 0.85)).is_stuck
    assert one.compactions == 1

    one.begin_run()
    assert (await at(one, messages, 0.85)).compaction is not None


async def test_case_114_old_result_larger_than_window_is_truncated_before_first_call():
    old = (user_text("look"), *step(0, "x" * 500_000), assistant_text("seen"), user_text("go on"))
    small = (user_text("look"), *step(0, "x" * 4_096), assistant_text("seen"), user_text("go on"))
    summaries = Summaries()

    prepared = await view(summaries).prepare(ContextRequest(messages=old))
    assert len(texts(prepared.messages)) < 100_000
    assert prepared.compaction is not None
    assert prepared.compaction.event.kind == "prune"
    assert summaries.prompts == []

    assert (await view().prepare(ContextRequest(messages=small))).messages is small


async def test_case_113_compaction_truncates_seen_results_but_not_unseen_ones():
    big = "begin" + "x" * 60_000 + "end"
    seen = (*single_prompt_run(20), *step(50, big), assistant_text("seen"), user_text("on"))
    unseen = (*single_prompt_run(400), *step(50, big))

    cut = await at(view(), seen, 0.76, window_tokens=60_000)
    result = next(m for m in cut.messages if m.role == "toolResult" and "begin" in m.text)
    assert len(result.text) <= 12_000
    assert result.text.startswith("begin")
    assert result.text.endswith("end")
    assert "characters left out" in result.text

    whole = await at(view(), unseen, 0.76, window_tokens=60_000)
    assert whole.compaction is not None
    assert whole.messages[-1].text == big


async def test_unseen_result_larger_than_window_is_truncated():
    messages = (user_text("look"), *step(0, "x" * 200_000))
    prepared = await view().prepare(ContextRequest(messages=messages, window_tokens=10_000))
    assert prepared.tokens <= 10_000


# -- stability


async def test_without_compaction_each_request_extends_previous_request():
    one = view(Summaries())
    messages = single_prompt_run(60)
    await at(one, messages, 0.79)
    requests = []
    for number in range(20):
        messages = (*messages, *step(1_000 + number, "y" * 500))
        prepared = await one.prepare(ContextRequest(messages=messages, window_tokens=10**6))
        assert prepared.compaction is None
        requests.append(prepared.messages)

    for before, after in pairwise(requests):
        assert all(a is b for a, b in zip(before, after, strict=False))
        assert len(after) == len(before) + 2


async def test_resumed_view_sends_same_messages_as_before():
    one = view(Summaries())
    messages = (user_text("go"), *step(0, "z" * 5_000, name="grep"), *single_prompt_run(60)[1:])
    prepared = await at(one, messages, 0.81)
    record = prepared.compaction.record
    assert {"first", "last", "summary", "kind", "tokens_before", "tokens_after"} <= record.keys()

    resumed = ContextView(ContextParts(records=[{"last": 3}, dict(record)]))

    assert resumed.shown(messages) == prepared.messages
    assert resumed.compactions == 2


def test_invalid_compaction_record_is_ignored():
    messages = single_prompt_run(3)
    for record in ({"last": 99}, {"last": "7"}, {"last": -1}, {"restored": 5, "summary": None}):
        assert ContextView(ContextParts(records=[record])).shown(messages) is messages


async def test_after_reset_another_history_is_sent_completely():
    one = view(Summaries())
    await at(one, single_prompt_run(40), 0.79)
    one.reset()
    other = chat(2)
    assert one.shown(other) is other


# -- on request


async def test_compact_on_request_works_below_thresholds():
    summaries = Summaries()
    one = view(summaries)
    messages = single_prompt_run(40)

    done = await one.compact(ContextRequest(messages=messages), focus="the parser")

    assert done is not None
    assert done.event.kind == "summary"
    assert "60 to 70 % of that room to this topic: the parser" in summaries.prompts[0]
    assert len(one.shown(messages)) < len(messages)


async def test_compact_of_short_history_changes_nothing():
    messages = (user_text("hi"), assistant_text("hello"))
    one = view(Summaries())
    assert await one.compact(ContextRequest(messages=messages)) is None
    assert one.shown(messages) is messages


async def test_shrink_makes_next_request_a_tenth_smaller_or_returns_none():
    one = view(None)
    messages = single_prompt_run(30)
    before = TokenCounter().count(messages)

    assert await one.shrink(ContextRequest(messages=messages)) is not None
    assert TokenCounter().count(one.shown(messages)) <= 0.9 * before
    assert await view(None).shrink(ContextRequest(messages=(user_text("hi"),))) is None


# -- any history

BLOCKS = st.one_of(
    st.builds(TextBlock, st.text(max_size=3).map(lambda t: t + "w" * 700)),
    st.builds(ThinkingBlock, text=st.just("t" * 900), signature=st.just("s")),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    messages: list[Message] = [user_text(draw(st.sampled_from(["go", "p" * 30_000])))]
    for number in range(draw(st.integers(0, 25))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            messages.append(user_text(f"prompt {number}"))
            continue
        count = draw(st.integers(0, 4)) if kind > 1 else 0
        size = draw(st.sampled_from([10, 3_000, 90_000]))
        calls = [
            ToolCallBlock(id=f"{number}.{n}", name="write", arguments={"content": "c" * size})
            for n in range(count)
        ]
        if messages[-1].role == "assistant":
            messages.append(user_text("more"))
        messages.append(AssistantMessage(content=(draw(BLOCKS), TextBlock("x"), *calls)))
        if count and draw(st.booleans()):
            messages.append(user_text("wait", "steering"))
        messages += [
            ToolResultMessage(
                tool_call_id=call.id, tool_name="write", content=(TextBlock("r" * size),)
            )
            for call in calls
        ]
    return tuple(messages)


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from([4_000, 16_000, 128_000]), st.booleans())
async def test_prepared_messages_fit_window_and_are_valid_for_any_history(
    messages: tuple[Message, ...], window: int, has_summariser: bool
):
    one = view(Summaries() if has_summariser else None)
    request = ContextRequest(messages=messages, system_prompt="s" * 400, window_tokens=window)

    prepared = await one.prepare(request)

    assert TokenCounter().count(prepared.messages, system_prompt="s" * 400) <= window
    healed = normalize_history(prepared.messages, result_chars=10**6)
    assert (healed.closed, healed.dropped) == (0, 0)
    assert [fault for fault in faults(healed.messages) if "too long" not in fault] == []
    again = await one.prepare(request)
    assert again.messages == prepared.messages


async def test_preparing_same_history_of_1000_messages_again_is_fast():
    one = view(Summaries())
    messages = single_prompt_run(500)
    await at(one, messages, 0.81, window_tokens=500_000)
    request = ContextRequest(messages=(*messages, assistant_text("x")), window_tokens=10**6)
    await one.prepare(request)

    began = time.perf_counter()
    for _ in range(20):
        await one.prepare(request)
    assert (time.perf_counter() - began) / 20 < 0.01
