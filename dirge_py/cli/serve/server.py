"""The web server of `dirge serve`: one page, one terminal UI each time it is opened.

`RequestGuard` admits only requests with the token from its own page.
"""

import asyncio
import hmac
import logging
import secrets
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web
from textual_serve.server import Server

from dirge_py.cli.arguments import LOOPBACK
from dirge_py.types.errors import DirgeError

_PAGE = Path(__file__).parent / "page"
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 10.0
"""How long the UIs may take to end."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The page loads nothing from elsewhere, and no other page can frame it."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PROTOCOL = "dirge"
"""The WebSocket protocol of the page."""
_TOKEN_PROTOCOL = "dirge.token."


class GuardedServer(Server):
    """textual-serve's server with our own page, and a guard for all requests."""

    def __init__(self, command: str, host: str) -> None:
        super().__init__(command, host=host)
        self.gate = RequestGuard()
        self._open: set[asyncio.Task[object]] = set()

    async def make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._index)
        app.router.add_get("/ws", self.handle_websocket, name="websocket")
        app.router.add_static("/static", self.statics_path)
        app.router.add_static("/page", _PAGE)
        app.on_shutdown.append(self.on_shutdown)
        app.on_response_prepare.append(_agree_on_protocol)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        is_socket = request.path == "/ws"
        if not self.gate.is_ours(request.headers, needs_origin=is_socket):
            raise web.HTTPForbidden(text="Not for this server.\n")
        if is_socket:
            if not self.gate.offers_token(request.headers):
                raise web.HTTPUnauthorized(text="Open the address that `dirge serve` printed.\n")
            # aiohttp would log unknown protocols, one of which is the token.
            headers = request.headers.copy()
            headers.popall("Sec-WebSocket-Protocol")
            request = request.clone(headers=headers)
        # Everything else is the page and its parts, which hold no secret.
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def _index(self, request: web.Request) -> web.Response:
        page = (_PAGE / "index.html").read_text(encoding="utf-8")
        page = page.replace("WEBSOCKET", f"ws://{request.host}/ws")
        return web.Response(text=page, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await super().handle_websocket(request)
        finally:
            self._open.discard(task)

    async def on_shutdown(self, app: web.Application) -> None:
        """Tell each UI to end, and wait until it has."""
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=_PATIENCE_S)


async def _agree_on_protocol(request: web.Request, response: web.StreamResponse) -> None:
    # A browser closes a connection if the server accepts none of its protocols.
    if isinstance(response, web.WebSocketResponse):
        response.headers["Sec-WebSocket-Protocol"] = PROTOCOL


def run_server(command: str, *, host: str, port: int, show_address: Callable[[str], object]) -> int:
    """Serve until a signal comes; returns the exit code. Raises DirgeError."""
    logging.getLogger("textual-serve").addHandler(logging.NullHandler())
    return asyncio.run(_serve(GuardedServer(command, host), host, port, show_address))


async def _serve(
    server: GuardedServer, host: str, port: int, show_address: Callable[[str], object]
) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    runner = web.AppRunner(await server.make_app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            text = f"cannot open port {port} of {host}: {error.strerror or error}."
            raise DirgeError(text, hint="`--port 0` picks a free one.") from error
        server.gate.port = runner.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        show_address(f"http://{shown}:{server.gate.port}/#token={server.gate.token}")
        caught = await stopped
    finally:
        await runner.cleanup()
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)
    return 0 if caught == signal.SIGINT else 128 + caught


class RequestGuard:
    """Checks requests. `port` is the server's, known once it is open."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = 0

    def is_ours(self, headers: Mapping[str, str], *, needs_origin: bool) -> bool:
        """Whether the request is for this server, and not from another page.

        Rejects foreign host names that resolve to this machine (DNS rebinding).
        """
        origin = headers.get("Origin")
        if origin is None:
            return not needs_origin and headers.get("Host") in self._names
        return headers.get("Host") in self._names and origin == f"http://{headers['Host']}"

    def offers_token(self, headers: Mapping[str, str]) -> bool:
        """Whether a WebSocket request offers the token as one of its protocols.

        It is the only header that a page can set. A browser would send a cookie to every other port
        of this machine, too.
        """
        names = [each.strip() for each in headers.get("Sec-WebSocket-Protocol", "").split(",")]
        offered = (n.removeprefix(_TOKEN_PROTOCOL) for n in names if n.startswith(_TOKEN_PROTOCOL))
        return PROTOCOL in names and any(map(self.has_token, offered))

    def has_token(self, given: str | None) -> bool:
        """Whether `given` is the token, compared in constant time."""
        return hmac.compare_digest((given or "").encode("utf-8", "replace"), self.token.encode())

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(
            f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}" for host in LOOPBACK
        )
