"""Notices at a start without a chosen model."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.sdk.options import SessionChoice, choice_notices
from tests.support.fake_service import ModelReply
from tests.support.product import Product, product

__all__ = ["product"]

TWO = {"DEEPSEEK_API_KEY": "d", "GROQ_API_KEY": "g"}
FOUR = {**TWO, "MISTRAL_API_KEY": "m", "XAI_API_KEY": "x", "OPENROUTER_API_KEY": "o"}


@pytest.mark.parametrize(
    ("environment", "text", "model", "words"),
    [
        ({"OPENAI_API_KEY": "o"}, "", None, ""),
        (TWO, "", None, "because DEEPSEEK_API_KEY is set; so is GROQ_API_KEY. "),
        (FOUR, "", None, "so are GROQ_API_KEY, MISTRAL_API_KEY, XAI_API_KEY, …. "),
        ({**TWO, "OLLAMA_HOST": "127.0.0.1"}, "", None, "so are GROQ_API_KEY, OLLAMA_HOST. "),
        (TWO, 'provider = "groq"', None, ""),
        (TWO, "", "groq/m", ""),
        (TWO, '[providers.work]\ntype = "openai"\nmodel = "m"\n', None, ""),
        ({}, "", None, ""),
    ],
)
def test_model_choice_notice_appears_only_if_several_models_are_possible(
    tmp_path: Path, environment: Mapping[str, str], text: str, model: str | None, words: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    told = "\n".join(
        choice_notices(load(Overrides(model=model), environment, file), SessionChoice())
    )
    assert words in told and bool(told) == bool(words)
    assert "chooses" in told or not words


def test_model_choice_notice_appears_at_start_but_not_on_resume(
    product: Product,
) -> None:
    (product.config_dir / "config.toml").unlink()
    product.will(ModelReply(text="pong"), ModelReply(text="pong"))
    keys = {
        "GROQ_API_KEY": "g",
        "OPENAI_API_KEY": "o",
        "OPENAI_BASE_URL": product.service.openai_url,
    }
    first = product.run("-p", "ping", env=keys)
    again = product.run("-p", "-c", "ping", env=keys)
    assert (first.stdout, again.stdout) == ("pong\n", "pong\n")
    assert (
        "Using openai/gpt-5.5, because OPENAI_API_KEY is set; so is GROQ_API_KEY." in first.stderr
    )
    assert "is used" not in again.stderr
