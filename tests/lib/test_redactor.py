import argparse as ordinary_code
import base64
import inspect
import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.lib.redaction import Redactor
from tests.security.sizes import size

PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7b1c/+\n" * 8
PEM_END = "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "spelled",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        lambda key: json.dumps({"key": key}),
        lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"{key}\n".encode()).decode(),
    ],
    ids=["plain", "url", "json", "basic-auth", "base64url"],
)
def test_known_key_is_redacted_in_every_encoding(spelled):
    key = 'my"odd/key+with=signs?'
    text = Redactor([key]).redact(f"before {spelled(key)} after")

    assert "[redacted]" in text
    assert text.startswith("before ") and text.endswith(" after")
    assert key not in text


@given(st.binary(max_size=9), st.text("abcdef0123456789", min_size=8), st.binary(max_size=9))
@settings(max_examples=size(66, 200))
def test_known_key_is_redacted_at_any_offset_in_base64(before, key, after):
    encoded = base64.b64encode(before + key.encode() + after).decode()

    assert "[redacted]" in Redactor([key]).redact(encoded)


# Joined here so that no scanner takes this file for a leak.
@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8",
        "sk-" + "0123456789abcdef0123456789abcdef",
        "sk-ant-" + "api03-abcdefghijklmnopqrstuvwxyz",
        "ghp_" + "a1" * 18,
        "github_pat_" + "1" * 30,
        "AKIA" + "ABCDEFGH12345678",
        "AIza" + "b2" * 17 + "c",
        "xoxb-" + "123456789012-abcdef",
        "hf_" + "Ab1" * 12,
        "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXRleHQ",
        PEM + PEM_END,
    ],
    ids=lambda secret: secret[:12],
)
def test_text_that_looks_like_a_credential_is_redacted(secret):
    assert Redactor().redact(f"x = '{secret}';") == "x = '[redacted]';"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abc123def456ghi789jkl", "Authorization: Bearer [redacted]"),
        ("export MY_API_KEY=0123456789abcdefghij", "export MY_API_KEY=[redacted]"),
        ('"DB_PASSWORD": "a1b2c3d4e5f6g7h8i9j0",', '"DB_PASSWORD": "[redacted]",'),
        ("postgres://app:a1b2c3d4e5f6g7@db:5432/x", "postgres://app:[redacted]@db:5432/x"),
        ("redis://:a1b2c3d4e5f6g7@cache", "redis://:[redacted]@cache"),
    ],
)
def test_name_before_a_redacted_secret_is_kept(text, redacted):
    assert Redactor().redact(text) == redacted


def test_truncated_or_numbered_private_key_is_redacted():
    numbered = "\n".join(f"{n:>4}: {line}" for n, line in enumerate(PEM.split("\n"), 1))

    assert "MII" not in Redactor().redact(PEM)
    assert "MII" not in Redactor().redact(numbered)


@pytest.mark.parametrize(
    "text",
    [
        inspect.getsource(ordinary_code),
        'OPENAI_API_KEY = os.environ["OPENAI_API_KEY"]',
        "API_KEY=settings.providers.openai_api_key_value",
        "MAX_TOKEN=100000 sk-folding-cube-animation-large task-0123456789abcdef0123",
        "The Bearer of this internationalisation-certificate must be admitted.",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError(text)',
        "sha512-abcdefghijklmnopqrstuvwxyz0123456789== integrity",
        "postgres://app:password@db http://[::1]:8080/a1b2c3d4e5f6g7@b mongodb://u:${PASSWORD_1}@h",
        "https://files.example/a.png?alt=media&token=3f2b8c1e-77aa-4c09-9d1f-9f86d081884c",
        "docker://registry:v1a2b3c4d5e6f7@sha256:0123456789abcdef proxy://p:8080,a1b2c3d4e5f6@x",
    ],
    ids=lambda text: text[:20],
)
def test_prose_and_code_are_not_redacted(text):
    assert Redactor().redact(text) == text


def test_short_values_are_not_secrets():
    assert Redactor(["test", "", "  "]).redact("a test") == "a test"


@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "eyJ",
        "_TOKEN=",
        "Bearer ",
        "-----BEGIN PRIVATE KEY-----\n",
        "A",
        "eyJa.",
        "k",
        "://",
        "://u:",
        "://u:p:",
    ],
)
def test_redaction_of_hostile_text_takes_linear_time(piece):
    redactor = Redactor(["k" * 20])
    text = piece * (1_000_000 // len(piece))
    began = time.perf_counter()
    redactor.redact(text)

    assert time.perf_counter() - began < 2
