"""A web page: fetched with every redirect checked, decoded, and converted to text."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import replace

import httpx

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.tools.threads import run_in_daemon_thread
from dirge_py.tools.web.markdown import html_to_markdown
from dirge_py.tools.web.transport import GuardedTransport, read_body
from dirge_py.tools.web.url import OutgoingRequest, ParsedUrl, parse_reference
from dirge_py.types.errors import ToolFailed

MAX_REDIRECTS = 5
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
USER_AGENT = f"dirge/{__version__}"
_HEADERS: Mapping[str, str] = {
    "User-Agent": USER_AGENT,
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_TEXT_TYPE = late_pattern(
    r"text/.*|image/svg\+xml|.*\+(?:json|xml|yaml)"
    r"|application/(?:x-)?(?:json|jsonl|ndjson|json5|xml|xhtml\+xml|yaml|toml|markdown|javascript"
    r"|ecmascript|typescript|sql|graphql|sh|shellscript|python|ruby|perl|php|httpd-php|tex|latex"
    r"|rtf|x509-ca-cert|pem-file|www-form-urlencoded)"
)
_SNIFFED_BYTES = 1024
_HTML_START = late_pattern(rb"\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page: at first as the server sent it, then as text."""

    target: ParsedUrl
    """The URL that answered, after redirects on its host."""
    body: bytes = b""
    """The decompressed body, until it is converted."""
    title: str = ""
    """The title of an HTML page; "" without one."""
    text: str = ""
    """The text, of an HTML page as Markdown."""
    media_type: str = ""
    """Its media type in lower case, without parameters."""
    charset: str = ""
    """The charset of the Content-Type in lower case; "" if it names none."""
    is_whole: bool = True
    """Whether `body` or `text` is the whole page; False if a limit was reached."""
    moved_to: ParsedUrl | None = None
    """The other host that it redirects to; then there is neither body nor text."""

    @property
    def is_html(self) -> bool:
        return self.media_type in ("text/html", "application/xhtml+xml")


async def fetch(transport: GuardedTransport, target: ParsedUrl, *, max_bytes: int) -> WebPage:
    """Fetch the text at `target`, following redirects that stay on its host."""
    first = target
    for _ in range(MAX_REDIRECTS + 1):
        async with transport.send(target, OutgoingRequest(headers=_HEADERS)) as response:
            location = response.headers.get("location", "")
            if response.status_code not in _REDIRECTS or not location:
                return await _read_response(target, response, max_bytes)
        try:
            following = parse_reference(location, target)
        except ToolFailed as error:
            raise ToolFailed(f"{target} redirects to no usable URL. {error}") from None
        if (target.scheme, following.scheme) == ("https", "http"):
            raise ToolFailed(f"{target} redirects to {following}, which is not encrypted.")
        if following.host != first.host:
            transport.reach.admit(following)
            return WebPage(target=target, moved_to=following)
        target = following
    raise ToolFailed(f"{first} redirects more than {MAX_REDIRECTS} times. Try another page.")


async def _read_response(target: ParsedUrl, response: httpx.Response, max_bytes: int) -> WebPage:
    status = response.status_code
    if not 200 <= status < 300:
        advice = "Try later, or another source." if status >= 500 else "Try another source."
        phrase = httpx.codes.get_reason_phrase(status) or "an unknown status"
        raise ToolFailed(f"{target} answered {status} ({phrase}). {_ADVICE.get(status, advice)}")
    media_type, charset = _content_type(response.headers.get("content-type", ""))
    if media_type and not _TEXT_TYPE.fullmatch(media_type):
        raise ToolFailed(
            f"{target} is {media_type}, and only text can be read here (web pages, JSON, XML, "
            "source code). Look for a page about it, or download it with a command."
        )
    body, is_whole = await read_body(response, max_bytes)
    if not media_type:
        start = body[:_SNIFFED_BYTES]
        if b"\0" in start:
            raise ToolFailed(f"{target} is not text, and has no media type.")
        media_type = "text/html" if _HTML_START.match(start) else "text/plain"
    return WebPage(
        target=target, body=body, media_type=media_type, charset=charset, is_whole=is_whole
    )


def _content_type(header: str) -> tuple[str, str]:
    """Return (media type, charset), both in lower case."""
    media_type, _, parameters = header.lower().partition(";")
    charset = re.search(r"""charset\s*=\s*["']?([\w:.-]+)""", parameters[:200])
    media_type = media_type.strip()
    # It is shown outside of the quoted page, so it must not contain text of the page.
    is_type = re.fullmatch(r"[a-z0-9.+-]{1,60}/[a-z0-9.+_-]{1,80}", media_type) or not media_type
    return media_type if is_type else "of an unknown kind", charset[1] if charset else ""


_ADVICE = {
    401: "It requires a login, which is not possible here.",
    403: "It blocks programs, or requires a login. Try another source.",
    404: "There is no such page. Check the address, or search for it.",
    410: "The page is gone. Search for a newer one.",
    429: "It is rate limited. Try another source, or later.",
}


_MAX_CHARS = 2_000_000


def page_from(fetched: WebPage) -> WebPage:
    """Convert the body to text without control characters, HTML to Markdown. Use a thread."""
    if fetched.moved_to is not None:
        return fetched
    text = _decode_body(fetched)
    title, is_whole = "", fetched.is_whole
    if fetched.is_html:
        article = html_to_markdown(text, fetched.target)
        title, text = article.title, article.text
        is_whole = is_whole and article.is_whole
    shown = clean(text[:_MAX_CHARS])
    if not shown.strip():
        raise ToolFailed(
            f"{fetched.target} has no text, maybe because a script makes it. Try another source."
        )
    is_whole = is_whole and len(text) <= _MAX_CHARS
    return replace(fetched, body=b"", title=clean(title)[:300], text=shown, is_whole=is_whole)


async def fetch_page(transport: GuardedTransport, target: ParsedUrl, *, max_bytes: int) -> WebPage:
    """Fetch `target`; a response of more than `max_bytes` is cut."""
    fetched = await fetch(transport, target, max_bytes=max_bytes)
    return await run_in_daemon_thread(page_from, fetched)


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = late_pattern(
    rb"""<meta[^>]{0,200}charset\s{0,4}=\s{0,4}["']?\s{0,4}([A-Za-z0-9_:.-]{2,40})""", re.I
)
_META_BYTES = 2048

# Python has codecs that are not character sets; some of them take quadratic time.
_CHARACTER_SETS = late_pattern(
    r"utf-(?:8|16|32).*|ascii|iso8859.*|iso2022.*|cp\d+|koi8.*|gb.*|big5.*|shift.*|euc.*|mac-.*"
    r"|tis-620|hz|johab"
)


def _decode_body(fetched: WebPage) -> str:
    """Decode the body. Invalid bytes become U+FFFD; half a character at a cut end is dropped."""
    body, charset = fetched.body, fetched.charset
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    if fetched.is_html and not charset and (meta := _META.search(body[:_META_BYTES])):
        charset = meta[1].decode("ascii")
    if name := _codec(charset):
        return body.decode(name, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        if not fetched.is_whole and error.start >= len(body) - 3:
            return body[: error.start].decode("utf-8")
        return body.decode("cp1252", "replace")


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset.strip("\"' ")).name if charset.strip() else ""
    except (LookupError, ValueError):
        return ""
    if name in ("ascii", "iso8859-1"):
        return "cp1252"  # browsers read both as this
    return name if _CHARACTER_SETS.fullmatch(name) else ""
