"""Terminal input parsed into keys, pastes and clicks, however it is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.message import Message

from dirge_py.ui.terminal.input import PASTE_PATIENCE_S, TerminalInput


def parse_pieces(*pieces: str, silent_s: float = 0.1) -> list[Message]:
    arrived = TerminalInput()
    found = [event for piece in pieces for event in arrived.feed(piece)]
    return [*found, *arrived.idle(silent_s)]


def keys(*pieces: str) -> list[tuple[str, str | None]]:
    return [(e.key, e.character) for e in parse_pieces(*pieces) if isinstance(e, events.Key)]


def describe_events(found: list[Message]) -> list[tuple[object, ...]]:
    return [
        (type(e), getattr(e, "key", ""), getattr(e, "character", ""), getattr(e, "text", ""))
        for e in found
    ]


@pytest.mark.parametrize(
    ("sent", "key", "character"),
    [
        ("\x1b[32;;32u", "space", " "),
        ("\x1b[32u", "space", " "),
        ("\x1b[32;2u", "space", " "),
        ("\x1b[64u", "at", "@"),
        ("\x1b[113;;64u", "at", "@"),
        ("\x1b[113;7;64u", "at", "@"),
        ("\x1b[101;;233u", "é", "é"),
        ("\x1b[252;2;220u", "Ü", "Ü"),
        ("\x1b[252:220;2u", "Ü", "Ü"),
        ("\x1b[97;2u", "A", "A"),
        ("\x1b[97;2:1;65u", "A", "A"),
        ("\x1b[97;5u", "ctrl+a", None),
        ("\x1b[120;133u", "ctrl+x", None),
        ("\x1b[13u", "enter", "\r"),
        ("\x1b[13;2u", "shift+enter", None),
        ("\x1b[27u", "escape", None),
        ("\x1b[1;5A", "ctrl+up", None),
        ("\x1b[A", "up", None),
        ("\x1bOA", "up", None),
        ("\x1b\x1b[A", "alt+up", None),
        ("\x1b[[A", "f1", None),
        ("\x1b[3~", "delete", None),
        ("\x1bb", "alt+b", None),
        ("\x1bB", "alt+shift+b", None),
        ("\x1b_", "alt+underscore", None),
        ("\x1b<", "alt+less_than_sign", None),
        ("\x1b]", "alt+right_square_bracket", None),
        ("\x1b[", "alt+left_square_bracket", None),
        ("\x1b1", "alt+1", None),
        ("\x1b\x7f", "alt+backspace", None),
        ("\x1b\r", "alt+enter", None),
        ("\x1b", "escape", "\x1b"),
        ("é", "é", "é"),
        ("\x03", "ctrl+c", "\x03"),
    ],
)
def test_key_sequences_are_parsed(sent: str, key: str, character: str | None):
    assert keys(sent) == [(key, character)]
    assert keys(*sent) == [(key, character)]


@pytest.mark.parametrize(
    "sent",
    [
        "\x1b[<0;NaN;NaNM",
        "\x1b[<35;-3;-8M",
        "\x1b[<99999999999;1;1M",
        "\x1b[32;10;10M",
        "\x1b[M !!",
        "\x1b[121~",
        "\x1b[?62;52;c",
        "\x1b[>0;1;2c",
        "\x1b[12;34;56x",
        "\x1b]11;rgb:ffff/ffff/ffff\x1b\\",
        "\x1b]52;c;eWVz\x07",
        "\x1bP1+r4d73=yes\x1b\\",
        "\x1b_Gi=1;yes\x1b\\",
        "\x1b[97;1:3u",
        "\x1b[57442;5u",
        "\x1b[55296u",
        "\x1b[9999999u",
        "\x1b[1114112u",
        "\x1b[?0u",
        "\x1b[48;0;0;0;0t",
        "\x1b[" + "1;" * 60,
    ],
)
def test_sequences_that_are_not_keys_are_never_typed(sent: str):
    assert keys(sent) == []
    assert keys(sent, "y") == [("y", "y")]


def test_truncated_mouse_report_is_not_typed():
    assert keys("\x1b[<35;12") == []
    assert keys("\x1b[<35;12", "\x1b[A") == [("up", None)]


def test_mouse_report_without_its_escape_is_not_typed():
    arrived = TerminalInput()
    found = [*arrived.feed("\x1b"), *arrived.idle(0.02), *arrived.feed("[<35;40;12M[<")]
    assert [e.character for e in found if isinstance(e, events.Key)] == ["\x1b", "[", "<"]


def test_mouse_and_focus_events_are_parsed():
    found = parse_pieces("\x1b[<0;5;6M\x1b[<0;5;6m\x1b[I\x1b[O\x1b[<64;5;6M")
    assert [type(e).__name__ for e in found] == [
        *("MouseDown", "MouseUp", "AppFocus", "AppBlur", "MouseScrollUp"),
    ]
    assert isinstance(found[0], events.MouseDown) and (found[0].x, found[0].y) == (4, 5)


@given(st.lists(st.integers(min_value=1, max_value=40)), st.text(alphabet="ab\r\n\x1b[~201é"))
def test_split_paste_is_one_event(cuts: list[int], text: str):
    if "\x1b[201~" in text:
        return
    sent = f"a\x1b[200~{text}\x1b[201~b"
    at, pieces = 0, []
    for cut in cuts:
        pieces.append(sent[at : at + cut])
        at += cut
    found = parse_pieces(*pieces, sent[at:])
    pasted = [e.text for e in found if isinstance(e, events.Paste)]
    assert pasted == [text]
    assert [e.key for e in found if isinstance(e, events.Key)] == ["a", "b"]


def test_unterminated_paste_ends_after_timeout():
    arrived = TerminalInput()
    assert [*arrived.feed("\x1b[200~half"), *arrived.idle(0.5)] == []
    (paste,) = arrived.idle(PASTE_PATIENCE_S)
    assert isinstance(paste, events.Paste) and paste.text == "half"
    assert [e.key for e in arrived.feed("x") if isinstance(e, events.Key)] == ["x"]


@pytest.mark.parametrize(
    "rest", [["y\r! rm x\r\x1b[201~"], ["y\r" * 100, "\x1b[201~"], ["y\r" * 100, "y\r\x1b[201~"]]
)
def test_late_rest_of_timed_out_paste_is_not_typed(rest: list[str]):
    arrived = TerminalInput()
    found = [*arrived.feed("\x1b[200~half"), *arrived.idle(PASTE_PATIENCE_S)]
    for piece in (*rest, "a"):
        found += arrived.feed(piece)
    pasted = [event.text for event in found if isinstance(event, events.Paste)]
    assert pasted == ["half", "".join(rest).removesuffix("\x1b[201~")]
    assert [event.key for event in found if isinstance(event, events.Key)] == ["a"]


def test_paste_after_unterminated_paste_is_separate():
    arrived = TerminalInput()
    found = [*arrived.feed("\x1b[200~half"), *arrived.idle(PASTE_PATIENCE_S)]
    found += arrived.feed("\x1b[200~whole\x1b[201~")
    assert [event.text for event in found if isinstance(event, events.Paste)] == ["half", "whole"]


PIECE = st.sampled_from([*"\x1b[<O]P;5uM~yé\x07:"])


@given(st.lists(PIECE, max_size=40).map("".join), st.integers(min_value=1, max_value=39))
def test_parser_result_is_same_however_input_is_split(sent: str, cut: int):
    whole = describe_events(parse_pieces(sent, silent_s=PASTE_PATIENCE_S))
    assert describe_events(parse_pieces(sent[:cut], sent[cut:], silent_s=PASTE_PATIENCE_S)) == whole


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_plain_text_is_typed_unchanged(text: str):
    assert "".join(character or "" for _, character in keys(text)) == text
