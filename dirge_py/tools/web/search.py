"""Searching: one question to one service, its answer as hits."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.tools.web.outgoing import Outgoing
from dirge_py.tools.web.reach import Reach
from dirge_py.tools.web.url import Target, parse_url
from dirge_py.types.errors import ToolFailed

if TYPE_CHECKING:
    from dirge_py.tools.web.fetch import read_body
    from dirge_py.tools.web.transport import Transport
else:
    read_body = late("dirge_py.tools.web.fetch", "read_body")
    Transport = late("dirge_py.tools.web.transport", "Transport")

_MAX_BYTES = 2 * 1024 * 1024
_TITLE_CHARS, _SNIPPET_CHARS, _SAID_CHARS = 200, 400, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result, in the service's words."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question as a service wants it: `fields` go into the URL, `outgoing` is the rest."""

    fields: Mapping[str, str]
    outgoing: Outgoing


class SearchBackend(Protocol):
    """How one service is asked, and how its answer is read.

    `url` is its usual address, empty where everybody has their own; `path` what is added to an
    address without one. `key_env` is the usual variable of its key, empty where it takes none.
    `on_refusal` says what the person must look at when it lets nobody in.
    """

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def key_env(self) -> str: ...
    @property
    def on_refusal(self) -> str: ...

    def ask(self, query: str, count: int, key: str) -> Ask: ...

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
        """The results in the body of an answer with this good status, best first.

        Raises:
            ToolFailed: the service says, in such an answer, that it will not answer.
            ValueError, KeyError, TypeError, AttributeError: it is not what was agreed on.
        """


class Search:
    """A search service. The key goes nowhere but to `endpoint`, and is in nothing that is said."""

    def __init__(
        self,
        backend: SearchBackend,
        endpoint: Target,
        *,
        reach: Reach,
        key: str = "",
        proxy: str | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._backend = backend
        self._endpoint = endpoint
        self._reach = reach
        self._key = key
        self._proxy = proxy
        self._timeout_s = timeout_s

    @property
    def host(self) -> str:
        return self._endpoint.host

    @property
    def name(self) -> str:
        return self._backend.name

    async def find(self, query: str, count: int) -> Sequence[Hit]:
        """At most `count` hits with usable URLs, best first.

        Raises:
            ToolFailed: the service cannot be reached, or did not answer the question.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                status, body = await self._answer(query, count)
        except TimeoutError:
            raise ToolFailed(
                f"{self.name} took longer than {self._timeout_s:g} s. Try again, or without it.",
                outcome="timeout",
            ) from None
        if status >= 300:
            raise ToolFailed(self._refused(status, body))
        try:
            hits = self._backend.hits(status, body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ToolFailed(
                f"{self.name} ({self.host}) sent an answer that cannot be read: "
                f"{self._said(body)}. Is `search_url` under `[web]` right?"
            ) from None
        return [tidy for hit in hits if (tidy := _tidied(hit)) is not None][:count]

    async def _answer(self, query: str, count: int) -> tuple[int, bytes]:
        asked = self._backend.ask(query, count, self._key)
        mark = "&" if "?" in self._endpoint.path else "?"
        fields = f"{mark}{urlencode(asked.fields)}" if asked.fields else ""
        target = parse_url(self._endpoint.url + fields)
        transport = Transport(self._reach, proxy=self._proxy)
        async with transport.send(target, asked.outgoing) as response:
            body, is_whole = await read_body(response, _MAX_BYTES)
            if not is_whole:
                raise ToolFailed(f"{self.name} sent more than {_MAX_BYTES} bytes. Ask for less.")
            return response.status_code, body

    def _refused(self, status: int, body: bytes) -> str:
        said = self._said(body)
        words = f"{self.name} ({self.host}) answered {status}{f': {said}' if said else ''}. "
        if status < 400:
            return words + "It has moved: the user must set `search_url` under `[web]`."
        if status in (401, 402, 403):
            return words + self._backend.on_refusal
        if status == 429:
            return words + "It wants a pause. Go on without, or search later."
        return words + "Search in other words, or later."

    def _said(self, body: bytes) -> str:
        """The beginning of what the service said, without the key."""
        text = body[: 8 * _SAID_CHARS].decode("utf-8", "replace")
        text = text.replace(self._key, "[redacted]") if self._key else text
        is_page = text.lstrip()[:1] == "<"
        return "a web page" if is_page else _line(text, _SAID_CHARS)


def _tidied(hit: Hit) -> Hit | None:
    """`hit` in one line each; None if its URL is none that could be fetched."""
    try:
        url = parse_url(hit.url.strip()).url
    except ToolFailed:
        return None
    title = _line(hit.title, _TITLE_CHARS)
    return Hit(title=title or url, url=url, snippet=_line(hit.snippet, _SNIPPET_CHARS))


def _line(text: str, most: int) -> str:
    line = " ".join(clean(text[: 8 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
