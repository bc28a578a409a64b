import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.config.commands import config_show
from dirge_py.config.load import load
from dirge_py.config.schema import SEED_NAMES, Config, with_own_names
from dirge_py.plan.extension import plan_terms
from dirge_py.types.errors import ConfigError

CYCLES = "phased_workflow_max_review_cycles"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.toml"


def loaded(file, text):
    file.write_text(text)
    return load(environment={}, path=file)


def test_plan_defaults_are_enabled_with_two_review_cycles():
    terms = plan_terms(Config())

    table = terms.table
    assert (table.enabled, table.max_review_cycles, table.auto_accept) == (True, 2, None)
    assert (table.max_turns, terms.models) == (40, {})


@pytest.mark.parametrize(
    "text",
    [
        "phased_workflow_enabled = false\nphased_workflow_max_review_cycles = 5\n",
        "[plan]\nphased_workflow_enabled = false\nphased_workflow_max_review_cycles = 5\n",
        "[plan]\nenabled = false\nmax_review_cycles = 5\n",
        "phased_workflow_enabled = false\n[plan]\nenabled = false\nmax_review_cycles = 5\n",
    ],
)
def test_alternative_names_of_plan_settings_are_equivalent(file, text):
    plan = loaded(file, text).plan

    assert (plan.enabled, plan.max_review_cycles) == (False, 5)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "phased_workflow_enabled = true\n[plan]\nenabled = false\n",
            "`phased_workflow_enabled` and `[plan] enabled`",
        ),
        (
            f"{CYCLES} = 1\n[plan]\n{CYCLES} = 2\n",
            f"`[plan] {CYCLES}` and `{CYCLES}`",
        ),
        (
            "[plan]\nenabled = true\nphased_workflow_enabled = 1\n",
            "`[plan] phased_workflow_enabled` and `[plan] enabled`",
        ),
    ],
)
def test_contradicting_names_of_plan_setting_are_config_error(file, text, names):
    with pytest.raises(ConfigError) as caught:
        loaded(file, text)

    assert str(caught.value) == f"{file}: {names} are one setting with two values."


def test_invalid_value_under_alternative_name_error_names_line(file):
    with pytest.raises(ConfigError) as caught:
        loaded(file, '# mine\nphased_workflow_enabled = "yes"\n')

    assert str(caught.value) == f"{file}:2: `plan.enabled` must be true or false."


def test_config_show_names_line_of_alternative_name(file):
    file.write_text("phased_workflow_max_review_cycles = 0\n")

    shown = config_show(environment={}, path=file).text

    assert f"plan.max_review_cycles = 0  # {file}:1" in shown


def test_plan_that_is_not_a_table_is_config_error(file):
    with pytest.raises(ConfigError, match="`plan` must be a table"):
        loaded(file, "phased_workflow_enabled = true\nplan = 3\n")


@given(
    top=st.dictionaries(st.sampled_from([*SEED_NAMES, "provider"]), st.integers(0, 2)),
    plan=st.dictionaries(st.sampled_from([*SEED_NAMES, *SEED_NAMES.values()]), st.integers(0, 2)),
)
def test_plan_setting_names_merge_without_losing_values(top, plan):
    said = [(SEED_NAMES.get(name, name), value) for t in (top, plan) for name, value in t.items()]
    by_key = {key: {v for k, v in said if k == key} for key, _ in said}

    try:
        settings = with_own_names({**top, "plan": plan})
    except ValueError:
        assert any(len(values) > 1 for values in by_key.values())
        return

    kept = {**settings, **settings["plan"]}
    kept.pop("plan")
    assert {key: {value} for key, value in kept.items()} == by_key


ROLES = """
[providers.a]
type = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "m"
thinking = "low"
[providers.b]
type = "openai"
base_url = "http://127.0.0.1:1/v1"
[roles]
review = "a:high"
explore = "a/other"
plan = "b"
"""


def test_plan_phases_use_models_of_their_roles(file):
    models = plan_terms(loaded(file, ROLES)).models

    assert models == {
        "explore": "a/other:low",
        "review": "a/m:high",
    }
