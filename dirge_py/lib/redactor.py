"""Taking secrets out of what is written, logged or shown."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from dirge_py.lib.secret_patterns import FORMS, REDACTED

_SHORTEST = 8
"""Shorter values are left alone: taking out every `test` would tell more than it hides."""


class Redactor:
    """Replaces known secrets, in the spellings they travel in, and what looks like one.

    Known values are found plain, escaped for JSON, URL-encoded and in base64, also in the middle
    of a longer base64 text (`user:key`). Time is linear in the text.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._known: re.Pattern[str] | None = None
        for value in values:
            self.add(value)

    def add(self, value: str | None) -> None:
        """Know one more secret. Empty and very short ones are ignored."""
        secret = (value or "").strip()
        if len(secret) < _SHORTEST:
            return
        self._spellings |= _spellings(secret)
        self._known = None

    def redact_known(self, text: str) -> str:
        """`text` with our own secrets replaced; what only looks like one stays true."""
        if not self._spellings:
            return text
        if self._known is None:
            # Longest first, so that no spelling hides part of a longer one.
            longest_first = sorted(self._spellings, key=lambda each: (-len(each), each))
            self._known = re.compile("|".join(map(re.escape, longest_first)))
        return self._known.sub(REDACTED, text)

    def redact(self, text: str) -> str:
        """`text` with every secret replaced by `[redacted]`."""
        text = self.redact_known(text)
        for form in FORMS:
            text = form.removed_from(text)
        return text

    def redact_all(self, value: Any) -> Any:
        """Plain JSON-like data with every string in it redacted, keys too."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self.redact_all(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return [self.redact_all(item) for item in value]
        return value


def _spellings(secret: str) -> set[str]:
    escaped = json.dumps(secret)[1:-1]
    return {secret, escaped, quote(secret, safe=""), quote_plus(secret), *_base64_forms(secret)}


def _base64_forms(secret: str) -> set[str]:
    """What `secret` looks like inside base64, for each of the three places it can start at.

    The characters that also hold bits of the text around it are left off.
    """
    forms = set()
    raw = secret.encode("utf-8", "surrogatepass")
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode("ascii").rstrip("=")
        first_own = -(-shift * 8 // 6)
        own_bits_end = (shift + len(raw)) * 8 // 6
        form = encoded[first_own:own_bits_end]
        forms |= {form, form.replace("+", "-").replace("/", "_")}
    return forms
