"""Which values of our own environment are secrets: a command that reads it must not show them."""

import re
from collections.abc import Collection, Iterator, Mapping

from dirge_py.lib.secret_patterns import looks_random

_LEAST_KEY = 8
_NAMED_LIKE_ONE = re.compile(
    r"(?:.*_)?(?:API_?KEYS?|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?)", re.IGNORECASE
)
_WORDS = re.compile(r"[a-z]+(?:[-_. ][a-z]+)*|[A-Z]+(?:[-_. ][A-Z]+)*|[0-9]+")


def secret_values(environment: Mapping[str, str], key_variables: Collection[str]) -> Iterator[str]:
    """The values that are secrets, as far as names and values tell.

    `key_variables` are known to hold keys: their values count unless they are plain words, such as
    `not-needed`. Of a variable that is only named like one (`DEPLOY_TOKEN`) a value counts that
    looks random; a path or an address of a file does not.
    """
    for name, value in environment.items():
        secret = value.strip()
        if name in key_variables:
            if len(secret) >= _LEAST_KEY and not _WORDS.fullmatch(secret):
                yield secret
        elif _NAMED_LIKE_ONE.fullmatch(name) and _looks_secret(secret):
            yield secret


def _looks_secret(value: str) -> bool:
    is_place = value.startswith(("/", "~", "./", "../", "file:"))
    return not is_place and looks_random(value)
