import pytest

from dirge_py.config.services import check_base_url
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider, provider_names
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import StreamOptions


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "http://127.0.0.1:8080/v1",
        "http://[::1]:1/v1",
        "http://localhost/v1",
        "http://model.localhost/v1",
    ],
)
def test_https_and_loopback_urls_are_accepted(url):
    check_base_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/v1",
        "http://127.0.0.1.example.com/v1",
        "http://192.168.1.2/v1",
        "http://user@127.0.0.1/v1",
        "https://key@example.com/v1",
        "https://example.com/v1?key=1",
        "https://example.com/v1#x",
        "https://exam ple.com",
        "https://example.com:port",
        "ftp://example.com",
        "example.com",
        "https://",
        "",
    ],
)
def test_insecure_or_malformed_urls_are_rejected(url):
    with pytest.raises(ConfigError):
        check_base_url(url)


def test_plain_http_to_remote_host_needs_allow_insecure():
    check_base_url("http://192.168.1.2/v1", allow_insecure=True)


def test_repr_of_settings_hides_key_and_headers():
    settings = ProviderSettings(alias="a", type="openai", api_key="secret", headers={"x": "secret"})

    assert "secret" not in repr(settings)


def test_model_id_drops_only_the_alias():
    assert model_id("work/qwen/q3") == "qwen/q3"
    assert model_id("bare") == "bare"


def test_every_provider_name_is_found():
    assert [find_provider(name).name for name in provider_names()] == list(provider_names())


def test_unknown_provider_is_config_error():
    with pytest.raises(ConfigError, match="nonesuch"):
        find_provider("nonesuch")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_bad_base_url_is_rejected_when_provider_is_made(name):
    settings = ProviderSettings(alias="a", type=name, base_url="http://example.com")
    with pytest.raises(ConfigError):
        find_provider(name).make(settings, HttpClient())


def test_repr_of_stream_options_hides_key_and_headers():
    options = StreamOptions(model="a/m", api_key="sk-secret", headers={"x-key": "also secret"})

    assert "secret" not in repr(options)
