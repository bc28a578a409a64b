"""The layout of the transcript and its text, without an app."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes
from textual.strip import Strip

from dirge_py.ui.theme.styles import Styles, load_theme, styles_for
from dirge_py.ui.transcript.blocks import NoticeBlock, TranscriptBlock, UserBlock
from dirge_py.ui.transcript.layout import LinePosition, TranscriptLayout
from dirge_py.ui.transcript.lines import LogicalText, fold, wrap
from dirge_py.ui.transcript.positions import TextPosition, line_of, position_at, texts_between
from dirge_py.ui.transcript.prose import MarkdownPiece, ProseBlock
from dirge_py.ui.transcript.selection import TextSelection
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.support.rendered_lines import line_texts

STYLES = styles_for(load_theme("dark"))
FAMILY = "👨‍👩‍👧"
PARTS = st.sampled_from(["a", "bc", " ", "é", "日本", FAMILY, "👍🏽", "[b]", "\n"])
WORDS = st.lists(PARTS, max_size=25).map("".join)


class Wide(TranscriptBlock):
    """A block that records the width it was painted with."""

    is_wide = True

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        return wrap([("x" * width, styles.text)], width)

    def guess_height(self, width: int) -> int:
        return 1


class Counting(NoticeBlock):
    """A block that counts its calls."""

    asked = 0

    def guess_height(self, width: int) -> int:
        Counting.asked += 1
        return super().guess_height(width)


def page_of(blocks: Sequence[object], width: int = 30) -> TranscriptLayout:
    layout = TranscriptLayout(STYLES, width)
    for block in blocks:
        layout.append(block)  # type: ignore[arg-type]
    return layout


def all_text(layout: TranscriptLayout) -> str:
    first, last = layout.rows.first, layout.rows.last
    assert first is not None
    assert last is not None
    end = len(layout.drawn(last).logical.text)
    return "".join(texts_between(layout, TextPosition(first, 0), TextPosition(last, end)))


def drawn(layout: TranscriptLayout) -> list[str]:
    layout.settle(0, 1_000_000)
    return list(line_texts(layout, 0, layout.height))


def test_blocks_put_before_others_look_as_if_they_had_come_first():
    texts = ["one", "two\nlines", "three", "four", "five\nlines"]
    at_once, later = (page_of([NoticeBlock(text) for text in texts[at:]]) for at in (0, 3))
    drawn(later)
    later.prepend([NoticeBlock(text) for text in texts[:3]])

    assert drawn(later) == drawn(at_once)
    assert later.height == at_once.height


def test_wide_blocks_use_all_columns_and_others_reading_width():
    layout = page_of([Wide(), UserBlock("y" * 300)])
    layout.resize(40, 90)

    assert max(map(len, drawn(layout))) == 90
    assert max(len(line) for line in drawn(layout) if "y" in line) == 40


@given(WORDS, st.integers(4, 40))
@settings(max_examples=60, deadline=None)
def test_wrapped_text_is_copied_unwrapped(text: str, width: int):
    mark = [("› ", STYLES.user)]
    logical = LogicalText(
        wrap([(text, STYLES.text)], width, first=mark, rest=[("  ", STYLES.text)])
    )
    written = [" ".join(line.split(" ")).rstrip() for line in text.split("\n")]

    assert [line.strip() for line in logical.text.split("\n")] == [line.strip() for line in written]


@given(WORDS, st.integers(4, 40))
@settings(max_examples=60, deadline=None)
def test_wrapped_code_is_copied_unwrapped(text: str, width: int):
    line = text.replace("\n", "")

    copied = LogicalText(
        fold([(line, STYLES.markdown.code)], width, prefix=[("  ", STYLES.text)])
    ).text

    assert copied.rstrip() == line.rstrip()


@given(WORDS, st.integers(2, 20))
@settings(max_examples=60, deadline=None)
def test_wrapping_never_splits_grapheme_or_exceeds_width(text: str, width: int):
    flat = text.replace("\n", " ")
    pieces = [(char, STYLES.text) for char in flat]
    graphemes = {flat[a:b] for a, b, _ in split_graphemes(flat)[0]}
    for strips in (wrap(pieces, width), fold(pieces, width)):
        assert all(strip.cell_length == cell_len(strip.text) <= width for strip in strips)
        for strip in strips:
            assert {strip.text[a:b] for a, b, _ in split_graphemes(strip.text)[0]} <= graphemes


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(st.integers(0, 5), max_size=12))
@settings(max_examples=60, deadline=None)
def test_layout_height_is_sum_of_rows_after_any_change(texts: list[str], steps: list[int]):
    layout = page_of([NoticeBlock(text) for text in texts])
    for step in steps:
        blocks = [row.block for row in layout.rows]
        if step == 0 and len(blocks) > 1:
            layout.remove(blocks[len(blocks) // 2])
        elif step == 1:
            layout.insert(blocks[-1], UserBlock("new"))
        elif step == 2:
            layout.resize(10 + len(blocks))
        elif step == 3:
            layout.touch(blocks[0])
        else:
            layout.settle(step, 5)
    top = 0
    for row in layout.rows:
        assert layout.top(row) == top
        top += row.height
    assert layout.height == top
    layout.settle(0, 1_000_000)
    assert layout.height == sum(row.gap + len(layout.drawn(row).strips) for row in layout.rows)


def test_rows_are_found_by_line_and_by_block():
    blocks = [UserBlock(f"{number}") for number in range(1000)]
    layout = page_of(blocks)
    for number in range(0, 1000, 3):
        layout.insert(blocks[number], NoticeBlock(f"before {number}\nand more"))
    for number in range(0, 1000, 7):
        layout.remove(blocks[number])
    layout.settle(0, 1_000_000)
    lines = list(line_texts(layout, 0, layout.height))

    for y in range(0, layout.height, 17):
        place = layout.find(y)
        assert place is not None
        assert layout.top(place.row) + place.line == y
    assert lines[layout.top(layout.rows.of(blocks[500])) + 1] == "› 500"


def test_resize_does_not_measure_blocks_out_of_view():
    layout = page_of([Counting(f"{number}") for number in range(300)])
    layout.settle_end(10)
    Counting.asked = 0
    layout.resize(25)
    layout.settle_end(10)

    assert Counting.asked == 0


@given(st.lists(WORDS.filter(str.strip), min_size=1, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_position_on_top_is_found_after_resize(texts: list[str], data: st.DataObject):
    layout = page_of([UserBlock(text * 4) for text in texts])
    layout.settle(0, 1_000_000)
    y = data.draw(st.integers(0, layout.height - 1))
    spot = position_at(layout, y)
    assert spot is not None
    layout.resize(data.draw(st.integers(4, 60)))
    place = line_of(layout, spot)
    logical = layout.drawn(place.row).logical
    line = place.line - place.row.gap

    assert logical.start_of(line) <= spot.offset <= logical.end_of(line) + 1


@given(st.lists(WORDS, min_size=1, max_size=6), st.integers(6, 40), st.integers(6, 40))
@settings(max_examples=60, deadline=None)
def test_selected_text_is_same_at_every_width(texts: list[str], one: int, other: int):
    layout = page_of([UserBlock(text) for text in texts], one)
    before = all_text(layout)
    layout.resize(other)

    assert [line.split() for line in all_text(layout).split("\n")] == [
        line.split() for line in before.split("\n")
    ]


def test_copied_text_has_no_markers_margins_or_line_numbers():
    diff = ToolBlock("c", "edit", {"path": "a.py"})
    text = "--- a.py\n+++ a.py\n@@ -1,1 +1,1 @@\n-old\n+" + "new " * 20
    diff.finish("", {"diff": text}, is_error=False, took_ms=0)
    layout = page_of(
        [
            UserBlock("hello there " * 4),
            ProseBlock(MarkdownPiece("- one\n\n```py\nx = 1\n```\n")),
            diff,
        ]
    )

    assert all_text(layout) == (
        f"{('hello there ' * 4).strip()}\n\n• one\n\nx = 1\n\n✓ edit a.py  +1 −1\n-old\n+"
        + ("new " * 20).strip()
    )


def test_position_in_split_row_is_found_in_new_row():
    layout = page_of([UserBlock("head"), ProseBlock(MarkdownPiece("one\n\ntwo\n\nthree"))])
    row = layout.rows.last
    assert row is not None
    layout.settle(0, 100)
    layout.insert(row.block, ProseBlock(MarkdownPiece("one\n\n")))
    layout.insert(row.block, ProseBlock(MarkdownPiece("two\n\n")))
    parted = layout.rows.first
    assert parted is not None
    assert parted.below is not None
    row.block.replace(MarkdownPiece("three"))  # type: ignore[attr-defined]
    layout.touch(row.block)

    top = layout.settle_at(LinePosition(parted.below, 3), 1)

    assert list(line_texts(layout, top, top)) == ["two"]


@pytest.mark.parametrize("seed", range(5))
def test_selection_between_two_points_is_substring_of_text(seed: int):
    pick = random.Random(seed)
    texts = [" ".join(f"w{pick.randrange(99)}" for _ in range(20)) for _ in range(6)]
    layout = page_of([UserBlock(text) for text in texts], 24)
    layout.settle(0, 1_000_000)
    text = all_text(layout)
    selection = TextSelection(layout)
    one, other = (
        position_at(layout, pick.randrange(layout.height), pick.randrange(24)) for _ in range(2)
    )
    assert one is not None
    assert other is not None
    selection.set(one, other)

    assert selection.text in text


def test_word_selection_takes_path_and_line_selection_whole_wrapped_line():
    layout = page_of([UserBlock("look at src/main.py:12, it is long enough to be wrapped twice")])
    row = layout.rows.first
    assert row is not None
    selection = TextSelection(layout)

    selection.select_around(TextPosition(row, 12), "word")
    assert selection.text == "src/main.py:12"
    selection.select_around(TextPosition(row, 12), "line")
    assert selection.text == "look at src/main.py:12, it is long enough to be wrapped twice"
