"""What an HTTP exchange comes to, whoever carries it: an answer, or a failure with its kind.

Light, so that what only passes answers on does not load the HTTP library.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Literal, Protocol

from dirge_py.lib.lean_dataclass import dataclass

Trouble = Literal["refused", "unknown_host", "tls", "timeout", "proxy", "dropped", "unusable"]


class TransportFailed(Exception):
    """The request did not arrive or its answer broke off; `trouble` says in what way."""

    def __init__(self, trouble: Trouble, detail: str) -> None:
        super().__init__(detail)
        self.trouble: Trouble = trouble
        self.detail = detail


class Answer(Protocol):
    """A response whose head is here and whose body is still coming. Close it, always."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, in the pieces it arrives in.

        Raises:
            TransportFailed: it broke off, or is compressed in a way we do not read.
        """
        ...

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else cut it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
