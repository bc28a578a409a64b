"""Themes: reading and checking of theme files, and the styles of the screen."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.color import Color
from rich.style import Style

from dirge_py.config import paths
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme

AUTO_THEME = "auto"
"""The name that follows the terminal: the dark theme, or the light one on a light background."""
DEFAULT_THEME = "dark"
_LIGHT_THEME = "light"
_FOLDER = Path(__file__).parent


_extension_themes: dict[str, Theme] = {}


def use_extension_themes(themes: Iterable[Theme]) -> None:
    """Offer these themes of extensions instead of those offered before."""
    _extension_themes.clear()
    _extension_themes.update((theme.name, theme) for theme in themes)


def theme_names() -> Sequence[str]:
    """Return "auto" and the sorted names of all themes: dirge's, of extensions, and the user's."""
    bundled = {path.stem for path in _FOLDER.glob("*.toml")}
    return [AUTO_THEME, *sorted({*bundled, *_extension_themes, *user_themes()} - {AUTO_THEME})]


def load_theme(name: str) -> Theme:
    """Return the theme: the user's, an extension's or dirge's. Raises KeyError or ConfigError."""
    if own := user_themes().get(name):
        return read_theme(own, roles())
    return _extension_themes.get(name) or _bundled(name)


def theme_or_default(name: str, *, is_dark: bool = True) -> tuple[Theme, str]:
    """Return the theme of this name, or the default one and a sentence that says why.

    `is_dark` is the terminal's background, which "auto" follows.
    """
    if name == AUTO_THEME:
        name = DEFAULT_THEME if is_dark else _LIGHT_THEME
    try:
        return load_theme(name), ""
    except KeyError:
        why = f"[ui]: there is no theme {name!r}, so dirge uses `{DEFAULT_THEME}`. See /theme."
        return _bundled(DEFAULT_THEME), why
    except ConfigError as error:
        why = error.in_one_line()
        return _bundled(DEFAULT_THEME), f"{why} dirge uses `{DEFAULT_THEME}` instead."


def roles() -> Sequence[str]:
    """Return the names of a theme's colours."""
    return tuple(_bundled(DEFAULT_THEME).colors)


@cache
def _bundled(name: str) -> Theme:
    file = _FOLDER / f"{name}.toml"
    if Path(name).name != name or not file.is_file():
        raise KeyError(name)
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return Theme(name=name, dark=bool(table["dark"]), colors=dict(table["colors"]))


def complete_colors(theme: Theme) -> Mapping[str, str]:
    """Return the theme's colours; missing ones come from dirge's dark or light theme."""
    return {**_bundled(DEFAULT_THEME if theme.dark else _LIGHT_THEME).colors, **theme.colors}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownStyles:
    """Styles of Markdown."""

    emphasis: Style
    """Italic, put on top of the style around it."""
    strike: Style
    """Struck through, put on top of the style around it."""
    code: Style
    """Code within a line, and tokens without another style."""
    link: Style
    """The label of a link, and the address behind it."""
    title: Style
    """A heading of the first level."""
    line: Style
    """Lines that separate: of tables, between sections, around the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxStyles:
    """Styles of highlighted source code."""

    keyword: Style
    """Reserved words."""
    string: Style
    """Text between quotes."""
    comment: Style
    """Comments of every kind."""
    number: Style
    """Numbers of every base."""
    function: Style
    """Names of functions, classes, decorators and built-ins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffStyles:
    """Styles of changed lines, each with its own background."""

    added: Style
    """Lines that are new."""
    removed: Style
    """Lines that are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Styles:
    """All styles of the screen, with the background."""

    text: Style
    """Text of the model and of dirge."""
    dim: Style
    """Less important text: hints, borders, line numbers."""
    accent: Style
    """Emphasised text: the cursor, marks, the state of a run."""
    user: Style
    """Prompts of the person."""
    heading: Style
    """Titles, of panels too, and the first row of a table."""
    strong: Style
    """Bold, put on top of another style."""
    tool: Style
    """The name of a tool at the head of its call."""
    thinking: Style
    """Thinking of the model."""
    good: Style
    """Success."""
    warning: Style
    """Warnings."""
    error: Style
    """Errors, and dangerous things."""
    selection: Style
    """A background, put on top of the style of selected text."""
    markdown: MarkdownStyles
    """Markdown."""
    syntax: SyntaxStyles
    """Source code."""
    diff: DiffStyles
    """Changed lines."""


@cache
def _styles(ground: str, colors: tuple[tuple[str, str], ...]) -> Styles:
    table = dict(colors)

    def style(role: str, on: str = ground, **look: Any) -> Style:
        return Style(color=Color.parse(table[role]), bgcolor=Color.parse(table[on]), **look)

    return Styles(
        **{role: style(role) for role in ("text", "dim", "accent", "good", "warning", "error")},
        **{role: style(role, bold=True) for role in ("user", "heading", "tool")},
        strong=Style(bold=True),
        thinking=style("thinking", italic=True),
        selection=Style(bgcolor=Color.parse(table["selection"])),
        markdown=MarkdownStyles(
            emphasis=Style(italic=True),
            strike=Style(strike=True),
            code=style("code"),
            link=style("link", underline=True),
            title=style("heading", bold=True, underline=True),
            line=style("border"),
        ),
        syntax=SyntaxStyles(
            **{role: style(role) for role in ("keyword", "string", "number", "function")},
            comment=style("comment", italic=True),
        ),
        diff=DiffStyles(
            added=style("added", "added_ground"), removed=style("removed", "removed_ground")
        ),
    )


def styles_for(theme: Theme, ground: str = "background") -> Styles:
    """Return the styles of a theme on one of its backgrounds; equal calls share an object."""
    return _styles(ground, tuple(sorted(complete_colors(theme).items())))


_COLOR = late_pattern(r"#[0-9a-fA-F]{6}")
_LARGEST = 64 * 1024


def user_themes() -> Mapping[str, Path]:
    """Return the files of the person's own themes by name."""
    try:
        folder = paths.config_dir() / "themes"
    except ConfigError:
        return {}
    return {file.stem: file for file in folder.glob("*.toml")}


def read_theme(file: Path, roles: Sequence[str]) -> Theme:
    """Read a theme file, which may leave out roles. Raises ConfigError with line and key."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LARGEST).decode("utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file}: cannot read this theme: {why}.") from error
    _check_theme(file, text, table, roles)
    return Theme(name=file.stem, dark=table.get("dark", True), colors=dict(table.get("colors", {})))


def _check_theme(file: Path, text: str, table: Mapping[str, Any], roles: Sequence[str]) -> None:
    for key, value in table.items():
        why = hint = ""
        if key not in ("dark", "colors"):
            why, hint = f"unknown key `{key}`", "A theme has `dark` and `[colors]`."
        elif key == "dark" and not isinstance(value, bool):
            why = "`dark` must be true or false"
        elif key == "colors" and not isinstance(value, dict):
            why, hint = "`colors` must be a table", "Write [colors] above the roles."
        if why:
            raise _wrong_theme(file, text, key, why, hint)
    for role, color in table.get("colors", {}).items():
        if role not in roles:
            meant = nearest(role, roles)
            hint = f"Did you mean `{meant}`?" if meant else f"Roles: {', '.join(roles)}."
            raise _wrong_theme(file, text, role, f"unknown role `{role}`", hint)
        if not isinstance(color, str) or not _COLOR.fullmatch(color):
            raise _wrong_theme(file, text, role, f"`{role}` isn't a color", "Write it as #rrggbb.")


def _wrong_theme(file: Path, text: str, key: str, why: str, hint: str) -> ConfigError:
    begins = re.compile(rf"""\s*\[?\s*(?:colors\s*\.\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    lines = text.splitlines()
    at = next((number for number, line in enumerate(lines, 1) if begins.match(line)), 1)
    return ConfigError(f"{file}, line {at}: {why}.", hint=hint)
