"""`[ui] status_command` in the status line."""

from dirge_py.config.schema import Config, config_from
from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject

_SCRIPT = 'import json, sys; print(json.load(sys.stdin)["model"], "\\033[31mhere"); print("second")'


def with_status_command(command: str) -> Config:
    return config_from({"ui": {"status_command": command}})


async def test_first_line_of_the_command_is_in_the_status_line(project: ScriptedProject):
    settings = with_status_command(f"python3 -c '{_SCRIPT}'")
    async with running_app(project, settings=lambda: settings) as driver:
        await driver.until(lambda: driver.app.chrome.status.place.endswith(" · fake/gpt-4o here"))
        await driver.until(lambda: "gpt-4o here" in driver.screen)


async def test_command_that_fails_is_reported_once(project: ScriptedProject):
    project.model.will_say("Hello.")
    settings = with_status_command("exit 3")
    async with running_app(project, settings=lambda: settings) as driver:
        await driver.until(lambda: "[ui] status_command failed: exit 3" in driver.text)
        await driver.send("go")
        await driver.idle()
        assert driver.text.count("status_command failed") == 1
