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


def test_cut_by_width_adds_a_marker():
    assert cut("abcdef", 4) == "abc…"
    assert cut("漢字漢", 4) == "漢…"
    assert cut("abc", 3) == "abc"
    assert cut("abc", 0) == ""


def test_wrap_breaks_at_spaces():
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrap("one two\n\nthree", 20) == ["one two", "", "three"]


def test_wrap_breaks_words_longer_than_the_width():
    assert wrap("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]


def test_wrap_keeps_the_indentation():
    assert wrap("    abc defghi", 8) == ["    abc", "defghi"]


@settings(max_examples=size(66, 200), deadline=None)
@given(TEXT, st.integers(2, 20))
@example("\u0301 a漢", 2)
def test_wrapped_lines_fit_and_keep_every_word(text, width):
    lines = wrap(text, width)

    assert all(cell_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@settings(max_examples=size(66, 200), deadline=None)
@given(TEXT, st.integers(0, 20))
def test_text_cut_by_width_fits(text, width):
    assert cell_width(cut(text, width)) <= width


def test_a_very_long_line_is_wrapped_in_linear_time():
    started = time.process_time()

    assert len(wrap("é" * 400_000, 80)) == 5000
    assert time.process_time() - started < 5
