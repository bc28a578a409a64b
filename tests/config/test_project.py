"""`.dirge/config.toml`: the settings that a project may set; others are named and rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.config.project import ProjectConfig, read_project_config
from dirge_py.config.schema import Config
from dirge_py.types.errors import ConfigError

GOOD = b"""\
[[permission.rule]]
op = "edit"
match = "generated/**"
effect = "deny"

[ui]
theme = "light"

[plugins.house_rules]
enabled = true
depth = 3

[[reminder]]
every_turns = 5
text = "Run the linter."
"""


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        read_project_config(text.encode(), "p/config.toml")
    return raised.value


def test_project_may_set_restrictive_rules_plugins_theme_and_reminders() -> None:
    config = read_project_config(GOOD, "config.toml")
    [rule] = config.permission.rule
    [reminder] = config.reminder
    assert (rule.op, rule.match, rule.effect) == ("edit", "generated/**", "deny")
    assert (config.ui.theme, config.plugins["house_rules"].settings) == ("light", {"depth": 3})
    assert (reminder.every_turns, reminder.text) == (5, "Run the linter.")


RESTRICTED = Config.settings_of_class.keys() - ProjectConfig.settings_of_class.keys()


@pytest.mark.parametrize("table", sorted(RESTRICTED))
def test_project_may_not_set_restricted_tables(table: str) -> None:
    error = refusal(f"# first\n[{table}]\nx = 1\n")
    assert error.message == f"p/config.toml:2: a project may not set `{table}`."
    assert "[[permission.rule]]" in error.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[permission]\nmode = "yolo"', "p/config.toml:2: a project may not set `permission.mode`"),
        ("[ui]\nshow_thinking = true", "p/config.toml:2: a project may not set `ui.show_thinking`"),
        (
            'permission = {mode = "yolo"}',
            "p/config.toml:1: a project may not set `permission.mode`",
        ),
        ("effect = 1", "p/config.toml:1: no setting `effect`."),
        ("[permision]", "p/config.toml:1: no setting `permision`."),
        ('[ui]\nthem = "x"', "p/config.toml:2: no setting `ui.them`. Did you mean `ui.theme`?"),
    ],
)
def test_forbidden_project_setting_error_names_line(text: str, words: str) -> None:
    assert refusal(text).message.startswith(words)


def test_c37_allow_rule_in_project_file_is_rejected_with_line() -> None:
    text = '[[permission.rule]]\nop = "execute"\nmatch = "*"\neffect = "allow"\n'
    assert refusal(text).message == (
        "p/config.toml:4: `permission.rule[0].effect` is allow: a project may only ask or deny."
    )


@pytest.mark.parametrize(
    "text",
    ["x = 3 3", "[[reminder]]\ntext = 'x'", "permission = 3", "[permission]\nrule = 3", "ui = []"],
)
def test_invalid_project_file_error_names_line(text: str) -> None:
    assert refusal(text).message.startswith("p/config.toml:")


def test_project_file_that_is_not_utf8_error_names_line() -> None:
    with pytest.raises(ConfigError, match=r"^c:2: not UTF-8"):
        read_project_config(b"# x\n\xff", "c")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_project_file_is_read_or_rejected(content: bytes) -> None:
    try:
        config = read_project_config(content, "c")
    except ConfigError:
        return
    assert all(rule.effect != "allow" for rule in config.permission.rule)
