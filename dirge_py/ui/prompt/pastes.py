"""Large pastes stand in the input as `[12 lines pasted]` and are put back when it is sent."""

import re

from dirge_py.lib.clean import clean

LARGEST = 1_048_576
"""Characters taken of one paste."""

_INLINE_LINES = 3
_INLINE_CHARACTERS = 2_000
_PLACEHOLDER = re.compile(r"\[\d+ (?:lines|characters) pasted(?: #\d+)?\]")


class Pastes:
    """What was pasted since the start. Kept, so that a prompt called back still means the same."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def take(self, pasted: str, before: str) -> tuple[str, str]:
        """What to insert for a paste, and what of `before` (the text up to the cursor) to drop.

        The same text pasted again right behind its placeholder is put in as it is.
        """
        text = clean(pasted[:LARGEST])
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _INLINE_LINES and len(text) <= _INLINE_CHARACTERS:
            return text, ""
        last = self.placeholder_before(before)
        if last and self._texts[last] == text:
            return text, last
        many = f"{lines} lines" if lines > _INLINE_LINES else f"{len(text)} characters"
        return self._name(text, many), ""

    def expand(self, text: str) -> str:
        """`text` with every placeholder replaced by what was pasted."""
        return _PLACEHOLDER.sub(lambda match: self._texts.get(match[0], match[0]), text)

    def placeholder_before(self, before: str) -> str:
        """The placeholder that ends exactly at the cursor, else an empty string."""
        found = re.search(_PLACEHOLDER.pattern + r"\Z", before)
        return found[0] if found and found[0] in self._texts else ""

    def _name(self, text: str, many: str) -> str:
        name = f"[{many} pasted]"
        number = 2
        while self._texts.get(name, text) != text:
            name = f"[{many} pasted #{number}]"
            number += 1
        self._texts[name] = text
        return name
