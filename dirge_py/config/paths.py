"""The folders of settings and state."""

import os
from collections.abc import Mapping
from pathlib import Path

from dirge_py.lib.paths import from_home
from dirge_py.types.errors import ConfigError


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$DIRGE_CONFIG_DIR`, else `$XDG_CONFIG_HOME/dirge`, else `~/.config/dirge`."""
    return _folder(environment, "DIRGE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$DIRGE_STATE_DIR`, else `$XDG_STATE_HOME/dirge`, else `~/.local/state/dirge`."""
    return _folder(environment, "DIRGE_STATE_DIR", "XDG_STATE_HOME", ".local/state")


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The usual settings file: `config.toml` in `config_dir`."""
    return config_dir(environment) / "config.toml"


def _folder(environment: Mapping[str, str], own: str, xdg: str, default: str) -> Path:
    named = environment.get(own)
    if named:
        return from_home(named).absolute()
    # The XDG specification says to ignore a relative path.
    base = environment.get(xdg, "")
    if os.path.isabs(base):
        return Path(base) / "dirge"
    home = environment.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        hint = "Set HOME, or DIRGE_CONFIG_DIR and DIRGE_STATE_DIR."
        raise ConfigError("There is no home folder for settings.", hint=hint)
    return Path(home, default, "dirge")
