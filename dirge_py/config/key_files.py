"""The key files that the settings name, and what to say where other users can read one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dirge_py.config.entries import all_entries
from dirge_py.config.schema import Config
from dirge_py.lib.home_path import from_home
from dirge_py.lib.own_file import Weakness, readable_by_others


def key_files(config: Config) -> Sequence[Path]:
    """Where the settings and flags say that keys lie, whether or not there is a file."""
    folder = Path(config.origin.path).parent if config.origin.path else Path()
    named = [entry.api_key_file for entry in all_entries(config).values() if entry.api_key_file]
    if config.origin.chosen.api_key_file:
        named.append(config.origin.chosen.api_key_file)
    return [folder / from_home(name) for name in named]


def open_key_files(config: Config) -> Iterator[tuple[Path, Weakness]]:
    """Each key file that other users can read."""
    for path in key_files(config):
        try:
            weakness = readable_by_others(str(path)) if path.is_file() else None
        except OSError:
            continue  # told where the key is used
        if weakness is not None:
            yield path, weakness


def key_file_notices(config: Config) -> Sequence[str]:
    """A line for each of them, with the command that helps."""
    return [
        f"The key file {path} {weakness.words}. Run `{weakness.fix}`."
        for path, weakness in open_key_files(config)
    ]
