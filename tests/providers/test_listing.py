"""Lists of models, as services write them down."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.providers.listing import model_ids

WIRES = ("openai", "openai-responses", "anthropic", "gemini", "ollama")
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
NAMES = st.sampled_from(["data", "models", "id", "name", "supportedGenerationMethods"])
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)


@given(JSON, st.sampled_from(WIRES))
def test_whatever_comes_is_a_list_of_ids_or_none(body: Any, wire: str) -> None:
    try:
        ids = model_ids(json.dumps(body).encode(), wire=wire)
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
def test_each_format_has_its_own_list(wire: str, body: Any, ids: list[str]) -> None:
    assert model_ids(json.dumps(body).encode(), wire=wire) == ids


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[" * 100_000, b'{"data": [{"id": 1}]}'])
def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ValueError, match="no list of models"):
        model_ids(body, wire="openai")
