"""Deltas that arrive together are one event, and joining them changes nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.agent_loop.model_call import Assembler
from dirge_py.providers.stream_parser import join_deltas
from dirge_py.types.llm import (
    StreamEvent,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from tests.support.fake_service import RawReply
from tests.support.provider_client import text_of

TEXTS = st.sampled_from(["", "a", "é\n", " b"])
KEYS = st.sampled_from(["0", "1"])
EVENTS = st.one_of(
    st.builds(StreamStart, st.just("m")),
    st.builds(TextDelta, TEXTS),
    st.builds(ThinkingDelta, TEXTS),
    st.builds(ThinkingEnd, signature=st.sampled_from([None, "s"])),
    st.builds(
        ToolCallDelta,
        key=KEYS,
        id=st.sampled_from(["", "", "c1", "c2"]),
        name=st.sampled_from(["", "", "read"]),
        arguments=TEXTS,
    ),
    st.builds(ToolCallEnd, key=KEYS, id=st.sampled_from(["", "c1"])),
)


def blocks_of(events: list[StreamEvent]) -> object:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    assembler.close()
    return assembler.blocks()


@given(st.lists(EVENTS, max_size=30))
def test_joined_deltas_make_same_message(events: list[StreamEvent]) -> None:
    joined = join_deltas(events)

    assert blocks_of(joined) == blocks_of(events)
    assert [e for e in joined if not hasattr(e, "text") and not hasattr(e, "arguments")] == [
        e for e in events if not hasattr(e, "text") and not hasattr(e, "arguments")
    ]


def test_pieces_of_two_calls_stay_apart() -> None:
    first = [ToolCallDelta(key="0", id="c1", name="read"), ToolCallDelta(key="0", arguments="{")]
    second = [ToolCallDelta(key="1", arguments="["), ToolCallDelta(key="1", arguments="]")]
    last = [ToolCallDelta(key="0", arguments="}")]

    assert join_deltas([*first, *second, *last]) == [
        *first,
        ToolCallDelta(key="1", arguments="[]"),
        *last,
    ]


async def test_deltas_of_one_read_are_one_event(openai) -> None:
    piece = 'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
    end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    client = openai(RawReply(pieces=[(piece * 1000 + end).encode()]))
    received = [event async for event in client.stream()]

    assert text_of(received) == "word " * 1000
    # A read is at most 64 KB, so there are a few of them.
    assert sum(isinstance(event, TextDelta) for event in received) <= 10
