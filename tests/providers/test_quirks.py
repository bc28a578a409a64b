"""How each service differs from Chat Completions, in requests and answers."""

import json

import pytest

from dirge_py.config.schema import Config, ProviderEntry
from dirge_py.config.services import SERVICES
from dirge_py.config.sources import Origin, Overrides
from dirge_py.lib.redaction import Redactor
from dirge_py.providers.catalog import ModelProfile, cost_usd, find_model_profile
from dirge_py.providers.models import ModelDirectory
from dirge_py.providers.openai import cache_key, chat_request
from dirge_py.providers.settings import Quirks
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamOptions,
    SystemText,
    ThinkingEnd,
)
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from tests.support.fake_service import RawReply
from tests.support.provider_client import READ, done_of, model_call, text_of, thinking_of

QUIRKS = {service.type: Quirks(**service.dialect) for service in SERVICES}
CALL = ToolCallBlock(id="call_from_elsewhere", name="read", arguments={})
RESULT = ToolResultMessage(tool_call_id=CALL.id, tool_name="read", content=(TextBlock("r"),))
SCHEMA = ResponseSchema(name="ver dict", schema={"type": "object", "properties": {}})


def sent(service, *messages, model="m", tools=(READ,), profile=None, quirks=None, **options):
    """The body of a request to a known service."""
    context = LlmContext(
        system_prompt="Be brief.", messages=messages or (user_text("hi"),), tools=tools
    )
    quirks = quirks or QUIRKS[service]
    call = model_call(context, kind=service, model=model, profile=profile, quirks=quirks, **options)
    return chat_request(call)


def answer(*blocks, model="work/m"):
    return AssistantMessage(content=blocks, model=model)


KWARGS = "chat_template_kwargs"
ON = {"type": "enabled"}
OFF = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("service", "level", "members"),
    [
        ("deepseek", "off", OFF),
        ("deepseek", "low", {"thinking": ON, "reasoning_effort": "low"}),
        ("deepseek", "xhigh", {"thinking": ON, "reasoning_effort": "max"}),
        ("opencode", "off", OFF),
        ("opencode", "xhigh", {"thinking": ON, "reasoning_effort": "max"}),
        ("glm", "off", OFF),
        ("glm", "high", {"thinking": ON}),
        ("cerebras", "off", {}),
        ("cerebras", "minimal", {"reasoning_effort": "low"}),
        ("cerebras", "xhigh", {"reasoning_effort": "high"}),
        ("groq", "medium", {}),
        ("openrouter", "off", {}),
        ("openrouter", "minimal", {"reasoning": {"effort": "low"}}),
        ("openrouter", "high", {"reasoning": {"effort": "high"}}),
        ("lmstudio", "xhigh", {"reasoning_effort": "high"}),
        ("llamacpp", "off", {KWARGS: {"enable_thinking": False}}),
        ("llamacpp", "low", {KWARGS: {"enable_thinking": True, "reasoning_effort": "low"}}),
        ("vllm", "off", {KWARGS: {"enable_thinking": False, "thinking": False}}),
        (
            "vllm",
            "xhigh",
            {"reasoning_effort": "high", KWARGS: {"enable_thinking": True, "thinking": True}},
        ),
    ],
)
def test_thinking_level_uses_members_of_service(service, level, members):
    asked = {"thinking", "reasoning", "reasoning_effort", KWARGS}
    body = sent(service, thinking_level=level)

    assert {name: body[name] for name in asked & body.keys()} == members


@pytest.mark.parametrize(
    ("service", "model", "level", "word"),
    [
        ("groq", "openai/gpt-oss-120b", "off", None),
        ("groq", "openai/gpt-oss-120b", "xhigh", "high"),
        ("cerebras", "qwen-3.8-27b", "off", "none"),
        ("xai", "grok-4.7", "off", None),
        ("xai", "grok-4.7", "xhigh", "xhigh"),
        ("xai", "grok-4.3", "off", "none"),
        ("xai", "grok-4.20-0309-reasoning", "high", None),
        ("xai", "grok-unheard-of", "high", None),
        ("mistral", "devstral-medium-latest", "high", None),
        ("mistral", "mistral-small-latest", "off", "none"),
        ("mistral", "mistral-medium-3-5", "low", "high"),
    ],
)
def test_thinking_level_uses_effort_word_model_knows(service, model, level, word):
    assert sent(service, model=model, thinking_level=level).get("reasoning_effort") == word


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ("deepseek", "max_tokens"),
        ("mistral", "max_tokens"),
        ("openrouter", "max_tokens"),
        ("groq", "max_completion_tokens"),
        ("cerebras", "max_completion_tokens"),
        ("xai", "max_completion_tokens"),
    ],
)
def test_output_limit_uses_field_name_of_service(service, field):
    body = sent(service, max_output_tokens=7)

    assert {n: body[n] for n in body if n.startswith("max_")} == {field: 7}


def test_usage_is_requested_except_from_mistral():
    asking = {s.type for s in SERVICES if "stream_options" in sent(s.type)}

    assert {s.type for s in SERVICES} - asking == {"mistral"}


def test_system_prompt_role_is_system_for_all_services():
    assert {sent(s.type)["messages"][0]["role"] for s in SERVICES} == {"system"}


def test_mistral_call_ids_have_nine_characters_and_stay_stable():
    native = ToolCallBlock(id="aB3xK9mP2", name="read", arguments={})
    history = (user_text("a"), answer(CALL, native), RESULT)
    first = sent("mistral", *history)["messages"]
    later = sent("mistral", *history, answer(TextBlock("ok")), user_text("b"))["messages"]
    ids = [call["id"] for call in first[2]["tool_calls"]]

    assert ids[1] == "aB3xK9mP2"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()
    assert [first[3]["tool_call_id"], first[4]["tool_call_id"]] == ids
    assert later[: len(first)] == first


THOUGHT = ThinkingBlock(text="hm")


@pytest.mark.parametrize(
    ("service", "name"),
    [("deepseek", "reasoning_content"), ("glm", "reasoning_content"), ("vllm", "reasoning")],
)
def test_thinking_is_sent_back_only_to_service_that_wants_and_made_it(service, name):
    own, foreign = answer(THOUGHT, CALL), answer(THOUGHT, CALL, model="other/m")

    assert sent(service, user_text("a"), own, RESULT)["messages"][2][name] == "hm"
    back = sent(service, user_text("a"), foreign, RESULT)["messages"][2].get(name, "")
    assert back == ""


def test_deepseek_gets_reasoning_content_in_every_assistant_message():
    history = (user_text("a"), answer(CALL), RESULT, answer(TextBlock("ok")), user_text("b"))
    written = sent("deepseek", *history)["messages"]

    assert [m["reasoning_content"] for m in written if m["role"] == "assistant"] == ["", ""]


@pytest.mark.parametrize("service", ["groq", "cerebras", "mistral", "xai", "lmstudio", "openai"])
def test_thinking_is_not_sent_back_to_services_without_support(service):
    written = sent(service, user_text("a"), answer(THOUGHT, CALL), RESULT)["messages"][2]

    assert written.keys() == {"role", "content", "tool_calls"}


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("read"), {"type": "function", "function": {"name": "read"}}),
    ],
)
def test_tool_choice_is_sent(choice, written):
    assert sent("groq", tool_choice=choice).get("tool_choice") == written
    assert "tool_choice" not in sent("groq", tool_choice=choice, tools=())


def test_deepseek_thinking_is_off_when_tool_choice_is_required():
    free = sent("deepseek", tool_choice="none", thinking_level="high")
    forced = sent("deepseek", tool_choice="required", thinking_level="high")

    assert (free["thinking"], forced["thinking"]) == (ON, {"type": "disabled"})
    assert "reasoning_effort" not in forced


def test_response_schema_is_sent_as_service_supports_it():
    held = sent("xai", response_schema=SCHEMA)
    body = sent("deepseek", response_schema=SCHEMA)

    assert held["response_format"]["type"] == "json_schema"
    assert held["response_format"]["json_schema"]["name"] == "ver_dict"
    assert len(held["messages"]) == 2
    assert body["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA.schema) in body["messages"][-1]["content"]


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "number"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": ["a"]}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "allOf": []}, False),
        ({**CLOSED, "properties": {"a": {}, "b": {"type": "null"}}}, False),
        ({"type": "array", "items": {"type": "string"}}, False),
    ],
)
def test_strict_schema_is_requested_only_if_schema_qualifies(schema, strict):
    wanted = ResponseSchema(name="n", schema=schema)

    format_ = sent("openai", response_schema=wanted)["response_format"]
    assert format_["json_schema"]["strict"] is strict


def test_thinking_allowance_is_added_to_output_limit():
    profile = find_model_profile("deepseek", "deepseek-v4-pro")
    thinking = sent("deepseek", profile=profile, thinking_level="high", max_output_tokens=1000)

    assert thinking["max_tokens"] == 17_384
    assert sent("deepseek", profile=profile, max_output_tokens=1000)["max_tokens"] == 1000


def test_body_members_of_model_are_merged_into_request():
    quirks = Quirks(
        system_role="user",
        body_of={"a/": {"reasoning": {"exclude": True}, "provider": {"sort": "price"}}},
        thinking={"low": {"reasoning": {"effort": "low"}}},
    )
    body = sent("openrouter", model="a/m", quirks=quirks, thinking_level="low")

    assert body["reasoning"] == {"effort": "low", "exclude": True}
    assert body["provider"] == {"sort": "price"}
    assert body["messages"][0]["role"] == "user"


def test_openrouter_caching_is_requested_only_where_not_automatic():
    asked = sent("openrouter", model="anthropic/claude-sonnet-5")

    assert asked["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in sent("openrouter", model="deepseek/deepseek-v4-flash")


def test_requests_with_same_beginning_share_prompt_cache_key():
    def key(*messages, **more):
        return sent("mistral", *messages, **more)["prompt_cache_key"]

    said = user_text("a"), answer(TextBlock("b")), user_text("c")
    assert key(*said) == key(*said[:1]) == key(*said, model="m2", tools=())
    assert key(*said) != key(*said[2:])
    assert "prompt_cache_key" not in sent("groq", *said)


def test_prompt_cache_key_is_sent_to_openai_and_not_to_compatible_servers():
    asked = LlmContext(system_prompt="Be brief.", messages=(user_text("hi"),))
    bodies = [
        chat_request(model_call(asked, base_url=base_url))
        for base_url in ("https://api.openai.com/v1", "https://service.example/v1")
    ]
    assert ["prompt_cache_key" in body for body in bodies] == [True, False]


def test_volatile_part_of_system_prompt_is_not_in_cache_key():
    asked = [
        LlmContext(system_prompt=SystemText(f"Be brief. It is {day}.", 9), messages=(), tools=())
        for day in ("Monday", "Tuesday")
    ]
    assert cache_key(asked[0]) == cache_key(asked[1])


@pytest.mark.parametrize(
    ("told", "charged_usd"),
    [
        ({"cost": 0.0125}, 0.0125),
        ({"cost": 0}, 0.0),
        ({"cost": 0.01, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.2}}, 0.01),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": 0.01, "is_byok": True}, None),
        ({}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({"cost": -1}, None),
        ({"cost": 10**400}, None),
        (
            {
                "cost": 1.5e308,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": 1.5e308},
            },
            None,
        ),
    ],
)
async def test_openrouter_reported_cost_is_used(openai, told, charged_usd):
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    answered = chunks({**last, "usage": {**COUNTS, **told}})
    usage = done_of(await openai(answered).ask(quirks=QUIRKS["openrouter"])).usage
    assert usage.charged_usd == (None if charged_usd is None else pytest.approx(charged_usd))
    if charged_usd is not None:
        assert cost_usd(ModelProfile(), usage) == usage.charged_usd
    others = done_of(await openai(answered).ask()).usage
    assert others.charged_usd is None


async def test_provider_type_alone_selects_service_quirks(http, serve):
    service = serve(chunks(delta("stop", content="hi")))
    entry = ProviderEntry(type="deepseek", base_url=service.url("openai"), api_key_env="WORK_KEY")
    config = Config(providers={"work": entry})
    chosen = Overrides(model="work/deepseek-v4-pro")
    config = config.with_origin(Origin(chosen=chosen, environment={"WORK_KEY": "k"}))
    models = ModelDirectory(config, http, Redactor())

    context = LlmContext(system_prompt="", messages=[user_text("hi")])
    events = models.stream(context, StreamOptions(model="work/deepseek-v4-pro"), AbortSignal())
    assert text_of([event async for event in events]) == "hi"
    assert service.requests[0].json["thinking"] == {"type": "disabled"}
    assert models.window_tokens("work/deepseek-v4-pro") == 1_000_000


# Answers.


def chunks(*payloads, comments=()):
    lines = [f": {comment}\n\n" for comment in comments]
    lines += [f"data: {json.dumps(payload)}\n\n" for payload in payloads]
    return RawReply(body="".join(lines) + "data: [DONE]\n\n")


def delta(finish=None, **fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


async def test_sse_comments_are_ignored(openai):
    waiting = ("OPENROUTER PROCESSING", "OPENROUTER PROCESSING")
    events = await openai(chunks(delta("stop", content="hi"), comments=waiting)).ask()

    assert text_of(events) == "hi"


async def test_thinking_sent_under_several_names_is_read_once(openai):
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    events = await openai(
        chunks(
            delta(reasoning="hm", reasoning_content="hm", reasoning_details=details),
            delta("stop", content="hi"),
        )
    ).ask()

    assert thinking_of(events) == "hm"


async def test_openrouter_reasoning_details_are_sent_back_unchanged(openai):
    client = openai(
        chunks(
            delta(reasoning_details=[{"type": "reasoning.text", "text": "h", "index": 0}]),
            delta(
                reasoning_details=[
                    {"type": "reasoning.text", "text": "m", "index": 0, "format": "x-v1"}
                ]
            ),
            delta(reasoning_details=[{"type": "reasoning.text", "signature": "sé/=", "index": 0}]),
            delta(content="hi"),
            delta(
                "stop",
                reasoning_details=[{"type": "reasoning.encrypted", "data": "e==", "id": "1"}],
            ),
        ),
        chunks(delta("stop", content="ok")),
    )
    quirks = QUIRKS["openrouter"]
    events = await client.ask(quirks=quirks)
    ends = [event for event in events if isinstance(event, ThinkingEnd)]
    said = [
        ThinkingBlock(text="hm", signature=ends[0].signature),
        TextBlock("hi"),
        ThinkingBlock(text="", signature=ends[1].signature),
    ]
    body = await client.sent(
        quirks=quirks, messages=(user_text("a"), answer(*said), user_text("b"))
    )

    whole = {"type": "reasoning.text", "text": "hm", "index": 0, "format": "x-v1"}
    assert thinking_of(events) == "hm"
    assert body["messages"][2]["reasoning_details"] == [
        {**whole, "signature": "sé/="},
        {"type": "reasoning.encrypted", "data": "e==", "id": "1"},
    ]


@pytest.mark.parametrize("signature", ["sealed by Anthropic", "[not json", '{"a": 1}', "[1]"])
def test_foreign_signature_is_not_sent_as_reasoning_details(signature):
    thought = ThinkingBlock(text="hm", signature=signature)
    written = sent("openrouter", user_text("a"), answer(thought, CALL), RESULT)["messages"][2]

    assert "reasoning_details" not in written


def test_reasoning_details_are_sent_back_only_to_same_model():
    thought = ThinkingBlock(text="hm", signature='[{"type": "reasoning.text", "text": "hm"}]')
    asked = (user_text("a"), answer(thought, CALL, model="work/maker/m"), RESULT)
    same, other = (sent("openrouter", *asked, model=m)["messages"][2] for m in ("maker/m", "b/m"))

    assert "reasoning_details" in same
    assert "reasoning_details" not in other


async def test_mistral_content_parts_split_into_thinking_and_text(openai):
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    text = {"type": "text", "text": "hi"}
    events = await openai(chunks(delta(content=[thinking]), delta("stop", content=[text]))).ask()

    assert (thinking_of(events), text_of(events)) == ("hm", "hi")
    assert events.index(ThinkingEnd()) < len(events) - 2


async def test_error_inside_choice_is_error(openai):
    error = {"code": 502, "message": "Upstream went away"}
    choice = {"index": 0, "delta": {}, "error": error}
    events = await openai(chunks(delta(content="half"), {"choices": [choice]})).ask()

    assert text_of(events) == "half"
    assert (events[-1].error.kind, events[-1].error.phase) == ("server", "stream")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("insufficient_system_resource", "server"),
        ("network_error", "server"),
        ("sensitive", "refused"),
    ],
)
async def test_finish_reason_that_means_failure_is_error(openai, reason, kind):
    assert (await openai(chunks(delta(reason, content="x"))).error()).kind == kind


COUNTS = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.mark.parametrize(
    ("last", "usage"),
    [
        ({"usage": COUNTS}, Usage(input=10, output=5)),
        ({"x_groq": {"id": "req", "usage": COUNTS}}, Usage(input=10, output=5)),
        (
            {"usage": {**COUNTS, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2}},
            Usage(input=10, output=5, cache_read=8),
        ),
        (
            {
                "usage": {
                    **COUNTS,
                    "total_tokens": 35,
                    "completion_tokens_details": {"reasoning_tokens": 20},
                }
            },
            Usage(input=10, output=25, reasoning=20),
        ),
        (
            {"usage": {**COUNTS, "completion_tokens_details": {"reasoning_tokens": 3}}},
            Usage(input=10, output=5, reasoning=3),
        ),
    ],
)
async def test_usage_is_read_from_members_of_each_service(openai, last, usage):
    events = await openai(chunks({**delta("stop", content="x"), **last})).ask()

    assert done_of(events).usage == usage


async def test_usage_inside_choice_is_read(openai):
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop", "usage": COUNTS}

    assert done_of(await openai(chunks({"choices": [choice]})).ask()).usage == Usage(
        input=10, output=5
    )


async def test_final_full_message_does_not_repeat_thinking(openai):
    message = {"content": "hi", "reasoning_content": "hm"}
    last = {"choices": [{"index": 0, "delta": {}, "message": message, "finish_reason": "stop"}]}
    events = await openai(chunks(delta(reasoning_content="hm"), delta(content="hi"), last)).ask()

    assert (thinking_of(events), text_of(events)) == ("hm", "hi")
