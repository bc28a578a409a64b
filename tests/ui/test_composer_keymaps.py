"""Vim, Emacs and swapped Enter in the real app."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from dirge_py.ui.options import UiSettings
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject

TWELVE = "\n".join(f"line {n}" for n in range(12))


def app_with_settings(
    project: ScriptedProject, settings: UiSettings, **more: Any
) -> AbstractAsyncContextManager[AppDriver]:
    return running_app(project, prepare=lambda: settings, **more)


VIM = UiSettings(keymap="vim")


async def test_vim_mode_is_shown_and_enter_submits_in_normal_mode(project: ScriptedProject):
    async with app_with_settings(project, VIM) as driver:
        await driver.until(lambda: "INSERT" in driver.screen)
        await driver.type("one two")
        await driver.pilot.press("escape")
        await driver.until(lambda: "NORMAL" in driver.screen)
        await driver.pilot.press("b", "2", "d")
        await driver.until(lambda: "NORMAL 2d" in driver.screen)
        await driver.pilot.press("w", "a", "x", "escape", "v")
        await driver.until(lambda: "VISUAL" in driver.screen)
        assert driver.app.selected_text == "x"
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == ["one x"]
        await driver.until(lambda: "INSERT" in driver.screen)


async def test_vim_esc_leaves_insert_mode_before_it_interrupts_run(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("Done.")
    async with app_with_settings(project, VIM, mode="yolo") as driver:
        await driver.send("build it")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        await driver.type("wait")
        await driver.pilot.press("escape")
        await driver.until(lambda: "NORMAL" in driver.screen)
        assert driver.app.controller.state == "working"
        await driver.pilot.press("escape")
        await driver.until(lambda: "Interrupted." in driver.text)
        assert driver.app.composer.text == "wait"


async def test_vim_normal_mode_ignores_unknown_characters(project: ScriptedProject):
    async with app_with_settings(project, VIM) as driver:
        await driver.type("ab")
        await driver.pilot.press("escape", "q", "Q", "space", "@")
        assert driver.app.composer.text == "ab"


async def test_vim_motions_and_undo_treat_placeholder_as_unit(project: ScriptedProject):
    async with app_with_settings(project, VIM) as driver:
        await driver.type("see ")
        await driver.paste(TWELVE)
        await driver.type(" now")
        await driver.pilot.press("escape", "b", "b", "x")
        assert driver.app.composer.text == "see  now"
        await driver.pilot.press("u")
        assert driver.app.composer.text == "see [12 lines pasted] now"
        await driver.pilot.press("ctrl+r", "P", "enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == [f"see {TWELVE} now"]


async def test_vim_line_selection_can_be_deleted(project: ScriptedProject):
    async with app_with_settings(project, VIM) as driver:
        driver.app.composer.put("one\ntwo\nthree")
        await driver.pilot.press("escape", "k", "V")
        assert driver.app.selected_text == "two"
        await driver.pilot.press("k")
        assert driver.app.selected_text == "one\ntwo"
        await driver.pilot.press("d")
        assert driver.app.composer.text == "three"


async def test_vim_j_and_k_at_edges_recall_history(project: ScriptedProject):
    async with app_with_settings(project, VIM) as driver:
        await driver.send("first")
        await driver.idle()
        await driver.type("draft")
        await driver.pilot.press("escape", "k")
        assert driver.app.composer.text == "first"
        await driver.pilot.press("j")
        assert driver.app.composer.text == "draft"


async def test_vim_command_toggles_vim_keymap(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/vim")
        await driver.until(lambda: "INSERT" in driver.screen)
        await driver.type("a")
        await driver.pilot.press("escape", "x")
        assert driver.app.composer.text == ""
        await driver.send("/vim")
        await driver.until(lambda: "INSERT" not in driver.screen and "NORMAL" not in driver.screen)
        await driver.pilot.press("x")
        assert driver.app.composer.text == "x"


async def test_emacs_keymap_moves_selects_cuts_and_copies(project: ScriptedProject):
    async with app_with_settings(project, UiSettings(keymap="emacs")) as driver:
        driver.app.composer.put("one two\nthree")
        await driver.pilot.press("ctrl+p", "ctrl+a", "ctrl+f", "ctrl+d")
        assert driver.app.composer.text == "oe two\nthree"
        await driver.pilot.press(
            "alt+less_than_sign", "ctrl+@", "alt+f", "ctrl+w", "ctrl+n", "ctrl+e"
        )
        assert driver.app.composer.text == " two\nthree"
        await driver.pilot.press("ctrl+y")
        assert driver.app.composer.text == " two\nthreeoe"
        await driver.pilot.press("ctrl+x", "ctrl+s")
        assert (driver.app.composer.text, driver.app.composer.stashed) == ("", [" two\nthreeoe"])


async def test_configured_keys_override_keymap(project: ScriptedProject):
    settings = UiSettings(keymap="emacs", keys={"stash": ["ctrl+s"]})
    async with app_with_settings(project, settings) as driver:
        await driver.type("later")
        await driver.pilot.press("ctrl+s")
        assert driver.app.composer.stashed == ["later"]


async def test_enter_queue_setting_swaps_enter_and_tab_and_their_hints(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with app_with_settings(project, UiSettings(enter="queue"), mode="yolo") as driver:
        await driver.send("build it")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        await driver.until(lambda: "Tab to steer · Enter to queue" in driver.screen)
        await driver.send("then this")
        await driver.until(lambda: "when done: then this" in driver.screen)
        driver.app.composer.put("mind the tabs")
        await driver.pilot.press("tab")
        await driver.until(lambda: "steers next: mind the tabs" in driver.screen)
        driver.release_command()
        await driver.idle()
        words = {does: keys for keys, does in driver.app.keymap.described()}
        assert words["during a run: queue for when the agent is done"] == "Enter"


async def test_enter_accepts_proposed_command_when_enter_queues(project: ScriptedProject):
    async with app_with_settings(project, UiSettings(enter="queue")) as driver:
        await driver.type("/hel")
        await driver.until(lambda: driver.app.proposals.is_open)
        await driver.pilot.press("enter")
        await driver.until(lambda: "/compact" in driver.text)
        assert driver.app.composer.text == ""


# -- the stash


async def test_stashed_draft_is_shown_and_can_be_restored(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("a long thought")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "1 draft stashed, Ctrl+S restores it" in driver.screen)
        driver.app.composer.put("another")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "2 drafts stashed, Ctrl+S restores the last" in driver.screen)
        await driver.pilot.press("ctrl+s")
        assert driver.app.composer.text == "another"
        await driver.pilot.press("ctrl+u", "ctrl+s")
        assert driver.app.composer.text == "a long thought"
        await driver.until(lambda: "stashed" not in driver.screen)
