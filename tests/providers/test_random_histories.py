"""Any history makes a valid request that begins like the previous one."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.config.services import SERVICE_OF, SERVICES, wire_of
from dirge_py.providers.client import HttpClient, HttpRequest, HttpResponse, TransportError
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings, Quirks
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamError,
    StreamFn,
    StreamOptions,
)
from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, user_text
from tests.providers.histories import ANY_HISTORY, PICTURE
from tests.security.sizes import size
from tests.support.provider_client import KINDS, READ
from tests.support.strict_services import problems

MODEL_OF: Mapping[str, Sequence[str]] = {
    "openai": ("gpt-5.5", "gpt-4.1", "unknown"),
    "openai-responses": ("gpt-5.5", "gpt-4.1", "unknown"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-5", "claude-opus-5-5", "claude-3-haiku"),
    "gemini": ("gemini-2.5-flash", "gemini-3-flash-preview", "gemini-2.0-flash"),
    "ollama": ("qwen3", "gpt-oss"),
}
LIST_OF = {"openai-responses": "input", "gemini": "contents"}
OPTIONS = st.fixed_dictionaries(
    {
        "thinking_level": st.sampled_from(["off", "low", "xhigh"]),
        "tool_choice": st.sampled_from(["auto", "none", "required", NamedTool("read")]),
        "response_schema": st.sampled_from([None, ResponseSchema(name="a b", schema={})]),
        "max_output_tokens": st.sampled_from([None, 1, 100_000]),
    }
)


class RequestRecorder(HttpClient):
    """An HTTP client that records the request and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    async def send(self, request: HttpRequest, **_: Any) -> HttpResponse:
        self.bodies.append(json.loads(request.body or b""))
        raise TransportError("refused", "nobody is there")


def make_stream_fn(service: str, http: RequestRecorder, home: str | None = None) -> StreamFn:
    known = SERVICE_OF[service]
    return find_provider(wire_of(service)).make(
        ProviderSettings(
            alias="work",
            type=service,
            base_url=home or known.base_url or "",
            api_key="k",
            quirks=Quirks(**known.dialect),
        ),
        http,
    )


def sent(
    stream_fn: StreamFn,
    http: RequestRecorder,
    messages: Sequence[Message],
    folder: str,
    **options: Any,
) -> Any:
    """The body of a request; None if nothing would be sent."""
    before = len(http.bodies)
    tools = options.pop("tools", (READ,))
    context = LlmContext(
        system_prompt="Be brief.", messages=messages, tools=tools, asset_dir=folder
    )

    async def ask() -> list[Any]:
        return [e async for e in stream_fn(context, StreamOptions(**options), AbortSignal())]

    (event,) = asyncio.run(ask())
    assert isinstance(event, StreamError)
    if len(http.bodies) == before:
        assert "no message to send" in event.error.message
        return None
    return http.bodies[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    shared_folder = tmp_path_factory.mktemp("assets")
    (shared_folder / PICTURE).write_bytes(b"png")
    return str(shared_folder)


def any_history(examples: int, whole: int) -> settings:
    return settings(
        max_examples=size(examples, whole), suppress_health_check=list(HealthCheck), deadline=None
    )


@pytest.mark.parametrize("kind", KINDS)
@any_history(50, 600)
@given(history=ANY_HISTORY, options=OPTIONS, has_tools=st.booleans(), chosen=st.data())
def test_any_history_makes_request_that_strict_services_accept(
    folder: str, kind: str, history: Sequence[Message], options: Any, has_tools: bool, chosen: Any
) -> None:
    http = RequestRecorder()
    model = f"work/{chosen.draw(st.sampled_from(MODEL_OF[kind]))}"
    tools = (READ,) if has_tools else ()
    body = sent(
        make_stream_fn(kind, http), http, history, folder, model=model, tools=tools, **options
    )

    assert body is None or problems(kind, body) == []
    if body is not None and model == "work/gpt-4.1" and kind == "openai-responses":
        assert not [item for item in body["input"] if item.get("type") == "reasoning"]


@pytest.mark.parametrize("service", [one.type for one in SERVICES if one.dialect])
@any_history(15, 200)
@given(history=ANY_HISTORY, level=st.sampled_from(["off", "high"]))
def test_any_history_makes_valid_request_for_services_with_quirks(
    folder: str, service: str, history: Sequence[Message], level: Any
) -> None:
    http = RequestRecorder()
    quirks = Quirks(**SERVICE_OF[service].dialect)
    model = f"work/{SERVICE_OF[service].default_model or 'm'}"
    body = sent(
        make_stream_fn(service, http), http, history, folder, model=model, thinking_level=level
    )
    if body is None:
        return
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    ids = [call["id"] for message in answers for call in message.get("tool_calls", ())]

    assert problems(wire_of(service), body) == []
    if quirks.thinking_back == "reasoning_content":
        assert all("reasoning_content" in message for message in answers)
    if quirks.call_id_chars is not None:
        assert all(len(one) == quirks.call_id_chars and one.isalnum() for one in ids)


@pytest.mark.parametrize("kind", KINDS)
@any_history(40, 600)
@given(history=ANY_HISTORY, level=st.sampled_from(["off", "low"]), chosen=st.data())
def test_longer_history_makes_request_with_same_prefix(
    folder: str, kind: str, history: Sequence[Message], level: Any, chosen: Any
) -> None:
    """The model's answer follows everything that it was sent."""
    before = (user_text("go"), *history)
    ends = [at for at, one in enumerate(before) if isinstance(one, AssistantMessage)]
    shown = before[: chosen.draw(st.sampled_from(ends))] if ends else before
    http = RequestRecorder()
    asked = {"model": f"work/{MODEL_OF[kind][0]}", "thinking_level": level}
    stream_fn = make_stream_fn(kind, http)
    first = sent(stream_fn, http, shown, folder, **asked)
    then = sent(stream_fn, http, before, folder, **asked)

    assert then == sent(make_stream_fn(kind, http), http, before, folder, **asked)
    if first.get("thinking") == then.get("thinking"):
        beginning = list(written(kind, first))
        assert list(written(kind, then))[: len(beginning)] == beginning


def written(kind: str, body: Mapping[str, Any]) -> Iterator[Any]:
    """What a cache compares, piece by piece, without Anthropic's marks."""
    for message in body[LIST_OF.get(kind, "messages")]:
        inner = message.get("parts" if kind == "gemini" else "content")
        if kind not in ("anthropic", "gemini"):
            yield message
            continue
        for piece in inner:
            yield message["role"], {k: v for k, v in piece.items() if k != "cache_control"}


def test_custom_messages_are_not_sent(folder: str) -> None:
    http = RequestRecorder()
    kept = [CustomMessage(kind="x")]

    assert [
        sent(make_stream_fn(kind, http), http, kept, folder, model="work/m") for kind in KINDS
    ] == [None] * len(KINDS)
