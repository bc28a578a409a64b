"""Lists of models in the formats of all services."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.providers.client import HttpClient
from dirge_py.providers.discovery import list_models, parse_model_ids
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ProviderError
from tests.support.fake_service import FakeService, RawReply

WIRES = ("openai", "openai-responses", "anthropic", "gemini", "ollama")
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
NAMES = st.sampled_from(["data", "models", "id", "name", "supportedGenerationMethods"])
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)


@given(JSON, st.sampled_from(WIRES))
def test_any_json_parses_to_model_ids_or_value_error(body: Any, wire: str) -> None:
    try:
        ids = parse_model_ids(body, wire=wire)
    except ValueError:
        return
    assert all(isinstance(each, str) and each and each.isprintable() for each in ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("wire", "body", "ids"),
    [
        ("openai", {"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}, ["b", "a"]),
        ("openai", [{"id": "bare"}], ["bare"]),
        ("openai", {"data": [{"id": "\x1b[2J"}, {"id": "x" * 300}, {"id": "ok"}]}, ["ok"]),
        ("gemini", {"models": [{"name": "models/a"}]}, ["a"]),
        ("ollama", {"models": [{"name": "a:7b", "model": "a:7b"}]}, ["a:7b"]),
    ],
)
def test_model_list_of_each_format_is_parsed(wire: str, body: Any, ids: list[str]) -> None:
    assert parse_model_ids(body, wire=wire) == ids


@pytest.mark.parametrize("body", [None, "text", {}, [[]], {"data": [{"id": 1}]}])
def test_body_without_model_list_is_value_error(body: Any) -> None:
    with pytest.raises(ValueError, match="not a list of models"):
        parse_model_ids(body, wire="openai")


@pytest.mark.parametrize("version", ["", "/v1beta", "/v1beta/"])
async def test_version_in_base_url_is_not_doubled(
    http: HttpClient, serve: Callable[..., FakeService], version: str
) -> None:
    service = serve(RawReply(body='{"models": [{"name": "models/a"}]}'))
    settings = ProviderSettings(
        alias="g", type="gemini", base_url=f"http://127.0.0.1:{service.port}{version}", api_key="k"
    )

    assert await list_models(settings, http, limit_s=5) == ["a"]
    assert service.requests[0].path == "/v1beta/models?pageSize=1000"


@pytest.mark.parametrize("wire", WIRES)
async def test_unsendable_key_error_does_not_show_key(http: HttpClient, wire: str) -> None:
    settings = ProviderSettings(
        alias="w", type=wire, base_url="http://127.0.0.1:9", api_key="sk-se\ncret"
    )
    with pytest.raises(ProviderError) as refused:
        await list_models(settings, http, limit_s=5)

    assert "cret" not in f"{refused.value!r} {refused.value.raw}"
