"""From what went wrong to a `ProviderError`: what happened, where, and what to do."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from dirge_py.providers.classify import (
    CONTEXT_LENGTH,
    HTML_PAGE,
    NO_CREDIT,
    PER_MINUTE,
    classify_text,
)
from dirge_py.providers.endpoint import Endpoint
from dirge_py.providers.retry_after import retry_after_s
from dirge_py.types.errors import ErrorKind, ProviderError

Phase = Literal["establish", "stream"]

ANOTHER_MODEL = "choose another model with `/model` or `--model`"
ASK_DIFFERENTLY = f"Ask differently, or {ANOTHER_MODEL}."

_HALF_A_DAY_S = 12 * 3600.0
LONGEST_WAIT_S = 300.0
"""A limit that asks for a longer wait than this is a cap: nobody waits an hour for a retry."""

_TRANSIENT_CLIENT_ERRORS: Mapping[int, ErrorKind] = {408: "network", 409: "server", 425: "server"}


def service_words(body: Any) -> tuple[str, str]:
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
    told = re.findall(r"API_KEY_INVALID|PerDay", json.dumps(error.get("details") or ""))
    codes = (error.get("type"), error.get("code"), error.get("status"), *told)
    return message, " ".join(str(code) for code in codes if code)


def from_status(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: str
) -> ProviderError:
    """An answer that is no answer."""
    try:
        words, code = service_words(json.loads(body))
    except (ValueError, RecursionError):
        words, code = body, ""
    is_page = words is body and bool(HTML_PAGE.search(body[:4096]))
    words = "" if is_page else words
    wait_s = retry_after_s(headers, body[:4096], now=time.time())
    kind = _kind_of_status(status, f"{code} {words}", wait_s)
    request_id = headers.get("request-id") or headers.get("x-request-id")
    return _said(
        endpoint,
        kind,
        status=status,
        words="a web page instead of an error" if is_page else words,
        raw=f"{body} (request {request_id})" if request_id else body,
        wait_s=wait_s,
        location=headers.get("location", "") if 300 <= status < 400 else "",
        no_credit=kind == "auth" and bool(status == 402 or NO_CREDIT.search(f"{code} {words}")),
    )


def from_body(endpoint: Endpoint, body: Any, phase: Phase) -> ProviderError:
    """An error the service reports inside an answer that began well."""
    message, code = service_words(body)
    raw = json.dumps(body)[:4096]
    error = body.get("error") if isinstance(body, dict) else None
    number = error.get("code") if isinstance(error, dict) else None
    wait_s = retry_after_s({}, raw, now=time.time())
    if isinstance(number, int) and 400 <= number < 600:
        kind = _kind_of_status(number, f"{code} {message}", wait_s)
    else:
        kind = _kind_of_words(f"{code} {message}")
    words = message or code or "an error without words"
    return _said(endpoint, kind, words=words, raw=raw, wait_s=wait_s, phase=phase)


def from_transport(
    endpoint: Endpoint, trouble: str, detail: str, phase: Phase = "establish"
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
    }.get(trouble, (f"The connection to {host} broke off", ""))
    return ProviderError(
        f"{endpoint.alias}: {what}: {endpoint.in_a_line(detail)}.",
        kind="invalid_request" if trouble == "unusable" else "network",
        raw=endpoint.told(detail),
        hint=hint if phase == "stream" or not hint else f"{hint} See `base_url`.",
        phase=phase,
    )


def timed_out(endpoint: Endpoint, what: str, phase: Phase) -> ProviderError:
    """A silence that lasted too long; `what` says which."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) timed out: {what}.",
        kind="network",
        hint="`[timeouts]` holds the limits.",
        phase=phase,
    )


def web_page(endpoint: Endpoint, body: str) -> ProviderError:
    """HTML where an answer was due."""
    return ProviderError(
        f"{endpoint.alias}: a web page came from {endpoint.host} instead of an answer.",
        kind="proxy_page",
        raw=endpoint.told(body),
        hint="A proxy or login page is in between, or `base_url` names a website.",
    )


def unreadable(endpoint: Endpoint, why: str, raw: str, phase: Phase) -> ProviderError:
    """Something came that is not what was agreed on."""
    return ProviderError(
        f"{endpoint.alias} ({endpoint.host}) sent an answer that cannot be read: {why}.",
        kind="network",
        raw=endpoint.told(raw),
        hint="Does `type` of the provider fit the service at `base_url`?",
        phase=phase,
    )


def declined(why: str) -> ProviderError:
    """The model, or a filter behind it, said no; `why` in its own words, if it gave any."""
    return ProviderError(
        f"The model declined to answer: {why.strip() or 'the service filtered its answer'}",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="stream",
    )


def aborted(phase: Phase = "stream") -> ProviderError:
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


def _said(
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
        headline = f"{endpoint.url} has moved to {endpoint.in_a_line(location)}"
        hint = "Set `base_url` to the new place; the key is not sent there unasked."
    number = f" ({status})" if status else ""
    tail = f": {endpoint.in_a_line(words)}" if words.strip() else ""
    return ProviderError(
        f"{headline}{number}{tail}.",
        kind=kind,
        status=status,
        retry_after_s=wait_s,
        raw=endpoint.told(raw),
        hint=hint,
        phase=phase,
    )


_Headline = Callable[[Endpoint, float | None], tuple[str, str]]

_HEADLINES: Mapping[ErrorKind, _Headline] = {
    "auth": lambda at, _: (f"{at.alias} refused the API key", at.key_hint),
    "usage_cap": lambda at, wait: (
        f"The usage limit at {at.alias} is reached",
        # Google names the seconds to the next try also where the day's quota is gone.
        _resets(wait if (wait or 0.0) > LONGEST_WAIT_S else None),
    ),
    "rate_limit": lambda at, wait: (f"{at.alias} asks for a pause", _resets(wait)),
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


def _resets(wait_s: float | None) -> str:
    if wait_s is None:
        return f"Wait, or {ANOTHER_MODEL}."
    shape = "%H:%M" if wait_s < _HALF_A_DAY_S else "%Y-%m-%d %H:%M"
    when = time.strftime(shape, time.localtime(min(time.time() + wait_s, 4e9)))
    wait = f"{wait_s:.0f} s" if wait_s < 120 else f"{min(wait_s, 1e9) / 60:.0f} min"
    return f"It asks to wait {wait} (until {when})."
