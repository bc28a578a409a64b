"""Files of dirge's that other users can write, and keys that they can read."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from dirge_py.config.keys import key_files, open_key_files
from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.lib.own_file import weakness_of
from dirge_py.sdk.doctor.findings import Finding, warn, well, wrong
from dirge_py.types.errors import DirgeError

_NAME = "file access"
_ACTING = ("config.toml", "*.md", "plugins/**/*.py", "prompts/*.md", "themes/*.toml", "keys/*")


def look_at_ownership(environment: Mapping[str, str], config: Config | None) -> Iterator[Finding]:
    """Find files that control dirge and that other users can write, each with its fix."""
    try:
        folder = config_dir(environment)
    except DirgeError:
        return  # another check reports it
    files = [path for pattern in _ACTING for path in sorted(folder.glob(pattern))]
    files += key_files(config) if config is not None else []
    found = [*_written(files), *(_read(config) if config is not None else ())]
    yield from found or [well(_NAME, f"only you can change the files in {folder}")]


def _written(files: list[Path]) -> Iterator[Finding]:
    fixes: set[str] = set()
    for path in dict.fromkeys(files):
        try:
            weakness = weakness_of(str(path)) if path.is_file() else None
        except OSError:
            continue
        # One file of a folder that others can write is enough: one command fixes them all.
        if weakness is not None and weakness.fix not in fixes:
            fixes.add(weakness.fix)
            yield wrong(_NAME, f"{path} {weakness.words}", weakness.fix)


def _read(config: Config) -> Iterator[Finding]:
    for path, weakness in open_key_files(config):
        yield warn(_NAME, f"{path} {weakness.words}", weakness.fix)
