import tomllib
from pathlib import Path

from dirge_py.config.load import load
from dirge_py.config.problems import ANY, known_keys
from dirge_py.config.schema import Config
from dirge_py.config.sources import Overrides
from dirge_py.config.table import Table, values_of

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def keys_in(value, known, path=()):
    """The settings in a parsed file, with names that users choose replaced by ANY."""
    if path in known:
        return {path}
    if isinstance(value, list):
        return set().union(*(keys_in(item, known, path) for item in value))
    open_table = any(key[: len(path)] == path and key[len(path)] == ANY for key in known)
    return set().union(
        *(keys_in(v, known, (*path, ANY if open_table else k)) for k, v in value.items())
    )


def test_example_file_contains_exactly_the_known_settings():
    known = set(known_keys())

    assert keys_in(tomllib.loads(EXAMPLE.read_text()), known) == known


def test_example_file_is_valid():
    config = load(Overrides(), {}, EXAMPLE)

    assert config.permission.rule[1].effect == "deny"


def test_values_marked_default_in_example_file_are_defaults():
    defaults, tables = values_of(Config()), tomllib.loads(EXAMPLE.read_text())
    table = None
    for line in EXAMPLE.read_text().splitlines():
        if line.startswith("["):
            table = line.split("]")[0].strip("[")
        settings = defaults.get(table)
        if "= " in line and "# (default)" in line and isinstance(settings, dict):
            key = line.split(" =")[0]
            assert tables[table][key] == settings[key], line


def tables():
    pending, found = [Table], []
    while pending:
        table = pending.pop()
        found.append(table)
        pending += table.__subclasses__()
    return found


def test_every_setting_has_a_description():
    undescribed = [
        f"{table.__name__}.{name}"
        for table in tables()
        for name, setting in table.settings_of_class.items()
        if not setting.metadata["description"] and setting.type not in tables()
    ]

    assert len(tables()) > 20
    assert undescribed == []


def test_names_of_times_prices_and_sizes_end_with_units():
    named = {key[-1]: key for key in known_keys() if key[0] in ("timeouts", "limits", "context")}
    counts = {"requests", "tool_calls", "keep_results", "keep_messages", "restore_files"}
    words = {"project_files", "compact", "strategies", "fold_at", "*"}

    unitless = {name for name in named if not name.endswith(("_s", "_usd", "_bytes", "tokens"))}
    assert unitless == counts | words
