"""Colours by role: themes read from `themes/*.toml`, and the styles the transcript draws with."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.color import Color
from rich.style import Style

from dirge_py.contributions import Theme

DEFAULT_THEME = "phosphor"
_FOLDER = Path(__file__).with_name("themes")


def theme_names() -> Sequence[str]:
    """The themes that come with dirge, in order."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@cache
def load_theme(name: str) -> Theme:
    """A bundled theme by name. Raises KeyError for a name that does not exist."""
    if name not in theme_names():
        raise KeyError(name)
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Theme(name=name, dark=bool(table["dark"]), colors=dict(table["colors"]))


def complete_colors(theme: Theme) -> Mapping[str, str]:
    """The theme's colours, the missing ones taken from the default theme."""
    return {**load_theme(DEFAULT_THEME).colors, **theme.colors}


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
