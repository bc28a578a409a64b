"""Reading the transcript with the keyboard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript.blocks import UserBlock
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.conversation.room import Room
from tests.ui.drawn_lines import line_texts
from tests.ui.running_app import RunningApp, running_app

DIFF = "\n".join(
    ["--- a.py", "+++ a.py"]
    + [line for n in (1, 50) for line in (f"@@ -{n},1 +{n},1 @@", f"-old {n}", f"+new {n}")]
)


@asynccontextmanager
async def reading(room: Room) -> AsyncIterator[RunningApp]:
    """An app in whose transcript the person reads."""
    async with running_app(room, size=(60, 16)) as d:
        view = d.app.transcript
        view.clear()
        for number in range(10):
            view.add(UserBlock(f"prompt {number} " + "that goes on " * 6 + "end"))
            tool = ToolBlock(f"c{number}", "edit", {"path": "a.py"})
            tool.finish("", {"diff": DIFF}, is_error=False, took_ms=0)
            view.add(tool)
        view.redraw()
        await d.pilot.press("ctrl+up")
        await d.until(lambda: view.has_focus)
        yield d


def at(d: RunningApp) -> str:
    """The line of the cursor."""
    view = d.app.transcript
    place = view.reading.cursor
    assert place is not None
    layout = view.layout_of_blocks
    y = layout.top(place.row) + place.line
    assert view.first_line <= y < view.first_line + view.lines_in_view
    return next(iter(line_texts(layout, y, y))).strip()


async def press(d: RunningApp, *keys: str) -> str:
    await d.pilot.press(*keys)
    await d.pilot.pause()
    return at(d)


async def test_the_cursor_goes_by_lines_pages_and_to_the_ends(room: Room):
    async with reading(room) as d:
        first = at(d)
        assert await press(d, "up", "down") == first
        assert await press(d, "k", "j") == first
        assert await press(d, "g") == "› prompt 0 that goes on that goes on that goes on that"
        assert await press(d, "down") == "goes on that goes on that goes on end"
        assert await press(d, "down") == "● edit a.py  +2 −2"
        assert await press(d, "G") == "50 +new 50"
        assert await press(d, "pageup") != "50 +new 50"


async def test_braces_go_by_blocks_and_brackets_by_hunks(room: Room):
    async with reading(room) as d:
        await press(d, "g")
        assert await press(d, "}", "}") == "› prompt 1 that goes on that goes on that goes on that"
        assert await press(d, "down", "{") == (
            "› prompt 1 that goes on that goes on that goes on that"
        )
        assert await press(d, "{") == "● edit a.py  +2 −2"
        seen = [await press(d, "]") for _ in range(3)]
        assert await press(d, "[", "[") == seen[0]
        assert len(set(seen)) == 3


async def test_what_is_selected_by_lines_is_copied_as_it_was_written(room: Room):
    async with reading(room) as d:
        copied = []
        d.app.copy_text = lambda text: copied.append(text) or "Copied."  # type: ignore
        await press(d, "g", "v", "down", "y")
        await d.until(lambda: copied)
        await press(d, "g", "ctrl+c")
        await d.until(lambda: len(copied) == 2)
        await press(d, "g", "down", "shift+up", "y")
        await d.until(lambda: len(copied) == 3)

        assert copied == [f"prompt 0 {'that goes on ' * 6}end"] * 3
        assert "Copied." in d.screen


async def test_space_opens_and_closes_the_block_at_the_cursor(room: Room):
    async with reading(room) as d:
        tool = ToolBlock("o", "read", {"path": "b"})
        tool.finish("\n".join(f"row {n}" for n in range(30)), {}, is_error=False, took_ms=0)
        d.app.transcript.add(tool)
        d.app.transcript.redraw()
        await press(d, "G")
        assert await press(d, "space") == "● read b"
        assert "row 9" in d.text
        assert await press(d, "enter") == "● read b"
        assert "row 9" not in d.text


async def test_leaving_brings_back_the_composer_and_what_was_typed(room: Room):
    async with reading(room) as d:
        await d.pilot.press("x")
        await d.until(lambda: d.app.composer.has_focus)
        assert d.app.composer.text == "x"
        assert d.app.transcript.scroll_anchor.is_on
        for key in ("q", "escape", "i"):
            await d.pilot.press("alt+r")
            await d.until(lambda: d.app.transcript.has_focus)
            await d.pilot.press(key)
            await d.until(lambda: d.app.composer.has_focus)
        assert d.app.composer.text == "x"


async def test_a_slash_finds_and_comes_back_to_reading(room: Room):
    async with reading(room) as d:
        await d.pilot.press("slash")
        await d.until(lambda: d.app.find_bar.is_open)
        await d.type("prompt 3")
        await d.until(lambda: "1 of 1" in d.screen)
        await d.pilot.press("enter", "escape")
        await d.until(lambda: d.app.transcript.has_focus)

        assert at(d).startswith("› prompt 3")


async def test_the_hint_names_the_keys_that_read(room: Room):
    settings = UiSettings(keys={"reading.select": ["x"], "reading.copy_read": ["none"]})
    async with running_app(room, prepare=lambda: settings, size=(100, 16)) as d:
        await d.pilot.press("ctrl+up")
        await d.until(lambda: "Down moves" in d.screen)

        assert (
            "Down moves · x selects · / finds · } next block · Space opens · Esc back" in d.screen
        )


async def test_the_focus_is_seen_and_nothing_moves_by_it(room: Room):
    async with running_app(room, size=(60, 16)) as d:
        for number in range(30):
            d.app.transcript.add(UserBlock(f"prompt {number}"))
        d.app.transcript.redraw()
        await d.pilot.pause()
        before = [line[1:50] for line in d.screen.split("\n")[:10]]
        await d.pilot.press("ctrl+up")
        await d.pilot.pause()
        lines = d.screen.split("\n")[:10]

        assert [line[1:50] for line in lines] == before
        assert all(line[0] != " " for line in lines)
