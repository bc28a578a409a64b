from hypothesis import given
from hypothesis import strategies as st

from dirge_py.lib.text import cut_middle, fair_shares, one_line

SIZES = st.lists(st.integers(0, 10_000), max_size=8)


def test_what_small_ones_do_not_need_goes_to_the_large_ones():
    assert fair_shares([500, 300, 200_000], 80_000) == [500, 300, 79_200]


def test_a23_equal_sizes_get_equal_shares():
    assert sorted(fair_shares([90_000] * 3, 80_000)) == [26_666, 26_667, 26_667]


@given(SIZES, st.integers(-5, 20_000))
def test_shares_fit_and_nothing_is_wasted(sizes: list[int], total: int):
    shares = fair_shares(sizes, total)
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) == min(sum(sizes), max(0, total))


@given(st.text(max_size=200), st.integers(0, 220), st.text(max_size=20))
def test_a_cut_text_is_no_longer_than_asked(text: str, most: int, marker: str):
    cut = cut_middle(text, most, marker)
    assert len(cut) <= most or cut == text
    assert cut == text or len(text) > most


def test_both_ends_are_kept_around_the_marker():
    assert cut_middle("a" * 50 + "b" * 50, 23, "…cut…", tail=0.5) == "a" * 9 + "…cut…" + "b" * 9


def test_one_line_is_one_line_of_bounded_length():
    assert one_line(" a\n b\tc ", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
