"""Any history is sent in a form that a strict service accepts."""

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.types.history import (
    RESULT_CHARS,
    HistoryNormalizer,
    NormalizedHistory,
    WireFormat,
    normalize_history,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from tests.security.sizes import size
from tests.support.history_faults import faults


def call(call_id: str, name: str = "read") -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name=name, arguments={})


def assistant_message(*blocks: Any, **more: Any) -> AssistantMessage:
    content = tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks)
    return AssistantMessage(content=content, **more)


def result(call_id: str, text: str = "ok", **more: Any) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="read", content=(TextBlock(text),), **more
    )


IDS = st.sampled_from(["", "a", "b", "c"])
TEXTS = st.sampled_from(["", " ", "x", "hello", "y" * (RESULT_CHARS + 7)])
MESSAGES = st.one_of(
    st.builds(user_text, TEXTS, st.sampled_from(["user", "steering", "harness"])),
    st.builds(SystemMessage, content=st.tuples(st.builds(TextBlock, TEXTS))),
    st.builds(CustomMessage, kind=st.just("note")),
    st.builds(
        assistant_message,
        st.one_of(TEXTS, st.builds(call, IDS)),
        st.one_of(st.builds(ThinkingBlock, text=TEXTS), st.builds(call, IDS)),
        st.builds(call, IDS),
        stop_reason=st.sampled_from(["stop", "toolUse", "length", "error", "pause_turn"]),
        withheld=st.sampled_from(["", "", "secrets"]),
    ),
    st.builds(assistant_message, TEXTS),
    st.builds(
        ToolResultMessage,
        tool_call_id=IDS,
        tool_name=st.just("read"),
        content=st.lists(
            st.one_of(
                st.builds(TextBlock, TEXTS),
                st.just(ImageBlock(asset_id="i", media_type="image/png")),
            ),
            max_size=3,
        ).map(tuple),
        is_error=st.booleans(),
    ),
)
HISTORIES = st.lists(MESSAGES, max_size=14).map(tuple)


@given(HISTORIES)
def test_normalized_history_is_always_valid(messages: tuple[Message, ...]):
    assert faults(normalize_history(messages).messages) == []


@given(HISTORIES)
def test_normalizing_twice_changes_nothing(messages: tuple[Message, ...]):
    once = normalize_history(messages)
    twice = normalize_history(once.messages)
    assert twice == NormalizedHistory(messages=once.messages)
    assert twice.messages is once.messages


@given(HISTORIES)
def test_valid_history_is_returned_as_the_same_object(messages: tuple[Message, ...]):
    if not faults(messages):
        assert normalize_history(messages).messages is messages


@settings(max_examples=size(25, 60))
@given(
    HISTORIES,
    st.data(),
    st.sampled_from([None, WireFormat(), WireFormat(unsigned_thinking=True, call_id_chars=9)]),
)
def test_normalizer_with_a_cache_gives_the_same_result(
    messages: tuple[Message, ...], data: st.DataObject, wire: WireFormat | None
):
    normalizer = HistoryNormalizer(wire=wire)
    for end in data.draw(st.lists(st.integers(0, len(messages)), max_size=4)):
        normalizer.normalize(messages[:end])
    assert normalizer.normalize(messages) == normalize_history(messages, wire=wire)
    other = (user_text("other"), *messages[1:])
    assert normalizer.normalize(other) == normalize_history(other, wire=wire)


def test_missing_results_are_added_in_call_order():
    messages = (
        user_text("go"),
        assistant_message(call("a"), call("b", "edit"), call("c")),
        result("c"),
    )

    healed = normalize_history(messages)

    assert [m.tool_call_id for m in healed.messages[2:]] == ["a", "b", "c"]  # type: ignore[union-attr]
    made_up = healed.messages[3]
    assert isinstance(made_up, ToolResultMessage)
    assert made_up.is_error
    assert made_up.tool_name == "edit"
    assert made_up.details == {"outcome": "aborted", "synthetic": "missing"}
    assert (healed.closed, healed.dropped) == (2, 0)


def test_calls_of_a_truncated_answer_get_suppressed_results():
    healed = normalize_history(
        (user_text("go"), assistant_message("a", call("a"), stop_reason="length"))
    )
    assert healed.messages[2].details["outcome"] == "suppressed"  # type: ignore[union-attr]


def test_result_is_moved_before_a_message_that_separates_it_from_its_call():
    asked, between = assistant_message(call("a"), call("b")), user_text("wait", "steering")
    messages = (user_text("go"), asked, result("a"), between, result("b"))

    assert normalize_history(messages).messages == (
        messages[0],
        asked,
        result("a"),
        result("b"),
        between,
    )


def test_duplicate_results_and_results_without_a_call_are_dropped():
    messages = (
        user_text("go"),
        result("z"),
        assistant_message(call("a")),
        result("a", "first"),
        result("a", "again"),
    )

    assert normalize_history(messages) == NormalizedHistory(
        messages=(messages[0], messages[2], messages[3]), closed=0, dropped=2
    )


def test_duplicate_call_id_is_renamed_with_its_result():
    messages = (
        user_text("go"),
        assistant_message(call("a"), call("a")),
        result("a", "1"),
        result("a", "2"),
    )

    asked, one, two = normalize_history(messages).messages[1:]

    assert [block.id for block in asked.calls] == ["a", "a_2"]  # type: ignore[union-attr]
    assert (one, two) == (result("a", "1"), result("a_2", "2"))


def test_withheld_answer_is_dropped_with_its_results():
    kept = (user_text("go"), assistant_message("fine"))
    withheld = (assistant_message(call("a"), withheld="secrets"), result("a"))

    assert normalize_history((kept[0], *withheld, kept[1])) == NormalizedHistory(messages=kept)


def test_empty_answers_are_dropped():
    messages = (
        user_text("go"),
        assistant_message(),
        assistant_message(ThinkingBlock(text="hm")),
        assistant_message(" "),
        assistant_message("fine"),
    )
    assert normalize_history(messages).messages == (messages[0], messages[-1])


def test_result_after_an_empty_answer_is_not_assigned_to_an_earlier_call():
    """The model answered again before this result existed."""
    shown = (user_text("go"), assistant_message(call("a")))
    later = (*shown, assistant_message(), result("a"))

    for wire in (None, WireFormat()):
        before, after = (normalize_history(each, wire=wire).messages for each in (shown, later))
        assert after[: len(before)] == before
    healed = normalize_history(later)
    assert (healed.closed, healed.dropped) == (1, 1)


@pytest.mark.parametrize("wire", [None, WireFormat()])
def test_result_of_a_withheld_call_is_dropped_after_an_empty_answer(wire: WireFormat | None):
    kept = user_text("go")
    messages = (
        kept,
        assistant_message(call("a"), withheld="secrets"),
        assistant_message(),
        result("a"),
    )

    assert normalize_history(messages, wire=wire) == NormalizedHistory(messages=(kept,))


def test_compaction_answer_is_followed_directly_by_its_continuation():
    folded = assistant_message(
        CompactionBlock(data={"type": "compaction"}), stop_reason="compaction"
    )
    messages = (user_text("go"), folded, assistant_message("fine"))

    assert normalize_history(messages).messages is messages


def test_user_messages_are_inserted_between_adjacent_answers():
    messages = (assistant_message("one"), assistant_message("two"), user_text("three"))
    assert [m.role for m in normalize_history(messages).messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_long_result_keeps_both_ends_and_names_its_length():
    long = result("a", "begin" + "x" * 60_000 + "end")
    capped = normalize_history((user_text("go"), assistant_message(call("a")), long)).messages[2]

    assert isinstance(capped, ToolResultMessage)
    assert len(capped.text) <= RESULT_CHARS
    assert capped.text.startswith("begin")
    assert capped.text.endswith("end")
    assert "60008 characters" in capped.text


def test_blocks_of_a_long_result_share_the_limit_and_images_are_kept():
    image = ImageBlock(asset_id="i", media_type="image/png")
    long = replace(
        result("a"), content=(TextBlock("short"), image, TextBlock("x" * 50_000), TextBlock("end"))
    )

    capped = normalize_history((user_text("go"), assistant_message(call("a")), long)).messages[2]

    assert isinstance(capped, ToolResultMessage)
    short, kept, cut, end = capped.content
    assert (short, kept, end) == (TextBlock("short"), image, TextBlock("end"))
    assert isinstance(cut, TextBlock)
    assert len(cut.text) == RESULT_CHARS - len("short") - len("end")


def test_result_limit_is_configurable():
    messages = (user_text("go"), assistant_message(call("a")), result("a", "x" * 60_000))
    assert normalize_history(messages, result_chars=100_000).messages is messages


def test_equal_rebuilt_messages_are_normalized_from_the_cache():
    def sent() -> tuple[Message, ...]:
        return (
            user_text("[guidance] go", "steering"),
            assistant_message(call("a")),
            result("a"),
            assistant_message("x"),
        )

    normalizer = HistoryNormalizer()
    first = normalizer.normalize(sent())
    again = sent()
    assert normalizer.normalize(again).messages is again
    assert first.messages == again


@pytest.mark.parametrize("size", [1_000])
def test_long_history_is_normalized_quickly_from_the_cache(size: int):
    history: list[Message] = []
    for number in range(size // 4):
        history += [
            user_text(f"{number}"),
            assistant_message(call("a")),
            result("a"),
            assistant_message("ok"),
        ]
    normalizer = HistoryNormalizer()
    normalizer.normalize(tuple(history))
    messages = (*history, UserMessage(content=(TextBlock("more"),)))

    began = time.perf_counter()
    for _ in range(20):
        assert normalizer.normalize(messages).messages is messages
    assert (time.perf_counter() - began) / 20 < 0.005


@pytest.mark.parametrize("wire", [None, WireFormat()])
def test_turn_that_grows_after_a_rewind_is_normalized_anew(wire: WireFormat | None) -> None:
    asked = assistant_message(TextBlock("I read."), call("x"), call("y"))
    first = ToolResultMessage(tool_call_id="x", tool_name="read", content=(TextBlock("one"),))
    second = ToolResultMessage(tool_call_id="y", tool_name="read", content=(TextBlock("two"),))
    begin: tuple[Message, ...] = (user_text("u"), asked, first)
    known = HistoryNormalizer(wire=wire)
    known.normalize((*begin, assistant_message(TextBlock("Go on.")), user_text("z")))

    rewound = (*begin, second)
    assert known.normalize(rewound) == normalize_history(rewound, wire=wire)
