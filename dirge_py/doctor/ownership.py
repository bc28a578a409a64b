"""Files of dirge's that other users can write, and keys that they can read."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.doctor.findings import Finding, warn, well, wrong
from dirge_py.errors import DirgeError
from dirge_py.lib.own_file import weakness_of
from dirge_py.wiring.key_files import key_files, open_key_files

_NAME = "file access"
_ACTING = ("config.toml", "*.md", "plugins/**/*.py", "prompts/*.md", "themes/*.toml", "keys/*")


def look_at_ownership(environment: Mapping[str, str], config: Config | None) -> Iterator[Finding]:
    """What decides about a start must be one's own; what is not is named with the fix."""
    try:
        folder = config_dir(environment)
    except DirgeError:
        return  # told by what needs the folder
    files = [path for pattern in _ACTING for path in sorted(folder.glob(pattern))]
    files += key_files(config) if config is not None else []
    found = [*_written(files), *(_read(config) if config is not None else ())]
    yield from found or [well(_NAME, f"nobody else can change what is in {folder}")]


def _written(files: list[Path]) -> Iterator[Finding]:
    fixes: set[str] = set()
    for path in dict.fromkeys(files):
        try:
            weakness = weakness_of(str(path)) if path.is_file() else None
        except OSError:
            continue
        # Of a folder that others can write one file is told: it is one thing to mend.
        if weakness is not None and weakness.fix not in fixes:
            fixes.add(weakness.fix)
            yield wrong(_NAME, f"{path} {weakness.words}", weakness.fix)


def _read(config: Config) -> Iterator[Finding]:
    for path, weakness in open_key_files(config):
        yield warn(_NAME, f"{path} {weakness.words}", weakness.fix)
