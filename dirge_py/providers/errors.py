"""The `ProviderError` for each failure: what happened, where, and what to do.

A service's own words decide the kind: the first pattern that matches wins (`classify_text`).
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

from dirge_py.config.services import service_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ErrorKind, ProviderError

RAW_CHARS = 2000
_MIN_SECRET_CHARS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of one request, and what error messages say about it. No repr shows the key."""

    settings: ProviderSettings
    """The settings of the provider."""
    url: str
    """The whole address."""
    model: str = ""
    """The service's own id of the model; empty where none is asked."""
    key: str | None = field(default=None, repr=False)
    """The key, which is removed from everything the service says; None for none."""

    @property
    def alias(self) -> str:
        """The provider's name in the settings."""
        return self.settings.alias

    @property
    def host(self) -> str:
        """The host and the port in the address."""
        return urlsplit(self.url).netloc

    @property
    def key_hint(self) -> str:
        """How to give the service a key, as a sentence."""
        if self.settings.key_place:
            return f"Check {self.settings.key_place}."
        setting = f"`api_key_env` of `[providers.{self.alias}]`"
        return f"Set {', or '.join([*service_of(self.settings.type).key_env[:1], setting])}."

    def redacted(self, text: str) -> str:
        """`text` as it may be stored and shown: without secrets, at most 2 kB."""
        if self.key and len(self.key) >= _MIN_SECRET_CHARS:
            text = text.replace(self.key, "[key]")
        text = self.settings.redact(text)
        return text if len(text) <= RAW_CHARS else text[: RAW_CHARS - 2] + " …"

    def one_line(self, text: str, limit: int = 300) -> str:
        """`text` without secrets, on one line of at most `limit` characters."""
        line = re.sub(r"\s+", " ", self.redacted(text)).strip().rstrip(".")
        return line if len(line) <= limit else line[: limit - 2] + " …"


Phase = Literal["establish", "stream"]
ANOTHER_MODEL = "choose another model with `/model` or `--model`"
ASK_DIFFERENTLY = f"Ask differently, or {ANOTHER_MODEL}."
_HALF_A_DAY_S = 12 * 3600.0
LONGEST_WAIT_S = 300.0
"""A limit that asks for a longer wait than this counts as a usage cap."""
_TRANSIENT_CLIENT_ERRORS: Mapping[int, ErrorKind] = {408: "network", 409: "server", 425: "server"}


def error_words(body: Any) -> tuple[str, str]:
    """The message and the codes in an error body, in any of the shapes that services use."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return "", ""
    error = body.get("error", body)
    if isinstance(error, str):
        return error, str(body.get("code") or "")
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message") or error.get("detail") or body.get("message") or ""
    if not isinstance(message, str):
        message = json.dumps(message)
    reasons = re.findall(r"API_KEY_INVALID|PerDay", json.dumps(error.get("details") or ""))
    codes = (error.get("type"), error.get("code"), error.get("status"), *reasons)
    return message, " ".join(str(code) for code in codes if code)


def status_error(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: str
) -> ProviderError:
    """The error for an answer whose status isn't 200."""
    try:
        words, code = error_words(json.loads(body))
    except (ValueError, RecursionError):
        words, code = body, ""
    is_page = words is body and bool(HTML_PAGE(body[:4096]))
    words = "" if is_page else words
    wait_s = retry_after_s(headers, body[:4096], now=time.time())
    kind = _kind_of_status(status, f"{code} {words}", wait_s)
    request_id = headers.get("request-id") or headers.get("x-request-id")
    return _service_error(
        endpoint,
        kind,
        status=status,
        words="a web page instead of an error" if is_page else words,
        raw=f"{body} (request {request_id})" if request_id else body,
        wait_s=wait_s,
        location=headers.get("location", "") if 300 <= status < 400 else "",
        no_credit=kind == "auth" and bool(status == 402 or NO_CREDIT(f"{code} {words}")),
    )


def body_error(endpoint: Endpoint, body: Any, phase: Phase) -> ProviderError:
    """The error that a service reports inside an answer with status 200."""
    message, code = error_words(body)
    raw = json.dumps(body)[:4096]
    error = body.get("error") if isinstance(body, dict) else None
    number = error.get("code") if isinstance(error, dict) else None
    wait_s = retry_after_s({}, raw, now=time.time())
    if isinstance(number, int) and 400 <= number < 600:
        kind = _kind_of_status(number, f"{code} {message}", wait_s)
    else:
        kind = classify_text(f"{code} {message}")
        if CONTEXT_LENGTH(f"{code} {message}"):
            kind = "context_length"
        elif kind == "other" and "invalid_request" in f"{code} {message}":
            kind = "invalid_request"
    words = message or code or "an error without a message"
    return _service_error(endpoint, kind, words=words, raw=raw, wait_s=wait_s, phase=phase)


def connection_error(
    endpoint: Endpoint, kind: str, detail: str, phase: Phase = "establish"
) -> ProviderError:
    """The error for a connection that can't be made, or broke."""
    host = endpoint.host
    what, hint = {
        "refused": (f"No connection to {endpoint.url}", "Is the service running there?"),
        "unknown_host": (f"The host {host} is not known", "Check the name and the network."),
        "tls": (f"No secure connection to {host}", "Check the clock, or set SSL_CERT_FILE."),
        "timeout": (f"Connecting to {host} timed out", "Check the network and proxies."),
        "proxy": (f"The proxy for {host} refused", "Check HTTPS_PROXY and NO_PROXY."),
        "unusable": (f"{endpoint.url} cannot be used", "Check `base_url` and the headers."),
    }.get(kind, (f"The connection to {host} broke off", ""))
    return ProviderError(
        f"{endpoint.alias}: {what}: {endpoint.one_line(detail)}.",
        kind="invalid_request" if kind == "unusable" else "network",
        raw=endpoint.redacted(detail),
        hint=hint if phase == "stream" or not hint else f"{hint} See `base_url`.",
        phase=phase,
    )


def timeout_error(endpoint: Endpoint, what: str, phase: Phase) -> ProviderError:
    """The error for a service that was silent for too long; `what` says when."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) timed out: {what}.",
        kind="network",
        hint="Check whether it runs, and its address; `[timeouts]` holds the limits.",
        phase=phase,
    )


def web_page_error(endpoint: Endpoint, body: str) -> ProviderError:
    """The error for HTML in place of an answer."""
    return ProviderError(
        f"{endpoint.alias}: {endpoint.host} sent a web page instead of an answer.",
        kind="proxy_page",
        raw=endpoint.redacted(body),
        hint="A proxy or login page may have answered, or `base_url` is a website.",
    )


def unreadable_error(endpoint: Endpoint, why: str, raw: str, phase: Phase) -> ProviderError:
    """The error for an answer that doesn't follow the wire format."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) sent an answer that dirge cannot read: {why}.",
        kind="network",
        raw=endpoint.redacted(raw),
        hint="Does the provider's `type` match the service at `base_url`?",
        phase=phase,
    )


def declined_error(why: str) -> ProviderError:
    """The error for a refusal by the model or a filter; `why` is the service's text, if any."""
    return ProviderError(
        f"The model declined to answer: {why.strip() or 'the service filtered its answer'}",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="stream",
    )


def aborted_error(phase: Phase = "stream") -> ProviderError:
    """The error for a call that was aborted."""
    return ProviderError("Stopped.", kind="aborted", phase=phase)


def _kind_of_status(status: int, words: str, wait_s: float | None) -> ErrorKind:
    kind = classify_text(words)
    if "API_KEY_INVALID" in words:
        return "auth"
    if status == 429 and "RESOURCE_EXHAUSTED" in words:
        # Google writes "check your plan and billing" for all limits; only the quota's name differs.
        is_cap = bool(re.search(r"PerDay|limit: 0\b", words)) or (wait_s or 0.0) > LONGEST_WAIT_S
        return "usage_cap" if is_cap else "rate_limit"
    if status in {401, 402, 403}:
        return "auth"
    if NO_CREDIT(words) and status < 500:
        return "auth"
    if status in {429, 529}:
        is_cap = kind == "usage_cap" or (wait_s or 0.0) > LONGEST_WAIT_S
        return "usage_cap" if is_cap and not PER_MINUTE(words) else "rate_limit"
    if status == 413 or CONTEXT_LENGTH(words):
        return "context_length"
    if status in _TRANSIENT_CLIENT_ERRORS:
        return _TRANSIENT_CLIENT_ERRORS[status]
    if status >= 500:
        return "rate_limit" if kind == "rate_limit" else "server"
    return "usage_cap" if kind == "usage_cap" else "invalid_request"


def _service_error(
    endpoint: Endpoint,
    kind: ErrorKind,
    *,
    words: str,
    raw: str,
    wait_s: float | None,
    status: int | None = None,
    phase: Phase = "establish",
    location: str = "",
    no_credit: bool = False,
) -> ProviderError:
    # Google names the seconds to the next try also where the day's quota is gone.
    is_short = kind == "usage_cap" and (wait_s or 0.0) <= LONGEST_WAIT_S
    wait = _wait_hint(None if is_short else wait_s)
    headline, hint = (text.format(at=endpoint, wait=wait) for text in _HEADLINES[kind])
    if no_credit:
        headline = f"The account at {endpoint.alias} has no credit left"
        hint = f"Add credit there, or {ANOTHER_MODEL}."
    elif status == 403:
        headline = f"{endpoint.alias} does not allow this request"
        hint = f"The key may not have permission, or a proxy blocks it. {endpoint.key_hint}"
    elif status == 404:
        headline = f"{endpoint.alias} has no model {endpoint.model!r} at {endpoint.url}"
        hint = f"Check `base_url`, or {ANOTHER_MODEL}."
    elif location:
        headline = f"{endpoint.url} has moved to {endpoint.one_line(location)}"
        hint = "Set `base_url` to the new address; until then the key is not sent there."
    number = f" ({status})" if status else ""
    tail = f": {endpoint.one_line(words)}" if words.strip() else ""
    return ProviderError(
        f"{headline}{number}{tail}.",
        kind=kind,
        status=status,
        retry_after_s=wait_s,
        raw=endpoint.redacted(raw),
        hint=hint,
        phase=phase,
    )


_HEADLINES: Mapping[ErrorKind, tuple[str, str]] = {
    "auth": ("{at.alias} refused the API key", "{at.key_hint}"),
    "usage_cap": ("The usage limit at {at.alias} is reached", "{wait}"),
    "rate_limit": ("{at.alias}: rate limited", "{wait}"),
    "server": ("{at.alias}: server error", "Try again later."),
    "context_length": ("The conversation is too long for {at.model}", "`/compact` shortens it."),
    "proxy_page": ("A proxy answered for {at.host}", "Check proxies and `base_url`."),
    "network": ("The connection to {at.host} failed or timed out", ""),
    "invalid_request": ("{at.alias} did not accept the request", ""),
    "refused": ("{at.model} declined to answer", ""),
    "aborted": ("Stopped", ""),
    "other": ("{at.alias} reports an error", ""),
}
"""The message and the hint for each kind."""


def _wait_hint(wait_s: float | None) -> str:
    if wait_s is None:
        return f"Wait, or {ANOTHER_MODEL}."
    shape = "%H:%M" if wait_s < _HALF_A_DAY_S else "%Y-%m-%d %H:%M"
    when = time.strftime(shape, time.localtime(min(time.time() + wait_s, 4e9)))
    wait = f"{wait_s:.0f} s" if wait_s < 120 else f"{min(wait_s, 1e9) / 60:.0f} min"
    return f"It asks to wait {wait} (until {when})."


def _any_of(*patterns: str) -> Callable[[str], re.Match[str] | None]:
    """A search for any of `patterns`, which `re` compiles and caches on first use."""
    return partial(re.search, "|".join(patterns), flags=re.IGNORECASE)


NO_CREDIT = _any_of(
    r"insufficient[_ ](?:quota|credits?|funds|balance)",
    r"(?:credit )?balance is (?:too low|insufficient)",
    r"check your plan and billing|billing (?:hard )?(?:limit|quota)",
    r"payment required|\barrearage\b",
)
_AUTH = _any_of(
    r"(?:status|code|error|http)\W{0,3}(?:code\W{0,3})?40[13]\b",
    r"\b40[13] (?:unauthorized|forbidden)|\bunauthori[sz]ed\b|\bforbidden\b",
    r"(?:invalid|incorrect|missing|wrong|expired|revoked|no) (?:\w+[- ])?(?:x-)?api[- _]?key",
    r"api[- _]?key (?:is |was )?(?:not valid|invalid|missing|required|expired)",
    r"authentication[_ ](?:error|failed|required)",
    r"permission[_ ]denied|permission_error",
    r"(?:invalid|expired) (?:access |auth |bearer )?token",
)
PER_MINUTE = _any_of(r"per[- ](?:second|minute|min)\b", r"\b[rt]pm\b", r"requests?/min")
_CAP = _any_of(
    r"usage[_ -](?:limit|cap)",
    r"(?:daily|weekly|monthly|5[- ]hour|per[- ]day|spend(?:ing)?) (?:\w+ )?(?:limit|cap|quota)",
    r"(?:limit|quota|cap) (?:for|of) (?:today|the (?:day|week|month)|this (?:week|month))",
    r"quota (?:was |has been |is )?(?:exceeded|exhausted|reached)",
    r"exceeded (?:your|the) .{0,40}quota",
    r"(?:tokens|requests) per day",
    r"[\"']?code[\"']?\W{1,4}1308\b",
)
_RATE = _any_of(
    r"(?:status|code|error|http)\W{0,3}(?:code\W{0,3})?(?:429|529)\b",
    r"\b429\b.{0,20}too many|too many requests|rate[-_ ]?limit|throttl(?:ed|ing)|quota",
    r"resource[_ ](?:has been )?exhausted|\boverloaded(?:_error)?\b",
)
_SERVER = _any_of(
    r"(?:status|code|error|http(?:/[\d.]+)?)\W{0,3}(?:code\W{0,3})?5\d\d\b",
    r"\b5\d\d (?:internal server error|bad gateway|service unavailable|gateway time-?out)",
    r"internal[_ ]server[_ ]error|\bapi_error\b",
    r"service (?:is )?(?:temporarily )?unavailable|gateway time-?out",
)
CONTEXT_LENGTH = _any_of(
    r"context[_ ]length[_ ]exceeded|maximum context length",
    r"context (?:window|length|size|limit).{0,60}(?:exceed|too (?:long|large|small)|overflow|full)",
    r"exceed(?:s|ed|ing)?\b.{0,60}context (?:window|length|size|limit)",
    r"input (?:token count|length).{0,60}exceeds",
    r"(?:prompt|input) (?:contains|has) .{0,60}tokens.{0,60}(?:limit|maximum)",
    r"too many (?:input )?tokens|(?:prompt|input|request) (?:is )?too long",
    r"tokens? (?:exceeds?|in (?:your )?(?:prompt|request) exceeds?)",
    r"reduce the length of the (?:messages|prompt|input)",
    r"(?:maximum|max) (?:prompt|input) (?:length|tokens)|input tokens exceed",
    r"request_too_large|request (?:entity )?too large",
    r"model_context_window_exceeded|context_window_exceeded",
    r"larger than the maximum .{0,30}tokens",
)
HTML_PAGE = _any_of(r"<!doctype html", r"<html[\s>]", r"\bbad gateway\b", r"\bcloudflare\b")
_NETWORK = _any_of(
    r"connection (?:was )?(?:refused|reset|aborted)",
    r"connection closed (?:before|by (?:the )?(?:peer|remote|server))",
    r"broken pipe|\bdns\b|name (?:or service )?not known|name resolution",
    r"\b(?:ssl|tls)\b|tim(?:ed|e)[- ]?out|\bserver error\b|\bserver_error\b",
    r"error sending request|connect error|connection error|network (?:error|is unreachable)",
    r"error decoding|decod(?:e|ing) (?:failure|error)|unexpected (?:eof|end of (?:file|stream))",
    r"(?:incomplete|peer closed).{0,30}(?:read|body|chunk|connection)",
    r"no route to host|host is unreachable",
)


def classify_text(text: str) -> ErrorKind:
    """The kind of error that `text` describes; `other` if no pattern matches.

    A quota per minute is always a rate limit. A full context comes after server errors, because a
    server error may quote the prompt.
    """
    if _AUTH(text) or NO_CREDIT(text):
        return "auth"
    if _CAP(text) and not PER_MINUTE(text):
        return "usage_cap"
    ordered: tuple[tuple[Callable[[str], object], ErrorKind], ...] = (
        (_RATE, "rate_limit"),
        (_SERVER, "server"),
        (CONTEXT_LENGTH, "context_length"),
        (HTML_PAGE, "proxy_page"),
        (_NETWORK, "network"),
    )
    return next((kind for describes, kind in ordered if describes(text)), "other")


# Longer runs of digits than this are nonsense; a float holds these without overflow.
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)\d*"
_SEPARATOR = r"[\"']?\s*[:=]?\s*[\"']?"

_WAITS_IN_TEXT: tuple[tuple[str, float], ...] = (
    (r"retry[-_ ]after[-_ ]ms" + _SEPARATOR + _NUMBER, 0.001),
    (r"retry[-_ ]after(?:[-_ ]seconds)?" + _SEPARATOR + _NUMBER, 1.0),
    (r"retry[-_]?delay" + _SEPARATOR + _NUMBER + r"s", 1.0),
    (r"try again in " + _NUMBER + r"\s*ms", 0.001),
    (r"try again in " + _NUMBER + r"\s*s", 1.0),
    (r"try again in " + _NUMBER + r"\s*m(?:in|\d|\b)", 60.0),
)
_DATE_IN_TEXT = (
    r"retry[-_ ]after" + _SEPARATOR + r"([a-z]{3,9}, \d{1,2}[ -][a-z]{3}[ -]\d{2,4} [\d:]{8} gmt)"
)


def retry_after_s(headers: Mapping[str, str], text: str, *, now: float) -> float | None:
    """Seconds to wait, or None if the service doesn't say. `now` is Unix time, for dates.

    Headers win over text, milliseconds over seconds; a date in the past means 0. Headers are looked
    up in lower case.
    """
    in_header = _seconds(headers.get("retry-after-ms"))
    if in_header is not None:
        return in_header / 1000
    if (value := headers.get("retry-after")) is not None:
        seconds = _seconds(value)
        wait_s = seconds if seconds is not None else _seconds_until(value, now)
        if wait_s is not None:
            return wait_s
    for pattern, unit_s in _WAITS_IN_TEXT:
        match = re.search(pattern, text, re.I)
        if match:
            return float(match[1]) * unit_s
    date = re.search(_DATE_IN_TEXT, text, re.I)
    return _seconds_until(date[1], now) if date else None


def _seconds(text: str | None) -> float | None:
    match = re.fullmatch(r"\s*" + _NUMBER + r"\s*s?\s*", text or "")
    return float(match[1]) if match else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
