"""What credentials look like: prefixes their issuers chose, and a few fixed forms.

Every pattern begins with literal text, so a search skips through ordinary text quickly, and no
two parts of one pattern match the same characters, so none can backtrack far: time is linear.
"""

import re
from collections.abc import Callable

from dirge_py.lib.lean_dataclass import dataclass

_MIN_RANDOM_RUN = 12


@dataclass(frozen=True, slots=True)
class SecretForm:
    """A pattern, what to put in the place of a match, and a last look at whether it is one.

    The pattern is compiled, and kept by `re`, when it is first looked for.
    """

    pattern: str
    keep_prefix: bool = False
    is_secret: Callable[[str], bool] = bool

    def removed_from(self, text: str) -> str:
        """`text` with every match replaced that is a secret."""
        return re.sub(self.pattern, self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        secret = match["secret"]
        if not self.is_secret(secret):
            return match[0]
        kept = match[0][: match.start("secret") - match.start()] if self.keep_prefix else ""
        return f"{kept}{REDACTED}"


REDACTED = "[redacted]"


def looks_random(text: str) -> bool:
    """Whether some run of letters and digits in `text` is long and mixed, as no word is."""
    return any(
        len(run) >= _MIN_RANDOM_RUN
        and any(character.isdigit() for character in run)
        and any(character.isalpha() for character in run)
        for run in re.split(r"[^A-Za-z0-9]+", text)
    )


def _token(prefix: str, body: str, is_secret: Callable[[str], bool] = bool) -> SecretForm:
    """A credential that begins with `prefix`, which must not continue a longer word."""
    return SecretForm(rf"(?P<secret>{prefix}(?<![\w-]{prefix}){body})", is_secret=is_secret)


def _after(introduction: str, body: str) -> SecretForm:
    """A credential known by what stands before it, which stays; `body` must look random."""
    pattern = f"{introduction}(?P<secret>{body})"
    return SecretForm(pattern, keep_prefix=True, is_secret=looks_random)


_NAMES = (
    "API_KEY|APIKEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|ACCESS_TOKEN|AUTH_TOKEN|TOKEN|SECRET|PASSWORD"
)
_ASSIGNED = r"[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?"

FORMS: tuple[SecretForm, ...] = (
    # With the line numbers a reading tool may have put before each line.
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
    # The password in an address; what stands before a digest is the tag of an image.
    _after(r"://[^\s/@:\"',]{0,64}:", r"[^\s/@\"',]{12,256}+(?=@)(?!@sha256:)"),
)
