import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.providers.stream_parser import EventTooLong, ServerEvent, SseDecoder

STREAM = (
    "\ufeffdata: a\r\n\r\n: comment\rdata:b\rdata: c\u2028\x85d\r\revent: x\ndata\n\n"
    "id: 4\nretry: 9\n\nunknown: 1\ndata: é\U0001f600\n\n\n\ndata: {}\n\n"
).encode()
EVENTS = [
    ServerEvent("", "a"),
    ServerEvent("", "b\nc\u2028\x85d"),
    ServerEvent("x", ""),
    ServerEvent("", "é\U0001f600"),
    ServerEvent("", "{}"),
]


def decoded(pieces, limit=10_000):
    decoder = SseDecoder(limit)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@given(st.sets(st.integers(0, len(STREAM)), max_size=40))
def test_sse_events_do_not_depend_on_chunk_boundaries(cuts):
    ends = [*sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    assert decoded(pieces) == EVENTS


def test_single_bytes_decode_to_same_events():
    assert decoded([bytes([byte]) for byte in STREAM]) == EVENTS


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_event_is_emitted_as_soon_as_blank_line_arrives(end):
    assert SseDecoder().feed(b"data: a" + end + end) == [ServerEvent("", "a")]


def test_last_event_without_blank_line_is_emitted():
    assert decoded([b"data: a\n\ndata: b"]) == [ServerEvent("", "a"), ServerEvent("", "b")]


def test_ten_megabyte_line_is_one_event():
    line = b"data: " + b"x" * 10_000_000 + b"\n\n"
    pieces = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]

    assert [len(event.data) for event in decoded(pieces, 20_000_000)] == [10_000_000]


def test_event_beyond_limit_is_error():
    with pytest.raises(EventTooLong):
        decoded([b"x" * 100] * 200)


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_without_exception(noise):
    decoded([noise[:100], noise[100:]])


LINES = st.lists(
    st.sampled_from(
        [b"data: {}", b"data:x", b"data: ", b"data", b"event: x", b"event:y", b"event: ", b"id: 1"]
    ),
    max_size=4,
)


@given(LINES, st.sampled_from([b"", b"\n"]))
def test_comment_between_lines_does_not_change_events(lines, end):
    """The fast path for common forms gives the same result."""
    plain = b"\n".join(lines)
    with_comment = b"\n".join([b": a comment", *lines])

    assert decoded([plain + end]) == decoded([with_comment + end])
    assert decoded([plain + b"\n\n"]) == decoded([with_comment + b"\n\n"])
