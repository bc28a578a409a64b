"""The history in the form that models get, converted whole or incrementally."""

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.agent_loop.merge import HistoryConverter, default_convert_to_llm
from dirge_py.types.messages import AssistantMessage, CustomMessage, TextBlock, user_text

messages = st.lists(
    st.one_of(
        st.builds(user_text, st.text(max_size=3), st.sampled_from(["user", "steering", "harness"])),
        st.builds(
            AssistantMessage,
            content=st.sampled_from([(), (TextBlock("a"),)]),
            withheld=st.sampled_from(["", "", "guard"]),
        ),
        st.builds(CustomMessage, kind=st.just("note")),
    ),
    max_size=8,
)


@given(st.lists(messages, max_size=5), st.booleans())
def test_incremental_conversion_equals_conversion_of_the_whole_history(pieces, is_growing):
    converter, history = HistoryConverter(), []
    for piece in pieces:
        history = [*history, *piece] if is_growing else piece
        assert list(converter.convert(history)) == default_convert_to_llm(history)


def test_converted_message_is_reused_in_the_next_turn():
    converter, typed = HistoryConverter(), user_text("look there", "steering")
    (first,) = converter.convert([typed])
    again, _ = converter.convert([typed, user_text("and here", "steering")])
    assert again is first
