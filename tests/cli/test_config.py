"""`dirge config …` as a process."""

import subprocess
import sys
import tomllib

import pytest

from tests.support.product import KEY, Product


def test_init_writes_valid_settings(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    result = product.run("config", "init", env={"OPENAI_API_KEY": "sk-x"})

    written = product.config_dir / "config.toml"
    assert result.exit_code == 0
    assert str(written) in result.stdout
    tomllib.loads(written.read_text())
    assert product.run("config", "check", env={"OPENAI_API_KEY": "sk-x"}).exit_code == 0


def test_init_does_not_overwrite_settings(product: Product) -> None:
    before = (product.config_dir / "config.toml").read_text()

    result = product.run("config", "init")

    assert result.exit_code != 0
    assert (product.config_dir / "config.toml").read_text() == before


def test_check_accepts_valid_settings_and_names_unknown_setting(product: Product) -> None:
    good = product.run("config", "check")
    product.configure("[loop]\nmax_turnz = 1\n")
    bad = product.run("config", "check")

    assert good.exit_code == 0
    assert "fake" in good.stdout
    assert bad.exit_code != 0
    assert "max_turnz" in bad.stdout + bad.stderr


def test_check_fails_without_usable_provider(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    assert product.run("config", "check").exit_code != 0


def test_show_prints_origin_of_each_setting_and_no_key(product: Product) -> None:
    result = product.run("config", "show")

    assert result.exit_code == 0
    assert "config.toml:" in result.stdout
    assert KEY not in result.stdout
    assert product.run("config").stdout == result.stdout


def test_path_prints_settings_file(product: Product) -> None:
    result = product.run("config", "path")

    assert str(product.config_dir / "config.toml") in result.stdout


def test_prompt_prints_complete_system_prompt(product: Product) -> None:
    product.file("AGENTS.md", "Use tabs, always.\n")

    result = product.run_forked("config", "prompt")

    assert result.exit_code == 0
    assert "Use tabs, always." in result.stdout
    assert "together" in result.stdout


def test_config_verbs_write_no_state(product: Product) -> None:
    for verb in ("check", "show", "path", "prompt"):
        product.run("config", verb)

    assert not product.state_dir.exists()


def test_unknown_flag_is_usage_error(product: Product) -> None:
    assert product.run("config", "show", "--nonsense").exit_code == 2


def test_module_in_project_is_not_imported(product: Product) -> None:
    (product.project / "json.py").write_text(f'open("{product.base}/ran", "w")\n')
    result = subprocess.run(
        [sys.executable, "-m", "dirge_py", "config", "check"],
        cwd=product.project,
        env=product.environment,
        check=False,
    )

    assert result.returncode == 0
    assert not (product.base / "ran").exists()


@pytest.mark.parametrize("words", [("set", "ui.theme", "day"), ("get", "ui.theme"), ("edit",)])
def test_unknown_config_verb_is_refused_with_list_of_verbs(
    product: Product, words: tuple[str, ...]
) -> None:
    result = product.run("config", *words)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`dirge config` has no verb `{words[0]}`" in result.stderr
    assert "init, check, show, path, prompt" in result.stderr
