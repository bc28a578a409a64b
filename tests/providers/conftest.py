from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from dirge_py.providers.client import HttpClient
from tests.support.fake_service import FakeService, ServiceReply
from tests.support.provider_client import KINDS, Client


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeService]]:
    with ExitStack() as stack:

        def start(*replies: ServiceReply) -> FakeService:
            return stack.enter_context(FakeService(replies))

        yield start


@pytest.fixture
def openai(http: HttpClient, serve: Callable[..., FakeService]) -> Callable[..., Client]:
    return lambda *replies: Client(http, "openai", serve(*replies))


@pytest.fixture
def anthropic(http: HttpClient, serve: Callable[..., FakeService]) -> Callable[..., Client]:
    return lambda *replies: Client(http, "anthropic", serve(*replies))


@pytest.fixture
def gemini(http: HttpClient, serve: Callable[..., FakeService]) -> Callable[..., Client]:
    return lambda *replies: Client(http, "gemini", serve(*replies))


@pytest.fixture(params=KINDS)
def either(
    request: pytest.FixtureRequest, http: HttpClient, serve: Callable[..., FakeService]
) -> Callable[..., Client]:
    return lambda *replies: Client(http, request.param, serve(*replies))
