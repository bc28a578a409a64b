"""The types and headers of an HTTP exchange: a response, or an error with its kind.

Light, so that code which only passes responses on does not load the HTTP library.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Literal, Protocol

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ProviderError

TransportErrorKind = Literal[
    "refused", "unknown_host", "tls", "timeout", "proxy", "dropped", "unusable"
]


class TransportError(Exception):
    """The request did not arrive or its answer broke off; `kind` says in what way."""

    def __init__(self, kind: TransportErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind: TransportErrorKind = kind
        self.detail = detail


class HttpResponse(Protocol):
    """A response whose head is here and whose body is still coming. Close it, always."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, in the pieces it arrives in.

        Raises:
            TransportError: it broke off, or is compressed in a way we do not read.
        """
        ...

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else cut it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedResponse:
    """A whole response."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """Their names in lower case, or found in any case."""
    body: bytes
    """Decompressed."""


_LIST_HEADERS = frozenset({"anthropic-beta"})
"""Of these each layer adds to what is there; of all others the last one counts."""


def bearer_header(key: str | None) -> Mapping[str, str]:
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
            before = headers.get(name) if name in _LIST_HEADERS else None
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
