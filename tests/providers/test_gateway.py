"""Every wire format through litellm."""

import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from dirge_py.agent_loop import Context, LoopConfig
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.testing.wire_formats import WIRE_FORMATS
from dirge_py.types.messages import AssistantMessage
from dirge_py.types.outcomes import Done, Failed
from tests.providers.third_party_servers import ARGUMENTS, KEY, gateway, mock_server
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import KINDS

pytestmark = pytest.mark.gateway

GATEWAY_KINDS = [kind for kind in KINDS if kind != "ollama"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gateway")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with mock_server(folder, "-c", "7") as upstream, gateway(folder, upstream, port) as address:
        yield address


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.mark.parametrize("behind", ["chat", "claude"])
@pytest.mark.parametrize("kind", GATEWAY_KINDS)
async def test_gateway_runs_tool_call_and_answers_after_result(
    http: HttpClient, url: str, kind: str, behind: str
) -> None:
    settings = ProviderSettings(
        alias="work", type=kind, base_url=url + WIRE_FORMATS[kind].base_path, api_key=KEY
    )
    tool = Tool()
    run = await run_loop(
        find_provider(kind).make(settings, http),
        "weather",
        context=Context(system_prompt="s", tools=[tool]),
        config=LoopConfig(model=f"work/{behind}"),
    )

    assert isinstance(run.outcome, Done), run.outcome
    assert tool.ran == [ARGUMENTS]
    answers = [m for m in run.new if isinstance(m, AssistantMessage)]
    assert [answer.text for answer in answers] == ["Let me look.", "It is sunny in Paris."]


@pytest.mark.parametrize("kind", GATEWAY_KINDS)
async def test_gateway_error_message_is_shown(http: HttpClient, url: str, kind: str) -> None:
    settings = ProviderSettings(
        alias="work", type=kind, base_url=url + WIRE_FORMATS[kind].base_path, api_key="sk-wrong"
    )
    run = await run_loop(
        find_provider(kind).make(settings, http), "hello", config=LoopConfig(model="work/chat")
    )

    # Without a database, the gateway knows only its master key.
    assert isinstance(run.outcome, Failed)
    assert (run.outcome.kind, "No connected db" in run.outcome.message) == ("invalid_request", True)
