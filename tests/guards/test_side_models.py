"""One question to the models of `[roles]`."""

import asyncio
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.config.models import role_choice, unusable_roles
from dirge_py.config.schema import config_from
from dirge_py.guards.judge import SideModels
from dirge_py.plan.extension import plan_terms
from dirge_py.providers.scripted import Reply, Script
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.events import SystemNotice, UsageReported
from dirge_py.types.llm import StreamDone
from dirge_py.types.messages import AssistantMessage, TextBlock, Usage, user_text

PROVIDERS = '[providers.fake]\ntype = "openai"\nmodel = "gpt-4o"\napi_key_env = "FAKE_KEY"\n'
CRITIC = '[roles]\ncritic = "fake/critical:high"\n'


@pytest.fixture
def config(tmp_path: Path):
    def made(text: str = CRITIC):
        (tmp_path / "config.toml").write_text(PROVIDERS + text)
        environment = {
            "HOME": str(tmp_path),
            "DIRGE_CONFIG_DIR": str(tmp_path),
            "DIRGE_STATE_DIR": str(tmp_path / "state"),
            "FAKE_KEY": "sk-x",
        }
        return load(environment=environment)

    return made


async def test_role_is_asked_with_its_model_and_its_usage_is_reported(config):
    received = []
    script = Script([Reply(text="MET", usage=Usage(input=5, output=1))])
    judge = SideModels(config=config(), stream_fn=script.stream).judge("critic", received.append)

    assert await judge("system", "is it met?") == "MET"

    (options,) = script.options
    assert (options.model, options.thinking_level) == ("fake/critical", "high")
    (seen,) = script.seen
    assert (seen.system_prompt, seen.tools) == ("system", ())
    assert seen.messages == (user_text("is it met?", "harness"),)
    usage = Usage(input=5, output=1)
    assert received == [UsageReported(usage=usage, model="fake/critical", role="critic")]


async def test_unset_role_has_no_judge_but_can_be_asked(config):
    received = []
    script = Script([Reply(text="a", usage=Usage(input=1)), Reply(text="b")])
    judges = SideModels(config=config(""), stream_fn=script.stream, emit=received.append)

    assert judges.judge("critic") is None
    assert await judges.ask("summarize", "system", "sum up") == "a"
    assert await judges.ask("summarize", "system", "sum up") == "b"
    assert script.options[0].model == "fake/gpt-4o"
    assert [event.usage for event in received] == [Usage(input=1)]


def test_role_with_an_unknown_provider_is_reported_at_start(config):
    wrong = config('[roles]\ncritic = "gone/x"\nsummarize = "fake/y"\nmain = "fake/z"\n')
    (notice,) = unusable_roles(wrong)
    assert notice.startswith("[roles] critic: There is no provider `gone`.")
    assert unusable_roles(config()) == []
    with pytest.raises(ConfigError):
        SideModels(config=wrong, stream_fn=Script([]).stream).judge("critic")


def test_role_of_an_empty_text_is_not_set():
    roles = {"main": "ollama/one", "summarize": ""}
    assert unusable_roles(config_from({"provider": "openai", "roles": roles})) == []


async def test_judge_over_its_time_limit_raises_timeout_error(config):
    script = Script([Reply(text="half", hold=asyncio.Event().wait)])
    settings = config(CRITIC + "[timeouts]\njudge_s = 0.01\n")
    with pytest.raises(TimeoutError):
        await SideModels(config=settings, stream_fn=script.stream).judge("critic")("s", "p")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(error=ProviderError("down")),
        Reply(
            events=[StreamDone(message=AssistantMessage(error_message="down"), stop_reason="error")]
        ),
    ],
)
async def test_failing_judge_raises_provider_error(config, reply):
    judge = SideModels(config=config(), stream_fn=Script([reply]).stream).judge("critic")
    with pytest.raises(ProviderError, match="down"):
        await judge("s", "p")


async def test_failed_answer_without_text_names_the_model(config):
    broken = StreamDone(message=AssistantMessage(content=(TextBlock("x"),)), stop_reason="aborted")
    judge = SideModels(config=config(), stream_fn=Script([Reply(events=[broken])]).stream)
    with pytest.raises(ProviderError, match="fake/critical gave no answer"):
        await judge.judge("critic")("s", "p")


async def test_secrets_are_redacted_for_judge_models(config):
    script = Script([Reply(text="MET")])
    judges = SideModels(
        config=config(),
        stream_fn=script.stream,
        redact=lambda text: text.replace("hunter2", "[redacted]"),
    )
    await judges.ask("critic", "system", "the password is hunter2")
    assert script.seen[0].messages[0].text == "the password is [redacted]"


def test_goal_without_a_critic_role_is_judged_by_the_main_model(config):
    goal = '[loop.gates]\ngoal = "the tests pass"\n'
    assert unusable_roles(config(goal)) == []
    assert unusable_roles(config(CRITIC + goal)) == []


KEYLESS = '[providers.keyless]\ntype = "anthropic"\nmodel = "m"\napi_key_env = "NO_SUCH_KEY"\n'


@pytest.mark.parametrize(
    "role", ["summarize", "explore", "plan", "review", "escalate", "critic", "approve", "fallback"]
)
def test_role_without_an_api_key_is_reported_and_ignored(config, role):
    settings = config(f'[roles]\n{role} = "keyless"\n{KEYLESS}')

    [notice] = unusable_roles(settings)

    assert notice.startswith(f"[roles] {role}: Provider `keyless` has no API key")
    assert role == "fallback" or role_choice(settings, role) is None
    assert plan_terms(settings).models == {}


async def test_unreachable_summarize_model_is_replaced_by_the_main_model(config):
    received = []
    script = Script(
        [Reply(error=ProviderError("no key.", kind="auth")), Reply(text="a", usage=Usage(input=1))]
    )
    settings = config('[roles]\nsummarize = "fake/small:low"\n')
    judges = SideModels(config=settings, stream_fn=script.stream, emit=received.append)

    assert await judges.ask("summarize", "system", "sum up") == "a"

    asked = [(options.model, options.thinking_level) for options in script.options]
    assert asked == [("fake/small", "low"), ("fake/gpt-4o", "off")]
    assert received == [
        SystemNotice("[roles] summarize: no key. Using fake/gpt-4o instead."),
        UsageReported(usage=Usage(input=1), model="fake/gpt-4o", role="summarize"),
    ]


async def test_summarize_model_without_an_api_key_is_not_asked(config):
    script = Script([Reply(text="a")])
    settings = config(f'[roles]\nsummarize = "keyless"\n{KEYLESS}')
    assert (
        await SideModels(config=settings, stream_fn=script.stream).ask("summarize", "s", "p") == "a"
    )
    assert [options.model for options in script.options] == ["fake/gpt-4o"]
