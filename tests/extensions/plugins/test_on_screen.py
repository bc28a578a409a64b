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


async def test_the_commands_of_plugins_are_typed_completed_and_helped_with(
    project: ScriptedProject,
):
    async with running_app(project) as d:
        await d.send("/greet you")
        await d.until(lambda: "Hello, you." in d.text)
        await d.send("/help")
        await d.until(lambda: "/greet" in d.text and "say hello" in d.text)
        await d.type("/gre")
        await d.until(lambda: "say hello" in d.screen)
        assert "/help of a plugin is left out: the name is taken." in d.text


async def test_a_plugin_that_is_off_takes_its_commands_along(project: ScriptedProject):
    async with running_app(project) as d:
        await d.send("/plugins")
        await d.until(lambda: "greeter.py" in d.text)
        await d.send("/plugins off greeter")
        await d.until(lambda: "The plugin greeter is off for this session." in d.text)
        await d.send("/greet you")
        await d.until(lambda: "There is no command /greet." in d.text)


async def test_what_plugins_say_is_shown_and_what_they_print_is_not(project: ScriptedProject):
    async with running_app(project) as d:
        await d.send("hello")
        await d.until(lambda: "greeter: looked" in d.text)
        await d.idle()
        assert not [word for word in ("loading", "looking") if word in d.screen]


async def test_keys_of_plugins_run_commands_but_take_no_key_away(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("f7")
        await d.until(lambda: "Hello, from afar." in d.text)
        await d.pilot.press("ctrl+x", "j")
        await d.until(lambda: "one, two" in d.text)
        assert d.text.count("one, two") == 1
        assert "Enter cannot be a plugin's: /count-to-two has no such key." in d.text
        await d.send("/count-to-two")
        await d.until(lambda: d.text.count("one, two") == 2)


async def test_a_new_session_loads_them_anew(project: ScriptedProject):
    async with running_app(project) as d:
        (project.folder.parent / "config" / "plugins" / "greeter.py").unlink()
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2)
        await d.idle()
        await d.send("/greet you")
        await d.until(lambda: "There is no command /greet." in d.text)
