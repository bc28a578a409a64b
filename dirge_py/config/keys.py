"""Where an API key comes from: the configuration, the environment, or a private file."""

import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dirge_py.config.schema import Config, all_entries
from dirge_py.lib.own_file import Weakness, readable_by_others, weakness_of
from dirge_py.lib.paths import from_home
from dirge_py.types.errors import ConfigError

_MAX_KEY_FILE_BYTES = 64 * 1024
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ApiKey(str):
    """A secret string whose `repr` does not show it, so that no dump of settings does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Key('…')"


def resolve_key(
    api_key_env: str | None,
    api_key: str | None,
    key_file: Path | None,
    environ: Mapping[str, str],
) -> ApiKey | None:
    """The first key there is: `api_key` (with `${VAR}` filled in), the variable, the file.

    A key whose variable is not set counts as absent, as does a file that is not there.

    Raises:
        ConfigError: the file is there but cannot be read, or holds no usable key.
    """
    from_settings = _expanded(api_key or "", environ).strip()
    if from_settings:
        return ApiKey(from_settings)
    from_environment = environ.get(api_key_env or "", "").strip()
    if from_environment:
        return ApiKey(from_environment)
    if key_file is not None and key_file.exists():
        return read_key(key_file)
    return None


def read_key(path: Path) -> ApiKey:
    """The key in `path`, blanks around it removed. Pipes such as `<(pass show key)` are fine.

    Raises:
        ConfigError: there is none, it is not one line of text, or another user could have put it
            there: what is asked with that key would be theirs to read.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            weakness = weakness_of(str(path), status) if stat.S_ISREG(status.st_mode) else None
            if weakness is not None:
                raise ConfigError(
                    f"The key file {path} {weakness.words}, so dirge doesn't use it.",
                    hint=f"Run `{weakness.fix}`.",
                )
            text = file.read(_MAX_KEY_FILE_BYTES).decode("utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"The key file {path} cannot be read: {error.strerror}.",
            hint="Name a file that holds the key and nothing else.",
        ) from error
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        # What it holds instead is not quoted: it may be half a key.
        raise ConfigError(
            f"The key file {path} holds no key.", hint="Write the key into it, as one line."
        )
    return ApiKey(text)


def write_key(path: Path, key: str) -> None:
    """Store `key` in `path`, readable by its owner alone; an older one is replaced in one step.

    Raises:
        ConfigError: it could not be stored; what was there before is unchanged.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(part, key.strip().encode() + b"\n")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise ConfigError(
            f"The key could not be stored in {path}: {error.strerror}.",
            hint="Set the provider's environment variable instead.",
        ) from error


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """`text` with its `${VAR}` filled in; empty if one of them is not set."""
    names = _VARIABLE.findall(text)
    if not all(environ.get(name) for name in names):
        return ""
    return _VARIABLE.sub(lambda match: environ[match[1]], text)


def _write_private(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
