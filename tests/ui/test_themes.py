"""Themes: all legible, user files, live changes."""

from pathlib import Path

import pytest

from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme
from dirge_py.ui.terminal.input import TerminalBackground, TerminalInput
from dirge_py.ui.theme.styles import (
    complete_colors,
    load_theme,
    read_theme,
    roles,
    theme_names,
    theme_or_default,
)
from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject

GROUNDS = ("background", "surface", "border", "selection", "added_ground", "removed_ground")
ON = {"added": ("added_ground",), "removed": ("removed_ground",)}


@pytest.fixture
def themes(project: ScriptedProject, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's themes."""
    folder = project.folder.parent / "config" / "themes"
    folder.mkdir()
    monkeypatch.setenv("DIRGE_CONFIG_DIR", str(folder.parent))
    return folder


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The WCAG contrast ratio, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", [name for name in theme_names() if name != "auto"])
def test_theme_colors_have_enough_contrast(name: str):
    colors = complete_colors(load_theme(name))
    least = 7 if name == "high-contrast" else 4.5
    pairs = [
        (role, ground)
        for role in colors
        if role not in GROUNDS
        for ground in ON.get(role, ("background", "surface"))
    ]
    pairs += [(role, "selection") for role in ("text", "dim", "accent")]
    syntax = ("text", "dim", "keyword", "string", "comment", "number", "function")
    pairs += [(role, f"{change}_ground") for role in syntax for change in ("added", "removed")]
    faint = [
        (role, ground) for role, ground in pairs if contrast(colors[role], colors[ground]) < least
    ]
    assert faint == []


@pytest.mark.parametrize("name", ["dark", "high-contrast", "light", "phosphor", "plain"])
def test_built_in_theme_defines_every_role(name: str):
    assert set(load_theme(name).colors) == set(roles())


def test_user_theme_inherits_unnamed_colors(themes: Path):
    (themes / "paper.toml").write_text('dark = false\n[colors]\naccent = "#AA0000"\n')
    theme = load_theme("paper")
    assert theme == Theme(name="paper", dark=False, colors={"accent": "#AA0000"})
    assert complete_colors(theme)["text"] == load_theme("light").colors["text"]
    assert "paper" in theme_names()


def test_user_theme_overrides_built_in_theme_of_same_name(themes: Path):
    (themes / "dark.toml").write_text('[colors]\ntext = "#ffffff"\n')
    assert load_theme("dark").colors == {"text": "#ffffff"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('dark = true\n\n[colors]\naccnt = "#ffffff"\n', "line 4: unknown role `accnt`"),
        ('[colors]\ntext = "red"\n', "line 2: `text` isn't a color"),
        ('[colors]\ntext = "#ffffff"\ndim = 3\n', "line 3: `dim` isn't a color"),
        ('dark = "yes"\n', "line 1: `dark` must be true or false"),
        ('colors = "#ffffff"\n', "line 1: `colors` must be a table"),
        ('\nname = "x"\n', "line 2: unknown key `name`"),
        ("[colors\n", "line 1"),
        ("text = \x00\n", "line 1"),
    ],
)
def test_theme_error_names_line_and_key(tmp_path: Path, text: str, expected: str):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_theme(file, roles())
    assert str(file) in caught.value.message
    assert expected in caught.value.message


@pytest.mark.parametrize("name", ["nowhere", "../phosphor", ""])
def test_unknown_theme_falls_back_to_default(name: str):
    theme, problem = theme_or_default(name)
    assert (theme.name, "no theme" in problem) == ("dark", True)


async def test_invalid_theme_file_is_reported_and_default_theme_is_used(
    project: ScriptedProject, themes: Path
):
    (themes / "mine.toml").write_text('[colors]\ntxt = "#ffffff"\n')
    async with running_app(project, theme="mine") as at:
        await at.until(lambda: "unknown role `txt`" in " ".join(at.text.split()))
        assert at.app.theme_switcher.theme.name == "dark"


async def test_changed_theme_file_is_applied_without_scrolling(
    project: ScriptedProject, themes: Path
):
    file = themes / "mine.toml"
    file.write_text('[colors]\ntext = "#ffffff"\n')
    async with running_app(project, theme="mine") as at:
        at.app.notify_user("\n".join(f"line {number}" for number in range(80)))
        at.app.transcript.scroll_lines(-at.app.transcript.page_lines)
        await at.until(lambda: not at.app.transcript.scroll_anchor.is_on)
        before, top = at.screen, at.app.transcript.scroll_offset.y
        file.write_text('[colors]\ntext = "#ffff00"\n')
        await at.until(lambda: at.app.theme_switcher.styles.text.color.name == "#ffff00")
        await at.pilot.pause()
        assert (at.screen, at.app.transcript.scroll_offset.y) == (before, top)


async def test_theme_file_that_becomes_invalid_is_reported_and_colors_stay(
    project: ScriptedProject, themes: Path
):
    file = themes / "mine.toml"
    file.write_text('[colors]\ntext = "#ffffff"\n')
    async with running_app(project, theme="mine") as at:
        file.write_text('[colors]\ntext = "#ffff0"\n')
        await at.until(lambda: "`text` isn't a color" in at.text)
        assert at.app.theme_switcher.styles.text.color.name == "#ffffff"


async def test_theme_picker_previews_theme_and_esc_restores_old_one(project: ScriptedProject):
    async with running_app(project, theme="dark") as at:
        await at.send("/theme")
        await at.until(lambda: "▸ dark" in at.screen)
        await at.pilot.press("down")
        await at.until(lambda: at.app.theme_switcher.theme.name == "high-contrast")
        await at.pilot.press("escape")
        await at.until(lambda: at.app.composer.has_focus)
        assert at.app.theme_switcher.theme.name == "dark"
        await at.send("/theme")
        await at.until(lambda: "▸ dark" in at.screen)
        await at.pilot.press("down", "enter")
        await at.until(lambda: at.app.composer.has_focus)
        assert at.app.theme_switcher.theme.name == "high-contrast"


async def test_auto_theme_follows_the_background_of_the_terminal(project: ScriptedProject):
    async with running_app(project) as at:
        names = [at.app.theme_switcher.theme.name]
        for report in ("\x1b]11;rgb:ffff/ffff/f0f0\x1b\\", "\x1b[?997;1n", "\x1b[?997;2n"):
            for message in TerminalInput().feed(report):
                at.app.post_message(message)
            await at.pilot.pause()
            names.append(at.app.theme_switcher.theme.name)
        assert names == ["dark", "light", "dark", "light"]


async def test_chosen_theme_ignores_the_background_of_the_terminal(project: ScriptedProject):
    async with running_app(project, theme="dark") as at:
        at.app.post_message(TerminalBackground(is_dark=False))
        await at.pilot.pause()
        assert at.app.theme_switcher.theme.name == "dark"


@pytest.mark.parametrize(
    ("answer", "is_dark"),
    [
        ("\x1b]11;rgb:1e/1e/1e\x07", True),
        ("\x1b]11;rgb:fdf6/f6e3/e3e3\x1b\\", False),
        ("\x1b]11;rgba:0000/0000/0000/ffff\x1b\\", True),
    ],
)
def test_answer_about_the_background_tells_dark_from_light(answer: str, is_dark: bool):
    assert [*TerminalInput().feed(answer)] == [TerminalBackground(is_dark)]


async def test_theme_command_keeps_the_theme_for_later_starts(
    project: ScriptedProject, tmp_path: Path
):
    file = tmp_path / "config.toml"
    file.write_text("# mine\n[ui]\navatar = false\n")
    async with running_app(project, settings_file=file) as at:
        await at.send("/theme light")
        await at.until(lambda: "Theme: light. Stored as `theme`" in at.text)
        assert str(file) in "".join(at.text.split())
    assert file.read_text() == '# mine\n[ui]\navatar = false\ntheme = "light"\n'


async def test_theme_that_cannot_be_stored_is_used_until_the_end(
    project: ScriptedProject, tmp_path: Path
):
    file = tmp_path / "config.toml"
    file.write_text("[ui\n")
    async with running_app(project, settings_file=file) as at:
        await at.send("/theme light")
        await at.until(lambda: "dirge cannot store it" in at.text)
        assert at.app.theme_switcher.theme.name == "light"
    assert file.read_text() == "[ui\n"


async def test_broken_theme_is_not_stored(project: ScriptedProject, themes: Path, tmp_path: Path):
    (themes / "mine.toml").write_text('[colors]\ntxt = "#ffffff"\n')
    file = tmp_path / "config.toml"
    async with running_app(project, settings_file=file) as at:
        await at.send("/theme mine")
        await at.until(lambda: "unknown role `txt`" in " ".join(at.text.split()))
        await at.idle()
    assert not file.exists()
