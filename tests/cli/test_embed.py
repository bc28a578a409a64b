"""`dirge embed` as a process."""

import json
from typing import Any

import pytest

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.cli.embed import embed_fits
from dirge_py.providers import embeddings
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import KEY, Product

JSON = {"content-type": "application/json"}


def answer(payload: Any, status: int = 200, **headers: str) -> RawReply:
    return RawReply(status=status, body=json.dumps(payload), headers={**JSON, **headers})


def vectors(*found: list[float], model: str = "text-embedding-3-small") -> RawReply:
    """An answer of OpenAI's format, the last vector first, as the order is not guaranteed."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(found)]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return answer({"object": "list", "data": data[::-1], "model": model, "usage": usage})


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "RETRY_POLICY", RecoveryPolicy(base_s=0.001))


def test_words_are_embedded_as_separate_texts(product: Product) -> None:
    product.will(vectors([0.5, -1], [2, 3.25]))

    result = product.run("embed", "--dimensions", "2", "--", "one text", "--another")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.json == {
        "model": "text-embedding-3-small",
        "embeddings": [[0.5, -1.0], [2.0, 3.25]],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }
    [seen] = product.service.requests
    assert seen.path == "/v1/embeddings"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.json == {
        "model": "text-embedding-3-small",
        "encoding_format": "float",
        "dimensions": 2,
        "input": ["one text", "--another"],
    }


def test_lines_of_stdin_are_embedded_as_texts(product: Product) -> None:
    product.will(vectors([1], [2]))

    result = product.run("embed", stdin="first\n\n  \nsecond line\n")

    assert result.exit_code == 0, result.stderr
    assert product.service.requests[0].json["input"] == ["first", "second line"]


def test_ollama_embeds_texts(product: Product) -> None:
    product.configure(wire="ollama", model="qwen3")
    found = {"model": "all-minilm", "embeddings": [[0.25, 0.5]], "prompt_eval_count": 3}
    product.will(answer(found))

    result = product.run("embed", "--model", "all-minilm", "a text")

    assert result.json == {
        "model": "all-minilm",
        "embeddings": [[0.25, 0.5]],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    [seen] = product.service.requests
    assert seen.path == "/api/embed"
    assert seen.json == {"model": "all-minilm", "truncate": False, "input": ["a text"]}


def test_embed_followed_by_sentence_is_a_prompt(product: Product) -> None:
    product.will(ModelReply(text="It is done."))

    result = product.run("embed", "the", "docs", "into", "the", "site", "-p")

    assert (result.exit_code, result.stdout) == (0, "It is done.\n")
    assert product.service.requests[0].path == "/v1/chat/completions"


def test_embed_is_subcommand_only_with_flag_or_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    assert embed_fits(["--", "x"])
    assert embed_fits(["--model", "m", "x"])
    assert not embed_fits(["the", "--model", "m"])
    for is_terminal in (False, True):
        monkeypatch.setattr("sys.stdin.isatty", lambda held=is_terminal: held, raising=False)
        assert embed_fits([]) is not is_terminal


@pytest.mark.parametrize("words", [(), ("--",), ("--", " ")])
def test_missing_text_is_usage_error(product: Product, words: tuple[str, ...]) -> None:
    result = product.run("embed", *words, stdin="\n")

    assert result.exit_code == 2
    assert "text" in result.stderr
    assert product.service.requests == []


def test_provider_without_embeddings_is_refused_with_alternatives(product: Product) -> None:
    other = f'[providers.other]\ntype = "openai"\nbase_url = "{product.service.openai_url}"\n'
    product.configure(other, wire="anthropic", model="claude-haiku-4-5")

    result = product.run("embed", "--", "x")

    assert result.exit_code == 2
    assert "Provider `fake` (anthropic) has no embeddings." in result.stderr
    assert "other" in result.stderr.splitlines()[1]

    product.will(vectors([1]))
    assert product.run("embed", "--provider", "other", "x").exit_code == 0


@pytest.mark.parametrize(
    ("given", "asked"), [("fake/big", "big"), ("some/big", "some/big"), ("fake/a/b", "a/b")]
)
def test_model_can_be_named_with_its_provider(product: Product, given: str, asked: str) -> None:
    product.will(vectors([1]))

    result = product.run("embed", "-m", given, "--", "x")

    assert (result.exit_code, product.service.requests[0].json["model"]) == (0, asked)


def test_invalid_dimensions_are_refused(product: Product) -> None:
    result = product.run("embed", "--dimensions", "0", "--", "x")

    assert result.exit_code == 2 and "'0' is not a whole number above 0" in result.stderr


def test_unknown_provider_is_reported(product: Product) -> None:
    result = product.run("embed", "--provider", "nobody", "x")

    assert (result.exit_code, "nobody" in result.stderr) == (2, True)


@pytest.mark.usefixtures("hasty")
def test_transient_error_is_retried(product: Product) -> None:
    product.will(answer({"error": {"message": "slow down"}}, 429), vectors([1]))

    result = product.run("embed", "--", "x")

    assert (result.exit_code, result.json["embeddings"]) == (0, [[1.0]])
    assert "Trying again" in result.stderr


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("status", "exit_code", "requests"), [(503, 75, 6), (400, 1, 1), (401, 1, 1)]
)
def test_failed_request_has_exit_code_of_its_kind(
    product: Product, status: int, exit_code: int, requests: int
) -> None:
    product.will(*[answer({"error": {"message": "no"}}, status)] * 6)

    result = product.run("embed", "--", "x")

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert len(product.service.requests) == requests
    assert KEY not in result.stderr


def test_exhausted_quota_is_not_retried(product: Product) -> None:
    words = {"error": {"message": "daily limit reached"}}
    product.will(answer(words, 429, **{"retry-after": "7200"}))

    result = product.run("embed", "--", "x")

    assert result.exit_code == 54
    assert len(product.service.requests) == 1
