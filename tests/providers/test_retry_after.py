from datetime import UTC, datetime

import pytest

from dirge_py.providers.errors import retry_after_s

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "200", "retry-after": "9"}, 0.2),
        ({"retry-after": "Wed, 21 Oct 2026 07:29:00 GMT"}, 60.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_wait_is_read_from_headers(headers, seconds):
    assert retry_after_s(headers, "", now=NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("retry-after-ms: 250", 0.25),
        ("Retry-After: 12", 12.0),
        ("RETRY-AFTER 12", 12.0),
        ('{"error": {"retry_after": 3}}', 3.0),
        ('{"retryDelay": "17s"}', 17.0),
        ("Retry-After: Wed, 21 Oct 2026 07:29:00 GMT", 60.0),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 1.5s.", 1.5),
        ("Please try again in 6m0s.", 360.0),
        ("İstanbul: Retry-After: 4", 4.0),
        ("überlastet – retry-after: 2", 2.0),
        ("nothing of the kind", None),
    ],
)
def test_wait_is_read_from_error_text(text, seconds):
    assert retry_after_s({}, text, now=NOW) == pytest.approx(seconds)


def test_huge_retry_after_is_long_wait():
    assert retry_after_s({}, "retry-after: " + "9" * 5000, now=NOW) > 1e9


def test_retry_after_header_beats_error_text():
    assert retry_after_s({"retry-after": "1"}, "retry_after: 9", now=NOW) == 1.0
