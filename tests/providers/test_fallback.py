"""Fallback models, over real sockets."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dirge_py.agent_loop import retrying_stream_fn
from dirge_py.agent_loop.model_call import complete
from dirge_py.providers.client import HttpClient
from dirge_py.providers.fallback import FallbackChain, FallbackModel
from dirge_py.testing import FakeClock, ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import OUT_OF_REACH_KINDS, ErrorKind, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    ResponseSchema,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    StreamRetry,
    StreamStart,
    TextDelta,
    ToolCallDelta,
)
from dirge_py.types.messages import Usage, user_text
from tests.support.fake_service import FakeService, ModelReply, RawReply
from tests.support.provider_client import Client

JSON = {"content-type": "application/json"}
DOWN = RawReply(status=503, body='{"error":{"message":"try later"}}', headers=JSON)
NO_KEY = RawReply(status=401, body='{"error":{"message":"invalid api key"}}', headers=JSON)
TOO_LONG = RawReply(
    status=400,
    body='{"error":{"message":"prompt is too long","code":"context_length_exceeded"}}',
    headers=JSON,
)
HELLO = ModelReply(text="Hello.", usage=(10, 2, 0, 0))

Serve = Callable[..., FakeService]


class Pair:
    """Two services: `one/m` is the chosen model, `two/m` the fallback."""

    def __init__(self, http: HttpClient, one: FakeService, two: FakeService) -> None:
        self.services = {"one": one, "two": two}
        self.http = http
        self.clock = FakeClock(is_eager=True)
        self.reported: list[str] = []
        self.fallback = self.made()

    def made(self) -> FallbackChain:
        retrying = retrying_stream_fn(self._route, sleep=self.clock.sleep)
        return FallbackChain(retrying, [FallbackModel("two/m")], self.reported.append)

    def _route(self, context: LlmContext, options: StreamOptions, signal: AbortSignal) -> Any:
        alias = options.model.partition("/")[0]
        client = Client(self.http, "openai", self.services[alias])
        return client.stream(model=options.model, signal=signal)

    def stream(self, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        context = LlmContext(system_prompt="", messages=(user_text("hi"),))
        return self.fallback.stream(context, StreamOptions(model="one/m"), signal)

    async def ask(self) -> list[Any]:
        return [event async for event in self.stream(AbortSignal())]

    def asked(self) -> tuple[int, int]:
        return len(self.services["one"].requests), len(self.services["two"].requests)


Making = Callable[..., Pair]


@pytest.fixture
def pair(http: HttpClient, serve: Serve) -> Making:
    return lambda one, two: Pair(http, serve(*one), serve(*two))


async def test_fallback_model_answers_under_its_own_name_after_retries(pair: Making) -> None:
    both = pair([DOWN] * 6, [HELLO])
    answer = await complete(
        both.fallback.stream,
        LlmContext(system_prompt="", messages=(user_text("hi"),)),
        StreamOptions(model="one/m"),
        AbortSignal(),
    )
    assert both.asked() == (6, 1)
    assert (answer.text, answer.model, answer.usage) == (
        "Hello.",
        "two/m",
        Usage(input=10, output=2),
    )
    [notice] = both.reported
    assert notice.startswith("one/m cannot be reached (") and "Using two/m until" in notice


async def test_wrong_key_is_not_retried_and_fallback_stays_until_next_run(
    pair: Making,
) -> None:
    both = pair([NO_KEY, HELLO], [HELLO, HELLO])
    await both.ask()
    await both.ask()
    assert (both.asked(), len(both.reported), both.clock.slept) == ((1, 2), 1, [])

    both.fallback.begin_run()

    assert StreamStart(stand_in="two/m") not in await both.ask()
    assert both.asked() == (2, 2)


async def test_fallback_is_not_used_after_text_was_streamed(pair: Making) -> None:
    both = pair([ModelReply(text="Hello. " * 50, after_bytes=900, then="reset")], [HELLO])
    events = await both.ask()
    assert any(isinstance(event, TextDelta) for event in events)
    assert isinstance(events[-1], StreamError)
    assert (both.asked(), both.reported) == ((1, 0), [])


async def test_error_names_both_models_when_both_fail(pair: Making) -> None:
    both = pair([DOWN] * 6, [NO_KEY])
    last = (await both.ask())[-1]
    assert isinstance(last, StreamError)
    assert "one/m: " in last.error.message and "two/m: " in last.error.message
    assert (last.error.kind, last.error.status) == ("server", 503)


async def test_fallback_is_not_used_for_invalid_request(pair: Making) -> None:
    both = pair([TOO_LONG], [HELLO])
    last = (await both.ask())[-1]
    assert isinstance(last, StreamError) and last.error.kind == "context_length"
    assert both.asked() == (1, 0)


async def test_abort_during_retry_wait_ends_stream_without_fallback(
    pair: Making,
) -> None:
    both = pair([DOWN] * 6, [HELLO])
    both.clock = FakeClock()
    both.fallback = both.made()
    signal, events = AbortSignal(), []
    async for event in both.stream(signal):
        events.append(event)
        if isinstance(event, StreamRetry):
            signal.abort("user")
    assert isinstance(events[-1], StreamError) and events[-1].error.kind == "aborted"
    assert (both.asked(), both.reported) == ((1, 0), [])


def failing(kind: ErrorKind) -> StreamError:
    return StreamError(ProviderError("gone.", kind=kind))


@pytest.mark.parametrize(
    "kind",
    [
        *sorted(OUT_OF_REACH_KINDS),
        "context_length",
        "invalid_request",
        "refused",
        "aborted",
        "other",
    ],
)
async def test_fallback_is_used_only_for_errors_of_the_service(kind: ErrorKind) -> None:
    model = ScriptedModel().will_stream(failing(kind)).will_stream(TextDelta("a"), StreamDone())
    fallback = FallbackChain(model.stream_fn, [FallbackModel("b/m")], lambda text: None)
    events = fallback.stream(
        LlmContext(system_prompt="", messages=()), StreamOptions(model="a/m"), AbortSignal()
    )
    last = [event async for event in events][-1]
    assert isinstance(last, StreamDone) is (kind in OUT_OF_REACH_KINDS)


async def test_fallback_voids_partial_tool_calls_and_does_not_pass_on_key_or_headers() -> None:
    seen: list[StreamOptions] = []
    model = ScriptedModel().will_stream(
        ToolCallDelta(key="1", id="1", name="read"), failing("network")
    )
    model.will_stream(StreamDone())

    def noted(context: Any, options: StreamOptions, signal: Any) -> Any:
        seen.append(options)
        return model.stream_fn(context, options, signal)

    fallback = FallbackChain(
        noted, [FallbackModel("b/m", "low")], lambda text: None, holds_schema=lambda model: False
    )
    options = StreamOptions(
        model="a/m",
        api_key="sk-a",
        headers={"x": "a"},
        thinking_level="high",
        response_schema=ResponseSchema(name="answer", schema={}),
    )
    events = fallback.stream(LlmContext(system_prompt="", messages=()), options, AbortSignal())
    kinds = [type(event) for event in [event async for event in events]]
    assert kinds == [ToolCallDelta, StreamRetry, StreamStart, StreamDone]
    assert (seen[1].model, seen[1].thinking_level) == ("b/m", "low")
    assert (seen[1].api_key, dict(seen[1].headers)) == (None, {})
    assert (seen[0].response_schema, seen[1].response_schema) == (options.response_schema, None)
