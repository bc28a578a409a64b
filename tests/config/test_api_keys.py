import os
import stat

import pytest

from dirge_py.config.access import ApiKey, provider_access, read_key, write_key
from dirge_py.config.load import load
from dirge_py.types.errors import ConfigError, NoProvider

ENTRY = '[providers.work]\ntype = "openai"\nbase_url = "https://a.example/v1"\n'


@pytest.fixture
def key_of(tmp_path):
    """The key of a provider with `setting`, in `environment`."""

    def key(setting, environment):
        file = tmp_path / "config.toml"
        file.write_text(ENTRY + setting)
        return provider_access(load(environment=environment, path=file), "work").api_key

    return key


@pytest.mark.parametrize("setting", ['api_key_env = "NAME"', 'api_key = "${NAME}"'])
def test_api_key_is_read_from_named_variable(key_of, setting):
    assert key_of(setting, {"NAME": " k "}) == "k"
    for environment in ({}, {"NAME": " "}):
        with pytest.raises(NoProvider, match="NAME"):
            key_of(setting, environment)


def test_api_key_is_read_from_named_file(key_of, tmp_path):
    write_key(tmp_path / "key", "from-file")

    assert key_of('api_key_file = "key"', {}) == "from-file"
    with pytest.raises(NoProvider, match="gone"):
        key_of('api_key_file = "gone"', {})


def test_api_key_is_hidden_in_repr(key_of):
    key = key_of('api_key_env = "NAME"', {"NAME": "topsecret"})

    assert "topsecret" not in repr({"api_key": key})
    assert f"{key}" == "topsecret"


def test_stored_key_file_is_private_and_replaced_whole(tmp_path):
    path = tmp_path / "state" / "keys" / "work"
    write_key(path, "first")
    write_key(path, " second\n")

    assert read_key(path) == ApiKey("second")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["work"]


def test_symlink_at_key_path_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    write_key(tmp_path / "key", "k")

    assert not (tmp_path / "elsewhere").exists()


def test_error_of_unstorable_key_does_not_show_key(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        write_key(tmp_path / "file" / "key", "topsecret")

    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_key_file_without_key_is_config_error(tmp_path, content):
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(ConfigError, match="contains no key"):
        read_key(tmp_path / "key")
