"""`dirge config init|check|path|show`: each returns what to print and the exit code."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dirge_py.config.access import has_access, key_place, provider_access
from dirge_py.config.load import load
from dirge_py.config.models import main_model, resolve_model
from dirge_py.config.paths import config_file
from dirge_py.config.problems import dotted
from dirge_py.config.project import ProjectConfig
from dirge_py.config.schema import Config, all_entries
from dirge_py.config.sources import Overrides
from dirge_py.config.table import Path as KeyPath
from dirge_py.config.table import values_of
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ConfigError, NoProvider

_STARTER = Path(__file__).parent / "starter.toml"


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """The result of a command."""

    text: str
    """What it prints."""
    exit_code: int = 0
    """The exit code of the program."""


def config_path(
    environment: Mapping[str, str] = os.environ, path: Path | None = None
) -> ConfigReport:
    """The path of the settings file, whether or not it exists."""
    return ConfigReport(str(path or config_file(environment)))


def config_init(
    environment: Mapping[str, str] = os.environ, path: Path | None = None
) -> ConfigReport:
    """Write a commented first settings file. Raises ConfigError: it exists; FileError."""
    file = path or config_file(environment)
    if os.path.lexists(file):
        hint = "Edit it; in a terminal, `dirge config init` adds to it."
        raise ConfigError(f"{file} exists.", hint=hint)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_write(file, _STARTER.read_bytes(), mode=0o600)
    return ConfigReport(f"Wrote {file}.")


def config_check(
    environment: Mapping[str, str] = os.environ,
    path: Path | None = None,
    *,
    around: Callable[[Config], Config] = lambda config: config,
) -> ConfigReport:
    """Report on the file, each provider's address and key, and each role's model.

    Makes no requests, but `around` may add the model servers of this machine, as a start does. The
    exit code is 0 if a run could start. Raises ConfigError if the file is invalid.
    """
    config = around(load(environment=environment, path=path))
    lines = [config.origin.path or f"{config_file(environment)} (none: the defaults apply)"]
    lines += _provider_lines(config)
    problems = list(_model_problems(config))
    try:
        choice = main_model(config)
        lines.append(f"model {choice.name}{f' ({choice.because})' if choice.because else ''}")
        provider_access(config, choice.alias, is_main=True)
    except ConfigError as error:
        problems.insert(0, error)
    lines += [f"problem: {error} {error.hint}".rstrip() for error in problems]
    return ConfigReport("\n".join(lines), exit_code=2 if problems else 0)


def config_show(
    overrides: Overrides | None = None,
    environment: Mapping[str, str] = os.environ,
    path: Path | None = None,
    *,
    around: Callable[[Config], Config] = lambda config: config,
    project: tuple[ProjectConfig, str] | None = None,
) -> ConfigReport:
    """Every setting in force as `key = value  # source`. Keys are named, never shown.

    `project` has the settings of a trusted project and their file.
    """
    config = around(load(overrides, environment, path))
    lines = [line for line, _ in _setting_lines(config)]
    if project is not None:
        settings, file = project
        if settings.ui.theme:
            lines = [line for line in lines if not line.startswith("ui.theme = ")]
        leaves = _leaves(values_of(settings, only_given=True), ())
        lines += [f"{dotted(key)} = {_shown(key, value)}  # {file}" for key, value in leaves]
    chosen = config.origin.chosen
    try:
        choice = main_model(config)
    except ConfigError:
        lines.append("# no model: see `dirge config check`")
    else:
        why = chosen.source or choice.because or "settings"
        lines.append(f"# model: {choice.name}, thinking {choice.level} ({why})")
    return ConfigReport("\n".join(lines))


def changed_settings(config: Config) -> list[str]:
    """The settings that differ from the defaults, as `key = value  # source`, without API keys."""
    return [line for line, source in _setting_lines(config) if source != "default"]


def _setting_lines(config: Config) -> Iterator[tuple[str, str]]:
    """Each setting as a line, and its source."""
    for key, value in _leaves(values_of(config), ()):
        # The source of an inline table or list is that of everything in it.
        around = (key[:end] for end in range(len(key), 0, -1))
        sources = (config.origin.sources.get(dotted(path)) for path in around)
        source = next(filter(None, sources), "default")
        yield f"{dotted(key)} = {_shown(key, value)}  # {source}", source


def _provider_lines(config: Config) -> Iterator[str]:
    """A line for each provider that is configured or usable, and one for all others."""
    others = []
    for alias, entry in all_entries(config).items():
        if alias not in config.providers and not has_access(config, alias):
            others.append(alias)
            continue
        kind = "" if alias in config.providers else " (built in)"
        start = f"provider {alias}{kind}: {entry.type}"
        try:
            access = provider_access(config, alias)
        except NoProvider:
            yield f"{start}, no key: set {key_place(config, alias)}"
        except ConfigError as error:
            yield f"{start}, {error}"
        else:
            key = f"key from {key_place(config, alias)}" if access.api_key else "no key needed"
            yield f"{start}, {access.base_url or 'no address'}, {key}"
    if others:
        yield f"built in, not set up: {', '.join(others)}"


def _model_problems(config: Config) -> Iterator[ConfigError]:
    """The problems of configured providers and roles, without missing keys."""
    for alias in config.providers:
        try:
            provider_access(config, alias)
        except NoProvider:
            continue
        except ConfigError as error:
            yield error
    for role, spec in config.roles.named():
        try:
            provider_access(config, resolve_model(config, spec).alias)
        except ConfigError as error:
            yield ConfigError(f"[roles] {role} = {spec!r}: {error}", hint=error.hint)


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def _shown(key: KeyPath, value: Any) -> str:
    """The value much as TOML writes it; headers are masked, because they may hold a key."""
    if "headers" in key:
        return '"…"'
    if isinstance(value, list):
        return f"[{', '.join(_shown(key, item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
