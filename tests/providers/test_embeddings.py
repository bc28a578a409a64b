"""Embeddings: requests, accepted answers, errors."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.config.schema import Config, ProviderEntry
from dirge_py.config.sources import Origin, Overrides
from dirge_py.providers.embeddings import (
    EMBEDDING_FORMATS,
    MAX_INPUTS,
    EmbeddingProvider,
    EmbeddingRequest,
    Embeddings,
    EmbeddingUsage,
    embed_texts,
    retry_embedding,
)
from dirge_py.providers.settings import ProviderSettings, StreamTimeouts
from dirge_py.types.errors import ConfigError, ProviderError
from tests.security.sizes import size
from tests.support.fake_service import NoReply, RawReply
from tests.support.provider_client import KEY

JSON = {"content-type": "application/json"}


def answer(payload, status=200, **headers):
    return RawReply(status=status, body=json.dumps(payload), headers={**JSON, **headers})


def rows(*vectors, **more):
    return {"data": [{"index": n, "embedding": v} for n, v in enumerate(vectors)], **more}


@pytest.fixture
def ask(http, serve):
    """Embed with one reply per request; `ask.service` is the last service."""

    async def embed(*replies, wire="openai", **changes):
        service = embed.service = serve(*replies)
        kept = {name: changes.pop(name) for name in ("timeouts", "headers") if name in changes}
        options = {"base_url": service.url(wire), "api_key": KEY, **kept}
        provider = EmbeddingProvider(
            wire, ProviderSettings(alias="work", type=wire, **options), http
        )
        return await provider.embed(EmbeddingRequest(**{"input": ["a"], **changes}))

    return embed


async def failed(ask, *replies, **changes):
    with pytest.raises(ProviderError) as caught:
        await ask(*replies, **changes)
    return caught.value


async def test_a96_default_model_is_used_and_vectors_keep_order_of_texts(ask):
    usage = {"prompt_tokens": 5, "total_tokens": 6}
    shuffled = {"data": rows([1], [2], [3])["data"][::-1], "usage": usage, "model": "served"}
    found = await ask(answer(shuffled), input=["a", "b", "c"], dimensions=1, extra={"user": "me"})

    assert found == Embeddings(
        embeddings=((1.0,), (2.0,), (3.0,)),
        model="served",
        usage=EmbeddingUsage(prompt_tokens=5, total_tokens=6),
    )
    assert ask.service.requests[0].json == {
        "model": "text-embedding-3-small",
        "encoding_format": "float",
        "dimensions": 1,
        "user": "me",
        "input": ["a", "b", "c"],
    }


async def test_extra_members_override_everything_but_input(ask):
    extra = {"encoding_format": "base64", "input": ["other"]}
    await ask(answer(rows([1])), extra=extra, model="m")
    sent = ask.service.requests[0].json

    assert (sent["model"], sent["encoding_format"], sent["input"]) == ("m", "base64", ["a"])


async def test_ollama_embeddings_use_embed_endpoint(ask):
    found = await ask(answer({"embeddings": [[1, 2]]}), wire="ollama", dimensions=2)

    assert ask.service.requests[0].path == "/api/embed"
    assert ask.service.requests[0].json["model"] == "nomic-embed-text"
    assert found == Embeddings(embeddings=((1.0, 2.0),), model="nomic-embed-text")


async def test_many_texts_are_split_into_requests_and_returned_in_order(ask):
    texts = [str(n) for n in range(MAX_INPUTS + 2)]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    first = rows(*([n] for n in range(MAX_INPUTS)), usage=usage)
    found = await ask(answer(first), answer(rows([-1], [-2], usage=usage)), input=texts)

    assert [seen.json["input"] for seen in ask.service.requests] == [texts[:-2], texts[-2:]]
    assert [vector[0] for vector in found.embeddings] == [*range(MAX_INPUTS), -1, -2]
    assert found.usage == EmbeddingUsage(prompt_tokens=4, total_tokens=4)


async def test_empty_input_is_rejected_without_request(ask):
    error = await failed(ask, input=[])

    assert (error.kind, ask.service.requests) == ("invalid_request", [])


@pytest.mark.parametrize(
    ("status", "kind", "is_retryable"),
    [
        (400, "invalid_request", False),
        (401, "auth", False),
        (429, "rate_limit", True),
        (500, "server", True),
        (503, "server", True),
    ],
)
@pytest.mark.parametrize("wire", ["openai", "ollama"])
async def test_n75_http_error_status_maps_to_error_kind(ask, wire, status, kind, is_retryable):
    reply = answer({"error": f"no {KEY}"}, status, **{"retry-after": "7"})
    error = await failed(ask, reply, wire=wire)

    assert (error.kind, error.is_retryable, error.retry_after_s) == (kind, is_retryable, 7.0)
    assert KEY not in f"{error} {error.raw}"


async def test_transport_failures_are_retryable_kinds(ask):
    lost = await failed(ask, NoReply(then="close"))
    late = await failed(ask, NoReply(), timeouts=StreamTimeouts(establish_s=0.1))
    page = await failed(ask, RawReply(body="<html>Log in</html>"))
    cut = await failed(ask, RawReply(body='{"data": ['))

    assert [e.kind for e in (lost, late, page, cut)] == [
        "network",
        "network",
        "proxy_page",
        "network",
    ]


async def test_missing_ollama_model_error_suggests_pull(ask):
    words = 'model "nomic-embed-text" not found, try pulling it first'
    error = await failed(ask, answer({"error": words}, 404), wire="ollama")

    assert "`ollama pull nomic-embed-text`" in error.hint


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (rows([1]), "1 came for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}, "0 came"),
        (rows([1], []), "not a list of numbers"),
        (rows([1], "AAAA"), "not a list of numbers"),
        (rows([1], [True]), "something other than numbers"),
        (rows([1], [float("nan")]), "something other than numbers"),
        (rows([1], [10**400]), "something other than numbers"),
        (rows([1, 2], [1]), "different lengths (1 and 2)"),
        (rows([1, 2, 3], [1, 2, 3]), "3 dimensions, not the 2"),
        ({}, "0 came"),
    ],
)
async def test_answer_without_one_vector_per_text_is_rejected(ask, payload, why):
    error = await failed(ask, answer(payload), input=["a", "b"], dimensions=2)

    assert why in error.message
    assert not error.is_retryable


async def test_rows_without_index_are_in_order(ask):
    found = await ask(answer({"data": [{"embedding": [1]}, {"embedding": [2]}]}), input=["a", "b"])

    assert found.embeddings == ((1.0,), (2.0,))
    assert found.usage == EmbeddingUsage()


async def test_unsendable_header_error_names_header_and_sends_nothing(ask):
    error = await failed(ask, headers={"x-team": "a\nb"})

    assert "x-team" in error.message
    assert ask.service.requests == []


async def test_command_line_flags_of_main_provider_do_not_apply_to_other_provider(http, serve):
    service = serve(answer(rows([0.5])))
    providers = {
        "main": ProviderEntry(type="openai", base_url="https://main.example/v1", model="m"),
        "side": ProviderEntry(type="openai", base_url=service.url("openai")),
    }
    chosen = Overrides(provider="main", base_url="https://flag.example/v1", api_key="sk-of-main")
    config = Config(providers=providers).with_origin(Origin(chosen=chosen))

    await embed_texts(config, http, ["a"], model="side/small", notice=print)

    assert "authorization" not in service.requests[0].headers


def test_unencrypted_remote_address_is_config_error(http):
    far = ProviderSettings(alias="a", type="openai", base_url="http://far.example/v1")
    with pytest.raises(ConfigError, match="unencrypted"):
        EmbeddingProvider("openai", far, http)


async def test_embedding_retries_back_off_like_model_calls():
    waits, notices = [], []
    errors = [
        ProviderError("busy.", kind="rate_limit", retry_after_s=30.0),
        *[ProviderError("down.", kind="server")] * 9,
    ]

    async def attempt():
        raise errors.pop(0)

    async def sleep(seconds):
        waits.append(seconds)

    with pytest.raises(ProviderError, match="down"):
        await retry_embedding(attempt, notice=notices.append, sleep=sleep, random=lambda: 0.0)

    assert waits == [30.0, 2.0, 4.0, 8.0, 16.0]
    assert notices[0] == "busy. Trying again in 30 s."


async def test_long_rate_limit_is_usage_cap_and_not_retried():
    async def attempt():
        raise ProviderError("busy.", kind="rate_limit", retry_after_s=9999.0)

    with pytest.raises(ProviderError) as caught:
        await retry_embedding(attempt, notice=print, policy=RecoveryPolicy())
    assert caught.value.kind == "usage_cap"


@settings(max_examples=size(60, 400))
@given(seed=st.integers(), count=st.integers(1, 6))
def test_rows_in_any_order_are_sorted_by_index(seed, count):
    data = rows(*([float(n)] for n in range(count)))["data"]
    random.Random(seed).shuffle(data)

    vectors, _, _ = EMBEDDING_FORMATS["openai"].read({"data": data})
    assert vectors == [[float(n)] for n in range(count)]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "index", "embedding", "embeddings"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=size(60, 400))
@given(payload=st.dictionaries(st.sampled_from(["data", "embeddings", "usage"]), JUNK))
def test_any_json_answer_is_read_without_exception(payload):
    for wire in EMBEDDING_FORMATS.values():
        vectors, *counts = wire.read(payload)
        assert isinstance(vectors, list)
        assert all(count is None or isinstance(count, int) for count in counts)
