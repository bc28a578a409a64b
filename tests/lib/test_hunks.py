"""Hunks: splitting a change and applying parts of it, byte for byte."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.lib.hunks import JOINED_ACROSS, common_start, diff_hunks, lines_of

LINES = st.sampled_from(["a", "b", "", "\ufeffa", "}", "a\r", "\u2028", "b\x0c"])
TEXTS = st.builds(
    lambda lines, last: "".join(f"{line}\n" for line in lines) + last,
    st.lists(LINES, max_size=14),
    LINES,
)


@given(TEXTS, TEXTS, st.sets(st.integers(0, 14)))
def test_applying_all_no_or_some_hunks_gives_new_old_or_mixed_lines(
    before: str, after: str, some: set[int]
):
    change = diff_hunks(before, after)
    assert change.apply(range(len(change.hunks))) == after
    assert change.apply(()) == before
    taken = lines_of(change.apply(some))
    assert set(taken) <= {*lines_of(before), *lines_of(after)}


@given(TEXTS, TEXTS)
def test_hunks_are_ordered_disjoint_and_not_empty(before: str, after: str):
    hunks = diff_hunks(before, after).hunks
    assert all(h.before_at < h.before_end or h.after_at < h.after_end for h in hunks)
    assert all(b.before_at - a.before_end > JOINED_ACROSS for a, b in pairwise(hunks))
    assert (hunks == ()) == (before == after)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=4, unique=True), st.booleans())
def test_distant_edits_in_a_large_file_are_separate_hunks(places: list[int], repeats: bool):
    lines = [f"line {n % 7 if repeats and n % 2 else n}\n" for n in range(3001)]
    after = [f"new {n}\n" if n in places else line for n, line in enumerate(lines)]
    change = diff_hunks("".join(lines), "".join(after))
    near = sum(b - a <= JOINED_ACROSS + 1 for a, b in pairwise(sorted(places)))
    assert len(change.hunks) == len(places) - near
    assert change.apply(range(len(places))) == "".join(after)


@pytest.mark.parametrize("shape", ["{}\n", "same\n", "x{}\n\n"])
def test_unrelated_texts_are_compared_quickly(shape: str):
    before = "".join(shape.format(n) for n in range(20_000))
    after = "".join(shape.format(-n) for n in range(20_001))
    change = diff_hunks(before, after)
    assert change.apply(range(len(change.hunks))) == after


def test_missing_final_newline_is_a_difference():
    change = diff_hunks("a\nb", "a\nb\nc")
    assert [change.apply(()), change.apply((0,))] == ["a\nb", "a\nb\nc"]


def test_only_line_feeds_split_lines():
    assert lines_of("a\r\nb\x0cc\u2028d\ne") == ["a\r\n", "b\x0cc\u2028d\n", "e"]


@given(st.lists(st.sampled_from("ab")), st.lists(st.sampled_from("ab")))
def test_common_prefix_is_the_longest_possible(one, other):
    count = common_start(one, other)

    assert one[:count] == other[:count]
    assert one[count : count + 1] != other[count : count + 1] or len(one) == len(other) == count
    assert common_start("".join(one), "".join(other)) == count
