"""Going back in a session, at the keyboard."""

from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.journal import read_journal
from dirge_py.types.questions import Asker
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app


async def talked(d: RunningApp, *prompts: str) -> None:
    for prompt in prompts:
        count = len(d.sent)
        await d.send(prompt)
        await d.until(lambda count=count: len(d.sent) > count)
        await d.idle()


async def test_esc_twice_on_an_empty_input_goes_back_to_an_earlier_prompt(room: Room) -> None:
    async with running_app(room) as d:
        await talked(d, "one", "two")
        await d.pilot.press("escape")
        assert "Esc again goes back" in d.screen
        await d.pilot.press("escape")
        await d.until(lambda: d.app.picker.has_focus)
        assert "▸ (current)" in d.screen

        await d.pilot.press("down", "enter")
        await d.until(lambda: d.panel is not None and d.panel.has_focus)
        assert "2 messages stay on another branch" in d.screen
        await d.pilot.press("1", "enter")

        await d.until(lambda: d.app.composer.text == "two")
        assert d.app.composer.has_focus
        assert d.sent == ["one"]
        assert "› two" not in d.text
        assert "› one" in d.text
        assert "/redo reverses that" in d.text


async def test_esc_twice_with_a_draft_leaves_it_alone(room: Room) -> None:
    async with running_app(room) as d:
        await talked(d, "one")
        await d.type("hm")
        await d.pilot.press("escape", "escape")
        assert not d.app.picker.has_focus
        assert d.app.composer.text == "hm"


async def test_undo_and_redo_draw_the_transcript_anew(room: Room) -> None:
    async with running_app(room) as d:
        await talked(d, "one", "two")
        await d.send("/undo")
        await d.until(lambda: "› two" not in d.text)
        assert d.app.composer.text == "two"
        d.app.composer.put("")

        await d.send("/redo")

        await d.until(lambda: "› two" in d.text)
        assert d.text.count("› one") == 1
        assert d.sent == ["one", "two"]


async def test_a_draft_is_kept_while_it_is_written_and_put_back_into_the_input(room: Room) -> None:
    async with running_app(room) as d:
        await d.type("before anything was said")
        d.app.drafts.save()
        assert d.conversation.unsent.draft == "before anything was said"
        await d.pilot.press("enter")
        await d.until(lambda: d.sent)
        await d.idle()
        await d.type("half a thought")
        await d.until(lambda: d.conversation.unsent.draft == "half a thought")
        stored = [r.data for r in read_journal(room.journal).records if r.type == "setting"]
        assert {"name": "draft", "value": "half a thought"} in stored

    def reopened(asker: Asker) -> Conversation:
        conversation = room.build(asker, SessionChoice(kind="newest"))
        conversation.unsent.draft = "half a thought"
        return conversation

    async with running_app(room, open_first=reopened) as d:
        assert d.app.composer.text == "half a thought"
