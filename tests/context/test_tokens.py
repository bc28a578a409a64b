from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.context.tokens import TokenCounter, estimate_text
from dirge_py.types.llm import ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from tests.security.sizes import size


def test_text_tokens_are_estimated_from_bytes():
    assert estimate_text("") == 0
    assert estimate_text("a" * 7) == 2
    assert estimate_text("a" * 8) == 3
    assert estimate_text("漢" * 7) == 6


def test_text_thinking_calls_and_results_are_counted():
    message = AssistantMessage(
        content=(
            TextBlock("a" * 7),
            ThinkingBlock(text="a" * 7),
            ToolCallBlock(id="1", name="read", arguments={"p": "a" * 30}),
        )
    )

    assert TokenCounter().count([message]) == 4 + 2 + 2 + 12
    result = ToolResultMessage(tool_call_id="1", tool_name="read", content=(TextBlock("a" * 70),))
    assert TokenCounter().count([result]) == 24


def test_system_prompt_and_tools_are_counted():
    tool = ToolSpec(name="read", description="Read.", parameters={"type": "object"})

    assert TokenCounter().count([], system_prompt="a" * 70, tools=[tool]) == 20 + 8


def test_image_has_fixed_token_count():
    message = UserMessage(content=(ImageBlock(asset_id="x", media_type="image/png"),))

    assert TokenCounter().count([message]) == 1604


def test_custom_and_empty_messages_count_zero_tokens():
    assert (
        TokenCounter().count([CustomMessage(kind="x", payload="y" * 999), AssistantMessage()]) == 0
    )


@settings(max_examples=size(33, 100), deadline=None)
@given(st.text(st.characters()), st.text(st.characters()))
def test_longer_text_never_has_fewer_tokens(one, two):
    assert TokenCounter().count([user_text(one + two)]) >= TokenCounter().count([user_text(one)])


def test_a34_token_counts_match_table():
    counter = TokenCounter(4.0)

    assert counter.text("a" * 10) == 3
    assert TokenCounter(3.5).text("a" * 7) == 2
    assert counter.corrected(counter.count([user_text("a" * 10)])) == 7
    picture = ImageBlock(asset_id="i", media_type="image/png")
    document = DocumentBlock(asset_id="d", media_type="application/pdf")
    assert counter.corrected(counter.count([UserMessage(content=(picture,))])) == 1604
    assert counter.corrected(counter.count([UserMessage(content=(document,))])) == 504


def test_a34_reported_usage_of_twice_the_estimate_doubles_next_estimate():
    counter = TokenCounter()
    messages = [user_text("a" * 400)]

    counter.calibrate(counter.count(messages), 2 * counter.count(messages))

    assert counter.corrected(counter.count(messages)) == 2 * counter.count(messages)


@given(st.integers(-10, 10**9), st.integers(-10, 10**9))
def test_a34_calibration_factor_stays_within_bounds(estimated: int, reported: int):
    counter = TokenCounter()
    counter.calibrate(estimated, reported)
    assert 0.5 <= counter.factor <= 3


def test_tokens_of_each_message_are_counted_only_once():
    class Counted(TokenCounter):
        reads = 0

        def text(self, text: str) -> int:
            self.reads += 1
            return super().text(text)

    counter = Counted()
    history = [user_text(str(number)) for number in range(1_000)]
    first = counter.count(history, system_prompt="prompt")
    reads = counter.reads

    assert counter.count([*history, user_text("more")], system_prompt="prompt") > first
    assert counter.reads <= reads + 2
