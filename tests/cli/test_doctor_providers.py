"""`dirge doctor` on providers: each finding, which providers are asked, and no key is shown."""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dirge_py.config.load import load
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.doctor.providers import LIMIT_S, check_providers
from dirge_py.sdk.doctor.report import CheckResult
from tests.support.fake_service import FakeService, NoReply, RawReply
from tests.support.product import KEY, Product, Service, replies_by_path

LISTED = RawReply(body=json.dumps({"data": [{"id": "gpt-4o-2026-01-01"}, {"id": "small"}]}))
HOME = {"DIRGE_LOCAL_SERVERS": ""}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def entry(url: str, *, alias: str = "mine", kind: str = "openai", more: str = "") -> str:
    return (
        f'[providers.{alias}]\ntype = "{kind}"\nbase_url = "{url}"\n'
        f'model = "gpt-4o"\napi_key_env = "FAKE_KEY"\n{more}'
    )


def found(
    tmp_path: Path,
    text: str,
    *,
    is_offline: bool = False,
    limit_s: float = LIMIT_S,
    **environment: str,
) -> dict[str, CheckResult]:
    file = tmp_path / "config.toml"
    file.write_text(text)
    surroundings: Mapping[str, str] = {**HOME, "FAKE_KEY": KEY, **environment}
    config = load(path=file, environment=surroundings)
    config = config if is_offline else with_local_servers(config)
    findings = check_providers(config, surroundings, is_offline=is_offline, limit_s=limit_s)
    assert KEY not in repr(findings)
    return {each.name: each for each in findings}


@pytest.mark.parametrize(
    ("reply", "state", "words", "fix"),
    [
        (LISTED, "ok", "key from FAKE_KEY: answers, lists 2 models", ""),
        (
            RawReply(status=401, body=f'{{"error": "bad {KEY}"}}'),
            "problem",
            "(401)",
            "Check FAKE_KEY",
        ),
        (RawReply(body="<!doctype html><p>Log in"), "problem", "sent a web page", "base_url"),
        (RawReply(body='{"status": "fine"}'), "problem", "dirge cannot read", "`type`"),
        (RawReply(status=404), "ok", "answers, and lists no models (404)", ""),
        (RawReply(status=503), "warning", "server error (503)", "Try again later"),
        (
            RawReply(status=302, headers={"location": "/x"}),
            "problem",
            "has moved",
            "key is not sent",
        ),
    ],
)
def test_provider_response_decides_finding_and_fix(
    tmp_path: Path, reply: RawReply, state: str, words: str, fix: str
) -> None:
    with FakeService([reply]) as service:
        findings = found(tmp_path, entry(service.openai_url))["provider mine"]
        [seen] = service.requests
    assert (seen.method, seen.path, seen.body) == ("GET", "/v1/models", b"")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert findings.state == state
    assert words in findings.words and fix in findings.fix


def test_silent_or_unreachable_provider_is_a_problem(tmp_path: Path) -> None:
    with FakeService([NoReply()]) as service:
        findings = found(tmp_path, entry(service.openai_url), limit_s=0.5)
    assert "no list of models within 0.5 s" in findings["provider mine"].words
    assert "whether it runs" in findings["provider mine"].fix
    findings = found(tmp_path, entry(f"http://127.0.0.1:{free_port()}/v1"))
    assert findings["provider mine"].state == "problem"
    assert "Is the service running there?" in findings["provider mine"].fix


def test_unused_provider_causes_only_a_warning(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    with FakeService([LISTED]) as service:
        text = 'provider = "mine"\n' + entry(service.openai_url) + entry(nowhere, alias="other")
        text += '[providers.third]\ntype = "anthropic"\napi_key_env = "NO_SUCH_KEY"\n'
        findings = found(tmp_path, text)
    assert findings["provider mine"].state == "ok"
    assert findings["provider other"].state == "warning"
    assert findings["provider third"].state == "warning"
    assert "NO_SUCH_KEY" in findings["provider third"].fix


WIRES: list[tuple[str, str, dict[str, Any], str]] = [
    ("openai-responses", "/v1/models", {"data": [{"id": "gpt-4o"}]}, "authorization"),
    ("anthropic", "/v1/models?limit=1000", {"data": [{"id": "gpt-4o"}]}, "x-api-key"),
    (
        "gemini",
        "/v1beta/models?pageSize=1000",
        {
            "models": [
                {"name": "models/gpt-4o", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/e", "supportedGenerationMethods": ["embedContent"]},
            ]
        },
        "x-goog-api-key",
    ),
    ("ollama", "/api/tags", {"models": [{"name": "gpt-4o:latest"}]}, "authorization"),
]


@pytest.mark.parametrize(("kind", "path", "body", "header"), WIRES)
def test_model_list_is_requested_in_format_of_provider(
    tmp_path: Path, kind: str, path: str, body: dict[str, Any], header: str
) -> None:
    with FakeService([RawReply(body=json.dumps(body))]) as service:
        findings = found(tmp_path, entry(service.url(kind), kind=kind))
        [seen] = service.requests
    assert findings["provider mine"].words.endswith("answers, lists 1 model")
    assert "model" not in findings
    assert (seen.path, seen.headers[header].removeprefix("Bearer ")) == (path, KEY)


@pytest.mark.parametrize(
    ("listed", "fix"),
    [
        (["gpt-4.1", "gpt-4"], "choose `gpt-4"),
        (["x"], "choose one of its 1"),
        (["gpt-4o-2026"], None),
        (["gpt-4o:latest"], None),
        ([], None),
    ],
)
def test_unlisted_model_is_a_warning(
    tmp_path: Path, listed: Sequence[str], fix: str | None
) -> None:
    body = json.dumps({"data": [{"id": each} for each in listed]})
    with FakeService([RawReply(body=body)]) as service:
        findings = found(tmp_path, entry(service.openai_url))
    assert ("model" in findings) == (fix is not None)
    if fix is not None:
        assert findings["model"].state == "warning"
        assert fix in findings["model"].fix


def test_role_with_unusable_model_is_named(tmp_path: Path) -> None:
    with FakeService([LISTED]) as service:
        text = entry(service.openai_url) + '[roles]\nreview = "anthropic/x"\nsummarize = "mine"\n'
        findings = found(tmp_path, text)
    assert "ANTHROPIC_API_KEY" in findings["role review"].fix + findings["role review"].words
    assert "role summarize" not in findings


def test_offline_flag_sends_no_requests(tmp_path: Path) -> None:
    with Service([LISTED]) as service:
        url = service.openai_url
        findings = found(tmp_path, entry(url), is_offline=True, DIRGE_LOCAL_SERVERS=url)
        assert service.requests == []
    assert findings["provider mine"].state == "skipped"
    assert findings["provider mine"].words.endswith("key from FAKE_KEY: not asked")
    assert "local servers" not in findings


def test_same_key_is_tried_once_per_service(tmp_path: Path) -> None:
    with FakeService([LISTED, LISTED]) as service:
        findings = found(tmp_path, "", OPENAI_API_KEY="sk-own", OPENAI_BASE_URL=service.openai_url)
        assert len(service.requests) == 1
    assert [name for name in findings if name.startswith("provider")] == ["provider openai"]


@pytest.mark.parametrize("alias", ["openai", "openai-responses"])
def test_only_provider_in_use_is_shown_for_shared_key(tmp_path: Path, alias: str) -> None:
    environment = {"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "m", "DIRGE_MODEL": f"{alias}/x"}
    findings = found(tmp_path, "", is_offline=True, **environment)
    assert set(findings) == {f"provider {alias}", "provider mistral"}


def test_local_server_is_reported_as_provider(tmp_path: Path) -> None:
    tags = RawReply(body=json.dumps({"models": [{"name": "qwen3", "size": 1}]}))
    with FakeService([tags] * 8) as service:
        findings = found(tmp_path, "", DIRGE_LOCAL_SERVERS=service.url("ollama"))
    where = f"{service.url('ollama')}, no key needed"
    assert findings["provider ollama"].words == f"{where}: answers, lists 1 model"
    assert "local servers" not in findings


@pytest.mark.parametrize(
    ("kind", "path", "is_told"),
    [("ollama", "", False), ("ollama", "/", False), ("openai", "/nothing", True)],
)
def test_local_server_is_reported_once(tmp_path: Path, kind: str, path: str, is_told: bool) -> None:
    pages = {"/api/tags": {"models": [{"name": "gpt-4o", "size": 1}]}}
    with Service(replies_by_path(pages)) as service:
        url = f"http://127.0.0.1:{service.port}"
        text = entry(url.replace("127.0.0.1", "localhost") + path, kind=kind)
        findings = found(tmp_path, text, DIRGE_LOCAL_SERVERS=url)
    assert ("local servers" in findings) is is_told
    if is_told:
        # The server answers, but with another wire format than configured.
        assert findings["provider mine"].state == "ok"
        assert findings["local servers"].words == f"Ollama at {url}: gpt-4o"


def test_local_server_without_models_suggests_pull(tmp_path: Path) -> None:
    with FakeService([RawReply(body='{"models": []}')] * 4) as service:
        findings = found(tmp_path, "", DIRGE_LOCAL_SERVERS=service.url("ollama"))
    assert findings["local servers"].fix == "ollama pull qwen3"
    assert found(tmp_path, "")["local servers"].state == "skipped"


def test_json_contains_all_findings(product: Product) -> None:
    product.will(LISTED)
    findings = product.run("doctor", "--json").json["findings"]
    names = {each["name"]: each["state"] for each in findings}
    assert (names["provider"], names["provider fake"]) == ("ok", "ok")
    assert KEY not in json.dumps(findings)
    findings = product.run("doctor", "--json", "--offline").json["findings"]
    assert {each["name"]: each["state"] for each in findings}["provider fake"] == "skipped"
    assert len(product.service.requests) == 1
