from hypothesis import given
from hypothesis import strategies as st

from dirge_py.lib.text import cut_middle, fair_shares, one_line

SIZES = st.lists(st.integers(0, 10_000), max_size=8)


def test_share_unused_by_small_texts_goes_to_large_ones():
    assert fair_shares([500, 300, 200_000], 80_000) == [500, 300, 79_200]


def test_a23_equal_sizes_get_equal_shares():
    assert sorted(fair_shares([90_000] * 3, 80_000)) == [26_666, 26_667, 26_667]


@given(SIZES, st.integers(-5, 20_000))
def test_shares_fit_the_budget_and_use_all_of_it(sizes: list[int], total: int):
    shares = fair_shares(sizes, total)
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) == min(sum(sizes), max(0, total))


@given(st.text(max_size=200), st.integers(0, 220), st.text(max_size=20))
def test_cut_text_is_within_the_limit(text: str, most: int, marker: str):
    cut = cut_middle(text, most, marker)
    assert len(cut) <= most or cut == text
    assert cut == text or len(text) > most


def test_cut_keeps_both_ends_around_the_marker():
    assert cut_middle("a" * 50 + "b" * 50, 23, "…cut…", tail=0.5) == "a" * 9 + "…cut…" + "b" * 9


def test_one_line_joins_lines_and_limits_the_length():
    assert one_line(" a\n b\tc ", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
