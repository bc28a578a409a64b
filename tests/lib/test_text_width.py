import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dirge_py.lib.text_width import cell_width, cut, wrap
from tests.security.sizes import size

TEXT = st.text(alphabet=st.sampled_from("ab  漢é👩\u200d\u0301🇩🇪x-"), max_size=60)


@pytest.mark.parametrize(
    ("text", "cells"),
    [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("👩\u200d👧", 2), ("🇩🇪", 2), ("", 0)],
)
def test_width_counts_cells_of_graphemes(text, cells):
    assert cell_width(text) == cells


def test_cutting_marks_what_is_left_off():
    assert cut("abcdef", 4) == "abc…"
    assert cut("漢字漢", 4) == "漢…"
    assert cut("abc", 3) == "abc"
    assert cut("abc", 0) == ""


def test_wrapping_breaks_at_blanks():
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrap("one two\n\nthree", 20) == ["one two", "", "three"]


def test_wrapping_breaks_words_that_are_too_long():
    assert wrap("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]


def test_wrapping_keeps_the_indentation():
    assert wrap("    abc defghi", 8) == ["    abc", "defghi"]


@settings(max_examples=size(66, 200), deadline=None)
@given(TEXT, st.integers(2, 20))
@example("\u0301 a漢", 2)
def test_no_wrapped_line_is_too_wide_and_no_word_is_lost(text, width):
    lines = wrap(text, width)

    assert all(cell_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@settings(max_examples=size(66, 200), deadline=None)
@given(TEXT, st.integers(0, 20))
def test_what_is_cut_fits(text, width):
    assert cell_width(cut(text, width)) <= width


def test_a_very_long_line_is_wrapped_in_linear_time():
    started = time.process_time()

    assert len(wrap("é" * 400_000, 80)) == 5000
    assert time.process_time() - started < 5
