"""Secrets among the environment variables."""

import pytest

from dirge_py.lib.redaction import secret_values

KNOWN = ("ANTHROPIC_API_KEY", "TAVILY_API_KEY")
RANDOM = "9f8a7b6c5d4e3f2a1b0c"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", f"sk-ant-{RANDOM}"),
        ("TAVILY_API_KEY", "tvly-Short1"),
        ("ANTHROPIC_API_KEY", f"  {RANDOM}\n"),
        *[
            (name, RANDOM)
            for name in (
                *("DEPLOY_TOKEN", "GITHUB_PAT", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "TOKEN"),
                *("STRIPE_APIKEY", "npm_config_token", "CLIENT_SECRET", "SENTRY_API_KEY"),
            )
        ],
    ],
)
def test_secret_values_are_recognized(name, value):
    assert list(secret_values({name: value}, KNOWN)) == [value.strip()]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", ""),
        ("ANTHROPIC_API_KEY", "test"),
        ("ANTHROPIC_API_KEY", "not-needed"),
        ("ANTHROPIC_API_KEY", "DUMMY_KEY"),
        ("TAVILY_API_KEY", "0000000000"),
        ("DEPLOY_TOKEN", "development"),
        ("CACHE_KEY", "node-modules-v18-linux"),
        ("MAX_TOKEN", "100000000000"),
        ("SSL_KEY", "/etc/ssl/0a1b2c3d4e5f6a7b8c9d/server.key"),
        ("SSH_KEY", "~/.ssh/id_0a1b2c3d4e5f6a7b8c9d"),
        ("KEYBOARD", RANDOM),
        ("GIT_COMMIT", RANDOM),
        ("TOKENIZERS_PARALLELISM", RANDOM),
    ],
)
def test_ordinary_values_are_not_secrets(name, value):
    assert list(secret_values({name: value}, KNOWN)) == []
