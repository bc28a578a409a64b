"""Setting up a first provider: offers, one real request, working settings."""

import pytest

from dirge_py.config.load import load
from dirge_py.config.services import SERVICES
from dirge_py.config.sources import ProviderDraft
from dirge_py.providers.setup import ProviderSetup
from dirge_py.types.errors import ConfigError, ProviderError
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product, Service, product

__all__ = ["product"]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_provider_test_call_reports_answer(wire: str) -> None:
    with Service([ModelReply(text="ok")]) as service:
        url = service.openai_url if wire == "openai" else service.anthropic_url
        words = await ProviderSetup().try_out(
            ProviderDraft(type=wire, alias=wire, model="m", base_url=url, key="sk-x")
        )

    assert words == "m answered."
    assert service.requests[0].json["model"] == "m"


async def test_provider_test_call_reports_auth_error() -> None:
    with Service(
        [RawReply(status=401, body='{"error":{"message":"bad sk-very-secret"}}')]
    ) as service:
        draft = ProviderDraft(
            type="openai",
            alias="openai",
            model="m",
            base_url=service.openai_url,
            key="sk-very-secret",
        )
        with pytest.raises(ProviderError) as caught:
            await ProviderSetup().try_out(draft)

    assert caught.value.kind == "auth"


async def test_unset_key_variable_is_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)

    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        await ProviderSetup().try_out(
            ProviderDraft(type="openai", alias="openai", model="m", key_env="NO_SUCH_KEY")
        )


def test_saved_provider_is_used_by_next_start(product: Product) -> None:
    file = product.config_dir / "config.toml"
    file.unlink()
    product.will(ModelReply(text="pong"))
    draft = ProviderDraft(
        type="openai",
        alias="openai",
        model="m",
        base_url=product.service.openai_url,
        key="sk-typed",
    )

    saved_path = ProviderSetup(file).save(draft)

    assert saved_path == str(file)
    assert "sk-typed" not in file.read_text()
    assert load(path=file, environment=product.environment).providers["openai"].model == "m"
    assert product.run("-p", "ping").stdout == "pong\n"
    assert product.service.requests[0].headers["authorization"] == "Bearer sk-typed"


async def test_offers_use_base_urls_from_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DIRGE_LOCAL_SERVERS", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://router.example/v1")
    monkeypatch.setenv("GLM_BASE_URL", "http://plain.example/v1")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")

    offered = {offer.type: offer.base_url for offer in await ProviderSetup().offers()}

    assert offered["openai"] == "https://router.example/v1"
    assert offered["ollama"] == "http://127.0.0.1:9"
    assert offered["glm"].startswith("https://")
    assert set(offered) == {service.type for service in SERVICES}


async def test_model_list_is_requested_from_entered_address_with_key() -> None:
    listed = RawReply(body='{"models": [{"name": "models/g-1"}]}')
    with Service([listed]) as service:
        draft = ProviderDraft(
            type="gemini", alias="gemini", model="", base_url=service.url("gemini"), key="sk-x"
        )
        assert list(await ProviderSetup().models(draft)) == ["g-1"]
        [seen] = service.requests
    assert (seen.path, seen.headers["x-goog-api-key"]) == ("/v1beta/models?pageSize=1000", "sk-x")


async def test_model_list_with_key_over_plain_http_is_rejected() -> None:
    draft = ProviderDraft(
        type="openai", alias="openai", model="", base_url="http://plain.example/v1", key="sk-x"
    )
    with pytest.raises(ConfigError, match="unencrypted"):
        await ProviderSetup().models(draft)
