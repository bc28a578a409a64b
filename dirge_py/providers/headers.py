"""The headers of a request: whoever complains about one does so without its value, maybe a key."""

from collections.abc import Mapping

from dirge_py.types.errors import ProviderError

_LISTS = frozenset({"anthropic-beta"})
"""Of these each layer adds to what is there; of all others the last one counts."""


def bearer(key: str | None) -> Mapping[str, str]:
    """The key as most services take it; nothing where there is none."""
    return {"authorization": f"Bearer {key}"} if key else {}


def request_headers(*layers: Mapping[str, str]) -> Mapping[str, str]:
    """All layers, later ones winning, whatever case they are written in.

    Raises:
        ProviderError: one holds what HTTP cannot carry.
    """
    headers = {"user-agent": "dirge"}
    for layer in layers:
        for written, value in layer.items():
            name = written.lower()
            before = headers.get(name) if name in _LISTS else None
            headers[name] = f"{before},{value}" if before else value
    for name, value in headers.items():
        # Looked at here: whoever complains later does so with the value.
        if not (value.isascii() and value.isprintable()):
            raise ProviderError(
                f"The header `{name}` holds a character that HTTP cannot carry.",
                kind="invalid_request",
                hint="Was the API key copied whole, without a line break?",
            )
    return headers
