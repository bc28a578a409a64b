"""The settings that a trusted project may have, as a closed schema. They can only restrict.

Its rules ask or deny. It can't send keys elsewhere, loosen a rule or change which programs run.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, Literal

from dirge_py.config.load import decode, parse
from dirge_py.config.problems import config_error, dotted, key_lines, line_of
from dirge_py.config.schema import Config, PermissionRule, PluginEntry, ReminderTable
from dirge_py.config.table import (
    InvalidSettings,
    Path,
    Problem,
    Table,
    read_table,
    required,
    setting,
)
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError

_RULES = ("permission", "rule")
ALLOWED = (
    "A project may set [[permission.rule]] that ask or deny, [plugins.<name>], `theme` in [ui] and "
    "[[reminder]]."
)


class ProjectRule(PermissionRule):
    """A rule of a project, which asks or denies."""

    effect: Literal["ask", "deny"] = required(description="What happens then.")


class ProjectPermission(Table):
    """The permission rules of a project."""

    rule: list[ProjectRule] = setting(list, "Rules, in order.")


class ProjectUi(Table):
    """The UI settings of a project."""

    theme: str | None = setting(None, "The name of a theme.")


class ProjectConfig(Table):
    """The settings in `.dirge/config.toml`."""

    permission: ProjectPermission = setting(ProjectPermission)
    plugins: dict[str, PluginEntry] = setting(dict, "Plugins in the project's folder.")
    ui: ProjectUi = setting(ProjectUi)
    reminder: list[ReminderTable] = setting(list, "Repeated texts.")


@lru_cache(maxsize=8)
def read_project_config(content: bytes, file: str) -> ProjectConfig:
    """The settings in `content`. Raises ConfigError: they are invalid, or not for projects."""
    text = decode(content, file)
    settings = parse(text, FilePath(file))
    lines = key_lines(text)
    try:
        return read_table(ProjectConfig, settings)
    except InvalidSettings as error:
        paths = [each.path for each in error.problems if _is_forbidden(each, settings)]
        if not paths:
            raise config_error(error, file=file, lines=lines, sources={}) from None
        paths.sort(key=lambda path: line_of(path, lines) or 0)
        refusals = "\n".join(_refusal(path, file, lines) for path in paths)
        raise ConfigError(refusals, hint=ALLOWED) from None


def _is_forbidden(problem: Problem, settings: Mapping[str, Any]) -> bool:
    """Whether a project may not set this, or not to this value; any other error is a mistake."""
    path = problem.path
    if path[:2] == _RULES and path[-1] == "effect" and problem.kind == "invalid":
        return bool(settings["permission"]["rule"][path[2]]["effect"] == "allow")
    return problem.kind == "unknown" and len(path) <= 2


def _refusal(path: Path, file: str, lines: Mapping[Path, int]) -> str:
    # `[providers.x]` has no line for `providers` itself.
    below = (line for key, line in lines.items() if key[: len(path)] == path)
    line = min(below, default=None) or line_of(path, lines)
    place = f"{file}:{line}" if line else file
    if path[:2] == _RULES:
        return f"{place}: `{dotted(path)}` is allow: a project may only ask or deny."
    settings = Config.settings_of_class
    if len(path) == 2:
        table: Any = settings[str(path[0])].type
        settings = table.settings_of_class
    if path[-1] in settings:
        return f"{place}: a project may not set `{dotted(path)}`."
    meant = nearest(dotted(path), ["permission.rule", "plugins", "ui.theme", "reminder"])
    return f"{place}: no setting `{dotted(path)}`." + (f" Did you mean `{meant}`?" if meant else "")
