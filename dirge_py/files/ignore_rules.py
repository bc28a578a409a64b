"""Which paths `.gitignore` files leave out."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from dirge_py.lib.lean_dataclass import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE_LIMIT = 1 << 20
"""Bytes of an ignore file that are read."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one ignore file."""

    base: str
    """The folder they count from, a physical path."""
    spec: "GitIgnoreSpec"

    def verdict(self, real: str) -> bool | None:
        """True: left out; False: taken back in; None: no line is about this path."""
        start = len(self.base.rstrip("/")) + 1
        return self.spec.check_file(real[start:]).include


def parse_ignore_file(base: str, content: bytes) -> IgnoreRules:
    """The rules of an ignore file that counts from `base`; lines that make no sense are none."""
    lines = content.decode(errors="replace").split("\n")
    try:
        return IgnoreRules(base, _spec_of(line.rstrip("\r") for line in lines))
    except ValueError:
        return IgnoreRules(base, _spec_of(filter(_is_valid, lines)))


def ignored_by(rules: Sequence[IgnoreRules], real: str, *, is_folder: bool) -> bool:
    """Whether the nearest rule about this physical path leaves it out."""
    for each in reversed(rules):
        verdict = each.verdict(real + "/" if is_folder else real)
        if verdict is not None:
            return verdict
    return False


def _is_valid(line: str) -> bool:
    try:
        _spec_of([line])
    except ValueError:
        return False
    return True


def _spec_of(lines: Iterable[str]) -> "GitIgnoreSpec":
    # pathspec takes 35 ms to import, and most folders have no ignore file.
    spec: type[GitIgnoreSpec] = import_module("pathspec").GitIgnoreSpec
    return spec.from_lines(lines)
