"""URLs, parsed once: the same `ParsedUrl` is checked, shown and connected to."""

from collections.abc import Mapping
from dataclasses import field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal, TypeAlias, cast
from urllib.parse import quote, urljoin

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ToolFailed

IPAddress: TypeAlias = IPv4Address | IPv6Address
Scheme = Literal["http", "https"]
MAX_CHARS = 4096
_DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
_URL = late_pattern(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)")
_AUTHORITY = late_pattern(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = late_pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL = late_pattern(r"[0-9]+|0x[0-9a-f]*")

# Blanks, control characters and invisible characters: they could mislead a person who has to judge
# the address.
_UNSEEN = late_pattern(
    r"[\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    r"\ud800-\udfff\U000e0000-\U000e0fff]"
)
_UNSAFE_IN_PATH = late_pattern(r"%(?![0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUrl:
    """One http or https URL, in ASCII."""

    scheme: Scheme
    host: str
    """The host name in lower case, or the address without brackets."""
    port: int
    path: str
    """The path with the query."""
    address: IPAddress | None = None
    """The address, if the host is one."""

    @property
    def authority(self) -> str:
        """Return `host` or `host:port`, as in a URL and in the Host header."""
        return self._host if self.port == _DEFAULT_PORTS[self.scheme] else self.place

    @property
    def place(self) -> str:
        """Return `host:port`, always with the port."""
        return f"{self._host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def __str__(self) -> str:
        return self.url


def parse_url(text: str) -> ParsedUrl:
    """Parse `text` without its fragment; reject it if parsers could disagree about it."""
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise _refusal(text, "it does not begin with http:// or https://")
    scheme = match["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        raise _refusal(text, f"only http and https can be fetched, not {scheme}")
    host, port = _split_authority(text, match["authority"])
    address: IPAddress | None
    if host.startswith("["):
        try:
            address = IPv6Address(host[1:-1])
        except AddressValueError:
            raise _refusal(text, "its host is not an IPv6 address") from None
    else:
        host = _name(text, host)
        address = _ipv4(text, host)
    return ParsedUrl(
        scheme=cast(Scheme, scheme),
        host=str(address) if address is not None else host,
        port=_DEFAULT_PORTS[scheme] if port is None else port,
        path=_path(match["rest"].partition("#")[0]),
        address=address,
    )


def parse_reference(reference: str, base: ParsedUrl) -> ParsedUrl:
    """Resolve `reference`, found in a document from `base`."""
    # `urljoin` silently drops some characters, so they are checked before.
    _check_characters(reference)
    try:
        joined = urljoin(base.url, reference)
    except ValueError:
        raise _refusal(reference, "it cannot be read") from None
    return parse_url(joined)


def _check_characters(text: str) -> None:
    """Raise ToolFailed if a URL is too long, or has invisible or ambiguous characters."""
    if len(text) > MAX_CHARS:
        raise ToolFailed(f"The URL has {len(text)} characters; at most {MAX_CHARS} are fetched.")
    if "\\" in text:
        raise _refusal(text, "it contains a backslash; write `/`, or `%5C` for a real one")
    if unseen := _UNSEEN.search(text):
        character = f"blank or invisible character (U+{ord(unseen[0]):04X})"
        raise _refusal(text, f"it contains a {character}; encode it as %XX")


def _split_authority(text: str, authority: str) -> tuple[str, int | None]:
    """Return host (an IPv6 address in brackets) and port."""
    if not authority:
        raise _refusal(text, "it names no host")
    if "@" in authority:
        raise _refusal(text, "it contains a user name before `@`; leave that off")
    if "%" in authority:
        raise _refusal(text, "its host is percent-encoded; write it plainly")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _refusal(text, "its host and port cannot be read")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise _refusal(text, f"there is no port {port}")
    return match["host"], port


def _name(text: str, host: str) -> str:
    if not host.isascii():
        from idna import encode

        try:
            # As browsers do: full-width digits and dots become plain ones, and are checked below.
            host = encode(host, uts46=True, transitional=False).decode("ascii")
        except ValueError:
            raise _refusal(text, "its host name is not a valid international name") from None
    host = host.lower().removesuffix(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise _refusal(text, "its host is not a host name")
    return host


def _ipv4(text: str, host: str) -> IPv4Address | None:
    """Return the address that `host` is; None for a name.

    Short, octal or hexadecimal forms mean different addresses to different resolvers, so only the
    usual form is accepted.
    """
    if not _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        return None
    try:
        return IPv4Address(host)
    except AddressValueError:
        reason = "its host is an unusual spelling of an address; write four decimal numbers"
        raise _refusal(text, reason) from None


def _path(rest: str) -> str:
    """Return path and query as they are sent: disallowed characters are percent-encoded."""
    encoded = _UNSAFE_IN_PATH.sub(lambda match: quote(match[0], safe=""), rest)
    path, mark, query = encoded.partition("?")
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in (".", ".."):
        kept.append("")
    return f"/{'/'.join(kept)}{mark}{query}"


def _refusal(text: str, reason: str) -> ToolFailed:
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return ToolFailed(f"{shown!r} is not fetched: {reason}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """The parts of a request besides its URL. Headers may hold a key, so no repr shows them."""

    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
