"""Which paths `.gitignore` files leave out. Imported only where there is such a file."""

from pathspec import GitIgnoreSpec

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The lines of one ignore file, which count from the folder `base` (a physical path)."""

    base: str
    spec: GitIgnoreSpec

    def verdict(self, real: str) -> bool | None:
        """True: left out; False: taken back in; None: no line is about this path."""
        start = len(self.base.rstrip("/")) + 1
        return self.spec.check_file(real[start:]).include


def parse_ignore_file(base: str, content: bytes) -> IgnoreRules:
    """The rules of an ignore file that counts from `base`; lines that make no sense are none."""
    lines = content.decode(errors="replace").split("\n")
    try:
        return IgnoreRules(base, GitIgnoreSpec.from_lines(line.rstrip("\r") for line in lines))
    except ValueError:
        return IgnoreRules(base, GitIgnoreSpec.from_lines(filter(_is_valid, lines)))


def _is_valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
