"""Who may speak to the server: whoever has the token, from a page of its own, and nobody else."""

import hmac
import secrets
from collections.abc import Mapping

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The hosts that are served: what is typed into the page can run commands."""

PROTOCOL = "dirge"
"""The WebSocket protocol that the page speaks, and that is agreed on."""

_TOKEN_PROTOCOL = "dirge.token."


class Gate:
    """Judges requests. `port` is the one that is served, known once it is open."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = 0

    def is_ours(self, headers: Mapping[str, str], *, needs_origin: bool) -> bool:
        """Whether it was meant for this server, and comes from a page of it if from any.

        A foreign name that leads here (DNS rebinding) is not ours, nor is another page's request.
        """
        origin = headers.get("Origin")
        if origin is None:
            return not needs_origin and headers.get("Host") in self._names
        return headers.get("Host") in self._names and origin == f"http://{headers['Host']}"

    def offers_token(self, headers: Mapping[str, str]) -> bool:
        """Whether a request for a WebSocket names the token among the protocols that it speaks.

        That is the only header that a page can set for one. A cookie would do as well for us, but
        a browser sends it to every other port of this machine.
        """
        offered = headers.get("Sec-WebSocket-Protocol", "").split(",")
        names = [each.strip() for each in offered]
        return PROTOCOL in names and any(
            self.has_token(name.removeprefix(_TOKEN_PROTOCOL))
            for name in names
            if name.startswith(_TOKEN_PROTOCOL)
        )

    def has_token(self, given: str | None) -> bool:
        """Whether this is the token, told in the same time whatever is wrong with it."""
        return hmac.compare_digest((given or "").encode("utf-8", "replace"), self.token.encode())

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(
            f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}" for host in LOOPBACK
        )
