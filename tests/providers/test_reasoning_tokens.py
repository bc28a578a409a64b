"""The tokens a model thinks with, in each wire format that reports them."""

import json
from collections.abc import Callable

import pytest

from dirge_py.providers.client import HttpClient
from dirge_py.session.codec import decode_usage, encode_usage
from dirge_py.types.messages import Usage
from tests.support.fake_service import FakeService, RawReply
from tests.support.provider_client import Client, done_of


def events(*payloads: object) -> RawReply:
    return RawReply(body="".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads))


def chat() -> RawReply:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    details = {"completion_tokens_details": {"reasoning_tokens": 20}}
    usage = {"prompt_tokens": 10, "completion_tokens": 30, "total_tokens": 40, **details}
    return events({"choices": [choice], "usage": usage})


def responses() -> RawReply:
    usage = {
        "input_tokens": 10,
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    text = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "x"}]}
    done = {"id": "r", "status": "completed", "output": [text], "usage": usage}
    return events({"type": "response.completed", "response": done})


def messages() -> RawReply:
    block = {"type": "text", "text": "x"}
    return events(
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 10}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 20}},
        },
        {"type": "message_stop"},
    )


def gemini() -> RawReply:
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 10, "thoughtsTokenCount": 20}
    candidate = {"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}
    return events({"candidates": [candidate], "usageMetadata": counts})


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("openai", chat),
        ("openai-responses", responses),
        ("anthropic", messages),
        ("gemini", gemini),
    ],
)
async def test_reasoning_tokens_are_included_in_output(
    http: HttpClient,
    serve: Callable[..., FakeService],
    kind: str,
    reply: Callable[[], RawReply],
) -> None:
    usage = done_of(await Client(http, kind, serve(reply())).ask()).usage

    assert usage == Usage(input=10, output=30, reasoning=20)
    assert usage is not None and usage.total == 40


def test_sum_of_usages_adds_reasoning_tokens() -> None:
    usage = Usage(input=1, output=5, reasoning=3) + Usage(input=1, output=4, reasoning=2)

    assert (usage.reasoning, usage.total) == (5, 11)


def test_session_stores_reasoning_tokens_and_reads_older_records() -> None:
    usage = Usage(input=1, output=5, reasoning=3)

    assert decode_usage(encode_usage(usage)) == usage
    assert decode_usage({"input": 1, "output": 5}) == Usage(input=1, output=5)
