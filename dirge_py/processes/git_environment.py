"""What every git is started with: nothing that ordinary use would miss.

The settings go through the environment, which beats the files of the repository: none of them can
have a program started by a mere `git status`.
"""

from collections.abc import Mapping
from typing import TypeAlias

Settings: TypeAlias = tuple[tuple[str, str], ...]

SETTINGS: Settings = (
    ("core.fsmonitor", "false"),
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
)

VARIABLES: Mapping[str, str] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
}

HARMLESS = frozenset(
    {f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE")}
    | {
        "GIT_CEILING_DIRECTORIES",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_HTTP_LOW_SPEED_LIMIT",
        "GIT_HTTP_LOW_SPEED_TIME",
        "GIT_LFS_SKIP_SMUDGE",
        "GIT_MERGE_AUTOEDIT",
        "GIT_REFLOG_ACTION",
        "GIT_SSL_CAINFO",
    }
)
"""Variables of git that a person may pass on: they name no program and no other repository."""

_COUNT = "GIT_CONFIG_COUNT"


def hardened(extra: Mapping[str, str]) -> dict[str, str]:
    """`extra` on top of what every git gets. Settings of both hold; those of `extra` win."""
    pairs = (*SETTINGS, *_settings_of(extra))
    others = {name: value for name, value in extra.items() if not _is_setting(name)}
    return {**VARIABLES, **others, **_as_variables(pairs)}


def _is_setting(name: str) -> bool:
    return name == _COUNT or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))


def _settings_of(variables: Mapping[str, str]) -> Settings:
    count = variables.get(_COUNT, "")
    numbers = range(int(count)) if count.isdecimal() else ()
    return tuple(
        (variables[f"GIT_CONFIG_KEY_{number}"], variables[f"GIT_CONFIG_VALUE_{number}"])
        for number in numbers
    )


def _as_variables(pairs: Settings) -> dict[str, str]:
    """Numbered as git wants them. Of two values for one key it takes the later one."""
    numbered = {_COUNT: str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    return numbered
