"""JSON lines, however the network splits them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.stream_parser import EventTooLong, NdjsonDecoder
from tests.security.sizes import size

LINES = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=8), max_size=2), max_size=6)


def decoded(stream, cuts=()):
    decoder = NdjsonDecoder()
    ends = [*sorted(cuts), len(stream)]
    events = []
    for start, end in zip([0, *ends], ends, strict=False):
        events += decoder.feed(stream[start:end])
    return [text for _, text in events + decoder.close()]


@settings(max_examples=size(60, 400))
@given(objects=LINES, end=st.sampled_from(["\n", "\r\n", "\n\n"]), data=st.data())
def test_lines_are_decoded_once_in_order_at_any_cut(objects, end, data):
    text = "".join(json.dumps(each, ensure_ascii=False) + end for each in objects)
    stream = text.encode("utf-8", errors="replace")
    cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=20))

    assert decoded(stream, cuts) == decoded(stream)
    assert [json.loads(line) for line in decoded(stream)] == [
        json.loads(json.dumps(each, ensure_ascii=False).encode("utf-8", errors="replace"))
        for each in objects
    ]


@settings(max_examples=size(60, 400))
@given(stream=st.binary(max_size=60), data=st.data())
def test_any_bytes_decode_to_same_lines_at_any_cut(stream, data):
    cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=8))

    assert decoded(stream, cuts) == decoded(stream)


def test_last_line_without_newline_is_decoded():
    decoder = NdjsonDecoder()

    assert [text for _, text in decoder.feed(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"b"')] == ['{"a": 1}']
    assert [text for _, text in decoder.feed(b": 2}")] == []
    assert [text for _, text in decoder.close()] == ['{"b": 2}']
    assert decoder.close() == []


def test_line_beyond_limit_is_error():
    decoder = NdjsonDecoder(limit=10)
    decoder.feed(b"12345\n123456")

    with pytest.raises(EventTooLong, match="longer than 10 bytes"):
        decoder.feed(b"789012")
