"""Redaction of secrets in everything that is written, logged or shown.

Secrets are known values, such as those of dirge's own environment, and text that looks like a
credential: prefixes of known issuers, and a few fixed forms. Every pattern begins with literal
text, so a search skips ordinary text quickly, and no two parts of one pattern match the same
characters, so time is linear.
"""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass

_SHORTEST = 8
"""Shorter values are not redacted: removing every `test` would reveal more than it hides."""


class Redactor:
    """Replaces known secrets, in all their encodings, and text that looks like a secret.

    Known values are found plain, escaped for JSON, URL-encoded and in base64, also in the middle
    of a longer base64 text (`user:key`). Time is linear in the text.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._known: re.Pattern[str] | None = None
        for value in values:
            self.add(value)

    def add(self, value: str | None) -> None:
        """Add a secret. Empty and very short ones are ignored."""
        secret = (value or "").strip()
        if len(secret) < _SHORTEST:
            return
        self._spellings |= _spellings(secret)
        self._known = None

    def redact_known(self, text: str) -> str:
        """Return `text` with the known secrets replaced; text that only looks like one stays."""
        if not self._spellings:
            return text
        if self._known is None:
            # Longest first, so that no spelling hides part of a longer one.
            longest_first = sorted(self._spellings, key=lambda each: (-len(each), each))
            self._known = re.compile("|".join(map(re.escape, longest_first)))
        return self._known.sub(REDACTED, text)

    def redact(self, text: str) -> str:
        """Return `text` with every secret replaced by `[redacted]`."""
        text = self.redact_known(text)
        for form in FORMS:
            text = form.removed_from(text)
        return text


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return JSON-like data with every text in it redacted, names of members included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redacted(name, redact): redacted(item, redact) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, redact) for item in value]
    return value


def _spellings(secret: str) -> set[str]:
    """Return the forms of `secret` in JSON, in URLs, and inside base64, where it has three.

    Characters that also encode bits of the surrounding text are left out.
    """
    forms = {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)}
    raw = secret.encode("utf-8", "surrogatepass")
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode("ascii").rstrip("=")
        first_own = -(-shift * 8 // 6)
        own_bits_end = (shift + len(raw)) * 8 // 6
        form = encoded[first_own:own_bits_end]
        forms |= {form, form.replace("+", "-").replace("/", "_")}
    return forms


_MIN_RANDOM_RUN = 12


@dataclass(frozen=True, slots=True)
class SecretForm:
    """A form of credential; `re` compiles its pattern on first use."""

    pattern: str
    """The pattern; its group `secret` is the credential."""
    keep_prefix: bool = False
    """Whether to keep the matched text before the credential."""
    is_secret: Callable[[str], bool] = bool
    """The final check of a match."""

    def removed_from(self, text: str) -> str:
        """Return `text` with every match replaced that is a secret."""

        def replacement(match: re.Match[str]) -> str:
            if not self.is_secret(match["secret"]):
                return match[0]
            kept = match[0][: match.start("secret") - match.start()] if self.keep_prefix else ""
            return f"{kept}{REDACTED}"

        return re.sub(self.pattern, replacement, text)


REDACTED = "[redacted]"


def looks_random(text: str) -> bool:
    """Whether a run of letters and digits in `text` is too long and mixed to be a word."""
    return any(
        len(run) >= _MIN_RANDOM_RUN
        and any(character.isdigit() for character in run)
        and any(character.isalpha() for character in run)
        for run in re.split(r"[^A-Za-z0-9]+", text)
    )


def _token(prefix: str, body: str, is_secret: Callable[[str], bool] = bool) -> SecretForm:
    """Return a credential that begins with `prefix`, which must not continue a longer word."""
    return SecretForm(rf"(?P<secret>{prefix}(?<![\w-]{prefix}){body})", is_secret=is_secret)


def _after(introduction: str, body: str) -> SecretForm:
    """Return a credential known by the text before it, which stays; `body` must look random."""
    pattern = f"{introduction}(?P<secret>{body})"
    return SecretForm(pattern, keep_prefix=True, is_secret=looks_random)


_NAMES = (
    "API_KEY|APIKEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|ACCESS_TOKEN|AUTH_TOKEN|TOKEN|SECRET|PASSWORD"
)
_ASSIGNED = r"[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?"
FORMS: tuple[SecretForm, ...] = (
    # With the line numbers that a reading tool may have added.
    SecretForm(
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\sA-Za-z0-9+/=\\:,]|-(?!----)){20,}+"
        r"(?:-----END [A-Z0-9 ]{1,60}-----)?)"
    ),
    _token("sk-ant-", r"[A-Za-z0-9_-]{20,}+"),
    _token("sk-", r"[A-Za-z0-9_-]{20,}+", looks_random),
    _token("sk_live_", r"[A-Za-z0-9]{16,}+"),
    _token("rk_live_", r"[A-Za-z0-9]{16,}+"),
    *(_token(f"gh{kind}_", r"[A-Za-z0-9]{36,}+") for kind in "pousr"),
    _token("github_pat_", r"[A-Za-z0-9_]{22,}+"),
    _token("glpat-", r"[A-Za-z0-9_-]{20,}+", looks_random),
    _token("AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("AIza", r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _token("xox", r"[abeoprs]-[A-Za-z0-9-]{10,}+"),
    _token("xapp-", r"[A-Za-z0-9-]{20,}+", looks_random),
    _token("npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("pypi-", r"[A-Za-z0-9_-]{50,}+"),
    _token("hf_", r"[A-Za-z0-9]{30,}+"),
    _token("gsk_", r"[A-Za-z0-9]{40,}+"),
    _token("xai-", r"[A-Za-z0-9]{40,}+"),
    _token("eyJ", r"[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"),
    _after(r"Bearer[ \t]{1,4}", r"[A-Za-z0-9._~+/-]{20,}+=*"),
    _after(r"bearer[ \t]{1,4}", r"[A-Za-z0-9._~+/-]{20,}+=*"),
    _after(rf"_(?:{_NAMES}){_ASSIGNED}", r"[A-Za-z0-9._~+/-]{20,}+=*"),
    # The password in an address; text before a digest is the tag of an image.
    _after(r"://[^\s/@:\"',]{0,64}:", r"[^\s/@\"',]{12,256}+(?=@)(?!@sha256:)"),
)


_LEAST_KEY = 8
_NAMED_LIKE_ONE = late_pattern(
    r"(?:.*_)?(?:API_?KEYS?|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?)", re.IGNORECASE
)
_PLACES = ("/", "~", "./", "../", "file:")
_WORDS = late_pattern(r"[a-z]+(?:[-_. ][a-z]+)*|[A-Z]+(?:[-_. ][A-Z]+)*|[0-9]+")


def secret_values(environment: Mapping[str, str], key_variables: Collection[str]) -> Iterator[str]:
    """Yield the values of environment variables that are secrets, judging by names and values.

    `key_variables` are known to hold keys: their values count unless they are plain words, such as
    `not-needed`. If only the name suggests one (`DEPLOY_TOKEN`), a value counts that looks random
    and is not a path.
    """
    for name, value in environment.items():
        secret = value.strip()
        if name in key_variables:
            if len(secret) >= _LEAST_KEY and not _WORDS.fullmatch(secret):
                yield secret
        elif (
            _NAMED_LIKE_ONE.fullmatch(name)
            and looks_random(secret)
            and not secret.startswith(_PLACES)
        ):
            yield secret
