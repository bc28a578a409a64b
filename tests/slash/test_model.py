"""`/model`, as typed: the list, bare ids, and errors."""

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
from tests.support.fake_service import FakeService, RawReply
from tests.support.project import NO_SNAPSHOTS, ScriptedUser
from tests.support.typed_commands import run_command

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


class OpenConversation(Protocol):
    def __call__(self, **keys: str) -> AbstractAsyncContextManager[Conversation]: ...


@pytest.fixture
def open_conversation(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenConversation]:
    (home / "config.toml").write_text(CONFIG + NO_SNAPSHOTS)
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")

    @asynccontextmanager
    async def open_one(**keys: str) -> AsyncIterator[Conversation]:
        environment = {"HOME": str(home), "DIRGE_STATE_DIR": str(home / "state"), **keys}
        config = load(environment=environment, path=home / "config.toml")
        options = BuildOptions(session=SessionChoice(kind="newest"))
        conversation = build(config, ScriptedUser(), options, stream_fn=ScriptedModel().stream_fn)
        try:
            yield conversation
        finally:
            await conversation.close()

    yield open_one


async def test_picker_lists_usable_models_with_current_provider_first(
    open_conversation: OpenConversation,
) -> None:
    async with open_conversation(**KEYS) as conversation:
        assert conversation.settings.set_model("claude-sonnet-5") == "work/claude-sonnet-5"
        screen = await run_command("/model", conversation, None)
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


async def test_picker_lists_current_model_that_no_provider_lists(
    open_conversation: OpenConversation,
) -> None:
    async with open_conversation(**KEYS) as conversation:
        conversation.settings.set_model("local/odd")
        screen = await run_command("/model", conversation, None)
    assert screen.asked[0].startswith("local/odd") and len(screen.asked) == 8


async def test_model_switch_reports_thinking_level(open_conversation: OpenConversation) -> None:
    async with open_conversation(**KEYS) as conversation:
        screen = await run_command("/model claude-sonnet-5:high", conversation)
    assert "Model: work/claude-sonnet-5, thinking high, from the next turn on." in screen.text


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
async def test_model_id_is_resolved_to_its_provider(
    open_conversation: OpenConversation, spec: str, model: str
) -> None:
    async with open_conversation(**KEYS) as conversation:
        assert conversation.settings.set_model(spec) == model
        assert conversation.settings.model == model


async def test_model_that_its_service_does_not_list_is_warned_about(
    open_conversation: OpenConversation, home: Path
) -> None:
    listed = json.dumps({"data": [{"id": "fancy"}, {"id": "llama3:latest"}]})
    with FakeService([RawReply(body=listed)] * 3) as service:
        config = home / "config.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", service.openai_url))
        async with open_conversation(**KEYS) as conversation:
            wrong = await run_command("/model local/fanci", conversation)
            right = await run_command("/model local/llama3", conversation)
            assert conversation.settings.model == "local/llama3"
    warning = "local doesn't list fanci. Did you mean local/fancy? /model local/ shows its models."
    assert wrong.shown[-1] == warning
    assert "doesn't list" not in right.text
    kept = "This session keeps it. For new ones, set `model` under [providers.local]."
    assert kept in right.text


@pytest.mark.parametrize("way", [("/model local/", "fancy"), ("/model", "local/…", "fancy")])
async def test_all_models_of_provider_can_be_listed(
    open_conversation: OpenConversation, home: Path, way: tuple[str, ...]
) -> None:
    listed = {"data": [{"id": "fancy"}, {"id": "gpt-5.5"}, {"id": "qwen3"}]}
    with FakeService([RawReply(body=json.dumps(listed))]) as service:
        config = home / "config.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", service.openai_url))
        async with open_conversation(**KEYS) as conversation:
            screen = await run_command(way[0], conversation, *way[1:])
            assert conversation.settings.model == "local/fancy"
        assert [seen.path for seen in service.requests] == ["/v1/models"]
    specs = [line.split(" | ")[0] for line in screen.asked]
    # Models of the catalogue come first.
    assert specs[-3:] == ["local/gpt-5.5", "local/fancy", "local/qwen3"]
    assert "Model: local/fancy from the next turn on." in screen.text


async def test_listed_model_id_ending_like_a_level_is_taken_literally(
    open_conversation: OpenConversation, home: Path
) -> None:
    with FakeService(
        [RawReply(body='{"data": [{"id": "phi3:medium"}, {"id": "phi3"}]}')]
    ) as service:
        config = home / "config.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", service.openai_url))
        async with open_conversation(**KEYS) as conversation:
            await conversation.send("hello")
            await run_command("/model local/", conversation, "phi3:medium")
            assert conversation.settings.model == "local/phi3:medium"
            await conversation.send("go on")
        async with open_conversation(**KEYS) as conversation:
            assert (conversation.settings.model, list(conversation.notices)) == (
                "local/phi3:medium",
                [],
            )
            await run_command("/model local/phi3:high", conversation)
            assert (conversation.settings.model, conversation.settings.thinking) == (
                "local/phi3",
                "high",
            )


async def test_mistyped_provider_is_refused_with_suggestion(
    open_conversation: OpenConversation,
) -> None:
    async with open_conversation(**KEYS) as conversation:
        with pytest.raises(ConfigError) as caught:
            await run_command("/model wrok/", conversation)
        assert caught.value.hint == "Did you mean `work`?"
        screen = await run_command("/model /", conversation, None)
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
async def test_provider_without_model_list_is_reported_and_model_stays(
    open_conversation: OpenConversation, home: Path, spec: str, error: Any, reason: str
) -> None:
    with (home / "config.toml").open("a") as config:
        config.write('[providers.film]\ntype = "replay"\nscript = "x.jsonl"\n')
    async with open_conversation(**KEYS) as conversation:
        assert "film" not in conversation.settings.services()
        with pytest.raises(error, match=reason):
            await run_command(f"/model {spec}", conversation)
        assert conversation.settings.model == "work/claude-opus-5"


@pytest.mark.parametrize(
    ("spec", "error", "reason"),
    [
        ("gpt-9", NoProvider, "OPENAI_API_KEY"),
        ("wrok/x", ConfigError, "no provider `wrok`"),
        ("gemini/x", NoProvider, "GEMINI_API_KEY"),
    ],
)
async def test_unusable_model_is_refused_and_model_stays(
    open_conversation: OpenConversation, spec: str, error: Any, reason: str
) -> None:
    async with open_conversation(**KEYS) as conversation:
        with pytest.raises(error, match=reason):
            await run_command(f"/model {spec}", conversation)
        assert conversation.settings.model == "work/claude-opus-5"


async def test_resumed_session_restores_provider_and_model(
    open_conversation: OpenConversation,
) -> None:
    async with open_conversation(**KEYS) as conversation:
        await conversation.send("hello")
        conversation.settings.set_model("codestral-3")
        await conversation.send("go on")
    async with open_conversation(**KEYS) as conversation:
        assert conversation.settings.model == "mistral/codestral-3"
    async with open_conversation(WORK_KEY="w") as conversation:
        assert conversation.settings.model == "work/claude-opus-5"
        assert "mistral/codestral-3 cannot be used" in "\n".join(conversation.notices)
