"""Temperature, top_p, stop sequences and further members of requests."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dirge_py.config.load import load
from dirge_py.config.schema import config_from
from dirge_py.config.sources import Origin, Overrides
from dirge_py.lib.redaction import Redactor
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelDirectory, SamplingFilter
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import LlmContext, StreamDone, StreamError, StreamOptions
from dirge_py.types.messages import user_text
from dirge_py.types.sampling import Sampling
from tests.support.fake_service import FakeService, ModelReply, RawReply

ALL = {"temperature": 0.5, "top_p": 0.75, "stop_sequences": ["END"]}


class Directory:
    """The configured models of one fake service, with what they notify."""

    def __init__(
        self, http: HttpClient, service: FakeService, kind: str, model: str, tables: dict[str, Any]
    ) -> None:
        entry = {"type": kind, "base_url": service.url(kind), "api_key_env": "K", "model": model}
        config = config_from(
            {**tables, "providers": {"work": {**entry, **tables.get("providers", {})}}}
        )
        config = config.with_origin(
            Origin(chosen=Overrides(provider="work"), environment={"K": "k"})
        )
        self.notices: list[str] = []
        self.service = service
        self.model = f"work/{model}"
        self.models = ModelDirectory(config, http, Redactor(), notify=self.notices.append)

    async def sent(self, **options: Any) -> Any:
        """The JSON of the last request of one call."""
        context = LlmContext(system_prompt="", messages=[user_text("hi")])
        options = {"model": self.model, **options}
        events = self.models.stream(context, StreamOptions(**options), AbortSignal())
        self.last = [event async for event in events][-1]
        return self.service.requests[-1].json


@pytest.fixture
def directory(http: HttpClient, serve: Callable[..., FakeService]) -> Callable[..., Directory]:
    def opened(
        kind: str = "openai", model: str = "m", *replies: Any, models: Any = None, **entry: Any
    ) -> Directory:
        service = serve(*(replies or [ModelReply(text="x")] * 3))
        return Directory(http, service, kind, model, {"providers": entry, "models": models or {}})

    return opened


@pytest.mark.parametrize(
    ("kind", "place", "names"),
    [
        ("openai", "", {"temperature": 0.5, "top_p": 0.75, "stop": ["END"]}),
        ("openai-responses", "", {"temperature": 0.5, "top_p": 0.75}),
        ("anthropic", "", {"temperature": 0.5, "top_p": 0.75, "stop_sequences": ["END"]}),
        (
            "gemini",
            "generationConfig",
            {"temperature": 0.5, "topP": 0.75, "stopSequences": ["END"]},
        ),
        ("ollama", "options", {"temperature": 0.5, "top_p": 0.75, "stop": ["END"]}),
    ],
)
async def test_sampling_uses_names_of_each_wire_format(directory, kind, place, names):
    body = await directory(kind, **ALL).sent()

    of_format = {"temperature", "top_p", "topP", "stop", "stop_sequences", "stopSequences"}
    sent = body[place] if place else body
    assert {name: value for name, value in sent.items() if name in of_format} == names


async def test_sampling_is_not_sent_unless_set(directory):
    body = await directory().sent()

    assert body.keys().isdisjoint({"temperature", "top_p", "stop"})


async def test_sampling_of_call_overrides_model_which_overrides_provider(directory):
    works = directory(
        temperature=0.1,
        top_p=0.2,
        options={"seed": 1, "user": "u"},
        models={"m": {"top_p": 0.3, "stop_sequences": ["A"]}, "work/m": {"options": {"seed": 2}}},
    )
    body = await works.sent(sampling=Sampling(stop_sequences=("B",), temperature=0.0))

    assert (body["temperature"], body["top_p"], body["stop"]) == (0.0, 0.3, ["B"])
    assert (body["seed"], body["user"]) == (2, "u")


async def test_options_are_merged_last(directory):
    body = await directory(
        "ollama", temperature=1.0, options={"options": {"temperature": 0.3, "top_k": 9}}
    ).sent()

    assert body["options"] == {"temperature": 0.3, "top_k": 9}


async def test_sampling_settings_do_not_change_model_profile(directory):
    works = directory(models={"m": {"window_tokens": 777, "temperature": 0.3}})

    assert works.models.window_tokens("work/m") == 777


@pytest.mark.parametrize(
    ("kind", "model", "level", "sent"),
    [
        ("anthropic", "claude-opus-4-8", "off", {"stop_sequences"}),
        ("anthropic", "claude-sonnet-4-5", "high", {"stop_sequences"}),
        ("anthropic", "claude-sonnet-4-5", "off", {"temperature", "top_p", "stop_sequences"}),
    ],
)
async def test_unsupported_sampling_is_left_out_with_one_notice(
    directory, kind, model, level, sent
):
    works = directory(kind, model, **ALL)
    body = await works.sent(thinking_level=level)
    await works.sent(thinking_level=level)

    names = {"temperature", "top_p", "stop_sequences"}
    assert body.keys() & names == sent
    assert works.notices == [
        f"`{name}` is left out of requests to work/{model}, which doesn't accept it."
        for name in sorted(names - sent)
    ]


async def test_openai_reasoning_models_get_no_temperature_or_stop_sequences() -> None:
    seen: list[Sampling] = []
    notices: list[str] = []

    async def answer(context, options, signal):
        seen.append(options.sampling)
        yield StreamDone()

    filtered = SamplingFilter(
        settings=ProviderSettings(alias="work", type="openai"),
        configured=lambda _: Sampling(temperature=0.5, stop_sequences=("END",), extra={"seed": 1}),
        notify=notices.append,
    ).around(answer)
    context = LlmContext(system_prompt="", messages=[user_text("hi")])
    for name in ("o3", "gpt-4.1"):
        options = StreamOptions(model=f"work/{name}")
        assert [event async for event in filtered(context, options, AbortSignal())]

    assert seen[0] == Sampling(extra={"seed": 1})
    assert (seen[1].temperature, seen[1].stop_sequences) == (0.5, ("END",))
    assert [notice.partition(" is")[0] for notice in notices] == [
        "`stop_sequences`",
        "`temperature`",
    ]


def refusal(message: str) -> RawReply:
    error = {"error": {"message": message, "type": "invalid_request_error"}}
    return RawReply(
        body=json.dumps(error), status=400, headers={"content-type": "application/json"}
    )


async def test_rejected_sampling_option_is_left_out_from_then_on(directory):
    works = directory(
        "openai",
        "own-reasoner",
        refusal("Unsupported parameter: 'temperature' is not supported with this model."),
        refusal("Unsupported parameter: 'stop' is not supported with this model."),
        ModelReply(text="a"),
        ModelReply(text="b"),
        **ALL,
    )
    await works.sent()
    assert isinstance(works.last, StreamDone)
    body = await works.sent()

    assert (len(works.service.requests), body["top_p"]) == (4, 0.75)
    assert body.keys().isdisjoint({"temperature", "stop"})
    assert len(works.notices) == 2


async def test_temperature_is_kept_when_it_excludes_top_p(directory):
    works = directory(
        "anthropic",
        "claude-sonnet-4-5",
        refusal("`temperature` and `top_p` cannot both be specified for this model."),
        ModelReply(text="a"),
        **ALL,
    )
    body = await works.sent()

    assert body["temperature"] == 0.5
    assert "top_p" not in body


async def test_sampling_value_out_of_range_is_request_error(directory):
    works = directory("openai", "m", refusal("temperature must be less than 1"), **ALL)
    await works.sent()

    assert isinstance(works.last, StreamError)
    assert "less than 1" in works.last.error.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("temperature = 3.0", "`temperature` must be between 0 and 2, not 3"),
        ("top_p = 0.0", "`top_p` must be above 0"),
        ('stop_sequences = [""]', "must not hold an empty text"),
        ('options = { messages = "x", seed = 1 }', "dirge itself writes `messages`"),
        ("options = { at = 2026-01-01 }", "`at` has a value that JSON cannot hold"),
        ("options = { at = nan }", "`at` has a value that JSON cannot hold"),
    ],
)
@pytest.mark.parametrize("table", ["[providers.work]\ntype = 'openai'", "[models.m]"])
def test_invalid_sampling_settings_are_config_errors(tmp_path, table, line, words):
    file = tmp_path / "config.toml"
    file.write_text(f"{table}\n{line}\n")

    with pytest.raises(ConfigError) as refused:
        load(path=file)

    assert words in refused.value.message
