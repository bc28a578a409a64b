"""Editing: cut and paste, undo, selections, and placeholders."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.drivers.headless_driver import HeadlessDriver

from dirge_py.ui.prompt.placeholders import LARGEST, Pastes
from dirge_py.ui.prompt.text_editor import KillRing
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject

TWELVE = "\n".join(f"line {n}" for n in range(12))
PLACEHOLDER = "[12 lines pasted]"


# -- cut and yank


async def test_consecutive_cuts_are_one_and_alt_y_yanks_the_one_before(project: ScriptedProject):
    """Case F13."""
    async with running_app(project) as driver:
        driver.app.composer.put("alpha beta gamma")
        await driver.pilot.press("ctrl+left", "ctrl+k", "ctrl+y")
        assert driver.app.composer.text == "alpha beta gamma"
        await driver.pilot.press("ctrl+w", "ctrl+w", "ctrl+y")
        assert driver.app.composer.text == "alpha beta gamma"
        await driver.pilot.press("alt+y")
        assert driver.app.composer.text == "alpha gamma"
        await driver.pilot.press("alt+y")
        assert driver.app.composer.text == "alpha beta gamma"


async def test_alt_y_works_only_right_after_yank(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one two")
        await driver.pilot.press("ctrl+w", "ctrl+y", "left", "alt+y")
        assert driver.app.composer.text == "one two"


async def test_every_cut_command_can_be_yanked(project: ScriptedProject):
    async with running_app(project) as driver:
        for keys, left in (
            (("ctrl+k",), "one"),
            (("ctrl+u",), " two"),
            (("alt+d",), "one"),
            (("alt+backspace",), " two"),
        ):
            driver.app.composer.put("one two")
            await driver.pilot.press("ctrl+a", "alt+f", *keys)
            assert driver.app.composer.text == left
            await driver.pilot.press("ctrl+y")
            assert driver.app.composer.text == "one two"


async def test_cut_at_line_edge_removes_line_break(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("one\ntwo")
        await driver.pilot.press("ctrl+u", "ctrl+u")
        assert driver.app.composer.text == "one"
        await driver.pilot.press("ctrl+y")
        assert driver.app.composer.text == "one\ntwo"
        await driver.pilot.press("up", "end", "ctrl+k")
        assert driver.app.composer.text == "onetwo"


@given(st.lists(st.tuples(st.text(max_size=3), st.booleans(), st.booleans()), max_size=30))
def test_kill_ring_cycles_through_last_ten_cuts(cuts: list[tuple[str, bool, bool]]):
    ring, kept = KillRing(), []
    for text, joins, is_before in cuts:
        ring.push(text, joins=joins, before=is_before)
        if text and joins and kept:
            kept[-1] = text + kept[-1] if is_before else kept[-1] + text
        elif text:
            kept.append(text)
    kept = kept[-10:]
    assert ring.yank() == (kept[-1] if kept else "")
    assert [ring.older() for _ in kept] == [*reversed(kept[:-1]), *kept[-1:]]


# -- undo


async def test_undo_removes_one_word_and_redo_restores_it(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one two three")
        await driver.pilot.press("ctrl+underscore")
        assert driver.app.composer.text == "one two "
        await driver.pilot.press("ctrl+underscore")
        assert driver.app.composer.text == "one "
        await driver.pilot.press("alt+u")
        assert driver.app.composer.text == "one two "


async def test_cut_and_paste_are_one_undo_step_each(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("a")
        await driver.paste("bc")
        await driver.type("d")
        await driver.pilot.press("ctrl+w")
        texts = []
        for _ in range(4):
            await driver.pilot.press("ctrl+underscore")
            texts.append(driver.app.composer.text)
        assert texts == ["abcd", "abc", "a", ""]


async def test_undo_restores_cleared_input(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("a long thought")
        await driver.pilot.press("ctrl+c")
        assert driver.app.composer.text == ""
        await driver.pilot.press("ctrl+underscore")
        assert driver.app.composer.text == "a long thought"


KEYS = (
    *("a", "b", "space", "left", "right", "up", "down", "home", "end", "backspace", "delete"),
    *("ctrl+k", "ctrl+u", "ctrl+w", "alt+d", "alt+backspace", "ctrl+y", "alt+y", "newline"),
    *("shift+left", "shift+right", "ctrl+shift+left", "shift+home", "shift+up", "ctrl+left"),
    *("ctrl+right", "undo", "alt+u", "ctrl+@", "paste", "paste short", "other paste"),
)
PASTED = {"paste": TWELVE, "paste short": "one\ntwo", "other paste": "x" * 3000}


async def do(driver: AppDriver, key: str) -> None:
    composer = driver.app.composer
    if key in PASTED:
        composer.paste(PASTED[key])
    elif key == "newline":
        composer.key_action_newline()
    elif key == "undo":
        composer.action_undo()
    else:
        found = driver.app.keymap.action(key, "composer")
        if found is None:
            composer.did("")
            composer.write(" " if key == "space" else key)
        elif (found[1], composer.navigator.is_first_wrapped_line(composer.cursor_location)) != (
            "up",
            True,
        ):
            composer.act(*found)


async def test_random_keys_keep_placeholders_whole_and_undo_redo_exact(
    project: ScriptedProject,
):
    """Peers' failure 16: half a placeholder would be sent literally."""
    chance = random.Random(7)
    async with running_app(project) as driver:
        composer = driver.app.composer
        for _ in range(8):
            composer.load_text("")
            for key in chance.choices(KEYS, k=40):
                await do(driver, key)
                left = composer.text
                for name in [left[start:end] for start, end in composer.pastes.spans(left)]:
                    left = left.replace(name, "")
                assert "pasted" not in left.replace(TWELVE, "")
                assert "[" not in left
                assert "]" not in left
                row, column = composer.cursor_location
                assert not any(
                    a < column < b for a, b in composer.pastes.spans(composer.document[row])
                )
            ended_with = composer.text
            undone = 0
            while composer.history.undo_stack:
                composer.action_undo()
                undone += 1
            assert composer.text == ""
            for _ in range(undone):
                composer.action_redo()
            assert composer.text == ended_with
            await driver.pilot.pause()


# -- selecting


async def test_typing_replaces_text_selected_with_shift_and_arrow(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("one two three")
        await driver.pilot.press("ctrl+shift+left", "shift+left")
        assert driver.app.selected_text == " three"
        await driver.pilot.press("!")
        assert driver.app.composer.text == "one two!"
        await driver.pilot.press("shift+home", "x")
        assert driver.app.composer.text == "x"


async def test_paste_replaces_selection(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one two")
        await driver.pilot.press("ctrl+shift+left")
        await driver.paste(TWELVE)
        assert driver.app.composer.text == f"one {PLACEHOLDER}"


async def test_ctrl_c_copies_selection_and_keeps_text(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one two")
        await driver.pilot.press("ctrl+shift+left", "ctrl+c")
        await driver.until(lambda: not driver.app.selected_text)
        assert driver.app.composer.text == "one two"
        assert driver.app.is_running


async def test_cursor_moves_extend_selection_after_set_mark(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("one two three")
        await driver.pilot.press("ctrl+a", "ctrl+@", "alt+f", "alt+f")
        assert driver.app.selected_text == "one two"
        await driver.pilot.press("alt+w", "end", "ctrl+y")
        assert driver.app.composer.text == "one two threeone two"


# -- placeholders as units


async def test_cursor_crosses_placeholder_in_one_step(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.paste(TWELVE)
        await driver.pilot.press("left", "a", "right", "b")
        assert driver.app.composer.text == f"a{PLACEHOLDER}b"
        await driver.pilot.press("alt+b", "alt+b", "x")
        assert driver.app.composer.text == f"ax{PLACEHOLDER}b"


WAYS_TO_DELETE = (
    ("backspace",),
    ("left", "delete"),
    ("ctrl+w",),
    ("alt+backspace",),
    ("left", "alt+d"),
    ("left", "ctrl+k"),
    ("shift+left", "delete"),
    ("left", "shift+right", "backspace"),
)


async def test_every_delete_command_removes_whole_placeholder_and_undo_restores_it(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        composer = driver.app.composer
        composer.put("x ")
        await driver.paste(TWELVE)
        for keys in WAYS_TO_DELETE:
            composer.action_cursor_text_end()
            for key in keys:
                await do(driver, key)
            assert composer.text == "x "
            composer.action_undo()
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == [f"x {TWELVE}"]


async def test_placeholder_cut_and_yanked_is_sent_in_full(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.paste(TWELVE)
        await driver.pilot.press("ctrl+w", "y", "space", "ctrl+y", "enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == [f"y {TWELVE}"]


# -- pasted text


async def test_text_typed_right_after_paste_follows_it(project: ScriptedProject):
    """Peers' failures 14 and 15."""
    async with running_app(project) as driver:
        composer = driver.app.composer
        composer.post_message(events.Paste(f"{TWELVE}\r"))
        for key in "abc":
            composer.post_message(events.Key(key, key))
        await driver.until(lambda: composer.text.endswith("c"))
        assert composer.pastes.expand(composer.text) == f"{TWELVE}\nabc"
        assert driver.sent == []


async def test_paste_over_limit_keeps_first_mib_and_reports_it(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.paste("word " * 1_000_000)
        await driver.until(lambda: "Only the first MiB of the paste was inserted." in driver.text)
        assert len(driver.app.composer.text) < 40
        assert len(driver.app.composer.pastes.expand(driver.app.composer.text)) == LARGEST


async def test_pasted_surrogates_and_nul_cannot_break_journal(project: ScriptedProject):
    """Peers' failure 21."""
    async with running_app(project) as driver:
        await driver.paste("a\ud83d\x00b\udc00")
        await driver.pilot.press("enter")
        await driver.idle()
        assert driver.sent == ["a\ufffdb\ufffd"]
        assert "\ufffd" in project.journal.read_text()


PIECES = st.sampled_from(["a", " ", "\n", "[", "]", "[12 lines pasted]", "1\n2\n3\n4\n5", TWELVE])


@given(st.lists(PIECES, max_size=8).map("".join))
def test_folding_and_expanding_pastes_keeps_text(text: str):
    pastes = Pastes()
    pastes.add(TWELVE, "")
    pastes.add("1\n2\n3\n4\n5", "")
    meant = pastes.expand(text)
    assert pastes.expand(pastes.fold(text)) == meant
    assert pastes.expand(pastes.recalled(text)) == meant
    signs = pastes.as_signs(text)
    assert pastes.from_signs(signs) == text
    assert PLACEHOLDER not in signs


def test_huge_recalled_text_is_one_placeholder():
    pastes = Pastes()
    text = "line\n" * 20_000
    shown = pastes.recalled(text)
    assert shown == "[20001 lines from before]"
    assert pastes.expand(shown) == text


# -- external editor


async def test_external_editor_gets_full_paste_and_untouched_paste_is_folded_again(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
):
    seen = project.folder / "seen"
    editor = project.folder / "editor"
    editor.write_text(f'#!/bin/sh\ncp "$1" {seen}\nprintf "and more" >> "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)
    async with running_app(project) as driver:
        await driver.type("see ")
        await driver.paste(TWELVE)
        await driver.pilot.press("ctrl+x", "ctrl+e")
        await driver.until(lambda: driver.app.composer.text == f"see {PLACEHOLDER}and more")
        assert seen.read_text() == f"see {TWELVE}"


# -- size of the composer


@pytest.mark.parametrize(("height", "rows"), [(24, 8), (10, 5)])
async def test_composer_grows_to_eight_rows_or_half_of_small_screen(
    project: ScriptedProject, height: int, rows: int
):
    async with running_app(project, size=(80, height)) as driver:
        driver.app.composer.put("\n" * 30)
        await driver.until(lambda: driver.app.composer.size.height == rows)
        driver.app.composer.put("")
        await driver.until(lambda: driver.app.composer.size.height == 1)
        assert driver.app.composer.size.height == 1
