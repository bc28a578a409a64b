"""`/continue` in the UI."""

from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject

ONE_TURN = "[loop]\nmax_turns = 1\n"


async def test_it_starts_a_run_that_the_screen_follows(project: ScriptedProject):
    project.configure(ONE_TURN)
    project.model.will_call("ls", path=".").will_say("All done.")
    async with running_app(project) as driver:
        await driver.send("look around")
        await driver.until(lambda: "Use /continue" in driver.text)
        await driver.send("/continue")
        await driver.until(lambda: "All done." in driver.text)
        await driver.idle()
        assert driver.sent == ["look around", "Go on."]
        assert "» from dirge, to the model\n  Go on." in driver.text


async def test_the_end_of_the_turns_is_told_once(project: ScriptedProject):
    project.configure(ONE_TURN)
    project.model.will_call("ls", path=".")
    async with running_app(project) as driver:
        await driver.send("look around")
        await driver.until(lambda: "Use /continue" in driver.text)
        assert driver.text.count("Stopped after") == 1


async def test_with_nothing_to_carry_on_it_says_so(project: ScriptedProject):
    project.model.will_say("Whole.")
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.until(lambda: "Whole." in driver.text)
        await driver.idle()
        await driver.send("/continue")
        await driver.until(lambda: "the last answer is complete" in driver.text)
