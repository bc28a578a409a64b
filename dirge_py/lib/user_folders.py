"""The names of the user's folders of settings and state, found without importing anything else."""

import os

TYPE_CHECKING = False  # Importing `typing` would take longer than the rest.
if TYPE_CHECKING:
    from collections.abc import Mapping


def state_folder(environment: "Mapping[str, str]") -> str:
    """`$DIRGE_STATE_DIR`, else `$XDG_STATE_HOME/dirge`, else `~/.local/state/dirge`.

    "" without a home folder.
    """
    return _folder(environment, "DIRGE_STATE_DIR", "XDG_STATE_HOME", ".local/state")


def config_folder(environment: "Mapping[str, str]") -> str:
    """`$DIRGE_CONFIG_DIR`, else `$XDG_CONFIG_HOME/dirge`, else `~/.config/dirge`.

    "" without a home folder.
    """
    return _folder(environment, "DIRGE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")


def _folder(environment: "Mapping[str, str]", own: str, xdg: str, default: str) -> str:
    named = os.path.expanduser(environment.get(own, ""))
    if named:
        return named if os.path.isabs(named) else os.path.join(os.getcwd(), named)
    # The XDG specification says to ignore a relative path.
    base = environment.get(xdg, "")
    if os.path.isabs(base):
        return os.path.join(base, "dirge")
    home = environment.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, default, "dirge") if os.path.isabs(home) else ""
