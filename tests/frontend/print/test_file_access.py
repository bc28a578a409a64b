"""Settings, plugins, prompts and keys that another user can write are not used."""

import os
from pathlib import Path

import pytest

from tests.support.product import ModelReply, Product
from tests.support.requirements import as_nobody

PLUGIN = "def register(dirge):\n    open({path!r}, 'w').close()\n"
STRANGER = 1000


@pytest.fixture
def stranger(open_tmp_path: Path, product: Product) -> list[str]:
    """A command prefix for user nobody, who owns the state folder."""
    prefix = as_nobody()
    os.mkdir(product.state_dir)
    os.chown(product.state_dir, 65534, 65534)
    return prefix


def plugin(product: Product) -> tuple[Path, Path]:
    """A plugin, and the file it creates when it runs."""
    file, mark = product.config_dir / "plugins/mark.py", product.state_dir / "mark"
    file.parent.mkdir()
    file.write_text(PLUGIN.format(path=str(mark)))
    return file, mark


def test_world_writable_settings_end_start(product: Product) -> None:
    file = product.config_dir / "config.toml"
    file.chmod(0o666)

    result = product.run("-p", "x")

    assert result.exit_code == 2
    assert f"{file} can be written by other users" in result.stderr
    assert f"chmod go-w {file}" in result.stderr
    assert product.service.requests == []


def test_settings_owned_by_another_user_end_start(product: Product, stranger: list[str]) -> None:
    os.chown(product.config_dir / "config.toml", STRANGER, STRANGER)

    result = product.run_apart("-p", "x", prefix=stranger)

    assert result.exit_code == 2
    assert "belongs to another user" in result.stderr


def test_settings_named_by_flag_may_be_world_writable(product: Product) -> None:
    file = product.base / "named.toml"
    file.write_bytes((product.config_dir / "config.toml").read_bytes())
    file.chmod(0o666)
    product.will(ModelReply(text="pong"))

    assert product.run("-p", "ping", "--config", str(file)).stdout == "pong\n"


def test_world_writable_plugin_is_not_run(product: Product) -> None:
    file, mark = plugin(product)
    product.will(ModelReply(text="pong"), ModelReply(text="pong"))
    file.chmod(0o666)

    result = product.run("-p", "ping")

    assert result.stdout == "pong\n"
    assert f"can be written by other users. Run `chmod go-w {file}`" in result.stderr
    assert not mark.exists()
    file.chmod(0o644)
    assert product.run("-p", "ping").stdout == "pong\n"
    assert mark.exists()


def test_plugin_owned_by_another_user_is_not_run(product: Product, stranger: list[str]) -> None:
    file, mark = plugin(product)
    os.chown(file, STRANGER, STRANGER)
    product.will(ModelReply(text="pong"))

    result = product.run_apart("-p", "ping", prefix=stranger)

    assert result.stdout == "pong\n"
    assert "belongs to another user" in result.stderr
    assert not mark.exists()


def test_plugin_in_world_writable_folder_is_not_run(product: Product) -> None:
    file, mark = plugin(product)
    file.parent.chmod(0o777)
    product.will(ModelReply(text="pong"))

    assert f"chmod go-w {file.parent}" in product.run("-p", "ping").stderr
    assert not mark.exists()


def test_world_writable_prompt_file_is_refused(product: Product) -> None:
    file = product.config_dir / "prompts/short.md"
    file.parent.mkdir()
    file.write_text("Be short.")
    file.chmod(0o666)

    result = product.run("-p", "x", "--prompt", "short")

    assert result.exit_code == 2
    assert f"chmod go-w {file}" in result.stderr
    assert product.service.requests == []


def with_key(product: Product, mode: int) -> Path:
    file = product.config_dir / "key"
    file.write_text("sk-from-the-file\n")
    file.chmod(mode)
    settings = product.config_dir / "config.toml"
    text = settings.read_text().replace('api_key_env = "FAKE_KEY"', 'api_key_file = "key"')
    settings.write_text(text)
    return file


def test_world_writable_key_file_is_refused(product: Product) -> None:
    file = with_key(product, 0o666)

    result = product.run("-p", "x")

    assert result.exit_code == 2
    assert f"The key file {file} can be written by other users" in result.stderr
    assert product.service.requests == []


def test_world_readable_key_file_is_used_with_warning(
    open_tmp_path: Path, product: Product
) -> None:
    file = with_key(product, 0o644)
    product.will(ModelReply(text="pong"))

    result = product.run("-p", "ping")

    assert result.stdout == "pong\n"
    assert f"can be read by other users. Run `chmod go-rwx {file}`" in result.stderr
    file.chmod(0o600)
    product.will(ModelReply(text="pong"))
    assert "read by other users" not in product.run("-p", "ping").stderr


def test_doctor_lists_unsafe_file_modes_with_fix(open_tmp_path: Path, product: Product) -> None:
    key = with_key(product, 0o644)
    file, _ = plugin(product)
    file.chmod(0o666)

    by_fix = {each["fix"]: each for each in product.run("doctor", "--json").json["findings"]}

    assert by_fix[f"chmod go-w {file}"]["state"] == "problem"
    assert by_fix[f"chmod go-rwx {key}"]["state"] == "warning"
    file.chmod(0o644)
    key.chmod(0o600)
    assert "only you can change the files in" in product.run("doctor").stdout


def test_doctor_reports_world_writable_settings(product: Product) -> None:
    file = product.config_dir / "config.toml"
    file.chmod(0o602)

    result = product.run("doctor")

    assert result.exit_code == 1
    assert f"chmod go-w {file}" in result.stdout
