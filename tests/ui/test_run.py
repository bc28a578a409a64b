from tests.ui.desk import desk
from tests.ui.fake import Play


async def answer(play: Play) -> None:
    play.say("The build fails because of **one** missing file.")


async def test_a_sent_prompt_and_its_answer_are_on_the_screen():
    async with desk(answer) as d:
        await d.type("why?")
        await d.pilot.press("enter")
        await d.until(lambda: "missing file" in d.text)
        await d.idle()

        assert d.talk.sent == ["why?"]
        assert "› why?" in d.text
        assert d.app.composer.text == ""
        print(d.screen)
