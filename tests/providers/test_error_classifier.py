import pytest

from dirge_py.providers.errors import classify_text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("auth", "401 Unauthorized"),
        ("auth", "HTTP status 403"),
        ("auth", "Incorrect API key provided"),
        ("auth", "invalid x-api-key"),
        ("auth", "You exceeded your current quota, please check your plan and billing details"),
        ("auth", "insufficient_quota"),
        ("usage_cap", "You have reached your usage limit"),
        ("usage_cap", "daily limit reached, too many requests"),
        ("usage_cap", '{"code": "1308", "message": "5-hour quota"}'),
        ("usage_cap", "quota exceeded"),
        ("rate_limit", "quota exceeded: 60 requests per minute"),
        ("rate_limit", "status 429"),
        ("rate_limit", "Too Many Requests"),
        ("rate_limit", "RESOURCE_EXHAUSTED"),
        ("rate_limit", "overloaded_error: Overloaded"),
        ("server", "HTTP 503"),
        ("server", "status code: 500"),
        ("server", "502 Bad Gateway"),
        ("server", "Internal Server Error"),
        ("context_length", "This model's maximum context length is 8192 tokens"),
        ("context_length", "prompt is too long: 210000 tokens > 200000 maximum"),
        ("context_length", "context_length_exceeded"),
        ("context_length", "the request exceeds the available context size"),
        ("context_length", "Please reduce the length of the messages"),
        ("context_length", "The input token count (9) exceeds the maximum number of tokens"),
        ("context_length", "input length and `max_tokens` exceed context limit"),
        ("proxy_page", "<!DOCTYPE html><title>Login</title>"),
        ("proxy_page", "<html>\n<body>"),
        ("network", "connection reset by peer"),
        ("network", "Connection refused"),
        ("network", "broken pipe"),
        ("network", "operation timed out"),
        ("network", "TLS handshake eof"),
        ("network", "error sending request for url"),
        ("network", "dns error"),
        ("other", "the list has 500 items"),
        ("other", "a lossless subtitles file"),
        ("other", "form reset"),
        ("other", "database connection closed"),
        ("other", ""),
    ],
)
def test_error_text_is_classified_by_wording(kind, text):
    assert classify_text(text) == kind
