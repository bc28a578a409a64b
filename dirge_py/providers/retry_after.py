"""How long a service asks us to wait: in a header, in its JSON, or in its prose."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

# Longer runs of digits than this are nonsense; a float holds these without overflow.
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)\d*"
_SEPARATOR = r"[\"']?\s*[:=]?\s*[\"']?"

# Compiled when first looked for: most runs never wait.
_IN_TEXT: tuple[tuple[str, float], ...] = (
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
    in_header = _number(headers.get("retry-after-ms"))
    if in_header is not None:
        return in_header / 1000
    said = headers.get("retry-after")
    if said is not None:
        seconds = _number(said)
        found = seconds if seconds is not None else _until(said, now)
        if found is not None:
            return found
    return _in_text(text, now)


def _in_text(text: str, now: float) -> float | None:
    for pattern, unit_s in _IN_TEXT:
        match = re.search(pattern, text, re.I)
        if match:
            return float(match[1]) * unit_s
    date = re.search(_DATE_IN_TEXT, text, re.I)
    return _until(date[1], now) if date else None


def _number(text: str | None) -> float | None:
    match = re.fullmatch(r"\s*" + _NUMBER + r"\s*s?\s*", text or "")
    return float(match[1]) if match else None


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
