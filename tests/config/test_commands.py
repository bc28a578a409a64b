import os
import stat

import pytest

from dirge_py.config.commands import config_check, config_init, config_path, config_show
from dirge_py.config.edit import edit_config, save_provider
from dirge_py.config.load import load
from dirge_py.config.models import main_model
from dirge_py.config.project import read_project_config
from dirge_py.config.sources import Overrides, ProviderDraft
from dirge_py.types.errors import ConfigError, FileError


@pytest.fixture
def environment(tmp_path):
    return {"DIRGE_CONFIG_DIR": str(tmp_path / "config")}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "config").mkdir(mode=0o700)
    return tmp_path / "config" / "config.toml"


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_config_init_writes_valid_private_file(environment, tmp_path):
    config_init(environment)

    file = tmp_path / "config" / "config.toml"
    assert mode_of(file) == 0o600
    assert mode_of(file.parent) == 0o700
    assert load(environment=environment).origin.path == str(file)


def test_commented_settings_of_initial_file_are_valid(environment, tmp_path):
    config_init(environment)
    file = tmp_path / "config" / "config.toml"
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()]
    settings = [line for line in lines if line.startswith("[") or " = " in line]
    file.write_text("\n".join(settings))

    assert set(load(environment=environment).providers) == {"work", "company"}


def test_config_init_does_not_overwrite_existing_file(environment, file):
    file.write_text("# mine\n")

    with pytest.raises(ConfigError, match="exists"):
        config_init(environment)
    assert file.read_text() == "# mine\n"


def test_config_path_is_shown_before_file_exists(environment, tmp_path):
    assert config_path(environment).text == str(tmp_path / "config" / "config.toml")


def test_config_check_shows_state_and_key_source_of_each_provider(environment, file):
    file.write_text('[providers.a]\ntype = "openai"\napi_key_env = "A"\n')

    missing = config_check(environment=environment)
    found = config_check(environment={**environment, "A": "sk-1"})

    assert missing.exit_code == 2
    assert "provider a: openai, no key: set A" in missing.text
    assert found.exit_code == 0
    assert "provider a: openai, https://api.openai.com/v1, key from A" in found.text
    assert "sk-1" not in found.text


def test_config_check_reports_unused_provider_without_key_and_succeeds(environment, file):
    file.write_text(
        'provider = "a"\n[providers.a]\ntype = "openai"\n'
        '[providers.spare]\ntype = "anthropic"\napi_key_env = "S"\n'
    )
    report = config_check(environment={**environment, "OPENAI_API_KEY": "k"})
    assert report.exit_code == 0
    assert "provider spare: anthropic, no key: set S" in report.text


def test_config_check_explains_default_model(environment):
    text = config_check(environment={**environment, "XAI_API_KEY": "k"}).text
    assert text.splitlines()[-1] == "model xai/grok-4.7 (xai: XAI_API_KEY is set)"


def test_config_check_fails_if_chosen_model_has_no_key(environment):
    report = config_check(environment={**environment, "DIRGE_MODEL": "anthropic/x"})

    assert report.exit_code == 2
    assert "ANTHROPIC_API_KEY" in report.text.splitlines()[-1]


def test_config_check_validates_roles(environment, file):
    file.write_text('[roles]\nreview = "opnai/x"\n')

    report = config_check(environment={**environment, "OPENAI_API_KEY": "k"})

    assert report.exit_code == 2
    assert "[roles] review" in report.text


def test_config_show_names_source_of_each_value_and_hides_secrets(environment, file):
    file.write_text(
        'provider = "a"\n[providers]\na = { type = "openai", headers = { X = "s3" } }\n'
        "[loop.gates]\ngoal = 'say hé'\n[plugins.x]\nsince = [2026-01-02]\nmost = inf\n"
    )

    text = config_show(
        Overrides(max_turns=3), {**environment, "DIRGE_MODEL": "m", "OPENAI_API_KEY": "sk-1"}
    ).text

    assert f'provider = "a"  # {file}:1' in text
    assert f'providers.a.type = "openai"  # {file}:3' in text
    assert "loop.max_turns = 3  # --max-turns" in text
    assert f'loop.gates.goal = "say hé"  # {file}:5' in text
    assert f"plugins.x.since = [2026-01-02]  # {file}:7" in text
    assert f"plugins.x.most = inf  # {file}:8" in text
    assert "timeouts.bash_s = 120.0  # default" in text
    assert "# model: a/m, thinking off (DIRGE_MODEL)" in text
    assert "s3" not in text
    assert "sk-1" not in text


def test_config_show_names_what_a_trusted_project_sets(environment, file):
    file.write_text('[ui]\ntheme = "dark"\n')
    rule = b'[[permission.rule]]\nop = "edit"\nmatch = "*"\neffect = "ask"\n'
    place = "/p/.dirge/config.toml"
    project = (read_project_config(b'[ui]\ntheme = "light"\n' + rule, place), place)
    lines = config_show(environment=environment, project=project).text.splitlines()

    assert 'ui.theme = "light"  # /p/.dirge/config.toml' in lines
    assert not [line for line in lines if '"dark"' in line]
    assert 'permission.rule[0].effect = "ask"  # /p/.dirge/config.toml' in lines


def test_save_provider_keeps_comments_and_writes_backup(file):
    before = '# mine\n[ui]\ntheme = "dark" # nice\n'
    file.write_text(before)

    save_provider(ProviderDraft(alias="work", type="openai", model="m", key="sk-1"), file)

    assert file.read_text().startswith('# mine\nprovider = "work"\n\n[ui]\ntheme = "dark" # nice\n')
    assert file.with_name("config.toml.bak").read_text() == before
    assert "sk-1" not in file.read_text()
    assert mode_of(file.parent / "keys" / "work") == 0o600
    assert main_model(load(environment={}, path=file)).name == "work/m"


def test_save_provider_again_replaces_key_source(file):
    save_provider(ProviderDraft(alias="work", type="openai", key_env="A"), file)
    save_provider(ProviderDraft(alias="work", type="openai", key="sk-1"), file)

    entry = load(environment={}, path=file).providers["work"]
    assert (entry.api_key_env, entry.api_key_file) == (None, "keys/work")


def test_save_provider_with_new_key_drops_old_base_url(file):
    save_provider(
        ProviderDraft(alias="openai", type="openai", base_url="https://r.example/v1"), file
    )
    save_provider(ProviderDraft(alias="openai", type="openai", key="sk-1"), file)

    assert load(environment={}, path=file).providers["openai"].base_url is None


def test_config_check_lists_unconfigured_providers_in_one_line(environment):
    report = config_check(environment={**environment, "MISTRAL_API_KEY": "k"})

    lines = report.text.splitlines()
    assert len([line for line in lines if line.startswith("provider ")]) == 1
    assert "key from MISTRAL_API_KEY" in report.text
    [others] = [line for line in lines if line.startswith("built in, not set up: ")]
    assert "openrouter" in others and "ollama" in others and "mistral" not in others


def test_save_provider_does_not_overwrite_invalid_file(file):
    file.write_text("[ui\n")

    with pytest.raises(ConfigError):
        save_provider(ProviderDraft(alias="work", type="openai"), file)
    assert file.read_text() == "[ui\n"


def test_edit_config_does_not_write_invalid_change(file):
    file.write_text("[ui]\n")

    with pytest.raises(ConfigError):
        edit_config(file, lambda document: document.update({"nonsense": 1}))
    assert file.read_text() == "[ui]\n"


def test_unwritable_settings_are_an_error_that_names_the_way_out(tmp_path):
    blocker = tmp_path / "blocker"
    blocker.write_text("")
    with pytest.raises(FileError, match=r"config.toml cannot be written: .*") as caught:
        save_provider(ProviderDraft(type="ollama", alias="ollama"), blocker / "config.toml")
    assert "DIRGE_CONFIG_DIR" in caught.value.hint


def test_provider_alias_with_path_is_rejected(file):
    with pytest.raises(ConfigError):
        save_provider(ProviderDraft(alias="../x", type="openai", key="k"), file)


@pytest.mark.parametrize(
    "rest", ["", "[ui]\n", 'provider = "a"\n\n[providers.a]\ntype = "openai"\n']
)
def test_saved_providers_are_separate_toml_paragraphs(file, rest):
    file.write_text(rest)
    for alias in ("work", "home", "work"):
        save_provider(ProviderDraft(alias=alias, type="ollama", model="m"), file)

    text = file.read_text()
    paragraphs = text.removesuffix("\n").split("\n\n")
    assert '[providers.work]\ntype = "ollama"\nmodel = "m"' in paragraphs
    assert not any(part != part.strip() or part.count("[") > 1 for part in paragraphs)
