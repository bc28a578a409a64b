import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.config.table import values_of
from dirge_py.types.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


@pytest.fixture
def loaded(tmp_path):
    def load_text(text, overrides=None, environment=None):
        file = tmp_path / "config.toml"
        file.write_text(text)
        return load(overrides, environment or {}, file)

    return load_text


@pytest.fixture
def refusal(loaded):
    def refuse(text, overrides=None):
        with pytest.raises(ConfigError) as caught:
            loaded(text, overrides)
        return caught.value

    return refuse


def test_missing_config_file_gives_defaults(tmp_path):
    config = load(environment={"DIRGE_CONFIG_DIR": str(tmp_path)})

    assert config.loop.max_turns == 100
    assert config.permission.mode == "standard"
    assert config.origin.path is None


def test_missing_config_file_given_by_path_is_config_error(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load(environment={}, path=tmp_path / "absent.toml")


def test_folder_at_config_path_is_config_error(tmp_path):
    (tmp_path / "config.toml").mkdir()

    with pytest.raises(ConfigError, match="directory"):
        load(environment={"DIRGE_CONFIG_DIR": str(tmp_path)})


def test_fifo_at_config_path_is_config_error_without_blocking(tmp_path):
    pipe = tmp_path / "config.toml"
    os.mkfifo(pipe)

    for where in ({"path": pipe}, {"environment": {"DIRGE_CONFIG_DIR": str(tmp_path)}}):
        with pytest.raises(ConfigError, match="not a regular file"):
            load(**{"environment": {}, **where})


def test_device_at_config_path_is_config_error():
    with pytest.raises(ConfigError, match="not a regular file"):
        load(environment={}, path=Path("/dev/zero"))


def test_unknown_key_error_names_line_and_nearest_key(refusal, tmp_path):
    error = refusal("# comment\n[loop]\nmax_turnz = 5\n")

    assert str(error) == f"{tmp_path}/config.toml:3: no setting `max_turnz` in [loop]."
    assert error.hint == "Did you mean `max_turns`?"


def test_key_in_wrong_table_error_names_right_table(refusal, tmp_path):
    error = refusal("max_agent_turnz = 5\n")

    assert str(error) == f"{tmp_path}/config.toml:1: no setting `max_agent_turnz`."
    assert error.hint == "Did you mean `max_turns` in [loop]?"


def test_all_problems_are_reported_in_file_order(refusal):
    error = refusal('[loop]\nsteering = "some"\n[ui]\nthem = "x"\n[tools]\nmax_parallel = "8"\n')

    lines = str(error).splitlines()
    assert [line.split("config.toml:")[1].split(":")[0] for line in lines] == ["2", "4", "6"]
    assert "'all' or 'one-at-a-time'" in lines[0]
    assert "Did you mean `theme`?" in lines[1]
    assert "must be a whole number" in lines[2]


def test_long_list_of_problems_is_truncated(refusal):
    error = refusal("".join(f"key_{number} = 1\n" for number in range(40)))

    assert str(error).splitlines()[10:] == ["… and 30 more."]


def test_problem_in_second_rule_names_its_index(refusal):
    good = '[[permission.rule]]\nop = "read"\nmatch = "x"\neffect = "ask"\n'
    error = refusal(good + '[[permission.rule]]\nop = "reed"\nmatch = "x"\neffect = "ask"\n')

    assert "config.toml:6: `permission.rule[1].op` must be 'read', 'edit'" in str(error)


def test_invalid_toml_error_names_line(refusal):
    assert "config.toml:2:" in str(refusal("provider = 'a'\nb = = 3\n"))


def test_file_that_is_not_utf8_error_names_line(tmp_path):
    (tmp_path / "config.toml").write_bytes(b"# ok\n# \xff\n")

    with pytest.raises(ConfigError, match=r"config.toml:2: not UTF-8"):
        load(environment={"DIRGE_CONFIG_DIR": str(tmp_path)})


def test_api_key_in_config_file_is_rejected_and_not_shown(refusal):
    error = refusal('[providers.a]\ntype = "openai"\napi_key = "sk-secret"\n')

    assert "config.toml:3" in str(error)
    assert "sk-secret" not in str(error) + error.hint


def test_provider_without_type_is_config_error(refusal):
    assert "`providers.a` needs `type`" in str(refusal('[providers.a]\nmodel = "m"\n'))


@pytest.mark.parametrize(
    "url", ["http://example.com/v1", "ftp://x/", "https://user:pw@x/", "https://x/?key=1", "x"]
)
def test_unsafe_base_url_is_rejected(refusal, url):
    error = refusal(f'[providers.a]\ntype = "openai"\nbase_url = "{url}"\n')

    assert "config.toml:3: `providers.a.base_url`" in str(error)


@pytest.mark.parametrize(
    "lines",
    [
        'base_url = "https://example.com/v1"',
        'base_url = "http://localhost:8000/v1"',
        'base_url = "http://[::1]:8000/v1"',
        'base_url = "http://10.0.0.1/v1"\nallow_insecure = true',
    ],
)
def test_safe_base_url_is_accepted(loaded, lines):
    config = loaded(f'[providers.a]\ntype = "openai"\n{lines}\n')

    assert config.providers["a"].base_url is not None


def test_flags_override_file_and_are_named_as_source(loaded, tmp_path):
    config = loaded(
        '[loop]\nmax_turns = 7\n[permission]\nmode = "plan"\n',
        Overrides(max_turns=3, no_context_files=True),
    )

    assert (config.loop.max_turns, config.permission.mode) == (3, "plan")
    assert not config.context.project_files
    assert config.origin.sources == {
        "loop.max_turns": "--max-turns",
        "permission.mode": f"{tmp_path}/config.toml:4",
        "context.project_files": "--no-context-files",
    }


def test_invalid_flag_value_error_names_flag(refusal):
    error = refusal("[loop]\nmax_turns = 7\n", Overrides(max_turns=0))

    assert str(error) == "--max-turns: `loop.max_turns` must be greater than 0."


def test_invalid_thinking_level_error_lists_levels(refusal):
    assert "xhigh" in refusal("", Overrides(thinking="much")).hint


def test_key_binding_is_one_key_or_a_list(loaded):
    config = loaded('[keys]\na = "ctrl+t"\nb = ["f1", "f2"]\n')

    assert config.keys == {"a": ["ctrl+t"], "b": ["f1", "f2"]}


def test_api_keys_are_in_no_dump_of_config(loaded):
    config = loaded("", Overrides(api_key="sk-secret"), {"OPENAI_API_KEY": "sk-other"})

    assert "sk-" not in repr(config) + repr(config.origin) + repr(values_of(config))


@pytest.mark.parametrize("module", ["tomlkit", "httpx", "pydantic"])
def test_loading_config_does_not_import_slow_package(module, tmp_path):
    text = EXAMPLE.read_text()
    (tmp_path / "config.toml").write_text(text)
    code = (
        "import sys, dirge_py.config.load as l, dirge_py.config.project as p;"
        f"l.load(environment={{'DIRGE_CONFIG_DIR': {str(tmp_path)!r}}});"
        "p.read_project_config(b'[ui]', 'config.toml');"
        f"print({module!r} in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False"]


@pytest.mark.parametrize("days", ["0", "-1", "99999999999"])
def test_keep_days_that_are_no_number_of_days_are_refused(refusal, days):
    error = refusal(f"[session]\nkeep_days = {days}\n")

    assert re.search("config.toml:2: `session.keep_days` must be .* than or equal to", str(error))


def test_config_problem_hint_suggests_config_check(refusal):
    error = refusal("[tools]\nmost_calls = { read = 0 }\n")

    assert "must be greater than 0" in str(error)
    assert "dirge config check" in error.hint
    assert "config check" not in refusal("", Overrides(max_turns=0)).hint
