"""Themes as files: reading one, and saying where it is wrong."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dirge_py.config import paths
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError
from dirge_py.types.extensions import Theme

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_LARGEST = 64 * 1024


def own_folder() -> Path | None:
    """Where a person keeps themes of their own; None where there is no place for settings."""
    try:
        return paths.config_dir() / "themes"
    except ConfigError:
        return None


def own_file(name: str) -> Path | None:
    """The person's own theme of this name, if there is one."""
    folder = own_folder()
    if folder is None or not name or Path(name).name != name:
        return None
    file = folder / f"{name}.toml"
    return file if file.is_file() else None


def own_names() -> Sequence[str]:
    """The names of the person's own themes."""
    folder = own_folder()
    return [file.stem for file in folder.glob("*.toml")] if folder is not None else []


def read_theme(file: Path, roles: Sequence[str]) -> Theme:
    """The theme in a file; it may leave out roles.

    Raises:
        ConfigError: it cannot be read, or is not a theme: with the line and the key.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(_LARGEST).decode("utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file}: this theme cannot be read: {why}.") from error
    _check(file, text, table, roles)
    return Theme(name=file.stem, dark=table.get("dark", True), colors=dict(table.get("colors", {})))


def _check(file: Path, text: str, table: Mapping[str, Any], roles: Sequence[str]) -> None:
    for key, value in table.items():
        if key not in ("dark", "colors"):
            raise _wrong(file, text, key, f"no key `{key}` in a theme", "There are dark, [colors].")
        if key == "dark" and not isinstance(value, bool):
            raise _wrong(file, text, key, "`dark` is true or false", "")
        if key == "colors" and not isinstance(value, dict):
            raise _wrong(file, text, key, "`colors` is a table", "Write [colors] above the roles.")
    for role, color in table.get("colors", {}).items():
        if role not in roles:
            meant = nearest(role, roles)
            hint = f"Did you mean `{meant}`?" if meant else f"Roles: {', '.join(roles)}."
            raise _wrong(file, text, role, f"no role `{role}`", hint)
        if not isinstance(color, str) or not _COLOR.fullmatch(color):
            raise _wrong(file, text, role, f"`{role}` is no colour", "Write it as #rrggbb.")


def _wrong(file: Path, text: str, key: str, why: str, hint: str) -> ConfigError:
    begins = re.compile(rf"""\s*\[?\s*(?:colors\s*\.\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    lines = text.splitlines()
    at = next((number for number, line in enumerate(lines, 1) if begins.match(line)), 1)
    return ConfigError(f"{file}, line {at}: {why}.", hint=hint)
