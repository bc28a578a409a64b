"""Changes the settings file and keeps its comments. Import it lazily: tomlkit is slow."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from dirge_py.config.access import write_key
from dirge_py.config.load import parse, read_text
from dirge_py.config.paths import config_file
from dirge_py.config.problems import config_error, key_lines
from dirge_py.config.schema import config_from
from dirge_py.config.sources import ProviderDraft
from dirge_py.config.table import InvalidSettings
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.file_lock import hold_lock
from dirge_py.types.errors import ConfigError, FileError

_LOCK_S = 60.0
_ACCESS_KEYS = ("api_key", "api_key_env", "api_key_file", "base_url", "allow_insecure", "headers")


def is_writable(file: Path | None = None) -> bool:
    """Whether the settings file could be written now, as far as its folder tells."""
    folder = (file or config_file()).absolute().parent
    existing = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def save_provider(draft: ProviderDraft, file: Path | None = None) -> Path:
    """Write a provider into the settings file and make it the default; returns the file.

    Its key goes to `keys/<alias>` beside the file, readable by the owner alone, and the entry names
    that file. Everything else in the file stays, comments too. Raises FileError, and ConfigError,
    with the file unchanged, if it is or would be invalid.
    """
    file, alias, key = file or config_file(), draft.alias, draft.key
    if not alias.replace("-", "").replace("_", "").isalnum() or not alias.isascii():
        hint = "Use letters, digits, `-` and `_`."
        raise ConfigError(f"{alias!r} isn't a valid name for a provider.", hint=hint)
    entry = {
        "type": draft.type,
        "base_url": draft.base_url,
        "allow_insecure": draft.allow_insecure,
        "model": draft.model,
        **({"api_key_file": f"keys/{alias}"} if key else {"api_key_env": draft.key_env}),
    }

    def change(document: tomlkit.TOMLDocument) -> None:
        if key:
            write_key(file.parent / "keys" / alias, key)
        document["provider"] = alias
        providers = document.setdefault("providers", tomlkit.table(is_super_table=True))
        is_new = alias not in providers
        table = providers.setdefault(alias, tomlkit.table())
        # The old address must not get the new key, nor the new address the old key.
        for stale in _ACCESS_KEYS:
            table.pop(stale, None)
        table.update({name: value for name, value in entry.items() if value})
        if is_new and not isinstance(table, tomlkit.items.InlineTable):
            table.add(tomlkit.nl())

    edit_config(file, change)
    return file


def has_provider(alias: str, *, file: Path | None = None) -> bool:
    """Whether the settings file has a provider of that name. Raises ConfigError: it is no TOML."""
    file = file or config_file()
    return alias in parse(read_text(file, may_be_absent=True) or "", file).get("providers", {})


def save_rules(rules: Sequence[str], *, file: Path) -> Path:
    """Append allow rules (`op:pattern`) that aren't behind the last ask rule; returns the file."""

    def change(document: tomlkit.TOMLDocument) -> None:
        table = document.setdefault("permission", tomlkit.table(is_super_table=True))
        old = [dict(entry) for entry in table.get("rule", ())]
        last_ask = max((at for at, rule in enumerate(old) if rule["effect"] == "ask"), default=-1)
        parts = (rule.partition(":") for rule in rules)
        wanted = [{"op": op, "match": match, "effect": "allow"} for op, _, match in parts]
        new = [entry for entry in wanted if entry not in old[last_ask + 1 :]]
        # Keep the style of a file that writes its rules as a list of inline tables.
        entries = table["rule"] if "rule" in table else tomlkit.aot()
        is_list = not isinstance(entries, tomlkit.items.AoT)
        for entry in new:
            item = tomlkit.inline_table() if is_list else tomlkit.table()
            item.update(entry)
            entries.append(item)
        if new and "rule" not in table:
            table["rule"] = entries

    edit_config(file, change)
    return file


def save_theme(name: str, *, file: Path) -> None:
    """Write the name of a theme into the settings file, under `[ui]`."""

    def change(document: tomlkit.TOMLDocument) -> None:
        document.setdefault("ui", tomlkit.table())["theme"] = name

    edit_config(file, change)


def edit_config(file: Path, change: Callable[[tomlkit.TOMLDocument], Any]) -> None:
    """Apply `change` to the file under its lock; keep the old version as `config.toml.bak`.

    Raises FileError, ConfigError.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _edit_locked(file, change)
    except OSError as error:
        raise FileError(
            f"{file} cannot be written: {error.strerror or error}.",
            hint=f"Make {file.parent} writable, or set DIRGE_CONFIG_DIR to another folder.",
        ) from error


def _edit_locked(file: Path, change: Callable[[tomlkit.TOMLDocument], Any]) -> None:
    with hold_lock(file.with_name(f".{file.name}.lock"), _LOCK_S):
        old = read_text(file, may_be_absent=True)
        parse(old or "", file)  # its errors have better messages than tomlkit's
        document = tomlkit.parse(old or "")
        change(document)
        new = f"{tomlkit.dumps(document).rstrip()}\n"
        try:
            config_from(parse(new, file))
        except InvalidSettings as error:
            raise config_error(error, file=str(file), lines=key_lines(new), sources={}) from None
        if old is not None:
            atomic_write(file.with_name(f"{file.name}.bak"), old.encode(), mode=0o600)
        atomic_write(file, new.encode(), mode=0o600)
