from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.adapter import drop_foreign_blocks, sendable_history
from dirge_py.types.history import NO_RESULT
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from tests.security.sizes import size

CALL_IDS = st.sampled_from(["a", "b", "c|odd id", ""])
TEXTS = st.sampled_from(["", " ", "x"])
MESSAGES = st.one_of(
    st.builds(user_text, TEXTS),
    st.builds(lambda t: SystemMessage(content=(TextBlock(t),)), TEXTS),
    st.just(CustomMessage(kind="x")),
    st.builds(
        lambda blocks: AssistantMessage(content=tuple(blocks)),
        st.lists(
            st.one_of(
                st.builds(TextBlock, TEXTS),
                st.builds(ThinkingBlock, text=TEXTS, signature=st.sampled_from([None, "s"])),
                st.builds(
                    ToolCallBlock,
                    id=CALL_IDS,
                    name=st.sampled_from(["read", ""]),
                    arguments=st.just({}),
                ),
            ),
            max_size=4,
        ),
    ),
    st.builds(
        lambda call_id: ToolResultMessage(
            tool_call_id=call_id, tool_name="read", content=(TextBlock("r"),)
        ),
        CALL_IDS,
    ),
)


@settings(max_examples=size(66, 200))
@given(st.lists(MESSAGES, max_size=10))
def test_every_call_has_its_one_result_right_behind_it(messages):
    open_ids: list[str] = []
    used: set[str] = set()
    for message in sendable_history(messages):
        if isinstance(message, ToolResultMessage):
            assert message.tool_call_id == open_ids.pop(0)
            continue
        assert open_ids == []
        if isinstance(message, AssistantMessage):
            open_ids = [call.id for call in message.calls]
            assert not used.intersection(open_ids)
            assert len(set(open_ids)) == len(open_ids)
            used.update(open_ids)
            assert message.text.strip() or message.calls
        else:
            assert isinstance(message, UserMessage)
            assert message.text.strip()
    assert open_ids == []


def test_a_call_without_a_result_gets_one_that_says_so():
    call = ToolCallBlock(id="a", name="read", arguments={})
    _, answer, later = sendable_history([AssistantMessage(content=(call,)), user_text("go on")])

    assert (answer.text, answer.is_error) == (NO_RESULT, True)
    assert later == user_text("go on")


def test_a_result_without_a_call_is_told_as_text():
    stray = ToolResultMessage(tool_call_id="x", tool_name="read", content=(TextBlock("r"),))

    assert [message.text for message in sendable_history([stray])] == ["Result of read:\nr"]


def test_system_messages_stay_at_their_place_as_user_messages():
    summary = SystemMessage(content=(TextBlock("summary"),))
    sent = sendable_history([user_text("a"), summary, user_text("b")])

    assert [(message.role, message.text) for message in sent] == [
        ("user", "a"),
        ("user", "summary"),
        ("user", "b"),
    ]


def test_an_id_that_services_would_refuse_is_replaced_on_both_sides():
    call = ToolCallBlock(id="odd|id", name="read", arguments={})
    result = ToolResultMessage(tool_call_id="odd|id", tool_name="read", content=(TextBlock("r"),))
    asked, answer = sendable_history([AssistantMessage(content=(call,)), result])

    assert asked.calls[0].id == answer.tool_call_id
    assert "|" not in answer.tool_call_id
    assert answer.text == "r"


def test_what_a_model_made_up_as_a_name_is_spelt_as_one_on_both_sides():
    call = ToolCallBlock(id="a", name="functions.read: " + "x" * 99, arguments={})
    result = ToolResultMessage(tool_call_id="a", tool_name=call.name, content=(TextBlock("r"),))
    asked, answer = sendable_history([AssistantMessage(content=(call,)), result])

    assert asked.calls[0].name == answer.tool_name == "functions_read_" + "x" * 49


SEALED = (
    ThinkingBlock(text="hm", signature="s"),
    ThinkingBlock(text="", redacted="opaque"),
    CompactionBlock(data={"a": 1}),
)


def test_what_another_service_sealed_is_not_sent():
    block = TextBlock("ok")
    foreign = AssistantMessage(content=(*SEALED, block), model="other/claude")
    mine = AssistantMessage(content=(*SEALED, block), model="work/claude/x")
    untold = AssistantMessage(content=(*SEALED, block))

    assert drop_foreign_blocks([foreign], "work")[0].content == (block,)
    assert drop_foreign_blocks([mine, untold], "work") == [mine, untold]


def test_what_holds_nothing_sealed_is_the_same_object():
    messages = [AssistantMessage(content=(TextBlock("a"),), model="other/m"), user_text("b")]

    assert all(a is b for a, b in zip(drop_foreign_blocks(messages, "work"), messages, strict=True))


def test_thinking_without_a_signature_is_sent_only_where_it_can_go_back():
    unsigned = ThinkingBlock(text="hm")
    message = AssistantMessage(content=(unsigned, TextBlock("ok")))

    assert sendable_history([message])[0].content == (TextBlock("ok"),)
    assert sendable_history([message], unsigned=True) == [message]


@given(st.lists(MESSAGES, max_size=12), st.integers(min_value=1, max_value=30))
@settings(max_examples=size(30, 200))
def test_ids_of_one_length_are_each_for_one_call(messages, chars):
    written = sendable_history(messages, call_id_chars=max(6, chars))
    ids = [call.id for m in written if isinstance(m, AssistantMessage) for call in m.calls]

    assert len(set(ids)) == len(ids)
    assert all(len(one) == max(6, chars) and one.isalnum() for one in ids)
    assert [m.tool_call_id for m in written if isinstance(m, ToolResultMessage)] == ids
