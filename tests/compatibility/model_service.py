"""A model service on loopback that supports Chat Completions and Anthropic's Messages.

It returns the replies in order and refuses further requests, so that a run with too many requests
fails at once. It uses only the standard library, because another version may run next to it.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""`text`, `calls` (a list of name and arguments) and `hang`; or what makes one of a request."""

USAGE = (120, 8)
"""Tokens in and out of each answer."""


def says(text: str, *calls: tuple[str, dict[str, Any]], **rest: Any) -> dict[str, Any]:
    """A reply."""
    return {"text": text, "calls": calls, **rest}


class Service:
    """The service; a context manager. `requests` are the bodies it was sent, as JSON."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.replies: list[Reply] = []
        self.released = threading.Event()
        self._arrived = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._calls = 0

    def __enter__(self) -> "Service":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def will(self, *replies: Reply) -> None:
        """Set the next replies, dropping unused ones."""
        self.replies[:] = replies

    def wait_for(self, count: int, patience_s: float = 30) -> None:
        """Wait until `count` requests have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, patience_s)

    def _handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the request's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with service._arrived:
                    service.requests.append(body)
                    service._arrived.notify_all()
                    reply = service.replies.pop(0) if service.replies else None
                    service._calls += 1
                    number = service._calls
                if reply is None:
                    self._send(400, "application/json", b'{"error":{"message":"no more replies"}}')
                    return
                told = reply(body) if callable(reply) else reply
                if told.get("hang"):
                    service.released.wait()
                    self.close_connection = True
                    return
                stream = _anthropic if "/messages" in self.path else _openai
                text = "".join(stream(told, f"call_{number}"))
                self._send(200, "text/event-stream", text.encode())

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


def _openai(reply: Mapping[str, Any], call_id: str) -> Iterator[str]:
    calls: Sequence[Any] = reply.get("calls", ())
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": reply.get("text", "")}]
    if reply.get("thinking"):
        deltas.insert(0, {"role": "assistant", "reasoning_content": reply["thinking"]})
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"{call_id}_{index}", "type": "function"}
        deltas.append({"tool_calls": [{**call, "function": function}]})
    for delta in deltas:
        yield _line({"choices": [{"index": 0, "delta": delta}]})
    finish = "tool_calls" if calls else "stop"
    tokens_in, tokens_out = USAGE
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    yield _line({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    yield _line({"choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _anthropic(reply: Mapping[str, Any], call_id: str) -> Iterator[str]:
    tokens_in, tokens_out = USAGE
    start = {"id": call_id, "role": "assistant", "usage": {"input_tokens": tokens_in}}
    yield _event("message_start", message=start)
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if reply.get("text"):
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": reply["text"]}))
    for index, (name, arguments) in enumerate(reply.get("calls", ())):
        block = {"type": "tool_use", "id": f"{call_id}_{index}", "name": name, "input": {}}
        piece = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        blocks.append((block, piece))
    for index, (block, delta) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=block)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    reason = "tool_use" if reply.get("calls") else "end_turn"
    usage = {"output_tokens": tokens_out}
    yield _event("message_delta", delta={"stop_reason": reason}, usage=usage)
    yield _event("message_stop")


def _event(kind: str, **rest: Any) -> str:
    return f"event: {kind}\n{_line({'type': kind, **rest})}"


def _line(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"
