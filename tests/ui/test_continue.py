"""`/continue` and `/step` in the UI."""

from tests.support.app_driver import WAITING_COMMAND, running_app
from tests.support.project import ScriptedProject

ONE_TURN = "[loop]\nmax_turns = 1\n"


async def test_continue_starts_run_shown_on_screen(project: ScriptedProject):
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


async def test_turn_limit_is_reported_once(project: ScriptedProject):
    project.configure(ONE_TURN)
    project.model.will_call("ls", path=".")
    async with running_app(project) as driver:
        await driver.send("look around")
        await driver.until(lambda: "Use /continue" in driver.text)
        assert driver.text.count("Stopped after") == 1


async def test_continue_after_complete_answer_is_refused(project: ScriptedProject):
    project.model.will_say("Whole.")
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.until(lambda: "Whole." in driver.text)
        await driver.idle()
        await driver.send("/continue")
        await driver.until(lambda: "the last answer is complete" in driver.text)


async def test_step_runs_one_turn_and_delivers_its_text_first(project: ScriptedProject):
    for _ in range(3):
        project.model.will_call("ls", path=".")
    project.model.will_say("All done.")
    async with running_app(project) as driver:
        await driver.send("/step look around")
        await driver.until(lambda: "Turn 1 has ended" in driver.text)
        await driver.idle()
        assert len(project.model.seen) == 1

        await driver.send("/step")
        await driver.until(lambda: "Turn 2 has ended" in driver.text)
        await driver.idle()
        assert len(project.model.seen) == 2

        await driver.send("/step but quickly")
        await driver.until(lambda: driver.text.count("has ended; the run needs more") == 3)
        await driver.idle()
        assert driver.sent[-1] == "but quickly"

        await driver.send("/continue")
        await driver.until(lambda: "All done." in driver.text)
        await driver.idle()


async def test_step_during_run_stops_after_current_turn(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("All done.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.until(lambda: project.model.seen)
        await driver.send("/step now")
        await driver.until(lambda: "cannot start another" in driver.text)
        await driver.send("/step")
        await driver.until(lambda: "will pause after this turn's tool calls" in driver.text)
        driver.release_command()
        await driver.until(lambda: "Stopped after this turn" in driver.text)
        await driver.idle()
        assert len(project.model.seen) == 1
        await driver.send("/step")
        await driver.until(lambda: "All done." in driver.text)
        await driver.idle()
