from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.context.counter import estimate_text, estimate_tokens
from dirge_py.messages import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from dirge_py.streams import ToolSpec


def test_text_counts_by_its_bytes():
    assert estimate_text("") == 0
    assert estimate_text("a" * 7) == 2
    assert estimate_text("a" * 8) == 3
    assert estimate_text("漢" * 7) == 6


def test_everything_a_model_sees_is_counted():
    message = AssistantMessage(
        content=(
            TextBlock("a" * 7),
            ThinkingBlock(text="a" * 7),
            ToolCallBlock(id="1", name="read", arguments={"p": "a" * 30}),
        )
    )

    assert estimate_tokens([message]) == 4 + 2 + 2 + 12
    result = ToolResultMessage(tool_call_id="1", tool_name="read", content=(TextBlock("a" * 70),))
    assert estimate_tokens([result]) == 24


def test_prompt_and_tools_are_counted():
    tool = ToolSpec(name="read", description="Read.", parameters={"type": "object"})

    assert estimate_tokens([], system_prompt="a" * 70, tools=[tool]) == 20 + 8


def test_an_image_has_one_price_whatever_its_size():
    message = UserMessage(content=(ImageBlock(asset_id="x", media_type="image/png"),))

    assert estimate_tokens([message]) == 1604


def test_what_no_model_sees_costs_nothing():
    assert estimate_tokens([CustomMessage(kind="x", payload="y" * 999), AssistantMessage()]) == 0


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters()), st.text(st.characters()))
def test_more_text_never_costs_less(one, two):
    assert estimate_tokens([user_text(one + two)]) >= estimate_tokens([user_text(one)])
