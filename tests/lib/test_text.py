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
def test_nothing_a_terminal_obeys_survives(raw, shown):
    assert clean(raw) == shown


def test_joiners_stay_inside_emoji_and_scripts():
    family, persian = "👩\u200d👧\u200d👦", "می\u200cخواهم"

    assert clean(family) == family
    assert clean(persian) == persian


def test_an_unterminated_string_hides_its_line_at_most():
    assert clean("a\x1b]0;lost\nkept") == "a\nkept"


def test_an_unterminated_string_ends_after_4_kib():
    assert clean("\x1b]0;" + "x" * 5000) == "x" * (5000 - 4096 + 2)


def test_a_sequence_inside_a_sequence_does_not_reassemble():
    assert clean("\x1b\x1b[31m[31mx") == "[31mx"


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_the_only_controls_left_are_newline_and_tab(text):
    left = {char for char in clean(text) if ord(char) < 32 or 127 <= ord(char) < 160}

    assert left <= {"\n", "\t"}


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_cleaning_twice_changes_nothing_more(text):
    assert clean(clean(text)) == clean(text)


@settings(max_examples=size(66, 200), deadline=None)
@given(NASTY)
def test_what_is_visible_has_no_controls_and_can_be_written(text):
    shown = visible(text)

    assert not {char for char in shown if ord(char) < 32} - {"\n", "\t"}
    shown.encode()


@pytest.mark.parametrize(
    "piece", ["\x1b]", "\x1b[1;", "\x1bP1", "\x9d", "\r", "\u200d", "\x1b", "\x1b[ "]
)
def test_a_flood_takes_linear_time(piece):
    started = time.process_time()

    clean(piece * (400_000 // len(piece)))

    assert time.process_time() - started < 3


def test_a_prompt_shows_what_it_would_hide():
    assert visible("rm\u202e -rf\x1b[2K\r") == "rm<U+202E> -rf<U+001B>[2K<U+000D>"
    assert visible("a\u00a0b\u2800c") == "a<U+00A0>b<U+2800>c"


def test_padding_in_a_prompt_is_counted_not_shown():
    assert visible("ls" + " " * 300 + "; rm -rf x") == "ls <300 blanks> ; rm -rf x"
    assert visible("ls" + "\n" * 80 + "rm") == "ls\n<79 empty lines>\nrm"


def test_an_ordinary_script_is_shown_as_it_is():
    script = 'for f in *; do\n    echo "$f"\n\n\techo done\ndone\n'

    assert visible(script) == script


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_cleaned_json_means_the_same_and_holds_nothing_that_a_terminal_obeys(value):
    text = clean_json(json.dumps(value, ensure_ascii=False))

    assert json.loads(text) == value
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)


def test_cleaned_json_escapes_also_what_lies_beyond_16_bits():
    assert clean_json('"\U000e0041\u009b"') == '"\\udb40\\udc41\\u009b"'


def test_one_line_is_one_line_of_bounded_length():
    assert one_line(" a\n b\tc ", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
