"""Reads, merges and checks the settings: flags over environment over file over defaults."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.config.models import THINKING_LEVELS
from dirge_py.config.paths import config_file
from dirge_py.config.problems import config_error, dotted, key_lines, own_path
from dirge_py.config.schema import Config, config_from
from dirge_py.config.sources import Origin, Overrides
from dirge_py.config.table import InvalidSettings
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.own_file import UnsafeFile
from dirge_py.types.errors import ConfigError

_MAX_BYTES = 1024 * 1024


def load(
    overrides: Overrides | None = None,
    environment: Mapping[str, str] = os.environ,
    path: Path | None = None,
) -> Config:
    """All settings of this start. `path` is `--config`, which must exist; the usual file need not.

    The provider is chosen later (`models.main_model`), because many commands need none. Raises
    ConfigError: the file can't be read or parsed, or is invalid.
    """
    overrides = overrides or Overrides()
    file = path or config_file(environment)
    text = read_text(file, may_be_absent=path is None)
    settings = parse(text or "", file)
    set_keys = key_lines(text or "", with_tables=False)
    sources = {dotted(own_path(key)): f"{file}:{line}" for key, line in set_keys.items()}
    for key, (value, flag) in _flags(overrides).items():
        table, _, name = key.partition(".")
        values = settings.setdefault(table, {})
        if isinstance(values, dict):  # validation reports anything else
            values[name] = value
            sources[key] = flag
    try:
        config = config_from(settings)
    except InvalidSettings as error:
        lines = key_lines(text or "")
        raise config_error(error, file=str(file), lines=lines, sources=sources) from None
    origin = Origin(
        path=str(file) if text is not None else None,
        sources=sources,
        chosen=_chosen(overrides, environment),
        environment=environment,
    )
    return config.with_origin(origin)


def read_text(file: Path, *, may_be_absent: bool) -> str | None:
    """The text of the settings file; None if it `may_be_absent` and is. Raises ConfigError."""
    try:
        # A file named with `--config` may belong to another user.
        content = read_regular(file, _MAX_BYTES + 1, is_own=may_be_absent)
    except UnsafeFile as error:
        raise ConfigError(
            f"{file} {error.strerror}, so dirge doesn't use it.", hint=f"Run `{error.fix}`."
        ) from error
    except FileNotFoundError:
        if may_be_absent:
            return None
        hint = "`dirge config init` writes a first one."
        raise ConfigError(f"{file} does not exist.", hint=hint) from None
    except OSError as error:
        hint = "Make it a regular file that you may read."
        raise ConfigError(f"{file}: {error.strerror}.", hint=hint) from error
    if len(content) > _MAX_BYTES:
        hint = "This file is only for settings."
        raise ConfigError(f"{file} is larger than 1 MiB.", hint=hint)
    return decode(content, str(file))


def decode(content: bytes, file: str) -> str:
    """The text of a settings file. Raises ConfigError if it isn't UTF-8."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: not UTF-8.", hint="Save the file as UTF-8.") from None


def parse(text: str, file: Path) -> dict[str, Any]:
    """The tables of a TOML text. Raises ConfigError, with the line and column, if it is invalid."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")
        line, _, column = where.removeprefix("line ").rstrip(")").partition(", column ")
        place = f"{file}:{line}:{column}" if line.isdecimal() else f"{file}, at its end"
        raise ConfigError(
            f"{place}: {what or error}.", hint="The file must be valid TOML."
        ) from None
    except RecursionError:
        raise ConfigError(
            f"{file}: nested too deeply.", hint="The file must be valid TOML."
        ) from None


def _flags(flags: Overrides) -> dict[str, tuple[Any, str]]:
    """Each flag that sets a setting, as dotted key → (value, flag)."""
    named: dict[str, tuple[Any, str]] = {
        "permission.mode": (flags.permission_mode, "--permission-mode"),
        "loop.max_turns": (flags.max_turns, "--max-turns"),
        "sandbox.mode": (flags.sandbox, "--sandbox"),
        "limits.cost_usd": (flags.max_cost_usd, "--max-cost"),
        "limits.tokens": (flags.max_tokens, "--max-tokens"),
        "limits.time_s": (flags.timeout_s, "--timeout"),
        "tools.enabled": (None if flags.tools is None else list(flags.tools), "--tools"),
    }
    if flags.no_tools:
        named["tools.enabled"] = ([], "--no-tools")
    if flags.no_context_files:
        named["context.project_files"] = (False, "--no-context-files")
    if flags.no_session:
        named["session.save"] = (False, "--no-session")
    return {key: entry for key, entry in named.items() if entry[0] is not None}


def _chosen(flags: Overrides, environment: Mapping[str, str]) -> Overrides:
    if flags.thinking is not None and flags.thinking not in THINKING_LEVELS:
        hint = f"Use one of {', '.join(THINKING_LEVELS)}."
        raise ConfigError(f"--thinking: {flags.thinking!r} is not a level.", hint=hint)
    provider = flags.provider or environment.get("DIRGE_PROVIDER") or None
    model = flags.model or environment.get("DIRGE_MODEL") or None
    if flags.provider:
        # In `--provider router -m openai/x`, `openai/x` is an id of `router`, not another alias.
        # A model that the environment names for another provider is ignored.
        is_own = model is not None and model.startswith(f"{flags.provider}/")
        if flags.model and not is_own:
            model = f"{flags.provider}/{flags.model}"
        elif not is_own:
            model = None
    named = {"--model": flags.model, "DIRGE_MODEL": model, "--provider": flags.provider}
    source = next((name for name, value in named.items() if value), "")
    source = source or ("DIRGE_PROVIDER" if provider else "")
    return replace(flags, provider=provider, model=model, source=source)
