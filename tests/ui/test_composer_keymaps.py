"""Vim, Emacs and a swapped Enter in the input of the real app."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from dirge_py.ui.options import UiSettings
from tests.conversation.room import Room
from tests.ui.running_app import HELD, RunningApp, running_app

TWELVE = "\n".join(f"line {n}" for n in range(12))


def looking(
    room: Room, settings: UiSettings, **more: Any
) -> AbstractAsyncContextManager[RunningApp]:
    return running_app(room, prepare=lambda: settings, **more)


VIM = UiSettings(keymap="vim")


async def test_vims_modes_are_shown_and_enter_sends_in_normal_mode(room: Room):
    async with looking(room, VIM) as d:
        await d.until(lambda: "INSERT" in d.screen)
        await d.type("one two")
        await d.pilot.press("escape")
        await d.until(lambda: "NORMAL" in d.screen)
        await d.pilot.press("b", "2", "d")
        await d.until(lambda: "NORMAL 2d" in d.screen)
        await d.pilot.press("w", "a", "x", "escape", "v")
        await d.until(lambda: "VISUAL" in d.screen)
        assert d.app.selected_text == "x"
        await d.pilot.press("escape", "enter")
        await d.until(lambda: d.sent)
        assert d.sent == ["one x"]
        await d.until(lambda: "INSERT" in d.screen)


async def test_esc_leaves_writing_first_and_interrupts_only_then(room: Room):
    room.model.will_call("bash", command=HELD).will_say("Done.")
    async with looking(room, VIM, mode="yolo") as d:
        await d.send("build it")
        await d.until(lambda: "\n   cc a.c" in d.screen)
        await d.type("wait")
        await d.pilot.press("escape")
        await d.until(lambda: "NORMAL" in d.screen)
        assert d.app.controller.state == "working"
        await d.pilot.press("escape")
        await d.until(lambda: "Interrupted." in d.text)
        assert d.app.composer.text == "wait"


async def test_signs_that_are_no_orders_are_not_written_in_normal_mode(room: Room):
    async with looking(room, VIM) as d:
        await d.type("ab")
        await d.pilot.press("escape", "q", "Q", "space", "@")
        assert d.app.composer.text == "ab"


async def test_vim_moves_over_placeholders_and_undoes(room: Room):
    async with looking(room, VIM) as d:
        await d.type("see ")
        await d.paste(TWELVE)
        await d.type(" now")
        await d.pilot.press("escape", "b", "b", "x")
        assert d.app.composer.text == "see  now"
        await d.pilot.press("u")
        assert d.app.composer.text == "see [12 lines pasted] now"
        await d.pilot.press("ctrl+r", "P", "enter")
        await d.until(lambda: d.sent)
        assert d.sent == [f"see {TWELVE} now"]


async def test_a_whole_line_is_selected_and_taken(room: Room):
    async with looking(room, VIM) as d:
        d.app.composer.put("one\ntwo\nthree")
        await d.pilot.press("escape", "k", "V")
        assert d.app.selected_text == "two"
        await d.pilot.press("k")
        assert d.app.selected_text == "one\ntwo"
        await d.pilot.press("d")
        assert d.app.composer.text == "three"


async def test_j_and_k_at_the_ends_go_through_earlier_prompts(room: Room):
    async with looking(room, VIM) as d:
        await d.send("first")
        await d.idle()
        await d.type("draft")
        await d.pilot.press("escape", "k")
        assert d.app.composer.text == "first"
        await d.pilot.press("j")
        assert d.app.composer.text == "draft"


async def test_the_vim_command_turns_the_modes_on_and_off(room: Room):
    async with running_app(room) as d:
        await d.send("/vim")
        await d.until(lambda: "INSERT" in d.screen)
        await d.type("a")
        await d.pilot.press("escape", "x")
        assert d.app.composer.text == ""
        await d.send("/vim")
        await d.until(lambda: "INSERT" not in d.screen and "NORMAL" not in d.screen)
        await d.pilot.press("x")
        assert d.app.composer.text == "x"


async def test_emacs_keys_move_select_cut_and_copy(room: Room):
    async with looking(room, UiSettings(keymap="emacs")) as d:
        d.app.composer.put("one two\nthree")
        await d.pilot.press("ctrl+p", "ctrl+a", "ctrl+f", "ctrl+d")
        assert d.app.composer.text == "oe two\nthree"
        await d.pilot.press("alt+less_than_sign", "ctrl+@", "alt+f", "ctrl+w", "ctrl+n", "ctrl+e")
        assert d.app.composer.text == " two\nthree"
        await d.pilot.press("ctrl+y")
        assert d.app.composer.text == " two\nthreeoe"
        await d.pilot.press("ctrl+x", "ctrl+s")
        assert (d.app.composer.text, d.app.composer.stashed) == ("", [" two\nthreeoe"])


async def test_own_keys_go_before_those_of_a_keymap(room: Room):
    settings = UiSettings(keymap="emacs", keys={"stash": ["ctrl+s"]})
    async with looking(room, settings) as d:
        await d.type("later")
        await d.pilot.press("ctrl+s")
        assert d.app.composer.stashed == ["later"]


async def test_enter_and_tab_can_be_swapped_and_the_hints_tell_so(room: Room):
    room.model.will_call("bash", command=HELD)
    async with looking(room, UiSettings(enter="queue"), mode="yolo") as d:
        await d.send("build it")
        await d.until(lambda: "\n   cc a.c" in d.screen)
        await d.until(lambda: "Tab steers · Enter queues for after" in d.screen)
        await d.send("then this")
        await d.until(lambda: "when done: then this" in d.screen)
        d.app.composer.put("mind the tabs")
        await d.pilot.press("tab")
        await d.until(lambda: "steers next: mind the tabs" in d.screen)
        d.release_command()
        await d.idle()
        words = {does: keys for keys, does in d.app.keymap.described()}
        assert words["during a run: queue for when the agent is done"] == "Enter"


async def test_a_command_is_chosen_with_enter_also_where_enter_queues(room: Room):
    async with looking(room, UiSettings(enter="queue")) as d:
        await d.type("/hel")
        await d.until(lambda: d.app.proposals.is_open)
        await d.pilot.press("enter")
        await d.until(lambda: "/compact" in d.text)
        assert d.app.composer.text == ""


# -- the stash


async def test_a_stashed_draft_is_told_of_and_comes_back(room: Room):
    async with running_app(room) as d:
        d.app.composer.put("a long thought")
        await d.pilot.press("ctrl+s")
        await d.until(lambda: "1 draft stashed, Ctrl+S takes it back" in d.screen)
        d.app.composer.put("another")
        await d.pilot.press("ctrl+s")
        await d.until(lambda: "2 drafts stashed, Ctrl+S takes the last back" in d.screen)
        await d.pilot.press("ctrl+s")
        assert d.app.composer.text == "another"
        await d.pilot.press("ctrl+u", "ctrl+s")
        assert d.app.composer.text == "a long thought"
        await d.until(lambda: "stashed" not in d.screen)
