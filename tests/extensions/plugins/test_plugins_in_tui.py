"""Plugins in the terminal UI: commands, notices and output."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject

GREETER = """
print("loading")

def register(dirge):
    @dirge.command("greet", help="say hello")
    def greet(args, conversation, front):
        print("greeting")
        return f"Hello, {args}."

    dirge.command("help", "mine", greet)
    dirge.key("f7", "/greet from afar", help="greet")

    @dirge.key(["ctrl+x j", "enter"])
    def count_to_two(args, conversation, front):
        return "one, two"

    @dirge.on("transform_context")
    def look(info):
        print("looking")
        dirge.notify("looked")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    plugins = tmp_path / "config" / "plugins"
    plugins.mkdir()
    (plugins / "greeter.py").write_text(dedent(GREETER))
    monkeypatch.chdir(project.folder)
    return project


async def test_plugin_commands_work_on_screen_with_completion_and_help(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.send("/greet you")
        await driver.until(lambda: "Hello, you." in driver.text)
        await driver.send("/help")
        await driver.until(lambda: "/greet" in driver.text and "say hello" in driver.text)
        await driver.type("/gre")
        await driver.until(lambda: "say hello" in driver.screen)
        assert "A plugin's command /help is left out: the name is taken." in driver.text


async def test_plugins_off_on_screen_removes_the_commands_of_the_plugin(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/plugins")
        await driver.until(lambda: "greeter.py" in driver.text)
        await driver.send("/plugins off greeter")
        await driver.until(lambda: "The plugin greeter is off for this session." in driver.text)
        await driver.send("/greet you")
        await driver.until(lambda: "There is no command /greet." in driver.text)


async def test_plugin_notices_are_shown_on_screen_and_printed_output_is_not(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.until(lambda: "greeter: looked" in driver.text)
        await driver.idle()
        assert not [word for word in ("loading", "looking") if word in driver.screen]


async def test_plugin_key_bindings_run_commands_but_cannot_replace_enter(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("f7")
        await driver.until(lambda: "Hello, from afar." in driver.text)
        await driver.pilot.press("ctrl+x", "j")
        await driver.until(lambda: "one, two" in driver.text)
        assert driver.text.count("one, two") == 1
        assert "A plugin cannot use Enter, so it doesn't run /count-to-two." in driver.text
        await driver.send("/count-to-two")
        await driver.until(lambda: driver.text.count("one, two") == 2)


async def test_new_session_reloads_plugins(project: ScriptedProject):
    async with running_app(project) as driver:
        (project.folder.parent / "config" / "plugins" / "greeter.py").unlink()
        await driver.send("/clear")
        await driver.until(lambda: len(driver.opened) == 2)
        await driver.idle()
        await driver.send("/greet you")
        await driver.until(lambda: "There is no command /greet." in driver.text)


async def test_status_line_warns_if_a_plugin_failed(project: ScriptedProject):
    async with running_app(project) as driver:
        assert "! plugins" not in driver.screen
    broken = project.folder.parent / "config" / "plugins" / "broken.py"
    broken.write_text("def register(dirge):\n    raise ValueError('no')\n")
    async with running_app(project) as driver:
        await driver.until(lambda: "! plugins" in driver.screen)
        await driver.send("/status")
        await driver.until(lambda: "broken (failed)" in driver.text)
