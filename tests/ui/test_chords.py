"""Chords, the palette, own keys for commands, and other key actions."""

import os

import pytest

from dirge_py.ui.options import UiSettings
from dirge_py.ui.terminal.editor import pager_command
from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject


async def test_two_keys_do_one_thing_and_the_first_is_shown_meanwhile(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("ctrl+x")
        await d.until(lambda: "Ctrl+X … the second key; Esc cancels" in d.screen)
        await d.pilot.press("ctrl+p")
        await d.until(lambda: "Commands and actions" in d.screen)
        assert d.app.composer.text == ""


@pytest.mark.parametrize("key", ["escape", "ctrl+g"])
async def test_a_chord_is_cancelled_and_nothing_else_happens(project: ScriptedProject, key: str):
    async with running_app(project) as d:
        await d.type("draft")
        await d.pilot.press("ctrl+x", key)
        await d.until(lambda: "the second key" not in d.screen)
        await d.type("s")
        assert d.app.composer.text == "drafts"


async def test_a_second_key_that_means_nothing_says_so_and_is_not_typed(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("ctrl+x", "q")
        await d.until(lambda: "Ctrl+X q does nothing" in d.screen)
        assert d.app.composer.text == ""


async def test_a_first_key_is_forgotten_after_a_while(project: ScriptedProject):
    settings = UiSettings(chord_timeout_s=0.05)
    async with running_app(project, prepare=lambda: settings) as d:
        await d.pilot.press("ctrl+x")
        await d.until(lambda: "the second key" not in d.screen)
        await d.type("q")
        assert d.app.composer.text == "q"


async def test_a_chord_takes_the_prompt_that_a_search_has_found(project: ScriptedProject):
    settings = UiSettings(keys={"cursor_text_start": ["ctrl+x ctrl+a"]})
    async with running_app(project, prepare=lambda: settings) as d:
        d.app.composer.prompts.add("an earlier prompt")
        await d.type("draft")
        await d.pilot.press("ctrl+r", *"early", "backspace", "ctrl+x", "ctrl+a")
        await d.type("x")

        assert d.app.composer.text == "xan earlier prompt"


async def test_a_chord_between_two_cuts_parts_them(project: ScriptedProject):
    settings = UiSettings(keys={"cut_to_end": ["ctrl+x k"], "newline": ["ctrl+x n"]})
    async with running_app(project, prepare=lambda: settings) as d:
        await d.type("one two three")
        await d.pilot.press("ctrl+w", "ctrl+x", "n", "ctrl+w", "ctrl+y")

        assert d.app.composer.text == "one two \n"


async def test_a_key_of_the_settings_runs_a_command(project: ScriptedProject):
    settings = UiSettings(keys={"/mode plan": ["f9"], "undo": ["ctrl+x ctrl+u"], "redrew": ["f8"]})
    async with running_app(project, prepare=lambda: settings) as d:
        assert "[keys]: there is no action 'redrew'. Did you mean `redraw`?" in d.text
        await d.pilot.press("f9")
        await d.until(lambda: d.conversation.settings.mode == "plan")
        await d.type("ab")
        await d.pilot.press("ctrl+x", "ctrl+u")
        await d.until(lambda: d.app.composer.text != "ab")


async def test_the_palette_runs_what_needs_no_arguments(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("f1")
        await d.until(lambda: "Commands and actions" in d.screen)
        await d.type("every action with")
        await d.until(lambda: "▸ /keybindings" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: "cycle_mode" in d.text)
        assert "  Shift+Tab" in d.text and "Questions about permission (dialog)" in d.text


async def test_the_palette_puts_what_wants_arguments_into_the_input(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("f1")
        await d.type("/rename")
        await d.until(lambda: "▸ /rename TITLE" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: d.app.composer.text == "/rename ")
        assert d.app.composer.has_focus


async def test_the_palette_does_what_a_key_does(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("f1")
        await d.type("mode: standard")
        await d.pilot.press("enter")
        await d.until(lambda: d.conversation.settings.mode == "accept")


async def test_the_mouse_is_given_away_and_taken_back(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("alt+m")
        await d.until(lambda: "The mouse is the terminal's; Alt+M takes it back." in d.screen)
        assert not d.app.has_mouse
        await d.pilot.press("alt+m")
        await d.until(lambda: d.app.has_mouse)
    async with running_app(project, prepare=lambda: UiSettings(has_mouse=False)) as d:
        assert not d.app.has_mouse


@pytest.mark.parametrize(
    ("wanted", "command"),
    [("most -s", ["most", "-s"]), ("cat", ["less", "-R"]), ("", ["less", "-R"])],
)
def test_the_pager_is_the_persons_unless_it_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, wanted: str, command: list[str]
):
    less = os.path.join(str(tmp_path), "less")
    os.symlink("/bin/true", less)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pager_command(wanted) == command
