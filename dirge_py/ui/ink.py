"""Colours by role: the themes there are, and the styles the transcript draws with."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.color import Color
from rich.style import Style

from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme
from dirge_py.ui.theme_files import own_file, own_names, read_theme

DEFAULT_THEME = "phosphor"
_LIGHT_THEME = "light"
_FOLDER = Path(__file__).with_name("themes")


def theme_names() -> Sequence[str]:
    """The themes there are, in order: those that come with dirge, and the person's own."""
    return sorted({path.stem for path in _FOLDER.glob("*.toml")} | set(own_names()))


def load_theme(name: str) -> Theme:
    """A theme by name; a person's own goes before one of ours.

    Raises:
        KeyError: there is none of that name.
        ConfigError: its file is wrong.
    """
    own = own_file(name)
    return read_theme(own, roles()) if own is not None else _bundled(name)


def theme_or_default(name: str) -> tuple[Theme, str]:
    """The theme of this name, or else the default one and why."""
    try:
        return load_theme(name), ""
    except KeyError:
        known = ", ".join(theme_names())
        return _bundled(DEFAULT_THEME), f"[ui]: there is no theme {name!r}, only {known}."
    except ConfigError as error:
        why = f"{error.message} {error.hint}".strip()
        return _bundled(DEFAULT_THEME), f"{why} {DEFAULT_THEME} is shown in its place."


def roles() -> Sequence[str]:
    """What a theme has a colour for."""
    return tuple(_bundled(DEFAULT_THEME).colors)


@cache
def _bundled(name: str) -> Theme:
    file = _FOLDER / f"{name}.toml"
    if Path(name).name != name or not file.is_file():
        raise KeyError(name)
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return Theme(name=name, dark=bool(table["dark"]), colors=dict(table["colors"]))


def complete_colors(theme: Theme) -> Mapping[str, str]:
    """The theme's colours, the missing ones taken from ours for a ground of that kind."""
    ground = _bundled(DEFAULT_THEME if theme.dark else _LIGHT_THEME)
    return {**ground.colors, **theme.colors}


@dataclass(frozen=True, slots=True)
class Ink:
    """Every style the transcript uses. All carry the background, so a line needs no second pass."""

    name: str
    text: Style
    dim: Style
    accent: Style
    user: Style
    heading: Style
    strong: Style
    emphasis: Style
    strike: Style
    code: Style
    link: Style
    tool: Style
    thinking: Style
    good: Style
    warning: Style
    error: Style
    added: Style
    removed: Style
    selection: Style
    keyword: Style
    string: Style
    comment: Style
    number: Style
    function: Style


@cache
def _ink(name: str, ground: str, colors: tuple[tuple[str, str], ...]) -> Ink:
    table = dict(colors)

    def style(
        role: str,
        on: str = ground,
        *,
        bold: bool | None = None,
        italic: bool | None = None,
        underline: bool | None = None,
    ) -> Style:
        return Style(
            color=Color.parse(table[role]),
            bgcolor=Color.parse(table[on]),
            bold=bold,
            italic=italic,
            underline=underline,
        )

    return Ink(
        name=name,
        text=style("text"),
        dim=style("dim"),
        accent=style("accent"),
        user=style("user", bold=True),
        heading=style("heading", bold=True),
        strong=Style(bold=True),
        emphasis=Style(italic=True),
        strike=Style(strike=True),
        code=style("code"),
        link=style("link", underline=True),
        tool=style("tool", bold=True),
        thinking=style("thinking", italic=True),
        good=style("good"),
        warning=style("warning"),
        error=style("error"),
        added=style("added", "added_ground"),
        removed=style("removed", "removed_ground"),
        selection=Style(bgcolor=Color.parse(table["selection"])),
        keyword=style("keyword"),
        string=style("string"),
        comment=style("comment", italic=True),
        number=style("number"),
        function=style("function"),
    )


def ink_for(theme: Theme, ground: str = "background") -> Ink:
    """The styles of a theme on one of its grounds; the same object for the same two."""
    return _ink(theme.name, ground, tuple(sorted(complete_colors(theme).items())))
