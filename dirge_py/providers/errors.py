"""The `ProviderError` for each thing that can go wrong: what happened, where, and what to do.

An `Endpoint` says which service was asked, and keeps its key out of the words.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal
from urllib.parse import urlsplit

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.error_classifier import (
    CONTEXT_LENGTH,
    HTML_PAGE,
    NO_CREDIT,
    PER_MINUTE,
    classify_text,
    retry_after_s,
)
from dirge_py.providers.settings import ProviderSettings, Redact
from dirge_py.types.errors import ErrorKind, ProviderError

RAW_CHARS = 2000
_MIN_SECRET_CHARS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One request's address, and the words that errors need of it. The key is in no repr."""

    alias: str
    """The provider's name in the settings."""
    url: str
    """The whole address."""
    model: str
    """The service's own id of the model; empty where none is asked."""
    key_hint: str
    """How to give a key, as a sentence."""
    api_key: str = field(default="", repr=False)
    """Removed from everything the service says; empty where there is none."""
    redact: Redact = field(repr=False)
    """Removes every other secret."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def redacted(self, text: str) -> str:
        """A service's words as they may be kept and shown: without the key, at most 2 kB."""
        if len(self.api_key) >= _MIN_SECRET_CHARS:
            text = text.replace(self.api_key, "[key]")
        text = self.redact(text)
        return text if len(text) <= RAW_CHARS else text[: RAW_CHARS - 2] + " …"

    def one_line(self, text: str, limit: int = 300) -> str:
        """`redacted`, on one line and short enough for a sentence."""
        line = re.sub(r"\s+", " ", self.redacted(text)).strip().rstrip(".")
        return line if len(line) <= limit else line[: limit - 2] + " …"


def endpoint_of(
    settings: ProviderSettings, *, url: str, model: str, key: str | None, key_env: tuple[str, ...]
) -> Endpoint:
    """The address of one request made with `settings`."""
    variable = key_env[0] if key_env else f"{settings.alias.upper().replace('-', '_')}_API_KEY"
    return Endpoint(
        alias=settings.alias,
        url=url,
        model=model,
        key_hint=f"Check {settings.key_place}."
        if settings.key_place
        else f"Set {variable}, or `api_key_env` of `[providers.{settings.alias}]`.",
        api_key=key or "",
        redact=settings.redact,
    )


Phase = Literal["establish", "stream"]
ANOTHER_MODEL = "choose another model with `/model` or `--model`"
ASK_DIFFERENTLY = f"Ask differently, or {ANOTHER_MODEL}."
_HALF_A_DAY_S = 12 * 3600.0
LONGEST_WAIT_S = 300.0
"""A limit that asks for a longer wait than this is a cap: nobody waits an hour for a retry."""
_TRANSIENT_CLIENT_ERRORS: Mapping[int, ErrorKind] = {408: "network", 409: "server", 425: "server"}


def error_words(body: Any) -> tuple[str, str]:
    """The message and the code in an error body, in any of the shapes services use."""
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
    """An answer that is no answer."""
    try:
        words, code = error_words(json.loads(body))
    except (ValueError, RecursionError):
        words, code = body, ""
    is_page = words is body and bool(HTML_PAGE.search(body[:4096]))
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
        no_credit=kind == "auth" and bool(status == 402 or NO_CREDIT.search(f"{code} {words}")),
    )


def body_error(endpoint: Endpoint, body: Any, phase: Phase) -> ProviderError:
    """An error the service reports inside an answer that began well."""
    message, code = error_words(body)
    raw = json.dumps(body)[:4096]
    error = body.get("error") if isinstance(body, dict) else None
    number = error.get("code") if isinstance(error, dict) else None
    wait_s = retry_after_s({}, raw, now=time.time())
    if isinstance(number, int) and 400 <= number < 600:
        kind = _kind_of_status(number, f"{code} {message}", wait_s)
    else:
        kind = _kind_of_words(f"{code} {message}")
    words = message or code or "an error without words"
    return _service_error(endpoint, kind, words=words, raw=raw, wait_s=wait_s, phase=phase)


def connection_error(
    endpoint: Endpoint, kind: str, detail: str, phase: Phase = "establish"
) -> ProviderError:
    """No connection, or one that broke."""
    host = endpoint.host
    what, hint = {
        "refused": (f"No connection to {endpoint.url}", "Is the service running there?"),
        "unknown_host": (f"The host {host} is not known", "Check the name and the network."),
        "tls": (f"No secure connection to {host}", "Check the clock, or set SSL_CERT_FILE."),
        "timeout": (f"Connecting to {host} timed out", "Check the network and proxies."),
        "proxy": (f"The proxy on the way to {host} refused", "Check HTTPS_PROXY and NO_PROXY."),
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
    """A silence that lasted too long; `what` says which."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) timed out: {what}.",
        kind="network",
        hint="`[timeouts]` holds the limits.",
        phase=phase,
    )


def web_page_error(endpoint: Endpoint, body: str) -> ProviderError:
    """HTML where an answer was due."""
    return ProviderError(
        f"{endpoint.alias}: a web page came from {endpoint.host} instead of an answer.",
        kind="proxy_page",
        raw=endpoint.redacted(body),
        hint="A proxy or login page is in between, or `base_url` names a website.",
    )


def unreadable_error(endpoint: Endpoint, why: str, raw: str, phase: Phase) -> ProviderError:
    """Something came that is not what was agreed on."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) sent an answer that cannot be read: {why}.",
        kind="network",
        raw=endpoint.redacted(raw),
        hint="Does `type` of the provider fit the service at `base_url`?",
        phase=phase,
    )


def declined_error(why: str) -> ProviderError:
    """The model, or a filter behind it, said no; `why` in its own words, if it gave any."""
    return ProviderError(
        f"The model declined to answer: {why.strip() or 'the service filtered its answer'}",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="stream",
    )


def aborted_error(phase: Phase = "stream") -> ProviderError:
    """The person, or the harness, stopped it."""
    return ProviderError("Stopped.", kind="aborted", phase=phase)


def _kind_of_status(status: int, words: str, wait_s: float | None) -> ErrorKind:
    said = classify_text(words)
    if "API_KEY_INVALID" in words:
        return "auth"
    if status == 429 and "RESOURCE_EXHAUSTED" in words:
        # Google says "check your plan and billing" of every limit: only the quota's name tells.
        is_cap = bool(re.search(r"PerDay|limit: 0\b", words)) or (wait_s or 0.0) > LONGEST_WAIT_S
        return "usage_cap" if is_cap else "rate_limit"
    if status in {401, 402, 403}:
        return "auth"
    if NO_CREDIT.search(words) and status < 500:
        return "auth"
    if status in {429, 529}:
        is_cap = said == "usage_cap" or (wait_s or 0.0) > LONGEST_WAIT_S
        return "usage_cap" if is_cap and not PER_MINUTE.search(words) else "rate_limit"
    if status == 413 or CONTEXT_LENGTH.search(words):
        return "context_length"
    if status in _TRANSIENT_CLIENT_ERRORS:
        return _TRANSIENT_CLIENT_ERRORS[status]
    if status >= 500:
        return "rate_limit" if said == "rate_limit" else "server"
    return "usage_cap" if said == "usage_cap" else "invalid_request"


def _kind_of_words(words: str) -> ErrorKind:
    if CONTEXT_LENGTH.search(words):
        return "context_length"
    kind = classify_text(words)
    return "invalid_request" if kind == "other" and "invalid_request" in words else kind


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
    headline, hint = _HEADLINES[kind](endpoint, wait_s)
    if no_credit:
        headline = f"The account at {endpoint.alias} has no credit left"
        hint = f"Add credit there, or {ANOTHER_MODEL}."
    elif status == 403:
        headline = f"{endpoint.alias} does not allow this request"
        hint = f"The key may lack a right, or a proxy is in between. {endpoint.key_hint}"
    elif status == 404:
        headline = f"{endpoint.alias} knows no model {endpoint.model!r} at {endpoint.url}"
        hint = f"Check `base_url`, or {ANOTHER_MODEL}."
    elif location:
        headline = f"{endpoint.url} has moved to {endpoint.one_line(location)}"
        hint = "Set `base_url` to the new place; the key is not sent there unasked."
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


_Headline = Callable[[Endpoint, float | None], tuple[str, str]]
_HEADLINES: Mapping[ErrorKind, _Headline] = {
    "auth": lambda at, _: (f"{at.alias} refused the API key", at.key_hint),
    "usage_cap": lambda at, wait: (
        f"The usage limit at {at.alias} is reached",
        # Google names the seconds to the next try also where the day's quota is gone.
        _wait_hint(wait if (wait or 0.0) > LONGEST_WAIT_S else None),
    ),
    "rate_limit": lambda at, wait: (f"{at.alias} asks for a pause", _wait_hint(wait)),
    "server": lambda at, _: (f"{at.alias} has a problem of its own", "Try again later."),
    "context_length": lambda at, _: (
        f"The conversation is too long for {at.model}",
        "`/compact` shortens it.",
    ),
    "proxy_page": lambda at, _: (
        f"A proxy answered for {at.host}",
        "Check proxies and `base_url`.",
    ),
    "network": lambda at, _: (f"The connection to {at.host} failed or timed out", ""),
    "invalid_request": lambda at, _: (f"{at.alias} did not accept the request", ""),
    "refused": lambda at, _: (f"{at.model} declined to answer", ""),
    "aborted": lambda at, _: ("Stopped", ""),
    "other": lambda at, _: (f"{at.alias} reports an error", ""),
}


def _wait_hint(wait_s: float | None) -> str:
    if wait_s is None:
        return f"Wait, or {ANOTHER_MODEL}."
    shape = "%H:%M" if wait_s < _HALF_A_DAY_S else "%Y-%m-%d %H:%M"
    when = time.strftime(shape, time.localtime(min(time.time() + wait_s, 4e9)))
    wait = f"{wait_s:.0f} s" if wait_s < 120 else f"{min(wait_s, 1e9) / 60:.0f} min"
    return f"It asks to wait {wait} (until {when})."
