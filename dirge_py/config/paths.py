"""The folders of settings and state."""

import os
from collections.abc import Mapping
from pathlib import Path

from dirge_py.lib.user_folders import config_folder, state_folder
from dirge_py.types.errors import ConfigError


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$DIRGE_CONFIG_DIR`, else `$XDG_CONFIG_HOME/dirge`, else `~/.config/dirge`.

    Raises ConfigError without a home folder, as `state_dir`.
    """
    return _existing(config_folder(environment))


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$DIRGE_STATE_DIR`, else `$XDG_STATE_HOME/dirge`, else `~/.local/state/dirge`."""
    return _existing(state_folder(environment))


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The usual settings file: `config.toml` in `config_dir`."""
    return config_dir(environment) / "config.toml"


def _existing(folder: str) -> Path:
    if not folder:
        hint = "Set HOME, or DIRGE_CONFIG_DIR and DIRGE_STATE_DIR."
        raise ConfigError("There is no home folder for settings.", hint=hint)
    return Path(folder)
