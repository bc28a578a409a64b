from pathlib import Path

from dirge_py.config.paths import config_dir, state_dir


def test_dirge_variables_override_xdg_which_overrides_home():
    home = {"HOME": "/home/u"}
    xdg = {**home, "XDG_CONFIG_HOME": "/x", "XDG_STATE_HOME": "/y"}
    own = {**xdg, "DIRGE_CONFIG_DIR": "/c", "DIRGE_STATE_DIR": "/s"}

    assert (config_dir(home), state_dir(home)) == (
        Path("/home/u/.config/dirge"),
        Path("/home/u/.local/state/dirge"),
    )
    assert (config_dir(xdg), state_dir(xdg)) == (Path("/x/dirge"), Path("/y/dirge"))
    assert (config_dir(own), state_dir(own)) == (Path("/c"), Path("/s"))


def test_relative_xdg_folder_is_ignored():
    environment = {"HOME": "/home/u", "XDG_CONFIG_HOME": "relative"}

    assert config_dir(environment) == Path("/home/u/.config/dirge")
