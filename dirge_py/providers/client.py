"""The one HTTP client of a process: made when it is needed, shared by everything that needs it."""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dirge_py.providers.http_types import FetchedResponse, HttpResponse
from dirge_py.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from dirge_py.providers.transport import HttpxTransport


# Most lingering streams end within a millisecond; cancelling one in the middle of giving back its
# connection could leave the socket open.
_LINGER_S = 0.05


def never_late() -> bool:
    return False


class HttpClient:
    """A handle that costs nothing until the first request; close it once, at the end.

    It also keeps the last moments of finished streams (`linger`), so that their connections can be
    used again.
    """

    def __init__(self) -> None:
        self._transport: HttpxTransport | None = None
        self._lingering: set[asyncio.Task[None]] = set()

    def of(self, settings: ProviderSettings, wire: str) -> "HttpClient":
        """The client for one configured service, which speaks `wire`."""
        return self

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        connect_s: float = 30.0,
        is_late: Callable[[], bool] = never_late,
    ) -> HttpResponse:
        """Send `body` and return when the head of the answer is here.

        `is_late`, for whoever records: whether time ran out, when the answer is given up.

        Raises:
            TransportError: there is no connection, or none that lasts.
        """
        transport = self._opened()
        return await transport.post(url, headers=headers, body=body, connect_s=connect_s)

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> FetchedResponse:
        """One whole exchange, for answers that are no stream.

        Raises:
            TransportError: nothing came, or not all of it, or it is longer than `max_bytes`.
            TimeoutError: it took longer than `timeout_s`.
        """
        transport = self._opened()
        async with asyncio.timeout(timeout_s):
            return await transport.fetch(
                method, url, headers=headers, body=body, max_bytes=max_bytes
            )

    async def warm_up(self) -> None:
        """Load the HTTP library beside the event loop, for whoever can foresee a request."""
        await asyncio.to_thread(importlib.import_module, "dirge_py.providers.transport")

    def linger(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task that will soon be over."""
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def aclose(self) -> None:
        """Cut every connection and wait until they are gone."""
        await self._let_end(_LINGER_S)
        for task in self._lingering:
            task.cancel()
        await self._let_end(1.0)
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()
            # The event loop closes sockets one round after it is told to.
            await asyncio.sleep(0)

    async def _let_end(self, seconds: float) -> None:
        if self._lingering:
            await asyncio.wait(set(self._lingering), timeout=seconds)

    def _opened(self) -> "HttpxTransport":
        if self._transport is None:
            # By name, so that neither listing nor building providers loads the HTTP library.
            module = importlib.import_module("dirge_py.providers.transport")
            self._transport = module.HttpxTransport()
        return self._transport
