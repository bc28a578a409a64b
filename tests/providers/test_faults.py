"""Every way an exchange can break, in every wire format."""

import re
import socket
from dataclasses import replace

import pytest

from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import StreamDone, StreamError
from tests.support.fake_service import ModelReply, NoReply, RawReply
from tests.support.provider_client import (
    JSON_LINES,
    KEY,
    WHOLE_CALLS,
    calls_of,
    done_of,
    short,
    text_of,
)

KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "ollama": "`api_key_env` of `[providers.work]`",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
}

JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}


def refusal(status, message="no", headers=JSON, code="some_error"):
    body = f'{{"type":"error","error":{{"type":"{code}","message":"{message}"}}}}'
    return RawReply(status=status, body=body, headers=headers)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request"),
        (401, "auth"),
        (402, "auth"),
        (403, "auth"),
        (404, "invalid_request"),
        (408, "network"),
        (413, "context_length"),
        (422, "invalid_request"),
        (429, "rate_limit"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (529, "rate_limit"),
    ],
)
async def test_http_status_maps_to_error_kind(either, status, kind):
    error = await either(refusal(status)).error()

    assert (error.kind, error.status, error.phase) == (kind, status, "establish")


async def test_payment_required_error_says_no_credit_instead_of_wrong_key(either):
    error = await either(refusal(402, "Payment Required")).error()

    assert "has no credit left (402)" in error.message and "Add credit" in error.hint


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "prompt is too long: 210000 tokens", "context_length"),
        (400, "Your credit balance is too low", "auth"),
        (429, "You exceeded your current quota, check your plan and billing", "auth"),
        (429, "daily limit reached", "usage_cap"),
        (429, "quota exceeded for requests per minute", "rate_limit"),
        (500, "maximum context length is 4096", "context_length"),
    ],
)
async def test_error_text_refines_kind_from_status(either, status, message, kind):
    assert (await either(refusal(status, message)).error()).kind == kind


@pytest.mark.parametrize(
    ("headers", "kind", "wait_s"),
    [
        ({"retry-after": "7"}, "rate_limit", 7.0),
        ({"retry-after-ms": "1500"}, "rate_limit", 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "rate_limit", 0.0),
        ({"retry-after": "3600"}, "usage_cap", 3600.0),
        ({}, "rate_limit", None),
    ],
)
async def test_rate_limit_reads_retry_after_headers(either, headers, kind, wait_s):
    error = await either(refusal(429, headers={**JSON, **headers})).error()

    assert (error.kind, error.retry_after_s) == (kind, wait_s)


async def test_usage_cap_hint_ignores_short_retry_after_and_shows_date(either):
    day = await either(refusal(429, "daily limit reached", {**JSON, "retry-after": "41"})).error()
    week = await either(refusal(429, headers={**JSON, "retry-after": "600000"})).error()

    assert (day.kind, day.hint) == (
        "usage_cap",
        "Wait, or choose another model with `/model` or `--model`.",
    )
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d", week.hint), "the hour is not enough"


async def test_auth_error_names_key_variable_and_hides_key(either):
    client = either(refusal(401, f"bad key {KEY}", headers={**JSON, "request-id": "req_7"}))
    error = await client.error()

    assert KEY_VARIABLES[client.kind] in error.hint
    assert KEY not in f"{error.message} {error.raw} {error!r}"
    assert "req_7" in error.raw


async def test_auth_error_names_where_key_came_from(either):
    error = await either(refusal(401)).error(key_place="keys/work")

    assert error.hint == "Check keys/work."


async def test_unknown_model_error_names_model(either):
    error = await either(refusal(404)).error(model="work/nonesuch")

    assert "nonesuch" in error.message
    assert "`/model` or `--model`" in error.hint


async def test_long_error_body_is_truncated(either):
    error = await either(RawReply(status=500, body="x" * 50_000, headers=JSON)).error()

    assert len(error.raw) <= 2000
    assert len(error.message) < 500


async def test_redirect_is_reported_and_not_followed(either):
    client = either(RawReply(status=307, headers={"location": "https://elsewhere.example/v1"}))
    error = await client.error()

    assert "elsewhere.example" in error.message
    assert len(client.service.requests) == 1


@pytest.mark.parametrize("status", [200, 403, 502])
async def test_html_answer_error_says_web_page(either, status):
    page = "<!doctype html><html><body>Please log in</body></html>"
    error = await either(RawReply(status=status, body=page, headers=HTML)).error()

    assert "web page" in error.message
    assert error.kind in {"proxy_page", "auth", "server"}


async def test_refused_connection_error_names_url(openai):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await openai().error(base_url=f"http://127.0.0.1:{port}/v1")

    assert error.kind == "network"
    assert f"http://127.0.0.1:{port}/v1/chat/completions" in error.message


async def test_https_to_plain_http_server_is_error_and_sends_nothing(openai):
    client = openai()
    error = await client.error(base_url=client.url.replace("http:", "https:"))

    assert error.kind == "network"
    assert "secure connection" in error.message
    assert client.service.requests == []


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_connection_lost_before_answer_is_retryable(either, how):
    error = await either(NoReply(then=how)).error()

    assert (error.kind, error.phase) == ("network", "establish")
    assert error.is_retryable


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_connection_lost_in_head_is_retryable(either, how):
    error = await either(RawReply(then=how)).error()

    assert (error.kind, error.phase) == ("network", "establish")


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_connection_lost_mid_stream_keeps_text(either, how):
    client, say = either(), ModelReply(text="half of it", delta_chars=4)
    client.service.replies.append(replace(say, after_bytes=_behind(client, say, "half"), then=how))
    events = await client.ask()

    assert text_of(events)
    assert "half of it".startswith(text_of(events))
    assert isinstance(events[-1], StreamError)
    assert (events[-1].error.kind, events[-1].error.phase) == ("network", "stream")


async def test_stream_without_end_marker_is_error(openai):
    cut = RawReply(body='data: {"choices":[{"delta":{"content":"so"}}]}\n\ndata: {"choi')
    events = await openai(cut).ask()

    assert text_of(events) == "so"
    assert (events[-1].error.kind, events[-1].error.phase) == ("network", "stream")


@pytest.mark.parametrize("body", [b"", b"\n\n", b": keep-alive\n\n", b"data: [DONE]\n\n"])
async def test_empty_answer_is_retryable(either, body):
    error = await either(RawReply(body=body)).error()

    assert (error.kind, error.phase) == ("network", "establish")


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\xff\xfe garbage \x80" * 50,
        b"data: not json\n\n",
        b"data: [1, 2]\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"choices": 7, "type": 9, "usage": []}\n\n',
        b'data: {"choices": [{"delta": [1]}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": {}, "id": 3}]}}]}\n\n',
        b'data: {"type": "content_block_start", "index": [], "content_block": {}}\n\n',
        b"{",
        b'{"half": ',
        b"[]",
        b"[1]",
        b"7",
        b"<",
    ],
)
async def test_garbage_answer_ends_in_one_clear_error(either, body):
    events = await either(RawReply(body=body)).ask()

    assert isinstance(events[-1], StreamError)
    assert events[-1].error.kind in {"network", "proxy_page", "other"}
    assert "work" in events[-1].error.message


async def test_gzip_answer_is_decoded(either):
    import gzip

    client = either(ModelReply(text="x"))
    whole = b"".join(_pieces(client))
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    client.service.replies[0] = RawReply(body=gzip.compress(whole), headers=headers)

    assert text_of(await client.ask()) == "x"


async def test_doubly_compressed_answer_is_error(either):
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip, gzip"}
    error = await either(RawReply(body=b"x", headers=headers)).error()

    assert "compressed" in error.message


async def test_wrong_content_type_is_ignored(either):
    client = either(ModelReply(text="x"))
    body = b"".join(_pieces(client))
    client.service.replies[0] = RawReply(body=body, headers={"content-type": "application/json"})

    assert text_of(await client.ask()) == "x"


async def test_error_body_with_status_200_is_error(either):
    body = '{"error": {"message": "Too many requests", "code": 429}}'
    error = await either(RawReply(body=body, headers=JSON)).error()

    assert error.kind == "rate_limit"


async def test_stall_before_answer_times_out(either):
    error = await either(NoReply()).error(timeouts=short(establish_s=0.1))

    assert "timed out" in error.message
    assert (error.kind, error.phase) == ("network", "establish")


async def test_stall_mid_stream_times_out(either):
    client, say = either(), ModelReply(text="half", delta_chars=2)
    end = _behind(client, say, "ha")
    client.service.replies.append(replace(say, after_bytes=end, then="stall"))
    events = await client.ask(timeouts=short(chunk_s=0.1))

    assert "timed out" in events[-1].error.message
    assert events[-1].error.phase == "stream"
    assert client.service.hangup.wait(5)


async def test_chunk_timeout_of_one_call_overrides_settings(either):
    say = ModelReply(text="half", delta_chars=2)
    client = either(say)
    first = wire_events(client.kind, say)[0].encode()
    client.service.replies[0] = RawReply(pieces=[first], then="stall")
    events = await client.ask(timeouts=short(chunk_s=60), chunk_timeout_s=0.1)

    assert "timed out: nothing came for 0.1 s" in events[-1].error.message


async def test_keep_alives_prevent_chunk_timeout(either):
    client = either(ModelReply())
    first, *rest = _pieces(client, ModelReply(text="x"))
    alive = [b"\n" if client.kind in JSON_LINES else b": keep-alive\n\n"] * 8
    client.service.replies[0] = RawReply(pieces=[first, *alive, *rest], gap_s=0.05)
    events = await client.ask(timeouts=short(chunk_s=0.3))

    assert text_of(events) == "x"
    assert isinstance(events[-1], StreamDone)


async def test_stalled_tool_call_times_out_sooner(either):
    say = ModelReply(calls=[("read", {"path": "x" * 4000})], delta_chars=1000)
    client = either(say)
    if client.kind in WHOLE_CALLS:
        pytest.skip("its calls come whole: none is ever half-written")
    stream = b"".join(_pieces(client, say))
    half = stream.index(b"xxx") + 500
    client.service.replies[0] = ModelReply(
        calls=say.calls, delta_chars=1000, after_bytes=half, then="stall"
    )
    events = await client.ask(timeouts=short(tool_call_gap_s=0.1))

    assert "tool call" in events[-1].error.message
    assert "timed out" in events[-1].error.message


async def test_slow_tool_call_pieces_do_not_time_out(either):
    say = ModelReply(calls=[("read", {"path": "x" * 20})], delta_chars=2, gap_s=0.03)
    events = await either(say).ask(timeouts=short(tool_call_gap_s=0.3, chunk_s=0.3))

    assert done_of(events).stop_reason == "toolUse"


async def test_request_timeout_limits_whole_answer(either):
    say = ModelReply(text="x" * 200, delta_chars=1, gap_s=0.02)
    error = await either(say).error(request_timeout_s=0.15)

    assert "timed out" in error.message
    assert "whole" in error.message


async def test_stream_ends_at_done_marker_though_connection_stays_open(openai):
    say = RawReply(
        body='data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n', then="stall"
    )
    events = await openai(say).ask(timeouts=short(chunk_s=60))

    assert isinstance(events[-1], StreamDone)


async def test_repeated_tool_call_is_emitted_once(openai):
    call = '{"index":0,"id":"a","function":{"name":"read","arguments":"{\\"p\\":1}"}}'
    lines = [
        f'data: {{"choices":[{{"delta":{{"tool_calls":[{call}]}}}}]}}\n\n',
        f'data: {{"choices":[{{"delta":{{"tool_calls":[{call}]}}}}]}}\n\n',
        f'data: {{"choices":[{{"message":{{"tool_calls":[{call}]}},"finish_reason":"stop"}}]}}\n\n',
    ]
    events = await openai(RawReply(body="".join(lines))).ask()

    assert calls_of(events) == [("a", "read", '{"p":1}')]
    assert done_of(events).stop_reason == "toolUse"


async def test_unsendable_key_error_does_not_show_key(either):
    client = either(ModelReply(text="x"))
    for bad in ("sk-\u2713-secret", "sk-a\nb-secret"):
        error = await client.error(key=bad)

        assert isinstance(error, ProviderError)
        assert "secret" not in f"{error} {error.raw}"


def _behind(client, say, text):
    """The byte position after the event with `text`, inside the next event."""
    pieces = _pieces(client, say)
    found = next(n for n, piece in enumerate(pieces) if f'"{text}"'.encode() in piece)
    return sum(map(len, pieces[: found + 1])) + 10


def _pieces(client, say=None):
    return [event.encode() for event in wire_events(client.kind, say or ModelReply(text="x"))]
