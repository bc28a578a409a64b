import json
import math
import zlib
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.session.record import Record, decode, encode, timestamp

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def record_of(data, **changes):
    fields = {"seq": 1, "ts": "t", "type": "x", "id": "a", "parent": None, "data": data}
    return Record(**{**fields, **changes})


def stored(data):
    record = decode(encode(record_of(data)).removesuffix(b"\n"))
    assert record is not None
    return record.data


@given(json_values)
def test_any_json_value_survives_encoding_and_decoding(data):
    assert stored(data) == data


@given(json_values)
def test_record_envelope_markers_never_appear_inside_record_data(data):
    line = encode(record_of([data, '{"v":1,"seq":', {"v": 1, "seq": 2, "crc": "00000000"}]))

    assert line.count(b'{"v":1,"seq":') == 1
    assert line.count(b',"crc":"') == 1
    assert line.count(b"\n") == 1


def test_record_checksum_is_crc32_of_line_without_crc_member():
    line = encode(record_of({"a": "é"}))

    body = line[: line.index(b',"crc":"')] + b"}"
    assert json.loads(line)["crc"] == f"{zlib.crc32(body):08x}"


def test_encoded_record_is_strict_json_without_nan_or_infinity():
    def refuse(word):
        raise AssertionError(word)

    line = encode(record_of({"n": math.nan, "i": [math.inf, -math.inf]}))

    assert json.loads(line, parse_constant=refuse)["data"] == {"n": None, "i": [None, None]}


def test_values_json_cannot_represent_are_stored_as_nearest_json_value():
    circular: list[object] = []
    circular.append(circular)
    odd = {
        "proxy": MappingProxyType({"a": 1}),
        "set": {"b", "a"},
        "bytes": b"\xffok",
        "huge": 10**5000,
        ("tuple",): 1,
    }

    assert stored(odd) == {
        "proxy": {"a": 1},
        "set": ["a", "b"] if stored(odd)["set"][0] == "a" else ["b", "a"],
        "bytes": "�ok",
        "huge": None,
        "('tuple',)": 1,
    }
    assert "nested too deeply" in json.dumps(stored(circular))


def test_lone_surrogate_survives_encoding_and_decoding():
    assert stored({"text": "cut \ud83d", "whole": "😀"}) == {"text": "cut \ud83d", "whole": "😀"}


@given(st.data())
def test_record_with_a_changed_byte_is_rejected(data):
    line = encode(record_of({"text": "some text"})).removesuffix(b"\n")
    place = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(1, 255))

    assert decode(line[:place] + bytes([line[place] ^ other]) + line[place + 1 :]) is None


def test_unknown_members_of_record_are_ignored():
    body = b'{"v":1,"seq":3,"ts":"t","type":"x","id":"a","parent":null,"data":1,"more":2'
    line = body + b',"crc":"%08x"}' % zlib.crc32(body + b"}")

    assert decode(line) == record_of(1, seq=3)


def test_timestamp_is_utc_with_milliseconds():
    assert timestamp(0.0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(2**31 + 0.25) == "2038-01-19T03:14:08.250Z"
