import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.session.codec import decode_message, encode_message
from dirge_py.session.record import json_text
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)

texts = st.text(st.characters(codec=None))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
maybe = st.none() | texts
text_blocks = st.builds(TextBlock, texts)
images = st.builds(ImageBlock, asset_id=texts, media_type=texts)
documents = st.builds(DocumentBlock, asset_id=texts, media_type=texts, name=texts)
thoughts = st.builds(ThinkingBlock, text=texts, signature=maybe, redacted=maybe)
calls = st.builds(ToolCallBlock, id=texts, name=texts, arguments=plain)
summaries = st.builds(CompactionBlock, data=st.dictionaries(texts, plain, max_size=3), text=texts)
counts = st.integers(0, 2**40)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts)


def several(blocks):
    return st.lists(blocks, max_size=4).map(tuple)


messages = st.one_of(
    st.builds(
        UserMessage,
        content=several(text_blocks | images | documents),
        origin=st.sampled_from(["user", "steering", "follow_up", "harness", "plugin"]),
        attached=several(texts),
        role=st.just("user"),
    ),
    st.builds(
        AssistantMessage,
        content=several(text_blocks | thoughts | calls | summaries),
        stop_reason=st.sampled_from(get_args(StopReason)),
        error_message=st.none() | st.text(min_size=1),
        error_kind=st.none() | st.text(min_size=1),
        model=texts,
        usage=st.none() | usages,
        origin=st.sampled_from(["model", "harness"]),
        withheld=texts,
        role=st.just("assistant"),
    ),
    st.builds(
        ToolResultMessage,
        tool_call_id=texts,
        tool_name=texts,
        content=several(text_blocks | images | documents),
        details=st.dictionaries(texts, plain, max_size=3),
        is_error=st.booleans(),
        role=st.just("toolResult"),
    ),
    st.builds(SystemMessage, content=several(text_blocks), role=st.just("system")),
    st.builds(CustomMessage, kind=texts, payload=plain, role=st.just("custom")),
)


@given(messages)
def test_any_message_survives_encoding_and_decoding(message):
    assert decode_message(json.loads(json_text(encode_message(message)))) == message


@given(messages)
def test_unknown_message_members_and_blocks_are_skipped(message):
    encoded = encode_message(message) | {"later": 1}
    if isinstance(encoded.get("content"), list):
        encoded["content"] = [
            *({**block, "later": 1} for block in encoded["content"]),
            {"type": "hologram"},
            7,
        ]

    assert decode_message(encoded) == message


@given(st.sampled_from(["user", "assistant", "toolResult", "tool", "system", "custom"]), plain)
def test_message_members_of_wrong_type_do_not_fail_decoding(role, value):
    names = ("content", "origin", "attached", "usage", "details", "stop_reason", "is_error", "kind")

    assert decode_message({"role": role, **dict.fromkeys(names, value)})


def test_message_with_one_text_block_is_encoded_as_string():
    assert encode_message(user_text("hi", "steering")) == {
        "role": "user",
        "content": "hi",
        "origin": "steering",
    }


def test_old_role_tool_is_decoded_as_tool_result():
    old = {"role": "tool", "tool_call_id": "c", "tool_name": "bash", "content": "out"}

    assert decode_message(old) == ToolResultMessage(
        tool_call_id="c", tool_name="bash", content=(TextBlock("out"),)
    )


@pytest.mark.parametrize("encoded", [None, [], "x", {}, {"role": []}, {"role": "oracle"}])
def test_value_that_is_no_known_message_is_rejected(encoded):
    with pytest.raises(ValueError):
        decode_message(encoded)
