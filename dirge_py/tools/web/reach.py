"""What of the net may be reached: names looked up once, and every address of the answer judged."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import TypeAlias

from dirge_py.tools.web.addresses import refusal_of
from dirge_py.tools.web.threads import in_daemon_thread
from dirge_py.tools.web.url import IPAddress, Target, parse_url
from dirge_py.types.errors import ToolFailed

PORTS = frozenset((80, 443, 8080, 8443))
_MAX_ADDRESSES = 64
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".home.arpa", ".lan")

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host name and port → addresses as text. Raises OSError where there are none."""


class Reach:
    """Judges targets. `private_hosts` are what the person lists of their own network.

    An entry `host` excepts the usual ports of that host from the rule that addresses are public,
    `host:port` that port alone. With `is_proxied` a name that is not known here is left to the
    proxy; one that is known here must be public.
    """

    def __init__(
        self,
        private_hosts: Sequence[str] = (),
        *,
        resolve: Resolve | None = None,
        is_proxied: bool = False,
    ) -> None:
        self._listed = {_listed(entry) for entry in private_hosts}
        self._resolve = resolve or look_up
        self._is_proxied = is_proxied

    def is_private(self, target: Target) -> bool:
        """Whether the person listed this host as one of their own."""
        if (target.host, target.port) in self._listed:
            return True
        return target.port in PORTS and (target.host, None) in self._listed

    def admit(self, target: Target) -> None:
        """Refuse what can be refused without asking anybody.

        Raises:
            ToolFailed: the port is unusual, or the host an address that is not public.
        """
        if self.is_private(target):
            return
        if target.port not in PORTS:
            raise ToolFailed(
                f"{target} is not fetched: port {target.port} is none of "
                f"{', '.join(map(str, sorted(PORTS)))}. {_EXCEPTION}"
            )
        if target.address is not None:
            _check_public(target, [target.address])
        elif self._is_proxied and is_local(target):
            raise ToolFailed(f"{target} is not fetched: it names a local host. {_EXCEPTION}")

    async def addresses(self, target: Target) -> Sequence[IPAddress]:
        """Where to connect to, best first; all of them have been judged.

        Empty only when proxied, for a name that is not known here.

        Raises:
            ToolFailed: the target may not be reached, or nobody knows it.
        """
        self.admit(target)
        if target.address is not None:
            return (target.address,)
        try:
            texts = await self._resolve(target.host, target.port)
            found = [ip_address(text) for text in dict.fromkeys(texts)]
        except (OSError, ValueError):
            found = []
        if not found:
            if self._is_proxied and not self.is_private(target):
                return ()
            raise ToolFailed(f"The host {target.host} is not known. Check its spelling.")
        if not self.is_private(target):
            # More than any site has; each costs a look at the routing table.
            _check_public(target, found[:_MAX_ADDRESSES])
        return found[:_MAX_ADDRESSES]


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows for `host`. Raises OSError."""

    def ask() -> list[str]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(place[4][0]) for place in found]

    return await in_daemon_thread(ask)


def is_own(address: IPAddress) -> bool:
    """Whether `address` is one of this machine's. Sends nothing.

    A service that listens on every address would else be reached through the public one, past the
    firewall in front of it.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(ip_address(probe.getsockname()[0])) == str(address)
    except OSError:
        return False


_EXCEPTION = "Only the user can except it: `private_hosts` under `[web]` in the settings."


def _check_public(target: Target, addresses: Sequence[IPAddress]) -> None:
    for address in addresses:
        refusal = refusal_of(address) or ("this machine" if is_own(address) else "")
        if refusal:
            leads = "" if target.address is not None else f"{target.host} leads to {address}: "
            raise ToolFailed(
                f"{target} is not fetched: {leads}not a public address ({refusal}). {_EXCEPTION}"
            )


def is_local(target: Target) -> bool:
    """Whether `target` is in the person's own network by its looks, without asking anybody."""
    if target.address is not None:
        return bool(refusal_of(target.address))
    return "." not in target.host or target.host.endswith(_LOCAL_ENDINGS)


def _listed(entry: str) -> tuple[str, int | None]:
    """(host, port or None) of one entry. Raises ToolFailed: it is none."""
    try:
        written = f"[{IPv6Address(entry)}]"
    except ValueError:
        written = entry
    target = parse_url(f"http://{written}")
    has_port = written.rpartition("]")[2].count(":") == 1
    if target.path != "/" or written.endswith("/"):
        raise ToolFailed(f"{entry!r} is no host: write `host` or `host:port`.")
    return target.host, target.port if has_port else None
