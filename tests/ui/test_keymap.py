"""The keymap: defaults, user settings, and messages about them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.types.extensions import KeyBinding
from dirge_py.ui.actions import ACTIONS
from dirge_py.ui.keymap import DEFAULTS, TOGETHER, Keymap, listen_together, plain, spell


def test_default_keys_do_not_conflict_within_active_scopes():
    heard = [(key, name) for key in DEFAULTS for name in key.keys]
    twice = [
        (one.action, other.action, name)
        for one, name in heard
        for other, again in heard
        if one != other and name == again and listen_together(one.scope, other.scope)
    ]
    assert twice == []


def test_default_keymap_reports_no_problems():
    assert Keymap().change({}) == []


def test_key_can_be_moved_or_freed_in_either_spelling():
    keymap = Keymap()
    assert keymap.change({"toggle-all": ["Ctrl-Q"], "redraw": ["none"]}) == []
    assert keymap.action("ctrl+q", "screen") == ("screen", "toggle_all")
    assert keymap.action("ctrl+o", "screen") is None
    assert keymap.action("ctrl+l", "screen") is None


def test_action_in_several_scopes_changes_in_all_or_named_scope():
    keymap = Keymap()
    keymap.change({"page_up": ["alt+1"]})
    assert keymap.action("alt+1", "dialog") and keymap.action("alt+1", "screen")
    keymap.change({"dialog.page_up": ["alt+1"], "page_up": ["alt+2"]})
    assert keymap.action("alt+1", "dialog") == ("dialog", "page_up")
    assert keymap.action("alt+1", "screen") is None
    assert keymap.action("alt+2", "screen") == ("screen", "page_up")


def test_chord_prefix_loses_its_own_action():
    keymap = Keymap()
    problems = keymap.change({"redraw": ["ctrl+w  Ctrl-L"]})
    assert keymap.begins_chord("ctrl+w")
    assert keymap.action("ctrl+w ctrl+l", "composer", "screen") == ("screen", "redraw")
    assert keymap.action("ctrl+w", "composer", "screen") is None
    assert problems == ["Ctrl+W begins a chord, so it is no longer `cut_word`."]


@pytest.mark.parametrize(
    ("name", "keys", "problem"),
    [
        ("redrew", ["f9"], "unknown action 'redrew'. Did you mean `redraw`?"),
        ("dialog.onse", ["f9"], "unknown action 'dialog.onse'. Did you mean `dialog.once`?"),
        ("redraw", ["hyperspace"], "unknown key 'hyperspace' for `redraw`."),
        ("redraw", ["a b c"], "'a b c' for `redraw`: a chord has two keys."),
        ("once", ["a b"], "'a b' for `dialog.once`: chords are for the input and the screen."),
        ("redraw", ["ctrl+k"], "Ctrl+K is `redraw`, so it is not `cut_to_end`."),
    ],
)
def test_invalid_key_setting_is_reported(name: str, keys: list[str], problem: str):
    assert problem in Keymap().change({name: keys})


def test_first_of_two_settings_for_same_key_wins():
    keymap = Keymap()
    problems = keymap.change({"undo": ["f9"], "redraw": ["f9"]})
    assert keymap.action("f9", "composer", "screen") == ("composer", "undo")
    assert problems == ["F9 is `undo`, so it is not `redraw`."]


def test_user_key_overrides_plugin_key_and_plugin_key_overrides_preset():
    keymap = Keymap()
    keymap.change({"redraw": ["f8"]}, preset={"yank": ["f8"], "undo": ["f9"]})
    keymap.use_plugins([KeyBinding(id="a", keys=("f8", "f9", "f10"), command="/model fast")])
    assert keymap.action("f8", "composer", "screen") == ("screen", "redraw")
    assert keymap.action("f9", "composer", "screen") == ("screen", "/model fast")
    assert keymap.action("f10", "composer", "screen") == ("screen", "/model fast")


@pytest.mark.parametrize(
    ("key", "spelled"),
    [
        ("pageup", "PageUp"),
        ("shift+tab", "Shift+Tab"),
        ("ctrl+underscore", "Ctrl+_"),
        ("alt+less_than_sign", "Alt+<"),
        ("y", "y"),
        ("ctrl+x left_square_bracket", "Ctrl+X ["),
    ],
)
def test_key_names_are_spelled_as_on_keyboard(key: str, spelled: str):
    assert spell(key) == spelled


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Ctrl-R", "ctrl+r"),
        ("ctrl+x [", "ctrl+x left_square_bracket"),
        ("Shift+G", "G"),
        ("G", "G"),
        ("shift+ctrl+up", "ctrl+shift+up"),
        ("ctrl+-", "ctrl+minus"),
        ("?", "question_mark"),
        ("Esc", "escape"),
    ],
)
def test_key_names_are_accepted_in_common_spellings(written: str, key: str):
    assert plain(written) == key


@given(st.sampled_from([name for key in DEFAULTS for name in key.keys]))
def test_displayed_key_name_can_be_used_in_settings(key: str):
    assert plain(spell(key)) == key


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from([key.action for key in DEFAULTS]),
        st.lists(st.sampled_from(["f5", "f6", "ctrl+k", "f7 f8", "f5 f6", "enter"]), max_size=3),
        max_size=6,
    )
)
def test_key_never_has_two_meanings_after_any_change(changes: dict[str, list[str]]):
    keymap = Keymap()
    keymap.change(changes)
    asked = [key for key in keymap.keys if key.action in changes]
    taken = [(key.scope in TOGETHER or key.scope, name) for key in asked for name in key.keys]
    assert len(taken) == len(set(taken))
    assert not [
        name
        for key in keymap.keys
        for name in key.keys
        if key.scope in TOGETHER and keymap.begins_chord(name)
    ]


def test_every_screen_action_has_a_function():
    assert {key.action for key in DEFAULTS if key.scope == "screen"} <= set(ACTIONS)
