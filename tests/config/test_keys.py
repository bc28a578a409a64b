import os
import stat

import pytest

from dirge_py.config.access import ApiKey, read_key, resolve_key, write_key
from dirge_py.types.errors import ConfigError


def test_the_settings_win_over_the_environment_and_that_over_the_file(tmp_path):
    file = tmp_path / "key"
    write_key(file, "from-file")
    environ = {"NAME": "from-env", "VAR": "filled"}

    assert resolve_key("NAME", "x-${VAR}", file, environ) == "x-filled"
    assert resolve_key("NAME", None, file, environ) == "from-env"
    assert resolve_key("OTHER", None, file, environ) == "from-file"
    assert resolve_key("OTHER", None, tmp_path / "none", environ) is None


def test_a_variable_that_is_not_set_is_no_key():
    assert resolve_key("NAME", "${GONE}", None, {"NAME": "from-env"}) == "from-env"
    assert resolve_key("NAME", "${GONE}", None, {}) is None


def test_a_key_does_not_show_in_a_dump():
    key = resolve_key("NAME", None, None, {"NAME": "topsecret"})

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
