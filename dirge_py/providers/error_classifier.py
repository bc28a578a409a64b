"""What a service's error text means: the kind of failure, and how long to wait.

The order of the patterns is the point: the first kind whose words occur wins. A missing key is no
rate limit even if it says "too many", a cap that resets tomorrow is not worth retrying, and "server
error" inside an HTML page says less than the status in front of it.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from dirge_py.types.errors import ErrorKind


class ErrorPattern:
    """The ways to say one thing. Compiled, and kept by `re`, when first looked for."""

    def __init__(self, *alternatives: str) -> None:
        self.pattern = "|".join(alternatives)

    def search(self, text: str) -> re.Match[str] | None:
        return re.search(self.pattern, text, re.IGNORECASE)


NO_CREDIT = ErrorPattern(
    r"insufficient[_ ](?:quota|credits?|funds|balance)",
    r"(?:credit )?balance is (?:too low|insufficient)",
    r"check your plan and billing",
    r"billing (?:hard )?(?:limit|quota)",
    r"payment required",
    r"\barrearage\b",
)
_AUTH = ErrorPattern(
    NO_CREDIT.pattern,
    r"(?:status|code|error|http)\W{0,3}(?:code\W{0,3})?40[13]\b",
    r"\b40[13] (?:unauthorized|forbidden)",
    r"\bunauthori[sz]ed\b",
    r"\bforbidden\b",
    r"(?:invalid|incorrect|missing|wrong|expired|revoked|no) (?:\w+[- ])?(?:x-)?api[- _]?key",
    r"api[- _]?key (?:is |was )?(?:not valid|invalid|missing|required|expired)",
    r"authentication[_ ](?:error|failed|required)",
    r"permission[_ ]denied|permission_error",
    r"(?:invalid|expired) (?:access |auth |bearer )?token",
)
PER_MINUTE = ErrorPattern(r"per[- ](?:second|minute|min)\b", r"\b[rt]pm\b", r"requests?/min")
_CAP = ErrorPattern(
    r"usage[_ -](?:limit|cap)",
    r"(?:daily|weekly|monthly|5[- ]hour|per[- ]day|spend(?:ing)?) (?:\w+ )?(?:limit|cap|quota)",
    r"(?:limit|quota|cap) (?:for|of) (?:today|the (?:day|week|month)|this (?:week|month))",
    r"quota (?:was |has been |is )?(?:exceeded|exhausted|reached)",
    r"exceeded (?:your|the) .{0,40}quota",
    r"(?:tokens|requests) per day",
    r"[\"']?code[\"']?\W{1,4}1308\b",
)
_RATE = ErrorPattern(
    r"(?:status|code|error|http)\W{0,3}(?:code\W{0,3})?(?:429|529)\b",
    r"\b429\b.{0,20}too many",
    r"rate[-_ ]?limit",
    r"too many requests",
    r"resource[_ ](?:has been )?exhausted",
    r"\boverloaded(?:_error)?\b",
    r"throttl(?:ed|ing)",
    r"quota",
)
_SERVER = ErrorPattern(
    r"(?:status|code|error|http(?:/[\d.]+)?)\W{0,3}(?:code\W{0,3})?5\d\d\b",
    r"\b5\d\d (?:internal server error|bad gateway|service unavailable|gateway time-?out)",
    r"internal[_ ]server[_ ]error",
    r"service (?:is )?(?:temporarily )?unavailable",
    r"gateway time-?out",
    r"\bapi_error\b",
)
CONTEXT_LENGTH = ErrorPattern(
    r"context[_ ]length[_ ]exceeded",
    r"maximum context length",
    r"context (?:window|length|size|limit).{0,60}(?:exceed|too (?:long|large|small)|overflow|full)",
    r"exceed(?:s|ed|ing)?\b.{0,60}context (?:window|length|size|limit)",
    r"(?:prompt|input|request) (?:is )?too long",
    r"input (?:token count|length).{0,60}exceeds",
    r"(?:prompt|input) (?:contains|has) .{0,60}tokens.{0,60}(?:limit|maximum)",
    r"too many (?:input )?tokens",
    r"tokens? (?:exceeds?|in (?:your )?(?:prompt|request) exceeds?)",
    r"reduce the length of the (?:messages|prompt|input)",
    r"(?:maximum|max) (?:prompt|input) (?:length|tokens)",
    r"request_too_large|request (?:entity )?too large",
    r"model_context_window_exceeded|context_window_exceeded",
    r"input tokens exceed",
    r"larger than the maximum .{0,30}tokens",
)
HTML_PAGE = ErrorPattern(r"<!doctype html", r"<html[\s>]", r"\bbad gateway\b", r"\bcloudflare\b")
_NETWORK = ErrorPattern(
    r"connection (?:was )?(?:refused|reset|aborted)",
    r"connection closed (?:before|by (?:the )?(?:peer|remote|server))",
    r"broken pipe",
    r"\bdns\b|name (?:or service )?not known|name resolution",
    r"\b(?:ssl|tls)\b",
    r"tim(?:ed|e)[- ]?out",
    r"\bserver error\b|\bserver_error\b",
    r"error sending request|connect error|connection error|network (?:error|is unreachable)",
    r"error decoding|decod(?:e|ing) (?:failure|error)|unexpected (?:eof|end of (?:file|stream))",
    r"(?:incomplete|peer closed).{0,30}(?:read|body|chunk|connection)",
    r"no route to host|host is unreachable",
)


def classify_text(text: str) -> ErrorKind:
    """The kind that `text` describes; `other` when it describes none we know.

    A quota that counts per minute is a rate limit, whatever else is said of it. A context that is
    full is looked for after server errors, as one that happens to quote the prompt may name both.
    """
    if _AUTH.search(text):
        return "auth"
    if _CAP.search(text) and not PER_MINUTE.search(text):
        return "usage_cap"
    ordered: tuple[tuple[ErrorPattern, ErrorKind], ...] = (
        (_RATE, "rate_limit"),
        (_SERVER, "server"),
        (CONTEXT_LENGTH, "context_length"),
        (HTML_PAGE, "proxy_page"),
        (_NETWORK, "network"),
    )
    return next((kind for wordings, kind in ordered if wordings.search(text)), "other")


# Longer runs of digits than this are nonsense; a float holds these without overflow.
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)\d*"
_SEPARATOR = r"[\"']?\s*[:=]?\s*[\"']?"

# Compiled when first looked for: most runs never wait.
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
    """Seconds to wait, None when nothing was said. `now` is Unix time, for dates.

    Headers beat text, milliseconds beat seconds; a date that is past means 0. `headers` has
    lower-case names or ignores case.
    """
    in_header = _seconds(headers.get("retry-after-ms"))
    if in_header is not None:
        return in_header / 1000
    said = headers.get("retry-after")
    if said is not None:
        seconds = _seconds(said)
        found = seconds if seconds is not None else _seconds_until(said, now)
        if found is not None:
            return found
    return _wait_in_text(text, now)


def _wait_in_text(text: str, now: float) -> float | None:
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
