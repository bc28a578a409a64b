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
def test_a_setting_names_the_variable_of_the_key(key_of, setting):
    assert key_of(setting, {"NAME": " k "}) == "k"
    for environment in ({}, {"NAME": " "}):
        with pytest.raises(NoProvider, match="NAME"):
            key_of(setting, environment)


def test_a_setting_names_the_file_of_the_key(key_of, tmp_path):
    write_key(tmp_path / "key", "from-file")

    assert key_of('api_key_file = "key"', {}) == "from-file"
    with pytest.raises(NoProvider, match="gone"):
        key_of('api_key_file = "gone"', {})


def test_a_key_does_not_show_in_a_dump(key_of):
    key = key_of('api_key_env = "NAME"', {"NAME": "topsecret"})

    assert "topsecret" not in repr({"api_key": key})
    assert f"{key}" == "topsecret"


def test_a_stored_key_is_its_owners_alone_and_replaced_whole(tmp_path):
    path = tmp_path / "state" / "keys" / "work"
    write_key(path, "first")
    write_key(path, " second\n")

    assert read_key(path) == ApiKey("second")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["work"]


def test_a_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    write_key(tmp_path / "key", "k")

    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_cannot_be_stored_is_explained_without_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        write_key(tmp_path / "file" / "key", "topsecret")

    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused_without_quoting_it(tmp_path, content):
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(ConfigError, match="holds no key"):
        read_key(tmp_path / "key")
