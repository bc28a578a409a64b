"""Steering, queueing and interrupting: no input is lost, nothing runs twice."""

import asyncio
from pathlib import Path

from dirge_py.types.messages import UserMessage
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject


async def at_work(driver: AppDriver, prompt: str = "build it") -> None:
    await driver.send(prompt)
    await driver.until(lambda: driver.app.feed.has_calls_running)


async def queued(driver: AppDriver, text: str) -> None:
    await driver.send(text)
    await driver.until(lambda: any(item.text == text for item in driver.app.controller.waiting))


async def test_discarded_queue_stays_in_history_and_run_continues(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("built")
    async with running_app(project, mode="yolo") as driver:
        await at_work(driver)
        await queued(driver, "one")
        await queued(driver, "two")
        await driver.pilot.press("alt+x")
        await driver.until(lambda: not driver.app.controller.waiting)
        assert driver.app.controller.is_running
        driver.release_command()
        await driver.until(lambda: "built" in driver.text)

        assert driver.sent == ["build it"]
        assert [driver.app.composer.prompts.older("") for _ in range(2)] == ["two", "one"]


async def test_stop_ends_run_after_turn_and_returns_queue(project: ScriptedProject) -> None:
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("never said")
    async with running_app(project, mode="yolo") as driver:
        await at_work(driver)
        await queued(driver, "and test it")
        await driver.send("/stop")
        await driver.until(lambda: "The run will stop after this turn's" in driver.text)
        assert driver.app.controller.is_running
        driver.release_command()
        await driver.idle()

        assert next(result.rstrip() for result in driver.results).endswith("built")
        assert "never said" not in driver.text
        assert "Stopped after this turn, as you asked." in driver.text
        assert "Interrupted." not in driver.text
        assert driver.app.composer.text == "and test it"
        await driver.send("/stop")
        await driver.until(lambda: "Nothing is running." in driver.text)


async def test_prompt_typed_during_backoff_is_sent_in_next_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_fail("busy", kind="server").will_say("hello").will_say("and tested")
    async with running_app(project) as driver:
        await driver.send("hi")
        await driver.until(lambda: waits_to_try_again(driver))
        await driver.send("test it too")
        await driver.until(lambda: "steers next: test it too" in driver.screen)
        await driver.until(lambda: "and tested" in driver.text)

        assert driver.sent == ["hi", "test it too"]
        assert len(project.prompts_of_call(-2)) == 1


async def test_esc_during_backoff_returns_queued_prompt(
    project: ScriptedProject,
) -> None:
    project.model.will_fail("busy", kind="server")
    async with running_app(project) as driver:
        await driver.send("hi")
        await driver.until(lambda: waits_to_try_again(driver))
        await queued(driver, "test it too")
        await driver.pilot.press("escape")
        await driver.idle()

        assert driver.app.composer.text == "test it too"


async def test_interrupted_answer_is_kept_and_not_rerun_on_resume(
    project: ScriptedProject,
) -> None:
    gate = asyncio.Event()
    project.model.will_say("The first half of it.", hold=gate.wait)
    async with running_app(project) as driver:
        await driver.send("tell me")
        await driver.until(lambda: "The first half" in driver.text)
        await driver.pilot.press("escape")
        await driver.idle()
        session = str(driver.conversation.session_id)
        asked = len(project.model.seen)

    async with running_app(project, resumes=session) as driver:
        await driver.until(lambda: "The first half" in driver.text)
        await driver.idle()

        assert len(project.model.seen) == asked
        assert not driver.app.controller.is_running
        await driver.send("go on")
        await driver.until(lambda: driver.sent == ["tell me", "go on"])


async def test_esc_kills_children_of_tool_command(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command="setsid sleep 66 & echo $! > pid; echo up; sleep 67")
    project.model.will_say("fine")
    async with running_app(project, mode="yolo") as driver:
        await at_work(driver)
        await driver.until(lambda: (project.folder / "pid").exists() and "up" in driver.text)
        pid = (project.folder / "pid").read_text().strip()
        await driver.pilot.press("escape")
        await driver.idle()
        assert not Path(f"/proc/{pid}").exists()
        await driver.send("and now?")
        await driver.until(lambda: "fine" in driver.text)

        prompts = [m for m in driver.conversation.messages if isinstance(m, UserMessage)]
        assert [m.origin for m in prompts] == ["user", "user"]


def waits_to_try_again(driver: AppDriver) -> bool:
    return driver.app.controller.is_running and "busy" in driver.text
