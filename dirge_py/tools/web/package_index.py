"""Asks a package index for the newest release of a package."""

import json

from dirge_py.types.errors import DirgeError

_TIMEOUT_S = 5.0


def newest_release(url: str) -> str:
    """Return the newest version at this address of PyPI's JSON API. Blocks. Raises DirgeError.

    Source: docs.pypi.org/api/json, `GET /pypi/<project>/json`, `info.version`, read 2026-11-23.
    """
    import httpx

    try:
        answer = httpx.get(url, timeout=_TIMEOUT_S, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DirgeError(f"No response from {url}: {error or type(error).__name__}.") from None
    if answer.status_code != httpx.codes.OK:
        hint = "Is the package published there? `[update] index_url` names the address."
        raise DirgeError(f"{url} answered {answer.status_code}.", hint=hint)
    try:
        return str(json.loads(answer.text)["info"]["version"])
    except (ValueError, LookupError, TypeError):
        raise DirgeError(f"{url} doesn't look like a package index.") from None
