"""The fake model service as other programs use it: with a plain HTTP client."""

import json
from http.client import HTTPConnection

import pytest

from dirge_py.testing import FakeService, ModelReply, NoReply, RawReply


def post(service: FakeService, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", service.port, timeout=10)
    connection.request("POST", path, json.dumps({"model": "m"}), {"X-Key": "k"})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("/v1/chat/completions", '"content": "Hello."'),
        ("/v1/responses", "response.completed"),
        ("/v1/messages", "message_stop"),
        ("/v1beta/models/m:streamGenerateContent", '"text": "Hello."'),
        ("/api/chat", '"done": true'),
    ],
)
def test_answer_has_the_wire_format_of_the_path(path: str, event: str) -> None:
    with FakeService([ModelReply(text="Hello.")]) as service:
        status, body = post(service, path)

    assert status == 200
    assert event in body
    [request] = service.requests
    assert (request.method, request.path, request.json) == ("POST", path, {"model": "m"})
    assert request.headers["x-key"] == "k"


def test_replies_are_sent_in_order_then_an_error() -> None:
    with FakeService([RawReply(status=429, body="{}"), ModelReply(text="Hi.")]) as service:
        first, second, third = (post(service, "/v1/chat/completions") for _ in range(3))

    assert [status for status, _ in (first, second, third)] == [429, 200, 500]
    assert "no more replies" in third[1]


def test_a_connection_can_be_closed_without_an_answer() -> None:
    with FakeService([NoReply(then="close")]) as service, pytest.raises(ConnectionError):
        post(service, "/v1/chat/completions")
