"""Reading the transcript with the keyboard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript.blocks import UserBlock
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.support.rendered_lines import line_texts

DIFF = "\n".join(
    ["--- a.py", "+++ a.py"]
    + [line for n in (1, 50) for line in (f"@@ -{n},1 +{n},1 @@", f"-old {n}", f"+new {n}")]
)


@asynccontextmanager
async def reading(project: ScriptedProject) -> AsyncIterator[AppDriver]:
    """An app in reading mode."""
    async with running_app(project, size=(60, 16)) as driver:
        view = driver.app.transcript
        view.clear()
        for number in range(10):
            view.add(UserBlock(f"prompt {number} " + "that goes on " * 6 + "end"))
            tool = ToolBlock(f"c{number}", "edit", {"path": "a.py"})
            tool.finish("", {"diff": DIFF}, is_error=False, took_ms=0)
            view.add(tool)
        view.redraw()
        await driver.pilot.press("ctrl+up")
        await driver.until(lambda: view.has_focus)
        yield driver


def at(driver: AppDriver) -> str:
    """The line of the cursor."""
    view = driver.app.transcript
    place = view.reading.cursor
    assert place is not None
    layout = view.layout_of_blocks
    y = layout.top(place.row) + place.line
    assert view.first_line <= y < view.first_line + view.lines_in_view
    return next(iter(line_texts(layout, y, y))).strip()


async def press(driver: AppDriver, *keys: str) -> str:
    await driver.pilot.press(*keys)
    await driver.pilot.pause()
    return at(driver)


async def test_cursor_moves_by_line_page_and_to_both_ends(project: ScriptedProject):
    async with reading(project) as driver:
        first = at(driver)
        assert await press(driver, "up", "down") == first
        assert await press(driver, "k", "j") == first
        assert await press(driver, "g") == "› prompt 0 that goes on that goes on that goes on that"
        assert await press(driver, "down") == "goes on that goes on that goes on end"
        assert await press(driver, "down") == "✓ edit a.py  +2 −2"
        assert await press(driver, "G") == "50 +new 50"
        assert await press(driver, "pageup") != "50 +new 50"


async def test_braces_move_by_block_and_brackets_by_hunk(project: ScriptedProject):
    async with reading(project) as driver:
        await press(driver, "g")
        assert (
            await press(driver, "}", "}")
            == "› prompt 1 that goes on that goes on that goes on that"
        )
        assert await press(driver, "down", "{") == (
            "› prompt 1 that goes on that goes on that goes on that"
        )
        assert await press(driver, "{") == "✓ edit a.py  +2 −2"
        seen = [await press(driver, "]") for _ in range(3)]
        assert await press(driver, "[", "[") == seen[0]
        assert len(set(seen)) == 3


async def test_copied_lines_are_unwrapped_source_text(project: ScriptedProject):
    async with reading(project) as driver:
        copied = []
        driver.app.copy_text = lambda text: copied.append(text) or "Copied."  # type: ignore
        await press(driver, "g", "v", "down", "y")
        await driver.until(lambda: copied)
        await press(driver, "g", "ctrl+c")
        await driver.until(lambda: len(copied) == 2)
        await press(driver, "g", "down", "shift+up", "y")
        await driver.until(lambda: len(copied) == 3)

        assert copied == [f"prompt 0 {'that goes on ' * 6}end"] * 3
        assert "Copied." in driver.screen


async def test_space_toggles_block_at_cursor(project: ScriptedProject):
    async with reading(project) as driver:
        tool = ToolBlock("o", "read", {"path": "b"})
        tool.finish("\n".join(f"row {n}" for n in range(30)), {}, is_error=False, took_ms=0)
        driver.app.transcript.add(tool)
        driver.app.transcript.redraw()
        await press(driver, "G")
        assert await press(driver, "space") == "✓ read b  30 lines"
        assert "row 9" in driver.text
        assert await press(driver, "enter") == "✓ read b  30 lines"
        assert "row 9" not in driver.text


async def test_leaving_reading_mode_focuses_composer_and_keeps_typed_key(project: ScriptedProject):
    async with reading(project) as driver:
        await driver.pilot.press("x")
        await driver.until(lambda: driver.app.composer.has_focus)
        assert driver.app.composer.text == "x"
        assert driver.app.transcript.scroll_anchor.is_on
        for key in ("q", "escape", "i"):
            await driver.pilot.press("alt+r")
            await driver.until(lambda: driver.app.transcript.has_focus)
            await driver.pilot.press(key)
            await driver.until(lambda: driver.app.composer.has_focus)
        assert driver.app.composer.text == "x"


async def test_slash_opens_search_and_escape_returns_to_reading(project: ScriptedProject):
    async with reading(project) as driver:
        await driver.pilot.press("slash")
        await driver.until(lambda: driver.app.find_bar.is_open)
        await driver.type("prompt 3")
        await driver.until(lambda: "1 of 1" in driver.screen)
        await driver.pilot.press("enter", "escape")
        await driver.until(lambda: driver.app.transcript.has_focus)

        assert at(driver).startswith("› prompt 3")


async def test_hint_shows_configured_reading_keys(project: ScriptedProject):
    settings = UiSettings(keys={"reading.select": ["x"], "reading.copy_read": ["none"]})
    async with running_app(project, prepare=lambda: settings, size=(100, 16)) as driver:
        await driver.pilot.press("ctrl+up")
        await driver.until(lambda: "Down moves" in driver.screen)

        assert (
            "Down moves · x selects · / finds · } next block · Space opens · Esc back"
            in driver.screen
        )


async def test_entering_reading_mode_marks_focus_without_moving_text(project: ScriptedProject):
    async with running_app(project, size=(60, 16)) as driver:
        for number in range(30):
            driver.app.transcript.add(UserBlock(f"prompt {number}"))
        driver.app.transcript.redraw()
        await driver.pilot.pause()
        before = [line[1:50] for line in driver.screen.split("\n")[:10]]
        await driver.pilot.press("ctrl+up")
        await driver.pilot.pause()
        lines = driver.screen.split("\n")[:10]

        assert [line[1:50] for line in lines] == before
        assert all(line[0] != " " for line in lines)
