"""Every wire format against aimock, a third-party model server."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dirge_py.agent_loop import Context, LoopConfig
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.testing.wire_formats import WIRE_FORMATS
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamFn, StreamOptions
from dirge_py.types.messages import AssistantMessage, ThinkingBlock, user_text
from dirge_py.types.outcomes import Done
from tests.providers.third_party_servers import ARGUMENTS, mock_server
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import KINDS

CHUNKS = ("-c", "7")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Returns `servers(*flags)`: the address of a server with these flags, started once."""
    running: dict[tuple[str, ...], str] = {}
    with ExitStack() as stack:

        def server(*flags: str) -> str:
            if flags not in running:
                folder: Path = tmp_path_factory.mktemp("aimock")
                running[flags] = stack.enter_context(mock_server(folder, *flags))
            return running[flags]

        yield server


def make_stream_fn(http: HttpClient, kind: str, url: str) -> StreamFn:
    base = url + WIRE_FORMATS[kind].base_path
    settings = ProviderSettings(alias="work", type=kind, base_url=base, api_key="k")
    return find_provider(kind).make(settings, http)


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_mock_server_runs_tool_call_and_answers_after_result(
    http: HttpClient, servers: Any, kind: str
) -> None:
    tool = Tool()
    run = await run_loop(
        make_stream_fn(http, kind, servers(*CHUNKS)),
        "weather",
        context=Context(system_prompt="s", tools=[tool]),
        config=LoopConfig(model="work/m"),
    )

    assert isinstance(run.outcome, Done), run.outcome
    assert tool.ran == [ARGUMENTS]
    answers = [m for m in run.new if isinstance(m, AssistantMessage)]
    assert [answer.text for answer in answers] == ["Let me look.", "It is sunny in Paris."]
    assert [answer.stop_reason for answer in answers] == ["toolUse", "stop"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ollama"])
async def test_thinking_is_separate_from_answer_text(
    http: HttpClient, servers: Any, kind: str
) -> None:
    """Except Ollama: the server uses another service's name for `thinking`."""
    run = await run_loop(
        make_stream_fn(http, kind, servers(*CHUNKS)),
        "weather",
        context=Context(system_prompt="s", tools=[Tool()]),
        config=LoopConfig(model="work/m", thinking_level="low"),
    )

    first = next(m for m in run.new if isinstance(m, AssistantMessage))
    thinking = [block.text for block in first.content if isinstance(block, ThinkingBlock)]
    assert thinking == ["I need the tool."]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--chaos-ratelimit", "1"), ("rate_limit", 1.0)),
        (("--chaos-disconnect", "1"), ("network", None)),
        (("--chaos-drop", "1"), ("server", None)),
        (("--chaos-malformed", "1"), ("network", None)),
    ],
    ids=lambda value: value[0].removeprefix("--chaos-") if isinstance(value[0], str) else "",
)
async def test_mock_server_faults_map_to_error_kinds(
    http: HttpClient, servers: Any, kind: str, flags: tuple[str, ...], expected: tuple[str, Any]
) -> None:
    stream_fn = make_stream_fn(http, kind, servers(*flags))
    context = LlmContext(system_prompt="s", messages=[user_text("hello")])
    events = [e async for e in stream_fn(context, StreamOptions(model="work/m"), AbortSignal())]

    error = events[-1].error  # type: ignore[union-attr]
    assert (error.kind, error.retry_after_s) == expected
