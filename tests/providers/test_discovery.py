"""Local model servers: which are found, and when they are asked."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from dirge_py.config.load import load
from dirge_py.config.models import main_model
from dirge_py.config.sources import LocalServer, Overrides
from dirge_py.providers.client import HttpClient
from dirge_py.providers.discovery import (
    ADDRESSES_VARIABLE,
    find_local_servers,
    usual_addresses,
    with_local_servers,
)
from dirge_py.sdk.options import SessionChoice, choice_notices
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product, Service, product, replies_by_path

__all__ = ["product"]

PATIENCE_S = 10.0
TAGS = {"models": [{"name": n, "size": 1} for n in ("nomic-embed-text", "qwen3:8b", "gemma3:4b")]}
RUNNING = {"models": [{"name": "gemma3:4b"}]}


def listed(owner: str, *ids: str) -> dict[str, Any]:
    rows = [{"id": each, "object": "model", "owned_by": owner} for each in ids]
    return {"object": "list", "data": rows}


async def find_servers_at(place: str, limit_s: float = PATIENCE_S) -> list[LocalServer]:
    client = HttpClient()
    try:
        return list(await find_local_servers({ADDRESSES_VARIABLE: place}, client, limit_s=limit_s))
    finally:
        await client.aclose()


async def detected_servers(pages: Mapping[str, Any], path: str = "/v1") -> list[tuple[str, Any]]:
    with Service(replies_by_path(pages)) as service:
        found = await find_servers_at(f"http://127.0.0.1:{service.port}{path}")
        assert {(seen.method, seen.body) for seen in service.requests} == {("GET", b"")}
        assert not any("authorization" in seen.headers for seen in service.requests)
    return [(each.type, list(each.models)) for each in found]


async def test_ollama_lists_chat_models_with_loaded_model_first() -> None:
    pages = {"/api/tags": TAGS, "/api/ps": RUNNING}
    assert await detected_servers(pages, "") == [("ollama", ["gemma3:4b", "qwen3:8b"])]
    assert await detected_servers({"/api/tags": TAGS}, "") == [
        ("ollama", ["qwen3:8b", "gemma3:4b"])
    ]
    assert await detected_servers({"/api/tags": {"models": []}}, "") == [("ollama", [])]


LM_STUDIO = {
    "data": [
        {"id": "a", "type": "llm", "state": "not-loaded"},
        {"id": "b", "type": "embeddings", "state": "loaded"},
        {"id": "c", "type": "vlm", "state": "loaded"},
    ]
}


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ({"/v1/models": listed("vllm", "m")}, [("vllm", ["m"])]),
        ({"/v1/models": listed("llamacpp", "m.gguf")}, [("llamacpp", ["m.gguf"])]),
        ({"/v1/models": listed("organization_owner", "m")}, [("lmstudio", ["m"])]),
        ({"/v1/models": listed("x", "a"), "/api/v0/models": LM_STUDIO}, [("lmstudio", ["c", "a"])]),
        ({"/v1/models": listed("somebody", "m", "m")}, [("openai", ["m"])]),
    ],
)
async def test_server_type_is_detected_from_model_list(pages: Any, found: Any) -> None:
    assert await detected_servers(pages) == found


@pytest.mark.parametrize("is_named", [True, False])
async def test_configured_address_gets_longer_timeout(
    monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    limits: list[float] = []

    class Looking(HttpClient):
        async def warm_up(self) -> None:
            pass

        async def fetch(self, *_: Any, timeout_s: float, **__: Any) -> Any:
            limits.append(timeout_s)
            raise TimeoutError

    environment = {ADDRESSES_VARIABLE: "http://127.0.0.1:9/v1"} if is_named else {}
    assert list(await find_local_servers(environment, Looking())) == []
    assert set(limits) == {3.0 if is_named else 0.3}


@pytest.mark.parametrize(
    "page",
    [
        RawReply(body="<!doctype html><title>my app</title>"),
        RawReply(status=404, body="{}"),
        RawReply(status=302, headers={"location": "http://127.0.0.1:9/"}),
        RawReply(body="[" * 100_000),
        RawReply(pieces=[b"x" * 65536] * 40),
        {"data": [{"id": 1}]},
        {"data": [{"id": "user-1", "name": "Ann"}]},
        {"models": [{"name": "x", "size": ""}]},
        {"models": "many"},
        ["a"],
        None,
    ],
)
@pytest.mark.parametrize("path", ["", "/v1"])
async def test_other_web_server_is_not_detected_as_model_server(page: Any, path: str) -> None:
    pages = dict.fromkeys(("/api/tags", "/api/ps", "/v1/models", "/api/v0/models"), page)
    assert await detected_servers(pages, path) == []


async def test_silent_port_does_not_delay_discovery() -> None:
    with (
        socket.socket() as listening,
        Service(replies_by_path({"/v1/models": listed("vllm", "m")})) as s,
    ):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        silent = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with asyncio.timeout(PATIENCE_S):
            found = await find_servers_at(
                f"{silent} {silent}/v1 http://127.0.0.1:{s.port}/v1", limit_s=1.0
            )
    assert [each.type for each in found] == ["vllm"]


@pytest.mark.parametrize(
    ("environment", "places"),
    [
        (
            {},
            [
                "http://127.0.0.1:11434",
                "http://127.0.0.1:1234/v1",
                "http://127.0.0.1:8080/v1",
                "http://127.0.0.1:8000/v1",
            ],
        ),
        ({ADDRESSES_VARIABLE: ""}, []),
        (
            {
                ADDRESSES_VARIABLE: "http://localhost:9/v1/  http://box:1 https://127.0.0.1:2 ftp://x"
            },
            ["http://localhost:9/v1"],
        ),
    ],
)
def test_only_loopback_addresses_are_asked(environment: dict[str, str], places: list[str]) -> None:
    assert usual_addresses(environment) == places


@pytest.mark.parametrize(
    ("host", "first"),
    [
        ("0.0.0.0:9", "http://127.0.0.1:9"),
        ("127.0.0.1:9", "http://127.0.0.1:9"),
        ("gpu.example", "http://127.0.0.1:1234/v1"),
        ("https://127.0.0.1", "http://127.0.0.1:1234/v1"),
    ],
)
def test_ollama_host_variable_overrides_default_address(host: str, first: str) -> None:
    assert usual_addresses({"OLLAMA_HOST": host})[0] == first


# -- choice of the model


FOUND = {
    "ollama": LocalServer(type="ollama", base_url="http://127.0.0.1:9", models=("qwen3", "gemma3")),
    "vllm": LocalServer(type="vllm", base_url="http://127.0.0.1:8/v1", models=("m",)),
}
NO_MODEL = '[providers.mine]\ntype = "ollama"\n'
KEYED = '[providers.a]\ntype = "openai"\n[providers.b]\ntype = "anthropic"\n'


@pytest.mark.parametrize(
    ("text", "environment", "model", "chosen"),
    [
        ("", {}, None, "ollama/qwen3"),
        ("", {}, "gemma3", "ollama/gemma3"),
        ("", {}, "vllm", "vllm/m"),
        ("", {"OPENAI_API_KEY": "k"}, None, "openai-responses/gpt-5.5"),
        ("", {"OPENAI_API_KEY": "k"}, "ollama", "ollama/qwen3"),
        ("", {"OLLAMA_HOST": "127.0.0.1:9"}, None, "ollama/qwen3"),
        (NO_MODEL, {}, None, "mine/qwen3"),
        (KEYED, {}, None, "nothing"),
        ("", {}, "claude-opus-5", "nothing"),
    ],
)
def test_discovered_model_is_used_only_if_no_other_is_configured(
    tmp_path: Any, text: str, environment: dict[str, str], model: str | None, chosen: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    config = with_local_servers(load(Overrides(model=model), environment, file), FOUND)
    try:
        name = main_model(config).name
    except Exception as error:
        name = "nothing" if type(error).__name__ == "NoProvider" else repr(error)
    assert name == chosen
    notice = "".join(choice_notices(config, SessionChoice()))
    assert bool(notice) == (chosen.split("/")[1:] in (["qwen3"], ["gemma3"], ["m"]))
    assert ("nothing is configured" in notice) == (bool(notice) and not text and not model)


def test_configured_provider_skips_discovery(product: Product) -> None:
    product.will(ModelReply(text="pong"))
    with Service(replies_by_path({"/api/tags": TAGS})) as other:
        place = {ADDRESSES_VARIABLE: f"http://127.0.0.1:{other.port}"}
        assert product.run("-p", "ping", env=place).stdout == "pong\n"
    assert other.requests == []


def test_without_settings_discovered_server_is_used_and_named(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()
    pages = {
        "/v1/models": listed("vllm", "qwen3"),
        "/v1/chat/completions": ModelReply(text="pong"),
    }
    with Service(replies_by_path(pages)) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        result = product.run("-p", "--no-session", "ping", env={ADDRESSES_VARIABLE: url})
    assert (result.exit_code, result.stdout) == (0, "pong\n")
    assert f"Using qwen3 from vLLM at {url}, because nothing is configured" in result.stderr
    assert server.requests[-1].json["model"] == "qwen3"


def test_discovered_server_without_models_is_usage_error_with_hint(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()
    with Service(replies_by_path({"/api/tags": {"models": []}})) as server:
        place = {ADDRESSES_VARIABLE: f"http://127.0.0.1:{server.port}"}
        result = product.run("-p", "ping", env=place)
    assert result.exit_code == 2
    assert "Ollama has none" in result.stderr and "ollama pull" in result.stderr


def test_without_provider_and_server_is_usage_error_with_hint(
    product: Product,
) -> None:
    (product.config_dir / "config.toml").unlink()
    result = product.run("-p", "ping", env={ADDRESSES_VARIABLE: ""})
    assert result.exit_code == 2
    assert "no known model server answers" in result.stderr
    assert "dirge config init" in result.stderr
