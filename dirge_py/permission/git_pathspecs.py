"""Which secret files a pattern of git's own is after, as in `git grep x HEAD -- '.e*'`.

Git matches these patterns with what it has stored, which nobody can list without running it.
"""

import re
from collections.abc import Iterator
from fnmatch import translate

from dirge_py.permission.protected import SECRET_NAMES, secrecy

_ORDINARY = (
    "main.py", "index.js", "package.json", "config.yml", "config.yaml", "pyproject.toml",
    "README.md", "Makefile", "a", "src/main.c", "src/app.json", "src/app.yml", "src/app.yaml",
    "src/app.toml", "src/app.conf", "pom.xml", "src/app.backup", "README", "src/app.gpg",
)  # fmt: skip
_LONGEST = 256
_MOST_TAILS = 24
_SPECIAL = re.compile(r"[*?\[\\]")


def is_pattern(text: str) -> bool:
    """Whether git would take this for more than a name."""
    return bool(_SPECIAL.search(text))


def secrets_meant(pattern: str) -> Iterator[str]:
    """Names of secret files that git would find by the pattern; none if it matches anything.

    A pattern such as `*.json` means files of all kinds, and does not count. One that is too long to
    be compared is taken to mean a secret.
    """
    if not is_pattern(pattern):
        return
    bare = re.sub(r"[*?\[\]!^\\]", "", pattern)
    if bare and secrecy(f"/{bare}", ("/",)):
        yield bare
    # A star also stands for slashes: what is behind it may be all there is of the name.
    pattern = re.sub(r"\*+", "*", pattern)
    starts = [found.start() for found in re.finditer(r"\*|/", pattern)]
    if len(pattern) > _LONGEST or len(starts) > _MOST_TAILS:
        yield next(iter(SECRET_NAMES))
        return
    texts = [pattern, *(pattern[start:] for start in starts)]
    for text in dict.fromkeys(text.lstrip("/") for text in texts):
        expression = _as_expression(text)
        if expression and not any(expression.match(name) for name in _ORDINARY):
            yield from (name for name in SECRET_NAMES if expression.match(name))


def _as_expression(pattern: str) -> re.Pattern[str] | None:
    plain = re.sub(r"\\([^\]!^\\])", r"[\1]", pattern).replace("[^", "[!")
    try:
        return re.compile(translate(plain), re.IGNORECASE)
    except re.error:
        return None
