"""Diffs in the transcript: word marks, two columns, hunks, and stable layout."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import Color
from textual.strip import Strip

from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.diff import (
    LONGEST_LINE,
    DiffBlock,
    diff_blocks,
    is_split,
    mark_words,
    paint_rows,
    pair_lines,
    read_diff,
)
from dirge_py.ui.transcript.markdown import paint_markdown
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.support.rendered_lines import paint_diff
from tests.ui.test_transcript import Page

STYLES = styles_for(load_theme("dark"))
TWO_HUNKS = """--- a.py
+++ a.py
@@ -1,3 +1,4 @@
 def f():
-\treturn old(1)
+\tlog()
+\treturn new(1)
 # end
@@ -20,2 +21,1 @@
-gone
 last"""

LINES = st.text(alphabet="ab (日é👍🏽\u200d👩\t", max_size=30)


def marked(old: str, new: str) -> tuple[list[str], list[str]]:
    """The marked words of two lines."""
    before, after = mark_words(old, new)
    return [old[a:b] for a, b in before], [new[a:b] for a, b in after]


def bold(diff: str, width: int = 60) -> list[str]:
    return [
        s.text for line in paint_diff(diff, width, STYLES) for s in line if s.style and s.style.bold
    ]


def test_only_changed_words_of_a_line_are_marked() -> None:
    assert marked("x = old(1, two)", "x = new(1, two)") == (["old"], ["new"])
    assert marked("one two three", "one and a half three") == (["two"], ["and a half"])
    assert bold(TWO_HUNKS) == ["old", "new"]


def test_lines_without_common_words_are_not_marked() -> None:
    assert marked("import os", "class Parser(Base):") == ([], [])


def test_word_mark_never_splits_a_grapheme() -> None:
    assert marked("say 👍🏽 now", "say 👍 now") == (["👍🏽"], ["👍"])
    assert marked("価格は高い", "価格は安い") == (["高"], ["安"])


def test_inserted_line_does_not_shift_paired_lines() -> None:
    added = ["log()", "return new(1)"]

    assert pair_lines(["return old(1)"], added) == [(None, 0), (0, 1)]


@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=6))
@settings(max_examples=60, deadline=None)
def test_pairing_keeps_every_line_once_and_in_order(removed: list[str], added: list[str]) -> None:
    pairs = pair_lines(removed, added)

    assert [old for old, _ in pairs if old is not None] == list(range(len(removed)))
    assert [new for _, new in pairs if new is not None] == list(range(len(added)))


@given(LINES, LINES)
@settings(max_examples=100, deadline=None)
def test_unmarked_text_is_equal_in_both_lines(old: str, new: str) -> None:
    before, after = mark_words(old, new)
    if not before and not after:
        return

    def rest(line: str, spans: object) -> str:
        kept, at = [], 0
        for start, end in spans:  # type: ignore[attr-defined]
            kept.append(line[at:start])
            at = end
        return "".join([*kept, line[at:]]).replace(" ", "").replace("\t", "")

    assert rest(old, before) == rest(new, after)


def test_words_of_long_lines_and_long_hunks_are_not_marked() -> None:
    long = "word " * (LONGEST_LINE // 5)
    head = "--- a\n+++ a\n@@ -1,150 +1,150 @@\n"
    many = head + "-x = old\n" * 150 + "+x = new\n" * 150

    assert marked(f"{long} old", f"{long} new") == ([], [])
    assert bold(many) == []
    assert bold(head + "-x = old\n+x = new\n") == ["old", "new"]


def test_split_layout_shows_old_and_new_side_by_side() -> None:
    lines = [line.text.rstrip() for line in paint_diff(TWO_HUNKS, 45, STYLES, layout="split")]

    assert lines == [
        " 1  def f():          │  1  def f():",
        "                      │  2 +    log()",
        " 2 -    return old(1) │  3 +    return new(1)",
        " 3  # end             │  4  # end",
        " ⋯",
        "20 -gone              │",
        "21  last              │ 21  last",
    ]


@pytest.mark.parametrize(
    ("layout", "width", "expected"),
    [("auto", 136, False), ("auto", 137, True), ("unified", 300, False), ("split", 60, True)],
)
def test_diff_layout_setting_and_width_decide_about_split(
    layout: str, width: int, expected: bool
) -> None:
    # A terminal of 140 columns leaves 137 to draw on.
    assert is_split(layout, width) is expected  # type: ignore[arg-type]


def test_wide_characters_and_tabs_stay_in_their_column() -> None:
    diff = "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-\t日本語日本語日本語 x\n+\t日本語👩‍👩‍👧 y"
    lines = paint_diff(diff, 41, STYLES, layout="split")

    assert {line.text[: line.text.index("│")].count("\t") for line in lines} == {0}
    assert {line.crop(0, 19).cell_length for line in lines} == {19}
    assert {line.crop(20, 21).text for line in lines} == {"│"}


@given(st.lists(st.tuples(st.sampled_from(" +-"), LINES), max_size=12), st.integers(8, 60))
@settings(max_examples=60, deadline=None)
def test_diff_lines_never_exceed_width(lines: list[tuple[str, str]], width: int) -> None:
    diff = "\n".join(["--- a", "+++ b", "@@ -1,9 +1,9 @@", *(sign + line for sign, line in lines)])
    wide = max(width, 45)

    assert all(line.cell_length <= width for line in paint_diff(diff, width, STYLES))
    assert all(line.cell_length <= wide for line in paint_diff(diff, wide, STYLES, layout="split"))


def test_hunk_starts_are_landmarks_of_diff_block() -> None:
    assert paint_rows(read_diff(TWO_HUNKS), 60, STYLES)[1] == [0, 6]
    block = ToolBlock("c", "edit", {"path": "a.py"})
    block.finish("done", {"diff": TWO_HUNKS}, is_error=False, took_ms=0)
    block.paint(60, STYLES, expanded=False)

    assert list(block.landmarks) == [0, 7]
    assert block.is_wide


def test_large_diff_is_split_into_blocks_without_losing_lines() -> None:
    hunks = "".join(f"@@ -{n},2 +{n},2 @@\n-old {n}\n+new {n}\n same\n" for n in range(1, 900, 3))
    blocks = diff_blocks(f"--- a.py\n+++ a.py\n{hunks}")
    text = "\n".join(block.text for block in blocks)

    assert len(blocks) > 2
    assert [text.count(f"new {n}\n") for n in range(1, 900, 3)] == [1] * 300
    assert [block.gap for block in blocks] == [True] + [False] * (len(blocks) - 1)


def test_diff_of_several_files_shows_file_names() -> None:
    page = Page(STYLES, 60)
    TranscriptRenderer(page).diff(TWO_HUNKS + "\n" + TWO_HUNKS.replace("a.py", "b\x1b[31m.py"))

    assert isinstance(page.blocks[0], DiffBlock)
    assert page.text.split("\n")[0].strip() == "a.py"
    assert "\n   b.py\n" in page.text
    assert list(page.blocks[0].landmarks) == [0, 7, 9, 16]


CODE = '--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return "x"'


def looks(strips: Sequence[Strip], text: str) -> set[tuple[Color | None, Color | None]]:
    """The colour and the background of the segments with this text."""
    return {
        (segment.style.color, segment.style.bgcolor)
        for line in strips
        for segment in line
        if segment.text.strip() == text and segment.style
    }


def test_changed_code_has_syntax_colors_on_the_ground_of_its_change() -> None:
    strips = paint_rows(read_diff(CODE), 40, STYLES, path="a.py")[0]
    keyword = STYLES.syntax.keyword.color

    assert looks(strips, "def") == {(keyword, STYLES.text.bgcolor)}
    assert looks(strips, "return") == {
        (keyword, STYLES.diff.added.bgcolor),
        (keyword, STYLES.diff.removed.bgcolor),
    }


@pytest.mark.parametrize("split", [False, True])
def test_ground_of_changed_lines_reaches_the_end_of_the_row(split: bool) -> None:
    strips = paint_rows(read_diff(CODE), 80, STYLES, path="a.py", split=split)[0]
    ends = [[*line][-1].style for line in strips[1:]]

    assert {line.cell_length for line in strips[1:]} == {80}
    assert ends[-1] and ends[-1].bgcolor == STYLES.diff.added.bgcolor


def test_code_of_an_unknown_language_is_drawn_in_the_colors_of_its_change() -> None:
    strips = paint_rows(read_diff(CODE), 40, STYLES, path="a.unknown")[0]

    assert STYLES.syntax.keyword.color not in {
        segment.style.color for line in strips for segment in line if segment.style
    }


def test_fenced_diff_has_grounds_also_while_it_streams() -> None:
    fence = "```diff\n@@ -1 +1 @@\n-old\n+new\n```"
    for plain_code in (True, False):
        strips = paint_markdown(fence, 40, STYLES, plain_code=plain_code)
        assert [line.text.rstrip() for line in strips] == ["  @@ -1 +1 @@", "  -old", "  +new"]
        assert [[*line][-1].style for line in strips[1:]] == [
            STYLES.diff.removed,
            STYLES.diff.added,
        ]


def test_long_changed_line_continues_below_its_text() -> None:
    rows = read_diff("@@ -8 +8 @@\n-short\n+    return first_value and second_value")
    lines = [line.text.rstrip() for line in paint_rows(rows, 28, STYLES)[0]]
    assert lines[-2:] == ["8 +    return first_value", "   and second_value"]
