import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.lib.text import clean, clean_json, one_line, visible
from tests.security.sizes import size

NASTY = st.text(
    alphabet=st.sampled_from(
        "a é\n\r\t\x00\x07\x08\x1b[]P^_X\\;:m0139\x7f\x90\x9b\x9c\x9d\u200d\u202e👩"
    )
    | st.characters(),
    max_size=80,
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain, été, 漢字", "plain, été, 漢字"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b[?1049h\x1b[>4;2mx", "x"),
        ("\x9b31mx", "x"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"),
        ("a\x1bPq#0\nsixel\x1b\\b", "ab"),
        ("a\x1b_Gf=100\x9cb", "ab"),
        ("a\x1b^pm\x1b\\b\x1bXsos\x1b\\c", "abc"),
        ("\x1b]8;;https://evil\x1b\\text\x1b]8;;\x1b\\", "text"),
        ("\x1b(0x\x1b7y\x1bcz\x1b", "xyz"),
        ("\x1b[31", ""),
        ("one\rtwo\r\nthree", "one\ntwo\nthree"),
        ("a\bb\x00c\x7fd\x85e\tf", "abcde\tf"),
        ("safe\u202etxt.exe", "safe<U+202E>txt.exe"),
        ("a\u200bb\ufeffc\u2066d", "a<U+200B>b<U+FEFF>c<U+2066>d"),
        ("hi\U000e0041", "hi<U+E0041>"),
        ("a\u200db", "a<U+200D>b"),
        ("\ud800x", "\ufffdx"),
    ],
)
def test_clean_removes_every_terminal_control(raw, shown):
    assert clean(raw) == shown


def test_clean_keeps_joiners_inside_emoji_and_scripts():
    family, persian = "👩\u200d👧\u200d👦", "می\u200cخواهم"

    assert clean(family) == family
    assert clean(persian) == persian


def test_unterminated_control_string_hides_at_most_its_line():
    assert clean("a\x1b]0;lost\nkept") == "a\nkept"


def test_unterminated_control_string_ends_after_4_kib():
    assert clean("\x1b]0;" + "x" * 5000) == "x" * (5000 - 4096 + 2)


def test_nested_escape_sequences_do_not_reassemble():
    assert clean("\x1b\x1b[31m[31mx") == "[31mx"


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_clean_keeps_only_newline_and_tab_as_controls(text):
    left = {char for char in clean(text) if ord(char) < 32 or 127 <= ord(char) < 160}

    assert left <= {"\n", "\t"}


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_clean_is_idempotent(text):
    assert clean(clean(text)) == clean(text)


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_visible_text_has_no_controls_and_is_encodable(text):
    shown = visible(text)

    assert not {char for char in shown if ord(char) < 32} - {"\n", "\t"}
    shown.encode()


@pytest.mark.parametrize(
    "piece", ["\x1b]", "\x1b[1;", "\x1bP1", "\x9d", "\r", "\u200d", "\x1b", "\x1b[ "]
)
def test_cleaning_takes_linear_time(piece):
    started = time.process_time()

    clean(piece * (400_000 // len(piece)))

    assert time.process_time() - started < 3


def test_question_text_shows_hidden_characters():
    assert visible("rm\u202e -rf\x1b[2K\r") == "rm<U+202E> -rf<U+001B>[2K<U+000D>"
    assert visible("a\u00a0b\u2800c") == "a<U+00A0>b<U+2800>c"


def test_long_padding_in_a_question_is_counted_not_shown():
    assert visible("ls" + " " * 300 + "; rm -rf x") == "ls <300 spaces> ; rm -rf x"
    assert visible("ls" + "\n" * 80 + "rm") == "ls\n<79 empty lines>\nrm"


def test_ordinary_script_is_shown_unchanged():
    script = 'for f in *; do\n    echo "$f"\n\n\techo done\ndone\n'

    assert visible(script) == script


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_cleaned_json_is_equal_and_has_no_terminal_controls(value):
    text = clean_json(json.dumps(value, ensure_ascii=False))

    assert json.loads(text) == value
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)


def test_cleaned_json_escapes_characters_beyond_16_bits():
    assert clean_json('"\U000e0041\u009b"') == '"\\udb40\\udc41\\u009b"'


def test_one_line_joins_lines_and_limits_the_length():
    assert one_line(" a\n b\tc ", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
