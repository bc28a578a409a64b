"""Lines, Markdown, text flow and layout, without an app."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from dirge_py.types.events import AgentEnd, MessageEnd, MessageStart, MessageUpdate
from dirge_py.types.messages import AssistantMessage, TextBlock
from dirge_py.types.outcomes import Failed
from dirge_py.types.tools import text_result
from dirge_py.ui.theme.styles import load_theme, styles_for, theme_names
from dirge_py.ui.transcript.blocks import GreetingBlock, NoticeBlock, TranscriptBlock
from dirge_py.ui.transcript.layout import TranscriptLayout
from dirge_py.ui.transcript.lines import LogicalText, chop, fold, wrap
from dirge_py.ui.transcript.markdown import paint_markdown
from dirge_py.ui.transcript.prose import MarkdownStream
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.support.rendered_lines import line_texts, paint_diff

STYLES = styles_for(load_theme("dark"))

SAMPLE = """# Title

Some **bold** and `code`, a [link](https://example.org/x).

- one
  - two

    para
- three

1. first
2. second

> quoted
> text

```python
def f():
    return 1
```

| a | b |
| --- | ---: |
| x | 10 |
"""


class Page(TranscriptLayout):
    """A layout that takes blocks as the transcript widget does."""

    add = TranscriptLayout.append
    remove_block = TranscriptLayout.remove

    @property
    def blocks(self) -> list[TranscriptBlock]:
        return [row.block for row in self.rows]

    @property
    def text(self) -> str:
        self.settle(0, 1_000_000)
        return "\n".join(line_texts(self, 0, self.height)).rstrip()


def painted(source: str, width: int = 40) -> str:
    return "\n".join(line.text.rstrip() for line in paint_markdown(source, width, STYLES))


def test_markdown_sample_is_painted_completely():
    assert painted(SAMPLE, 60) == (
        "Title\n"
        "\n"
        "Some bold and code, a link (https://example.org/x).\n"
        "\n"
        "• one\n"
        "  ◦ two\n"
        "\n"
        "    para\n"
        "• three\n"
        "\n"
        "1. first\n"
        "2. second\n"
        "\n"
        "▌ quoted\n"
        "▌ text\n"
        "\n"
        "  def f():\n"
        "      return 1\n"
        "\n"
        "a │  b\n"
        "──┼───\n"
        "x │ 10"
    )


def test_image_is_shown_as_address_and_html_as_text():
    assert painted("![plan](https://h.example/p.png) <b>x</b>", 80) == (
        "[image: plan] https://h.example/p.png <b>x</b>"
    )


@given(st.text(max_size=300), st.integers(min_value=1, max_value=60))
@settings(max_examples=150, deadline=None)
def test_markdown_lines_never_exceed_width(source: str, width: int):
    for line in paint_markdown(source, max(width, 30), STYLES):
        assert line.cell_length <= max(width, 30)


@given(st.text(alphabet="ab cé日本👍🏽\n", max_size=80), st.integers(2, 20))
@settings(max_examples=200, deadline=None)
def test_wrapping_drops_only_spaces(text: str, width: int):
    lines = wrap([(text, STYLES.text)], width)
    assert "".join(line.text for line in lines).replace(" ", "") == text.replace(" ", "").replace(
        "\n", ""
    )
    assert all(line.cell_length <= width for line in lines)


def test_chopping_never_splits_a_grapheme():
    family = "👨‍👩‍👧"
    assert chop(family * 3, 2 * cell_len(family)) == [family * 2, family]


@pytest.mark.parametrize("seed", range(20))
def test_streamed_markdown_pieces_add_up_to_source(seed: int):
    pick = random.Random(seed)
    source = SAMPLE * 3
    flow = MarkdownStream()
    pieces = []
    at = 0
    while at < len(source):
        step = pick.randint(1, 30)
        pieces += flow.feed(source[at : at + step])
        at += step
    pieces += flow.close()

    assert "".join(piece.text for piece in pieces) == source
    assert [painted(p.text, 60) for p in pieces if p.text.strip()] != []


@pytest.mark.parametrize(
    "text",
    [
        "- item\n" * 2000,
        "a line\n" * 2000,
        "```python\n" + "x = 1\n" * 2000 + "```\n\nafter\n",
        "1. item\n" * 2000,
    ],
)
def test_endless_markdown_block_is_split_to_keep_open_piece_short(text: str):
    flow = MarkdownStream()
    longest = 0
    lines = 0
    for at in range(0, len(text), 50):
        lines += sum(piece.text.count("\n") for piece in flow.feed(text[at : at + 50]))
        longest = max(longest, flow.open_piece.text.count("\n"))
    lines += sum(piece.text.count("\n") for piece in flow.close())

    assert longest < 260
    assert lines >= 2000


def test_closing_fence_after_long_code_block_ends_it():
    text = "```py\n" + "x = 1\n" * 300 + "```\n\nafter **it**\n"
    flow = MarkdownStream()
    pieces = [piece for at in range(0, len(text), 7) for piece in flow.feed(text[at : at + 7])]
    pieces += flow.close()

    assert pieces[-1].language is None
    assert pieces[-1].text.strip() == "after **it**"
    assert sum(p.text.count("x = 1") for p in pieces) == 300


def test_streamed_text_is_replaced_by_final_message():
    page = Page(STYLES, 60)
    renderer = TranscriptRenderer(page)
    renderer.on_event(MessageStart(AssistantMessage()))
    renderer.on_event(MessageUpdate(phase="text_delta", index=0, delta="half an ans"))
    renderer.settle()
    renderer.on_event(MessageEnd(AssistantMessage(content=(TextBlock("The whole answer."),))))

    assert page.text == "The whole answer."


def test_announced_call_that_is_never_made_disappears():
    page = Page(STYLES, 60)
    renderer = TranscriptRenderer(page)
    renderer.on_event(MessageStart(AssistantMessage()))
    renderer.on_event(
        MessageUpdate(phase="toolcall_start", index=0, tool_call_id="c", tool_name="bash")
    )
    assert page.text == "○ bash"
    renderer.on_event(MessageEnd(AssistantMessage(stop_reason="error")))

    assert page.text == ""


def test_failed_run_shows_hint():
    page = Page(STYLES, 60)
    outcome = Failed(kind="auth", message="the key was refused (401).", hint="Set WORK_KEY.")
    TranscriptRenderer(page).on_event(AgentEnd(messages=(), outcome=outcome))

    assert page.text == "✗ the key was refused (401).\n  Set WORK_KEY."


def test_escape_codes_in_output_are_stripped():
    block = ToolBlock("c", "bash", {"command": "x\x1b[2J"})
    block.finish("a\x1b]0;owned\x07b\x1b[31m [bold]c", {}, is_error=False, took_ms=0)
    page = Page(STYLES, 60)
    page.append(block)

    assert page.text == "✓ bash x\n  ab [bold]c"


def test_internal_progress_is_shown_only_when_expanded():
    block = ToolBlock("c", "fetch_all", {"path": "x"})
    block.set_state("running")
    block.show_progress(text_result("half", done=1, total=2))
    block.show_progress(text_result("trying the mirror", audience="internal"))

    def shown(*, expanded: bool) -> list[str]:
        strips = block.paint(60, STYLES, expanded=expanded)
        return [strip.text.strip() for strip in strips[1:]]

    assert shown(expanded=False) == ["half"]
    assert shown(expanded=True) == ["half", "trying the mirror"]
    block.finish("done", {}, is_error=False, took_ms=0)
    assert shown(expanded=True) == ["done"]


@pytest.mark.parametrize("outcome", ["denied", "ok"])
def test_denial_and_output_wrap_at_words(outcome: str):
    block = ToolBlock("c", "bash", {"command": "x"})
    block.finish("words that are long", {"outcome": outcome}, is_error=False, took_ms=0)
    page = Page(STYLES, 18)
    page.append(block)

    assert page.text.split("\n")[-2:] == ["  words that are", "  long"]


@given(
    st.text(st.sampled_from("ab /語é🍎"), max_size=60),
    st.integers(min_value=4, max_value=20),
    st.integers(min_value=0, max_value=3),
)
@example(text="語a語", width=4, deeper=1)
def test_folded_line_fits_and_loses_nothing(text: str, width: int, deeper: int) -> None:
    prefix, rest = [("> ", STYLES.dim)], [(" " * (2 + deeper), STYLES.dim)]
    lines = fold([(text, STYLES.text)], width + deeper, prefix=prefix, rest=rest)

    assert max(line.cell_length for line in lines) <= width + deeper
    assert LogicalText(lines).text == text.rstrip()


def test_failed_command_marks_only_the_lines_that_say_why() -> None:
    block = ToolBlock("c", "bash", {"command": "pytest"})
    details = {"exit_code": 1, "outcome": "failed_command"}
    block.finish("assert a\nE   assert 1 == 2\n1 failed", details, is_error=False, took_ms=0)
    strips = block.paint(40, STYLES, expanded=False)[1:]

    red = [line.text.strip() for line in strips if [*line][-1].style == STYLES.error]
    assert red == ["E   assert 1 == 2"]


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        (
            {"exit_code": 0},
            ["✓ bash x", "  … 3 earlier lines", "  4", "  5", "  6", "  Exit code: 1"],
        ),
        (
            {"exit_code": 1, "outcome": "failed_command"},
            ["✗ bash x  exit 1", "  1", "  2", "  3", "  4", "  5", "  6"],
        ),
        ({}, ["✓ bash x", "  1", "  2", "  3", "  4", "  … 3 more lines"]),
    ],
)
def test_command_output_shows_its_end_and_other_output_its_start(
    details: dict[str, object], shown: list[str]
):
    block = ToolBlock("c", "bash", {"command": "x"})
    block.finish("1\n2\n3\n4\n5\n6\nExit code: 1", details, is_error=False, took_ms=0)
    page = Page(STYLES, 60)
    page.append(block)

    assert page.text.split("\n") == shown


def test_diff_of_moved_file_names_both_paths():
    diff = "--- a.py\n+++ src/b.py\n@@ -1,1 +1,1 @@\n-x\n+y"
    strips = [strip.text.rstrip() for strip in paint_diff(diff, 40, STYLES)]
    same = [strip.text.rstrip() for strip in paint_diff(diff.replace("src/b", "a"), 40, STYLES)]

    assert strips == ["  a.py → src/b.py", "1 -x", "1 +y"]
    assert same == ["1 -x", "1 +y"]


def test_scrolling_back_into_undrawn_blocks_keeps_visible_lines():
    page = Page(STYLES, 20)
    for number in range(200):
        page.append(NoticeBlock(f"{number} " + "word " * (number % 17)))
    page.settle_end(10)
    top = page.height - 10
    before = list(line_texts(page, top, top + 9))
    for _ in range(300):
        anchor, top = top, max(0, top - 3)
        top += page.settle(top, 10, anchor)
        shown = list(line_texts(page, top, top + 9))
        assert shown[3:] == before[:7] or top == 0
        before = shown
        if top == 0:
            break
    assert before[0].startswith("· 0")


def test_every_theme_defines_every_color():
    wanted = set(load_theme("dark").colors)
    for name in theme_names()[1:]:
        assert set(load_theme(name).colors) == wanted


def test_multi_line_notice_is_separated_by_blank_lines():
    page = Page(STYLES, 40)
    for text in ("one", "two", "a list\n  of lines", "three"):
        page.add(NoticeBlock(text))

    assert page.text == "· one\n· two\n\n· a list\n    of lines\n\n· three"


def test_last_column_of_notice_table_is_wrapped_with_indent():
    page = Page(STYLES, 40)
    page.add(
        NoticeBlock(
            "tools   one, two, three, four, five, six, seven\n"
            "ok  keys  many words that take room and more"
        )
    )

    assert page.text == (
        "· tools   one, two, three, four, five,\n"
        "          six, seven\n"
        "  ok  keys  many words that take room\n"
        "            and more"
    )


def test_columns_of_notice_that_leave_little_room_are_continued_deeper():
    page = Page(STYLES, 40)
    page.add(
        NoticeBlock(
            "session  20260101-abcdef  What is wrong with it?\n"
            "  Ctrl+J, Alt+Enter, Shift+Enter  newline  a new line"
        )
    )

    assert page.text == (
        "· session  20260101-abcdef  What is\n"
        "           wrong with it?\n"
        "    Ctrl+J, Alt+Enter, Shift+Enter\n"
        "        newline  a new line"
    )


def test_greeting_wraps_its_facts_and_breaks_tips_between_hints():
    page = Page(STYLES, 50)
    facts = [("mode", "edits files; asks before commands that change things")]
    tips = ["Enter steers a run, Esc interrupts it · Esc Esc goes back"]
    page.add(GreetingBlock("dirge", facts, ["/help"], tips))

    assert page.text == (
        "dirge\n\n"
        "mode  edits files; asks before commands that\n"
        "      change things\n\n"
        "/help\n"
        "Enter steers a run, Esc interrupts it\n"
        "Esc Esc goes back"
    )


def test_block_below_removed_block_keeps_its_blank_line():
    page = Page(STYLES, 40)
    first, second = NoticeBlock("a\nlist"), NoticeBlock("one")
    for block in (first, second, NoticeBlock("two")):
        page.add(block)
    assert page.text == "· a\n  list\n\n· one\n· two"

    page.remove_block(second)

    assert page.text == "· a\n  list\n\n· two"
    assert page.height == 4
