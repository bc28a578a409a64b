"""Finding text in the whole transcript."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dirge_py.ui.transcript.blocks import NoticeBlock, UserBlock
from dirge_py.ui.transcript.layout import TranscriptLayout
from dirge_py.ui.transcript.prose import MarkdownPiece, ProseBlock
from dirge_py.ui.transcript.search import TranscriptSearch
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.security.sizes import size
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_view_layout import STYLES


@asynccontextmanager
async def found(project: ScriptedProject, query: str) -> AsyncIterator[AppDriver]:
    """An app with two hundred lines, some calls, and the bar open with a query."""
    async with running_app(project, size=(60, 16)) as driver:
        view = driver.app.transcript
        view.clear()
        for number in range(200):
            view.add(NoticeBlock(f"line {number} needle" if number % 50 == 7 else f"line {number}"))
        tool = ToolBlock("c", "bash", {"command": "x"})
        output = "\n".join(f"out {n}" for n in range(40)) + "\nHidden thing\n" + "end\n" * 9
        tool.finish(output, {}, is_error=False, took_ms=0)
        view.insert(list(view.layout_of_blocks.rows)[100].block, tool)
        view.redraw()
        await driver.pilot.press("ctrl+f")
        await driver.type(query)
        await driver.until(lambda: " of " in bar(driver) or "not found" in bar(driver))
        yield driver


def bar(driver: AppDriver) -> str:
    return next((line for line in driver.screen.split("\n") if line.startswith(" / ")), "")


def chosen(driver: AppDriver) -> str:
    """The screen line of the selected match."""
    for strip in driver.app.screen._compositor.render_strips():
        if any(s.style and s.style.reverse and "needle" in s.text for s in strip):
            return strip.text[:50].strip()
    return ""


async def test_newest_match_is_selected_first_and_matches_are_counted(project: ScriptedProject):
    async with found(project, "needle") as driver:
        assert "4 of 4" in bar(driver)
        assert "line 157 needle" in driver.screen
        assert chosen(driver) == "· line 157 needle"


async def test_enter_and_n_select_next_match_and_capital_n_previous(project: ScriptedProject):
    async with found(project, "needle") as driver:
        seen = []
        for key, number in (("enter", 1), ("n", 2), ("n", 3), ("N", 2), ("shift+enter", 1)):
            await driver.pilot.press(key)
            await driver.until(lambda number=number: f"{number} of 4" in bar(driver))
            seen.append(chosen(driver))

        assert seen == [f"· line {n} needle" for n in (7, 57, 107, 57, 7)]


async def test_keys_pressed_before_search_ends_are_applied(project: ScriptedProject):
    async with found(project, "needle") as driver:
        await driver.pilot.press("escape")
        # The search starts at the visible text, so wait until the view is at the end again.
        await driver.until(lambda: driver.app.composer.has_focus and "line 199" in driver.screen)
        await driver.pilot.press("ctrl+f", *"line", "enter", "n", "n", "N")
        # The bar takes a line of the view before the search or after it: so the first match varies.
        await driver.until(lambda: bar(driver).split(" of 200")[0][-3:] in ("189", "190"))

        assert " / line " in bar(driver)


async def test_escape_returns_to_end_unless_match_was_selected(project: ScriptedProject):
    async with found(project, "needle") as driver:
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.composer.has_focus)
        assert driver.app.transcript.scroll_anchor.is_on
        assert "line 199" in driver.screen

        await driver.pilot.press("ctrl+f")
        await driver.type("needle")
        await driver.until(lambda: "4 of 4" in bar(driver))
        await driver.pilot.press("enter", "escape")
        await driver.until(lambda: driver.app.composer.has_focus)
        assert "line 7 needle" in driver.screen
        assert not bar(driver)


async def test_match_in_folded_output_unfolds_it_until_escape(project: ScriptedProject):
    async with found(project, "hidden thing") as driver:
        assert "1 of 1" in bar(driver)
        assert "Hidden thing" in driver.screen
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.composer.has_focus)

        assert "Hidden thing" not in driver.text


async def test_search_is_case_sensitive_only_with_capitals_in_query(project: ScriptedProject):
    async with found(project, "HIDDEN") as driver:
        assert "not found" in bar(driver)


async def test_block_added_during_search_is_found(project: ScriptedProject):
    async with found(project, "needle") as driver:
        driver.app.notify_user("one more needle")
        await driver.pilot.press("enter")
        await driver.until(lambda: "5 of 5" in bar(driver))

        assert "one more needle" in driver.screen


async def test_next_match_is_selected_when_matching_block_is_removed(project: ScriptedProject):
    async with found(project, "needle") as driver:
        view = driver.app.transcript
        hit = view.search.hit
        assert hit is not None
        view.remove_block(hit.row.block)
        view.redraw()
        await driver.pilot.press("enter")
        await driver.until(lambda: "1 of 3" in bar(driver))

        assert chosen(driver) == "· line 7 needle"


async def test_match_spans_wrapped_line_and_markdown(project: ScriptedProject):
    layout = TranscriptLayout(STYLES, 12)
    layout.append(UserBlock("these words are wrapped"))
    layout.append(ProseBlock(MarkdownPiece("some **bold words** are")))
    search = TranscriptSearch(layout)
    search.set_query("words are")
    await search.scan()

    assert search.total == 2


async def test_search_of_long_transcript_yields_to_event_loop():
    layout = TranscriptLayout(STYLES, 80)
    for number in range(size(60, 17_000)):
        layout.append(ProseBlock(MarkdownPiece(f"answer {number}\n\nwith *three* lines\n")))
    tool = ToolBlock("c", "bash", {"command": "x"})
    tool.finish("lines of output\n" * size(3000, 20_000), {}, is_error=False, took_ms=0)
    layout.append(tool)
    search = TranscriptSearch(layout)
    search.set_query("i")
    turns = 0
    scan = asyncio.ensure_future(search.scan())
    while not scan.done():
        await asyncio.sleep(0)
        turns += 1

    assert search.total > 3000
    assert turns > 20
