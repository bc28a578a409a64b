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

    assert TokenCounter().count([message]) == 4 + 2 + 2 + 12
    result = ToolResultMessage(tool_call_id="1", tool_name="read", content=(TextBlock("a" * 70),))
    assert TokenCounter().count([result]) == 24


def test_prompt_and_tools_are_counted():
    tool = ToolSpec(name="read", description="Read.", parameters={"type": "object"})

    assert TokenCounter().count([], system_prompt="a" * 70, tools=[tool]) == 20 + 8


def test_an_image_has_one_price_whatever_its_size():
    message = UserMessage(content=(ImageBlock(asset_id="x", media_type="image/png"),))

    assert TokenCounter().count([message]) == 1604


def test_what_no_model_sees_costs_nothing():
    assert (
        TokenCounter().count([CustomMessage(kind="x", payload="y" * 999), AssistantMessage()]) == 0
    )


@settings(max_examples=size(33, 100), deadline=None)
@given(st.text(st.characters()), st.text(st.characters()))
def test_more_text_never_costs_less(one, two):
    assert TokenCounter().count([user_text(one + two)]) >= TokenCounter().count([user_text(one)])


def test_a34_the_table_of_sizes():
    counter = TokenCounter(4.0)

    assert counter.text("a" * 10) == 3
    assert TokenCounter(3.5).text("a" * 7) == 2
    assert counter.corrected(counter.count([user_text("a" * 10)])) == 7
    picture = ImageBlock(asset_id="i", media_type="image/png")
    document = DocumentBlock(asset_id="d", media_type="application/pdf")
    assert counter.corrected(counter.count([UserMessage(content=(picture,))])) == 1604
    assert counter.corrected(counter.count([UserMessage(content=(document,))])) == 504


def test_a34_a_report_of_twice_the_estimate_doubles_the_next():
    counter = TokenCounter()
    messages = [user_text("a" * 400)]

    counter.calibrate(counter.count(messages), 2 * counter.count(messages))

    assert counter.corrected(counter.count(messages)) == 2 * counter.count(messages)


@given(st.integers(-10, 10**9), st.integers(-10, 10**9))
def test_a34_no_report_moves_the_factor_out_of_its_bounds(estimated: int, reported: int):
    counter = TokenCounter()
    counter.calibrate(estimated, reported)
    assert 0.5 <= counter.factor <= 3


def test_a_message_is_read_only_once():
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
