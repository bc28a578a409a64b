from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.adapter import own_blocks
from dirge_py.providers.request_cache import SendableHistory, filter_blocks
from dirge_py.types.history import NO_RESULT, WireFormat
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


def sendable_history(messages, **wire):
    return list(SendableHistory(lambda message, block: True, WireFormat(**wire)).of(messages))


def drop_foreign_blocks(messages, alias):
    return filter_blocks(messages, own_blocks(alias))


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
def test_every_call_is_followed_by_exactly_one_result(messages):
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


def test_call_without_result_gets_placeholder_error_result():
    call = ToolCallBlock(id="a", name="read", arguments={})
    _, answer, later = sendable_history([AssistantMessage(content=(call,)), user_text("go on")])

    assert (answer.text, answer.is_error) == (NO_RESULT, True)
    assert later == user_text("go on")


def test_result_without_call_becomes_user_text():
    stray = ToolResultMessage(tool_call_id="x", tool_name="read", content=(TextBlock("r"),))

    assert [message.text for message in sendable_history([stray])] == ["Result of read:\nr"]


def test_system_messages_become_user_messages_in_place():
    summary = SystemMessage(content=(TextBlock("summary"),))
    sent = sendable_history([user_text("a"), summary, user_text("b")])

    assert [(message.role, message.text) for message in sent] == [
        ("user", "a"),
        ("user", "summary"),
        ("user", "b"),
    ]


def test_invalid_call_id_is_replaced_in_call_and_result():
    call = ToolCallBlock(id="odd|id", name="read", arguments={})
    result = ToolResultMessage(tool_call_id="odd|id", tool_name="read", content=(TextBlock("r"),))
    asked, answer = sendable_history([AssistantMessage(content=(call,)), result])

    assert asked.calls[0].id == answer.tool_call_id
    assert "|" not in answer.tool_call_id
    assert answer.text == "r"


def test_invalid_tool_name_is_replaced_in_call_and_result():
    call = ToolCallBlock(id="a", name="functions.read: " + "x" * 99, arguments={})
    result = ToolResultMessage(tool_call_id="a", tool_name=call.name, content=(TextBlock("r"),))
    asked, answer = sendable_history([AssistantMessage(content=(call,)), result])

    assert asked.calls[0].name == answer.tool_name == "functions_read_" + "x" * 49


SEALED = (
    ThinkingBlock(text="hm", signature="s"),
    ThinkingBlock(text="", redacted="opaque"),
    CompactionBlock(data={"a": 1}),
)


def test_foreign_sealed_blocks_are_dropped():
    block = TextBlock("ok")
    foreign = AssistantMessage(content=(*SEALED, block), model="other/claude")
    mine = AssistantMessage(content=(*SEALED, block), model="work/claude/x")
    untold = AssistantMessage(content=(*SEALED, block))

    assert drop_foreign_blocks([foreign], "work")[0].content == (block,)
    assert drop_foreign_blocks([mine, untold], "work") == [mine, untold]


def test_messages_without_sealed_blocks_are_returned_unchanged():
    messages = [AssistantMessage(content=(TextBlock("a"),), model="other/m"), user_text("b")]

    assert all(a is b for a, b in zip(drop_foreign_blocks(messages, "work"), messages, strict=True))


def test_unsigned_thinking_is_kept_only_if_allowed():
    unsigned = ThinkingBlock(text="hm")
    message = AssistantMessage(content=(unsigned, TextBlock("ok")))

    assert sendable_history([message])[0].content == (TextBlock("ok"),)
    assert sendable_history([message], unsigned_thinking=True) == [message]


@given(st.lists(MESSAGES, max_size=12), st.integers(min_value=1, max_value=30))
@settings(max_examples=size(30, 200))
def test_call_ids_of_fixed_length_are_unique(messages, chars):
    written = sendable_history(messages, call_id_chars=max(6, chars))
    ids = [call.id for m in written if isinstance(m, AssistantMessage) for call in m.calls]

    assert len(set(ids)) == len(ids)
    assert all(len(one) == max(6, chars) and one.isalnum() for one in ids)
    assert [m.tool_call_id for m in written if isinstance(m, ToolResultMessage)] == ids
