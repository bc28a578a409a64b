"""What is drawn again after a change is no more than the change, and the same as Textual draws."""

from collections.abc import Sequence

import pytest
from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.ui.transcript.blocks import NoticeBlock
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject


async def fill(driver: AppDriver) -> None:
    for number in range(40):
        driver.app.transcript.add(NoticeBlock(f"{number} {'some words ' * 20}"))
    driver.app.transcript.redraw()
    await driver.pilot.pause()


def segments(strips: Sequence[Strip]) -> list[list[tuple[str, str]]]:
    return [[(part.text, str(part.style)) for part in strip.simplify()] for strip in strips]


@pytest.mark.parametrize("size", [(60, 16), (170, 30)])
@pytest.mark.parametrize("scrolled", [False, True])
async def test_screen_is_composed_as_by_textual(
    project: ScriptedProject, size: tuple[int, int], scrolled: bool
):
    async with running_app(project, size=size) as driver:
        await fill(driver)
        if scrolled:
            await driver.pilot.press("pageup")
            await driver.pilot.pause()
        compositor = driver.app.screen._compositor
        everything = Region(0, 0, *size)
        ours = compositor._render_chops(everything, lambda y: True)
        theirs = Compositor._render_chops(compositor, everything, lambda y: True)
        assert [segments(list(row.values())) for row in ours] == [
            segments(list(row.values())) for row in theirs
        ]


@pytest.mark.parametrize("scrolled", [False, True])
async def test_lines_of_transcript_are_framed_as_by_textual(
    project: ScriptedProject, scrolled: bool
):
    async with running_app(project, size=(140, 20)) as driver:
        await fill(driver)
        if scrolled:
            await driver.pilot.press("pageup")
            await driver.pilot.pause()
        view = driver.app.transcript
        crop = Region(0, 0, *view.outer_size)
        assert segments(view.render_lines(crop)) == segments(Widget.render_lines(view, crop))


async def test_lines_that_scroll_are_not_framed_again(project: ScriptedProject):
    async with running_app(project, size=(60, 16)) as driver:
        await fill(driver)
        view = driver.app.transcript
        crop = Region(0, 0, *view.outer_size)
        before = view.render_lines(crop)
        view.add(NoticeBlock("one more line"))
        view.redraw()
        await driver.pilot.pause()
        after = view.render_lines(crop)
        moved = {id(line) for line in before} & {id(line) for line in after}
        assert len(moved) >= view.lines_in_view - 3


async def test_hidden_scrollbar_that_moves_arranges_nothing(project: ScriptedProject):
    async with running_app(project, size=(60, 16)) as driver:
        await fill(driver)
        view, compositor = driver.app.transcript, driver.app.screen._compositor
        before = compositor.full_map
        view.add(NoticeBlock("one more line"))
        view.redraw()
        await driver.pilot.pause()
        assert view.scroll_anchor.is_on
        assert compositor.full_map is before


async def test_drawn_text_shows_next_frame_of_spinner(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        queue = driver.app.queue
        await driver.until(lambda: queue.has_spinner)
        before = queue.line_at(0)
        driver.app.flush_events()
        assert queue.line_at(0) != before
        driver.release_command()
        await driver.idle()
