"""Chords, the palette, own keys for commands, and other key actions."""

import os

import pytest

from dirge_py.ui.options import UiSettings
from dirge_py.ui.terminal.editor import pager_command
from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject


async def test_chord_runs_action_and_shows_first_key_while_pending(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("ctrl+x")
        await driver.until(
            lambda: "Ctrl+X … press the second key, or Esc to cancel" in driver.screen
        )
        await driver.pilot.press("ctrl+p")
        await driver.until(lambda: "Commands and actions" in driver.screen)
        assert driver.app.composer.text == ""


@pytest.mark.parametrize("key", ["escape", "ctrl+g"])
async def test_chord_is_cancelled_by_escape_or_ctrl_g(project: ScriptedProject, key: str):
    async with running_app(project) as driver:
        await driver.type("draft")
        await driver.pilot.press("ctrl+x", key)
        await driver.until(lambda: "the second key" not in driver.screen)
        await driver.type("s")
        assert driver.app.composer.text == "drafts"


async def test_unknown_second_key_is_reported_and_not_typed(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("ctrl+x", "q")
        await driver.until(lambda: "Ctrl+X q does nothing" in driver.screen)
        assert driver.app.composer.text == ""


async def test_first_key_of_chord_times_out(project: ScriptedProject):
    settings = UiSettings(chord_timeout_s=0.05)
    async with running_app(project, prepare=lambda: settings) as driver:
        await driver.pilot.press("ctrl+x")
        await driver.until(lambda: "the second key" not in driver.screen)
        await driver.type("q")
        assert driver.app.composer.text == "q"


async def test_chord_accepts_prompt_found_by_history_search(project: ScriptedProject):
    settings = UiSettings(keys={"cursor_text_start": ["ctrl+x ctrl+a"]})
    async with running_app(project, prepare=lambda: settings) as driver:
        driver.app.composer.prompts.add("an earlier prompt")
        await driver.type("draft")
        await driver.pilot.press("ctrl+r", *"early", "backspace", "ctrl+x", "ctrl+a")
        await driver.type("x")

        assert driver.app.composer.text == "xan earlier prompt"


async def test_chord_between_two_cuts_separates_them(project: ScriptedProject):
    settings = UiSettings(keys={"cut_to_end": ["ctrl+x k"], "newline": ["ctrl+x n"]})
    async with running_app(project, prepare=lambda: settings) as driver:
        await driver.type("one two three")
        await driver.pilot.press("ctrl+w", "ctrl+x", "n", "ctrl+w", "ctrl+y")

        assert driver.app.composer.text == "one two \n"


async def test_configured_key_runs_slash_command(project: ScriptedProject):
    settings = UiSettings(keys={"/mode plan": ["f9"], "undo": ["ctrl+x ctrl+u"], "redrew": ["f8"]})
    async with running_app(project, prepare=lambda: settings) as driver:
        assert "[keys]: unknown action 'redrew'. Did you mean `redraw`?" in driver.text
        await driver.pilot.press("f9")
        await driver.until(lambda: driver.conversation.settings.mode == "plan")
        await driver.type("ab")
        await driver.pilot.press("ctrl+x", "ctrl+u")
        await driver.until(lambda: driver.app.composer.text != "ab")


async def test_palette_runs_command_without_arguments(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: "Commands and actions" in driver.screen)
        await driver.type("every action with")
        await driver.until(lambda: "▸ /keybindings" in driver.screen)
        await driver.pilot.press("enter")
        await driver.until(lambda: "cycle_mode" in driver.text)
        assert "  Shift+Tab" in driver.text and "Permission questions (dialog)" in driver.text


async def test_palette_inserts_command_with_arguments_into_input(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("f1")
        await driver.type("/rename")
        await driver.until(lambda: "▸ /rename TITLE" in driver.screen)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.composer.text == "/rename ")
        assert driver.app.composer.has_focus


async def test_palette_runs_key_action(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("f1")
        await driver.type("mode: standard")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.conversation.settings.mode == "accept")


async def test_alt_m_toggles_mouse_capture(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("alt+m")
        await driver.until(
            lambda: "The terminal has the mouse now. Alt+M gives it back to dirge." in driver.screen
        )
        assert not driver.app.has_mouse
        await driver.pilot.press("alt+m")
        await driver.until(lambda: driver.app.has_mouse)
    async with running_app(project, prepare=lambda: UiSettings(has_mouse=False)) as driver:
        assert not driver.app.has_mouse


@pytest.mark.parametrize(
    ("wanted", "command"),
    [("most -s", ["most", "-s"]), ("cat", ["less", "-R"]), ("", ["less", "-R"])],
)
def test_pager_setting_is_used_unless_it_cannot_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, wanted: str, command: list[str]
):
    less = os.path.join(str(tmp_path), "less")
    os.symlink("/bin/true", less)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pager_command(wanted) == command
