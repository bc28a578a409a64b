"""`/model`, as typed: what is listed, where a bare id goes, and why one is refused."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from dirge_py.config.load import load
from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ConfigError, NoProvider, ProviderError
from tests.conversation.room import NO_SNAPSHOTS, Person
from tests.providers.server import FakeService, Raw
from tests.slash.hand import typed

CONFIG = """
provider = "work"
[providers.local]
type = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "qwen3"
[providers.work]
type = "anthropic"
models = ["claude-opus-5", "claude-sonnet-5"]
api_key_env = "WORK_KEY"
"""
KEYS = {"WORK_KEY": "w", "MISTRAL_API_KEY": "m"}


class Open(Protocol):
    def __call__(self, **keys: str) -> AbstractAsyncContextManager[Conversation]: ...


@pytest.fixture
def talking(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    (home / "config.toml").write_text(CONFIG + NO_SNAPSHOTS)
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")

    @asynccontextmanager
    async def open_one(**keys: str) -> AsyncIterator[Conversation]:
        environment = {"HOME": str(home), "DIRGE_STATE_DIR": str(home / "state"), **keys}
        config = load(environment=environment, path=home / "config.toml")
        options = BuildOptions(session=SessionChoice(kind="newest"))
        talk = build(config, Person(), options, stream_fn=ScriptedModel().stream_fn)
        try:
            yield talk
        finally:
            await talk.close()

    yield open_one


async def test_what_can_be_used_is_listed_by_provider_the_present_one_first(talking: Open) -> None:
    async with talking(**KEYS) as talk:
        assert talk.settings.set_model("claude-sonnet-5") == "work/claude-sonnet-5"
        screen = await typed("/model", talk, None)
    specs = [line.split(" | ")[0] for line in screen.asked]
    assert specs == [
        "work/claude-opus-5",
        "work/claude-sonnet-5",
        "local/qwen3",
        "mistral/devstral-medium-latest",
        "local/…",
        "work/…",
        "mistral/…",
    ]
    assert "local/qwen3 | " in screen.asked  # its window is unknown, and not shown as if it was not


async def test_the_present_model_is_listed_also_where_no_entry_has_it(talking: Open) -> None:
    async with talking(**KEYS) as talk:
        talk.settings.set_model("local/odd")
        screen = await typed("/model", talk, None)
    assert screen.asked[0].startswith("local/odd") and len(screen.asked) == 8


async def test_a_switch_tells_the_level_that_it_brings(talking: Open) -> None:
    async with talking(**KEYS) as talk:
        screen = await typed("/model claude-sonnet-5:high", talk)
    assert "The model is work/claude-sonnet-5, thinking high, from the next turn on." in screen.text


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("claude-sonnet-5", "work/claude-sonnet-5"),
        ("claude-next", "work/claude-next"),
        ("codestral-3", "mistral/codestral-3"),
        ("local/anything", "local/anything"),
        ("local", "local/qwen3"),
    ],
)
async def test_a_switch_goes_to_who_serves_the_model(talking: Open, spec: str, model: str) -> None:
    async with talking(**KEYS) as talk:
        screen = await typed(f"/model {spec}", talk)
        assert talk.settings.model == model
    assert f"The model is {model}" in screen.text and "from the next turn on." in screen.text


@pytest.mark.parametrize("way", [("/model local/", "fancy"), ("/model", "local/…", "fancy")])
async def test_all_models_of_a_service_are_asked_for(
    talking: Open, home: Path, way: tuple[str, ...]
) -> None:
    listed = {"data": [{"id": "fancy"}, {"id": "gpt-5.5"}, {"id": "qwen3"}]}
    with FakeService([Raw(body=json.dumps(listed))]) as service:
        config = home / "config.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", service.openai_url))
        async with talking(**KEYS) as talk:
            screen = await typed(way[0], talk, *way[1:])
            assert talk.settings.model == "local/fancy"
        assert [seen.path for seen in service.requests] == ["/v1/models"]
    specs = [line.split(" | ")[0] for line in screen.asked]
    # What is known of is first.
    assert specs[-3:] == ["local/gpt-5.5", "local/fancy", "local/qwen3"]
    assert "The model is local/fancy from the next turn on." in screen.text


async def test_a_listed_id_that_ends_like_a_level_is_taken_as_it_stands(
    talking: Open, home: Path
) -> None:
    with FakeService([Raw(body='{"data": [{"id": "phi3:medium"}, {"id": "phi3"}]}')]) as service:
        config = home / "config.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", service.openai_url))
        async with talking(**KEYS) as talk:
            await talk.send("hello")
            await typed("/model local/", talk, "phi3:medium")
            assert talk.settings.model == "local/phi3:medium"
            await talk.send("go on")
        async with talking(**KEYS) as talk:
            assert (talk.settings.model, list(talk.notices)) == ("local/phi3:medium", [])
            await typed("/model local/phi3:high", talk)
            assert (talk.settings.model, talk.settings.thinking) == ("local/phi3", "high")


async def test_a_service_with_a_wrong_name_is_refused_with_the_nearest(talking: Open) -> None:
    async with talking(**KEYS) as talk:
        with pytest.raises(ConfigError) as caught:
            await typed("/model wrok/", talk)
        assert caught.value.hint == "Did you mean `work`?"
        screen = await typed("/model /", talk, None)
        assert "work/claude-opus-5" in screen.asked[0]


@pytest.mark.parametrize(
    ("spec", "error", "reason"),
    [
        ("local/", ProviderError, "local"),
        ("wrok/", ConfigError, "no provider `wrok`"),
        ("gemini/", NoProvider, "GEMINI_API_KEY"),
        ("film/", ConfigError, "plays a file"),
    ],
)
async def test_a_service_that_lists_nothing_is_told_and_the_model_stays(
    talking: Open, home: Path, spec: str, error: Any, reason: str
) -> None:
    with (home / "config.toml").open("a") as config:
        config.write('[providers.film]\ntype = "replay"\nscript = "x.jsonl"\n')
    async with talking(**KEYS) as talk:
        assert "film" not in talk.settings.services()
        with pytest.raises(error, match=reason):
            await typed(f"/model {spec}", talk)
        assert talk.settings.model == "work/claude-opus-5"


@pytest.mark.parametrize(
    ("spec", "error", "reason"),
    [
        ("gpt-9", NoProvider, "OPENAI_API_KEY"),
        ("wrok/x", ConfigError, "no provider `wrok`"),
        ("gemini/x", NoProvider, "GEMINI_API_KEY"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_the_model_stays(
    talking: Open, spec: str, error: Any, reason: str
) -> None:
    async with talking(**KEYS) as talk:
        with pytest.raises(error, match=reason):
            await typed(f"/model {spec}", talk)
        assert talk.settings.model == "work/claude-opus-5"


async def test_a_session_comes_back_with_its_provider_and_model(talking: Open) -> None:
    async with talking(**KEYS) as talk:
        await talk.send("hello")
        await typed("/model codestral-3", talk)
        await talk.send("go on")
    async with talking(**KEYS) as talk:
        assert talk.settings.model == "mistral/codestral-3"
    async with talking(WORK_KEY="w") as talk:
        assert talk.settings.model == "work/claude-opus-5"
        assert "mistral/codestral-3 can't be used" in "\n".join(talk.notices)
