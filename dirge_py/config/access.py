"""How to reach a provider: its address, and its key from the settings, a variable or a file."""

import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from dirge_py.config.schema import Config, ProviderEntry, all_entries, entry_of
from dirge_py.config.services import (
    OFFLINE,
    SERVICE_OF,
    SERVICES,
    Service,
    check_base_url,
    is_local,
    service_of,
)
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.own_file import Weakness, readable_by_others, weakness_of
from dirge_py.lib.paths import from_home
from dirge_py.types.errors import ConfigError, NoProvider

_MAX_KEY_FILE_BYTES = 64 * 1024
_VARIABLE = late_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ApiKey(str):
    """A key; its `repr` doesn't show it, so no dump of settings does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Key('…')"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAccess:
    """How to reach a configured provider."""

    alias: str
    """The name that models are chosen by."""
    entry: ProviderEntry
    """The entry in the settings."""
    base_url: str = ""
    """Its address; empty for a provider that needs none."""
    api_key: str | None = field(default=None, repr=False)
    """The key to send; None if none is needed."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request."""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the wire format."""
    script: str | None = None
    """The absolute path of the script or recording of an offline provider."""


def provider_access(config: Config, alias: str, *, is_main: bool = False) -> ProviderAccess:
    """How to reach `alias`; flags apply if it `is_main`. Raises NoProvider: no key; ConfigError."""
    entry = entry_of(config, alias)
    url = _base_url(config, entry, is_main=is_main)
    chosen = config.origin.chosen
    key: str | None = None
    if is_main:
        file = chosen.api_key_file
        key = read_key(from_home(file)) if file else chosen.api_key
    key = key or _key(config, entry)
    if key is None and _needs_key(entry, url):
        place = key_place(config, alias)
        fix = f"`export {place}=…`" if place.isidentifier() else "Put it there"
        hint = f"{fix}, or run `dirge config init`."
        raise NoProvider(f"Provider `{alias}` has no API key in {place}.", hint=hint)
    role = {"system_role": entry.system_role} if entry.system_role else {}
    return ProviderAccess(
        alias=alias,
        entry=entry,
        base_url=url,
        api_key=key,
        headers={
            name: _filled_in(value, config.origin.environment, f"providers.{alias}.headers")
            for name, value in entry.headers.items()
        },
        dialect={**service_of(entry.type).dialect, **role},
        script=_beside_config(config, entry.script),
    )


def has_access(config: Config, alias: str) -> bool:
    """Whether `alias` has its key, without a request. Its use reports any other problem."""
    if alias not in config.providers and not _is_at_hand(config, SERVICE_OF[alias]):
        return False
    try:
        provider_access(config, alias)
    except ConfigError as error:
        return not isinstance(error, NoProvider)
    return True


def _is_at_hand(config: Config, service: Service) -> bool:
    """Whether a service without an entry may be used: chosen, running here, or with a key set."""
    named = bool(service.named_url(config.origin.environment)[0])
    if service.local:
        return named or service.type in (config.origin.found or {})
    is_elsewhere = named or bool(config.origin.chosen.base_url)
    return not (is_elsewhere and service.only_at_home)


def is_custom(config: Config, alias: str) -> bool:
    """Whether `alias` has another address than its type usually has, and so its own model ids."""
    entry = entry_of(config, alias)
    if entry.type not in SERVICE_OF or entry.base_url is not None:
        return True
    named, _ = service_of(entry.type).named_url(config.origin.environment)
    return bool(config.origin.chosen.base_url or named)


def takes_any_id(config: Config, alias: str) -> bool:
    """Whether `alias` may serve any model id, as routers and servers of the user do."""
    return is_custom(config, alias) or not service_of(entry_of(config, alias).type).families


def key_place(config: Config, alias: str) -> str:
    """Where the key of `alias` should be: a variable, a file, or the setting to add."""
    entry = entry_of(config, alias)
    if entry.api_key_env:
        return entry.api_key_env
    if entry.api_key and (variable := _VARIABLE.match(entry.api_key)):
        return variable[1]
    if entry.api_key_file:
        return entry.api_key_file
    key_env = service_of(entry.type).key_env if entry.base_url is None else ()
    is_set = (name for name in key_env if config.origin.environment.get(name))
    return next(is_set, key_env[0] if key_env else f"`api_key_env` in [providers.{alias}]")


def naming_variable(config: Config, service: Service) -> str:
    """The variable that makes a service usable: that of its key, or of its address."""
    environment = config.origin.environment
    key = next((name for name in service.key_env if environment.get(name)), None)
    return key or service.named_url(environment)[1]


def _base_url(config: Config, entry: ProviderEntry, *, is_main: bool) -> str:
    """The address from the flag, the settings, or the usual variable, checked; empty for none."""
    chosen = config.origin.chosen.base_url if is_main else None
    if chosen:
        check_base_url(chosen, entry.allow_insecure, source="--base-url")
        return chosen
    if entry.base_url is not None:
        return entry.base_url
    service = service_of(entry.type)
    named, variable = service.named_url(config.origin.environment)
    if not named:
        found = (config.origin.found or {}).get(entry.type)
        return found.base_url if found else service.base_url
    check_base_url(named, entry.allow_insecure, source=variable)
    return named


def _key(config: Config, entry: ProviderEntry) -> ApiKey | None:
    """The key from the place that the entry names, else from the usual variable."""
    if file := _beside_config(config, entry.api_key_file):
        return read_key(Path(file)) if os.path.exists(file) else None
    names: Sequence[str] = ()
    if entry.api_key_env:
        names = [entry.api_key_env]
    elif entry.api_key:
        names = _VARIABLE.findall(entry.api_key)
    elif entry.base_url is None or is_local(entry.base_url):
        # The usual key goes only to the service that it was made for, and to this machine.
        names = service_of(entry.type).key_env
    keys = (config.origin.environment.get(name, "").strip() for name in names)
    return next((ApiKey(key) for key in keys if key), None)


def _needs_key(entry: ProviderEntry, url: str) -> bool:
    """Whether the provider needs a key; local servers don't, unless the settings name one."""
    if entry.type in OFFLINE:
        return False
    if entry.api_key or entry.api_key_env or entry.api_key_file:
        return True
    # A local service needs none on another machine either; a type of a package says so itself.
    needs_one = entry.type in SERVICE_OF and not SERVICE_OF[entry.type].local
    return needs_one and not is_local(url)


def _filled_in(value: str, environment: Mapping[str, str], source: str) -> str:
    for name in _VARIABLE.findall(value):
        if name not in environment:
            raise ConfigError(f"{source}: {name} is not set.")
    return _VARIABLE.sub(lambda match: environment[match[1]], value)


def _beside_config(config: Config, path: str | None) -> str | None:
    """`path`, relative to the folder of the settings file."""
    if path is None:
        return None
    base = os.path.dirname(config.origin.path or "")
    return os.path.join(base, os.path.expanduser(path))


def owners_of(model: str) -> Sequence[Service]:
    """The services whose own model ids have the prefix of `model`; empty for an unknown id."""
    return [service for service in SERVICES if model.lower().startswith(service.families)]


def serving_alias(config: Config, model: str, default: str) -> str:
    """The provider for an unlisted `model`: `default`, or one of its family. Raises NoProvider."""
    owners = owners_of(model)
    if not owners or entry_of(config, default).type in [owner.type for owner in owners]:
        return default
    found = (config.origin.found or {}).get(default)
    lists_it = found is None or model in found.models or f"{model}:latest" in found.models
    if takes_any_id(config, default) and lists_it:
        return default
    for alias in all_entries(config):
        if _serves(config, alias, owners) and has_access(config, alias):
            return alias
    raise foreign(config, model) or NoProvider(f"No provider has the model `{model}`.")


def foreign(config: Config, model: str) -> NoProvider | None:
    """The error for a `model` of a service that can't be used; None for an unknown id."""
    owners = owners_of(model)
    if not owners:
        return None
    name = owners[0].label.partition(",")[0]
    place = key_place(config, owners[0].type)
    return NoProvider(
        f"`{model}` is a model of {name}, which has no API key: {place} is not set.",
        hint=f"Set {place}, or choose a provider that has it: `<provider>/{model}`.",
    )


def _serves(config: Config, alias: str, owners: Sequence[Service]) -> bool:
    """Whether `alias` is one of the services `owners`, or lists another of their models."""
    entry = entry_of(config, alias)
    if entry.base_url is None and entry.type in [owner.type for owner in owners]:
        return True
    families = tuple(family for owner in owners for family in owner.families)
    own = [entry.model or "", *entry.models]
    return any(each.lower().startswith(families) for each in own)


def read_key(path: Path) -> ApiKey:
    """The key in the file `path`, without blanks around it. Pipes (`<(pass show key)`) are fine.

    Raises ConfigError if there isn't one line of text, or other users can write the file: with a
    key of their own they could see everything you send.
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
            f"Cannot read the key file {path}: {error.strerror}.",
            hint="Use a file that contains only the key.",
        ) from error
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        # Don't quote the content: it may be half a key.
        hint = "Write the key into it, as one line."
        raise ConfigError(f"The key file {path} contains no key.", hint=hint)
    return ApiKey(text)


def write_key(path: Path, key: str) -> None:
    """Replace `path` atomically by `key`, readable by its owner alone. Raises ConfigError."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.write(key.strip().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise ConfigError(
            f"Cannot store the key in {path}: {error.strerror}.",
            hint="Set the provider's environment variable instead.",
        ) from error


def key_files(config: Config) -> Sequence[Path]:
    """The key files that settings and flags name, whether or not they exist."""
    folder = Path(config.origin.path).parent if config.origin.path else Path()
    named = [entry.api_key_file for entry in all_entries(config).values() if entry.api_key_file]
    if config.origin.chosen.api_key_file:
        named.append(config.origin.chosen.api_key_file)
    return [folder / from_home(name) for name in named]


def open_key_files(config: Config) -> Iterator[tuple[Path, Weakness]]:
    """The key files that other users can read."""
    for path in key_files(config):
        try:
            weakness = readable_by_others(str(path)) if path.is_file() else None
        except OSError:
            continue  # reported where the key is used
        if weakness is not None:
            yield path, weakness


def key_file_notices(config: Config) -> Sequence[str]:
    """A line for each key file that other users can read, with the command that fixes it."""
    return [
        f"The key file {path} {weakness.words}. Run `{weakness.fix}`."
        for path, weakness in open_key_files(config)
    ]
