"""The guardrails there are: a pattern to look for, and secrets."""

import re
from collections.abc import Callable

from dirge_py.extensions.guardrails.verdict import Pass, Verdict
from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternGuardrail:
    """Looks for a regular expression anywhere in the text. `found` is `Warn` or `Trip`."""

    name: str
    pattern: str
    found: Callable[[str], Verdict]

    def check(self, text: str) -> Verdict:
        if re.search(self.pattern, text) is None:
            return Pass()
        return self.found(f"it matches `{self.pattern}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsGuardrail:
    """Looks for keys, tokens and passwords: whatever `redact` would take out of the text."""

    name: str
    redact: Callable[[str], str]
    found: Callable[[str], Verdict]

    def check(self, text: str) -> Verdict:
        if self.redact(text) == text:
            return Pass()
        return self.found("it holds a key, token or password")
