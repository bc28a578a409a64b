"""Rewinding a session by keyboard."""

from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.journal import read_journal
from dirge_py.types.questions import Asker
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


async def talked(driver: AppDriver, *prompts: str) -> None:
    for prompt in prompts:
        count = len(driver.sent)
        await driver.send(prompt)
        await driver.until(lambda count=count: len(driver.sent) > count)
        await driver.idle()


async def test_esc_twice_on_empty_input_rewinds_to_earlier_prompt(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await talked(driver, "one", "two")
        await driver.pilot.press("escape")
        assert "Press Esc again to go back" in driver.screen
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "▸ (current)" in driver.screen

        await driver.pilot.press("down", "enter")
        await driver.until(lambda: driver.panel is not None and driver.panel.has_focus)
        assert "2 messages stay on another branch" in driver.screen
        await driver.pilot.press("1", "enter")

        await driver.until(lambda: driver.app.composer.text == "two")
        assert driver.app.composer.has_focus
        assert driver.sent == ["one"]
        assert "› two" not in driver.text
        assert "› one" in driver.text
        assert "/redo reverses that" in driver.text


async def test_esc_twice_with_draft_does_not_rewind(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await talked(driver, "one")
        await driver.type("hm")
        await driver.pilot.press("escape", "escape")
        assert not driver.app.picker.has_focus
        assert driver.app.composer.text == "hm"


async def test_undo_and_redo_redraw_transcript(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await talked(driver, "one", "two")
        await driver.send("/undo")
        await driver.until(lambda: "› two" not in driver.text)
        assert driver.app.composer.text == "two"
        driver.app.composer.put("")

        await driver.send("/redo")

        await driver.until(lambda: "› two" in driver.text)
        assert driver.text.count("› one") == 1
        assert driver.sent == ["one", "two"]


async def test_draft_is_stored_while_typing_and_restored_on_resume(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.type("before anything was said")
        driver.app.drafts.save()
        assert driver.conversation.unsent.draft == "before anything was said"
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        await driver.idle()
        await driver.type("half a thought")
        await driver.until(lambda: driver.conversation.unsent.draft == "half a thought")
        stored = [r.data for r in read_journal(project.journal).records if r.type == "setting"]
        assert {"name": "draft", "value": "half a thought"} in stored

    def reopened(asker: Asker) -> Conversation:
        conversation = project.build(asker, SessionChoice(kind="newest"))
        conversation.unsent.draft = "half a thought"
        return conversation

    async with running_app(project, open_first=reopened) as driver:
        assert driver.app.composer.text == "half a thought"
