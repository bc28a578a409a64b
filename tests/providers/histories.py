"""Histories of long sessions with several models, crashes and damage."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from dirge_py.providers.gemini import SignedPiece, pack_signatures
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

PICTURE = "pic"
"""The only asset that exists."""
MODELS = ("", "work/claude-sonnet-4-5", "work/gpt-5.5", "work/gemini-3-flash-preview", "other/m")
_IDS = st.sampled_from(["a", "b", "c|odd id", "", "x" * 70, "unnamed_1"])
_NAMES = st.sampled_from(["read", "", "functions.read", "ls -la /tmp; " * 9])
_WORDS = st.sampled_from(["", " ", "x", "ü\ud800\u2028"])
_SIGNATURES = st.sampled_from(
    [
        None,
        "EuYBCkQYAiJA/+==",
        "no base64: {",
        json.dumps({"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": []}),
        json.dumps({"type": "message", "phase": "commentary"}),
        json.dumps([{"type": "reasoning.text", "text": "x", "signature": "s"}]),
        pack_signatures("call", 0, [SignedPiece(0, 0, "S")]),
        pack_signatures("text", 1, [SignedPiece(0, 1, "S")]),
        pack_signatures("thought", 1, [SignedPiece(0, 1, "S")]),
    ]
)
_TEXT = st.builds(TextBlock, _WORDS)
_SHOWN: st.SearchStrategy[TextBlock | ImageBlock | DocumentBlock] = st.one_of(
    _TEXT,
    st.builds(
        ImageBlock,
        asset_id=st.sampled_from([PICTURE, "gone", "../etc"]),
        media_type=st.sampled_from(["image/png", "image/gif", "image/tiff"]),
    ),
    st.builds(
        DocumentBlock,
        asset_id=st.sampled_from([PICTURE, "gone"]),
        media_type=st.sampled_from(["application/pdf", "text/plain"]),
    ),
)
_ANSWERED: st.SearchStrategy[AssistantBlock] = st.one_of(
    _TEXT,
    st.builds(ThinkingBlock, text=_WORDS, signature=_SIGNATURES),
    st.builds(ThinkingBlock, text=st.just(""), redacted=st.sampled_from(["opaque", "{"])),
    st.builds(
        ToolCallBlock,
        id=_IDS,
        name=_NAMES,
        arguments=st.sampled_from([{}, {"p": 1}, '{"p": ', [1], None]),
    ),
    st.builds(
        CompactionBlock,
        data=st.sampled_from(
            [
                {"type": "compaction", "content": "so far"},
                {"type": "compaction", "encrypted_content": "e"},
                {},
            ]
        ),
    ),
)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UserMessage,
        content=st.lists(_SHOWN, max_size=3).map(tuple),
        origin=st.sampled_from(["user", "steering", "harness"]),
    ),
    st.builds(SystemMessage, content=st.tuples(_TEXT)),
    st.just(CustomMessage(kind="x")),
    st.builds(
        AssistantMessage,
        content=st.lists(_ANSWERED, max_size=4).map(tuple),
        model=st.sampled_from(MODELS),
    ),
    st.builds(
        ToolResultMessage,
        tool_call_id=_IDS,
        tool_name=_NAMES,
        content=st.lists(_SHOWN, max_size=2).map(tuple),
        is_error=st.booleans(),
    ),
)

ANY_HISTORY: st.SearchStrategy[Sequence[Message]] = st.lists(_MESSAGES, max_size=9)
