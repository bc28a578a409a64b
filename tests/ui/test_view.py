"""The transcript view: scrolling, and selections that match the text."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirge_py.slash.base import Choice
from dirge_py.types.events import MessageUpdate
from dirge_py.types.tools import text_result
from dirge_py.ui.terminal.input import TerminalInput
from dirge_py.ui.transcript.blocks import NoticeBlock
from dirge_py.ui.transcript.positions import whole_text
from dirge_py.ui.transcript.prose import MarkdownPiece, ProseBlock
from dirge_py.ui.transcript.tool_block import ToolBlock
from dirge_py.ui.transcript.view import TranscriptWidget
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject

WORDS = "many words that are wrapped somewhere "


class ViewDriver:
    """An app with a long transcript, and a mouse."""

    def __init__(self, driver: AppDriver) -> None:
        self.d = driver
        self.view: TranscriptWidget = driver.app.transcript
        self._input = TerminalInput()

    @property
    def top(self) -> str:
        """The first visible line."""
        return self.lines[0]

    @property
    def lines(self) -> list[str]:
        """The visible lines without the scrollbar."""
        width = self.view.content_size.width
        shown = self.d.screen.split("\n")[: self.view.lines_in_view]
        return [line[:width].rstrip() for line in shown]

    @property
    def marker(self) -> str:
        return next((line for line in self.d.screen.split("\n") if "▼" in line), "")

    async def settled(self) -> None:
        self.view.redraw()
        await self.d.pilot.pause()

    async def mouse(self, *codes: tuple[int, int, int, str]) -> None:
        """Send mouse reports: button, column and line from 0, `M` or `m`."""
        for button, x, y, end in codes:
            self.report(f"\x1b[<{button};{x + 1};{y + 1}{end}")
            await self.d.pilot.pause()

    def report(self, text: str) -> None:
        """Send bytes as the terminal does."""
        driver = self.d.app._driver
        assert driver is not None
        for event in (*self._input.feed(text), *self._input.idle(1.0)):
            driver.process_message(event)

    async def drag(self, *places: tuple[int, int]) -> None:
        (x, y), *rest = places
        await self.mouse((0, x, y, "M"), *((32, a, b, "M") for a, b in rest))

    async def release(self, x: int, y: int) -> None:
        await self.mouse((0, x, y, "m"))


@asynccontextmanager
async def open_view(
    project: ScriptedProject, *, size: tuple[int, int] = (60, 16), lines: int = 40
) -> AsyncIterator[ViewDriver]:
    async with running_app(project, size=size) as driver:
        driver.app.transcript.clear()
        for number in range(lines):
            driver.app.transcript.add(NoticeBlock(f"{number} {WORDS * 2}end"))
        made = ViewDriver(driver)
        await made.settled()
        yield made


async def test_scrolled_back_view_stays_while_output_streams(project: ScriptedProject):
    async with open_view(project) as s:
        await s.d.pilot.press("pageup")
        await s.d.pilot.pause()
        before = s.lines[:8]
        answer = ProseBlock(MarkdownPiece(""), is_finished=False)
        s.view.add(answer)
        for count in range(1, 30):
            answer.replace(MarkdownPiece("line\n\n" * count))
            s.view.touch(answer)
            await s.settled()
            assert s.lines[:8] == before


async def test_scrolled_back_view_stays_when_blocks_above_change(project: ScriptedProject):
    async with open_view(project) as s:
        tool = ToolBlock("c", "bash", {"command": "x"})
        first = next(iter(s.view.layout_of_blocks.rows)).block
        s.view.insert(first, tool)
        s.view.remove_block(first)
        await s.settled()
        await s.d.pilot.press("pageup", "pageup")
        await s.d.pilot.pause()
        before = s.lines[:8]
        for lines in (3, 6, 1):
            tool.show_progress(text_result("x\n" * lines))
            s.view.touch(tool)
            await s.settled()
            assert s.lines[:8] == before
        s.view.remove_block(tool)
        await s.settled()

        assert s.lines[:8] == before


async def test_scrolled_back_view_stays_when_visible_block_is_split(project: ScriptedProject):
    async with open_view(project, lines=3) as s:
        text = "".join(f"part {n}\n\n" for n in range(30))
        answer = ProseBlock(MarkdownPiece(text), is_finished=False)
        s.view.add(answer)
        await s.settled()
        await s.d.pilot.press("pageup", "pageup")
        await s.d.pilot.pause()
        before = s.lines[:8]
        assert "part" in before[0] + before[1]
        for n in range(29):
            s.view.insert(answer, ProseBlock(MarkdownPiece(f"part {n}\n\n")))
        answer.replace(MarkdownPiece("part 29\n\n"))
        s.view.touch(answer)
        await s.settled()

        assert s.lines[:8] == before


async def test_scrolled_back_view_stays_on_focus_theme_change_and_tick(project: ScriptedProject):
    async with open_view(project) as s:
        await s.d.pilot.press("pageup")
        await s.d.pilot.pause()
        before = s.top
        s.d.app.app_focus = False
        await s.d.pilot.pause()
        s.d.app.app_focus = True
        await s.d.pilot.pause()
        assert s.top == before
        s.d.app.set_colors("light")
        await s.d.pilot.pause()
        assert s.top == before
        s.d.app.tick()
        await s.d.pilot.pause()

        assert s.top == before


async def test_same_text_is_on_top_after_resizes(project: ScriptedProject):
    async with open_view(project) as s:
        await s.d.pilot.press("pageup")
        await s.d.pilot.press("pageup")
        await s.d.pilot.pause()
        before, first = s.top, s.top.split()[:2]
        for width in (37, 24, 80):
            await s.d.pilot.resize_terminal(width, 16)
            await s.d.pilot.pause()
            assert first[0] in s.top.split()
        await s.d.pilot.resize_terminal(60, 16)
        await s.d.pilot.pause()

        assert s.top == before


async def test_view_follows_end_through_all_resizes(project: ScriptedProject):
    async with running_app(project, size=(100, 36)) as driver:
        view = driver.app.transcript
        for number in range(60):
            words = f"Some **bold** text number {number} with `code` and a needle in it, long"
            words += " enough to be wrapped at eighty columns for sure."
            text = f"## Part {number}\n\n{words}\n\n- one\n- two"
            view.add(ProseBlock(MarkdownPiece(text)))
        view.redraw()
        picking = asyncio.ensure_future(
            driver.app.dialogs.pick("One", [Choice(id=f"{n}", label=f"{n}") for n in range(30)], "")
        )
        for width, height in ((40, 12), (20, 5), (100, 36), (20, 5), (160, 40), (40, 12)):
            await driver.pilot.resize_terminal(width, height)
            await driver.pilot.pause()
        await driver.pilot.press("9", "escape")
        await picking

        assert view.scroll_anchor.is_on


async def test_new_lines_below_are_counted_and_click_scrolls_to_them(project: ScriptedProject):
    async with open_view(project) as s:
        await s.d.pilot.press("pageup")
        await s.d.pilot.pause()
        assert not s.marker
        for number in range(6):
            s.view.add(NoticeBlock(f"new {number}"))
        await s.settled()
        assert "▼ 6 new lines below" in s.marker
        y = s.d.screen.split("\n").index(s.marker)
        await s.mouse((0, 50, y, "M"), (0, 50, y, "m"))

        assert s.view.scroll_anchor.is_on
        assert "new 5" in s.d.screen
        assert not s.marker


async def test_new_lines_are_counted_from_point_where_user_scrolled_back(project: ScriptedProject):
    async with open_view(project) as s:
        renderer = s.d.app.feed.renderer

        def stream(text: str) -> None:
            renderer.on_event(MessageUpdate(phase="text_delta", index=0, delta=text))
            renderer.settle()

        stream("one\n\ntw")
        await s.settled()
        await s.d.pilot.press("pageup")
        await s.d.pilot.pause()
        stream("o\n\nthree\n\nfour\n\nfi")
        stream("ve\n\nsix\n\nseven")
        await s.settled()

        # Two lines for each of three to seven.
        assert "▼ 10 new lines below" in s.marker


async def test_streamed_text_is_drawn_exactly_once(project: ScriptedProject):
    text = "".join(f"- item {n} with [brackets] 日本 {'x' * n}\n" for n in range(60))
    project.model.will_say(text)
    async with running_app(project, size=(50, 20)) as driver:
        await driver.send("go")
        await driver.idle()

        assert [driver.text.count(f"item {n} with [brackets] 日本") for n in range(60)] == [1] * 60


async def test_brackets_are_never_interpreted_as_markup(project: ScriptedProject):
    async with open_view(project, lines=1) as s:
        tool = ToolBlock("c", "bash", {"command": "echo '[red]x[/]'"})
        tool.finish("[/nothing] [bold]b[/bold] [@click=x]", {}, is_error=False, took_ms=0)
        s.view.add(tool)
        await s.settled()
        await s.d.pilot.press("ctrl+f")
        await s.d.type("[/")
        await s.d.until(lambda: "1 of 3" in s.d.screen)

        assert "[/nothing] [bold]b[/bold] [@click=x]" in s.d.screen
        assert "echo '[red]x[/]'" in s.d.screen


async def test_drag_copies_wrapped_text_as_one_line(project: ScriptedProject):
    async with open_view(project) as s:
        before = s.lines
        y = next(at for at, line in enumerate(before) if "· 38" in line)
        await s.drag((3, y), (30, y), (10, y + 1), (59, y + 1))
        await s.release(59, y + 1)

        assert s.d.app.selected_text == f"38 {WORDS * 2}end"
        assert s.lines == before


async def test_drag_beyond_edge_scrolls_and_extends_selection(project: ScriptedProject):
    async with open_view(project, lines=20) as s:
        bottom = s.view.lines_in_view
        await s.drag((20, 8), (20, 4), (20, 0))
        await s.d.until(lambda: s.view.first_line == 0)
        await s.release(20, 0)
        assert "\n2 many" in s.d.app.selected_text

        await s.drag((1, 0), (20, bottom + 1))
        await s.d.until(lambda: "19 many" in s.d.app.selected_text)
        text = s.d.app.selected_text
        await s.release(20, bottom + 1)

        assert text.startswith("0 many")
        assert all(line.endswith("end") for line in text.split("\n")[:-1])


async def test_double_click_selects_word_and_triple_click_line(project: ScriptedProject):
    async with open_view(project) as s:
        y = next(at for at, line in enumerate(s.d.screen.split("\n")) if "· 38" in line)
        click = ((0, 12, y, "M"), (0, 12, y, "m"))
        await s.mouse(*click, *click)
        assert s.d.app.selected_text == "words"
        await s.mouse(*click)
        assert s.d.app.selected_text == f"38 {WORDS * 2}end"


async def test_double_click_on_folded_block_keeps_it_folded(project: ScriptedProject):
    async with open_view(project) as s:
        tool = ToolBlock("c", "bash", {"command": "x"})
        tool.finish("\n".join(f"line{n}" for n in range(30)), {}, is_error=False, took_ms=0)
        s.view.add(tool)
        await s.settled()
        before = s.lines
        y = next(at for at, line in enumerate(before) if "line2" in line)
        click = ((0, 5, y, "M"), (0, 5, y, "m"))
        await s.mouse(*click)
        assert "line9" in s.d.text
        await s.mouse(*click)

        assert s.lines == before
        assert s.d.app.selected_text == "line2"


async def test_selection_keeps_view_in_place_until_copied(project: ScriptedProject):
    async with open_view(project) as s:
        await s.drag((3, 4), (30, 5))
        await s.release(30, 5)
        before = s.top
        s.view.add(NoticeBlock("new\n" * 30))
        await s.settled()
        assert s.top == before
        await s.d.pilot.press("ctrl+c")
        await s.d.until(lambda: s.view.scroll_anchor.is_on)

        assert not s.d.app.selected_text
        assert not s.marker


async def test_selection_is_visible_without_colors(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_view(project) as s:
        await s.drag((3, 4), (30, 4))
        await s.release(30, 4)
        strips = s.d.app.screen._compositor.render_strips()
        shown = "".join(x.text for x in strips[4] if x.style and x.style.reverse)

        assert s.d.app.selected_text in shown != ""


async def test_cleared_transcript_drops_selection_and_cursor(project: ScriptedProject):
    async with open_view(project) as s:
        await s.drag((3, 4), (30, 5))
        await s.release(30, 5)
        await s.d.pilot.press("ctrl+up", "up", "v", "up")
        s.view.clear()
        s.view.add(NoticeBlock("a new page"))
        await s.settled()
        await s.d.pilot.press("up", "down", "}", "[")
        await s.d.pilot.pause()

        assert not s.d.app.selected_text
        assert "a new page" in s.d.screen


@pytest.mark.parametrize(
    "report",
    [
        "\x1b[<NaN;1;1M",
        "\x1b[<0;NaN;NaNM",
        "\x1b[<35;-1;5M",
        "\x1b[<0;1M",
        "\x1b[<;;M",
        "\x1b[<35;1",
    ],
)
async def test_broken_mouse_reports_are_not_typed(project: ScriptedProject, report: str):
    async with open_view(project, lines=1) as s:
        s.report(report)
        s.report("a\x1b[<64;5;5Mb")
        await s.d.pilot.pause()

        assert s.d.app.composer.text == "ab"


async def test_transcript_is_available_as_plain_text(project: ScriptedProject):
    async with open_view(project, lines=2) as s:
        tool = ToolBlock("c", "bash", {"command": "x"})
        tool.finish("\n".join(f"line{n}" for n in range(30)), {}, is_error=False, took_ms=0)
        s.view.add(tool)

        text = whole_text(s.view.layout_of_blocks)

        assert f"0 {WORDS * 2}end\n1 {WORDS * 2}end\n\n● bash x\nline0\nline1\n" in text
        assert text.endswith("line29\n")
