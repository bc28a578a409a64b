"""dirge's own place: its settings, its key, its folders, the project."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dirge_py.config.access import key_place, provider_access
from dirge_py.config.load import load
from dirge_py.config.models import main_model
from dirge_py.config.paths import config_file, state_dir
from dirge_py.config.schema import Config
from dirge_py.permission.project_trust import inspect_project
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.doctor.findings import Finding, skipped, warn, well, wrong
from dirge_py.types.errors import ConfigError, DirgeError

_LITTLE_BYTES = 200 * 1024 * 1024
_TOO_LITTLE_BYTES = 10 * 1024 * 1024


def look_at_settings(
    environment: Mapping[str, str], *, is_offline: bool
) -> tuple[list[Finding], Config | None]:
    """The settings, and the provider they choose; its key is looked for, never shown.

    A start without settings would ask the servers of this machine; so does this, but `is_offline`.
    """
    try:
        config = load(environment=environment)
        config = config if is_offline else with_local_servers(config)
    except ConfigError as error:
        return [wrong("settings", error.message, error.hint or "dirge config check")], None
    file = config.origin.path or f"{config_file(environment)} (none: defaults)"
    return [well("settings", str(file)), _provider(config)], config


def _provider(config: Config) -> Finding:
    try:
        choice = main_model(config)
        access = provider_access(config, choice.alias, is_main=True)
    except ConfigError as error:
        return wrong("provider", error.message, error.hint or "dirge config check")
    key = f"key from {key_place(config, choice.alias)}" if access.api_key else "no key needed"
    return well("provider", f"{choice.name}, {key}")


def look_at_folders(cwd: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Where sessions are kept, and what the project brings along."""
    try:
        yield _state(state_dir(environment))
        yield _trust(cwd, environment)
    except DirgeError as error:
        yield wrong("folders", error.message, error.hint)


def _state(folder: Path) -> Finding:
    there = folder
    # `Path.exists` raises where a folder above may not be entered.
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {there}; or set DIRGE_STATE_DIR to another folder"
        return wrong("state folder", f"{folder}: nothing can be written there", fix)
    # As many bytes as an ordinary user may still use.
    state = os.statvfs(there)
    free = state.f_bavail * state.f_frsize
    words = f"{folder}, {free / 1024**3:,.1f} GiB free"
    if free < _TOO_LITTLE_BYTES:
        return wrong("state folder", words, "make room; dirge sessions list shows old sessions")
    if free < _LITTLE_BYTES:
        return warn("state folder", words, "make room; dirge sessions list shows old sessions")
    return well("state folder", words)


def _trust(cwd: Path, environment: Mapping[str, str]) -> Finding:
    project = inspect_project(cwd, environment)
    if project.obstacle:
        return warn("trust", f"{project.root}: {project.obstacle}", "dirge trust --show")
    match project.state:
        case "restricted":
            words = f"{project.root} brings settings or plugins that are not loaded"
            return warn("trust", words, "dirge trust")
        case "trusted":
            return well("trust", f"{project.root} is trusted")
        case _:
            return skipped("trust", f"{project.root} brings nothing along")
