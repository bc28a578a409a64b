"""Requests to Gemini."""

import base64
import json

import pytest

from dirge_py.providers.catalog import ModelProfile
from dirge_py.types.llm import NamedTool, ResponseSchema, ThinkingBudgets, ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from tests.support.fake_service import ModelReply
from tests.support.provider_client import KEY
from tests.support.strict_services import problems

READ = ToolSpec(
    name="read",
    description="Read.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
CALL = ToolCallBlock(id="c1", name="read", arguments={"path": "a"})
RESULT = ToolResultMessage(tool_call_id="c1", tool_name="read", content=(TextBlock("r"),))


async def test_request_has_path_headers_and_body_of_gemini_api(gemini):
    client = gemini(ModelReply(text="x"))
    await client.ask(tools=[READ], max_output_tokens=9, model="work/gemini-2.0-flash")

    request = client.service.requests[0]
    assert request.path == "/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in request.path
    assert request.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Read.",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {"path": {"type": "STRING"}},
                            "required": ["path"],
                        },
                    }
                ]
            }
        ],
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "generationConfig": {"maxOutputTokens": 9},
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/gemini-x", "models/gemini-x"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("a b/c?d#e%f", "models/a%20b%2Fc%3Fd%23e%25f"),
        ("../../v1/keys", "models/..%2F..%2Fv1%2Fkeys"),
    ],
)
async def test_model_id_is_escaped_in_path(gemini, model, path):
    client = gemini(ModelReply(text="x"))
    await client.ask(model=f"work/{model}")

    assert client.service.requests[0].path == f"/v1beta/{path}:streamGenerateContent?alt=sse"


async def test_base_url_with_version_is_accepted(gemini):
    client = gemini(ModelReply(text="x"))
    await client.ask(base_url=f"{client.url}/v1beta/")

    assert client.service.requests[0].path == "/v1beta/models/m:streamGenerateContent?alt=sse"


async def test_missing_api_key_error_names_its_variable(gemini):
    error = await gemini().error(base_url="", key=None)

    assert (error.kind, "GEMINI_API_KEY" in error.hint) == ("auth", True)


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NamedTool("read"), {"mode": "ANY", "allowedFunctionNames": ["read"]}),
    ],
)
async def test_tool_choice_is_sent(gemini, choice, config):
    body = await gemini(ModelReply(text="x")).sent(tools=[READ], tool_choice=choice)

    assert body.get("toolConfig", {}).get("functionCallingConfig") == config


@pytest.mark.parametrize(
    ("model", "tools", "is_held"),
    [
        ("gemini-2.5-flash", [], True),
        ("gemini-2.5-flash", [READ], False),
        ("gemini-3-flash-preview", [READ], True),
    ],
)
async def test_response_schema_is_sent_only_to_models_that_support_it(
    gemini, model, tools, is_held
):
    schema = ResponseSchema(name="r", schema={"properties": {"n": {"type": "integer"}}})
    body = await gemini(ModelReply(text="x")).sent(
        model=f"work/{model}", tools=tools, response_schema=schema
    )
    sent = {name: body["generationConfig"].get(name) for name in _RESPONSE}

    expected = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    assert sent == (
        {"responseMimeType": "application/json", "responseSchema": expected}
        if is_held
        else dict.fromkeys(_RESPONSE)
    )


_RESPONSE = ("responseMimeType", "responseSchema")


@pytest.mark.parametrize(
    ("model", "level", "config"),
    [
        ("gemini-2.5-flash", "minimal", {"thinkingBudget": 1024}),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 2048}),
        ("gemini-2.5-flash", "medium", {"thinkingBudget": 4096}),
        ("models/gemini-2.5-pro", "high", {"thinkingBudget": 16384}),
        ("gemini-2.5-flash-lite", "xhigh", {"thinkingBudget": 16384}),
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "low", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.5-flash-lite", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.8-flash", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-4-argon", "xhigh", {"thinkingLevel": "HIGH"}),
        ("gemini-flash-latest", "high", {"thinkingLevel": "HIGH"}),
    ],
)
async def test_thinking_level_is_translated_per_model(gemini, model, level, config):
    body = await gemini(ModelReply(text="x")).sent(model=f"work/{model}", thinking_level=level)

    assert body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, **config}


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 128}),
        ("gemini-3-pro-preview", {"thinkingLevel": "LOW"}),
        ("gemini-3-flash-preview", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.5-flash-image", None),
        ("gemini-2.5-computer-use-preview", None),
        ("gemini-2.0-flash", None),
        ("somebody-elses", None),
    ],
)
async def test_thinking_off_sends_lowest_setting_model_allows(gemini, model, config):
    body = await gemini(ModelReply(text="x")).sent(model=f"work/{model}")

    assert body.get("generationConfig", {}).get("thinkingConfig") == config


@pytest.mark.parametrize(
    ("model", "own", "budget"),
    [
        ("gemini-2.5-flash", 5000, 5000),
        ("gemini-2.5-flash", 90_000, 24_576),
        ("gemini-2.5-pro", 1, 128),
        ("gemini-2.5-flash-lite", 100, 512),
    ],
)
async def test_configured_thinking_budget_is_clamped_to_model_bounds(gemini, model, own, budget):
    body = await gemini(ModelReply(text="x")).sent(
        model=f"work/{model}", thinking_level="low", thinking_budgets=ThinkingBudgets(low=own)
    )

    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == budget


@pytest.mark.parametrize(
    ("model", "level", "limit"),
    [
        ("gemini-2.5-flash", "off", 8192),
        ("gemini-2.5-pro", "off", 8192 + 128),
        ("gemini-2.5-flash", "high", 8192 + 16384),
        ("gemini-3-pro-preview", "high", 8192 + 16384),
        ("gemini-3-pro-preview", "off", 8192 + 1024),
    ],
)
async def test_thinking_allowance_is_added_to_max_output_tokens(gemini, model, level, limit):
    body = await gemini(ModelReply(text="x")).sent(
        model=f"work/{model}", thinking_level=level, max_output_tokens=8192
    )

    assert body["generationConfig"]["maxOutputTokens"] == limit


async def test_thinking_budget_shrinks_to_fit_small_max_output_tokens(gemini):
    profile = ModelProfile(thinking=True, max_output_tokens=4096)
    body = await gemini(ModelReply(text="x")).sent(
        thinking_level="high", max_output_tokens=4000, profile_of=lambda model: profile
    )

    assert body["generationConfig"] == {
        "maxOutputTokens": 4096,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048},
    }


async def test_model_profile_without_thinking_sends_no_thinking_config(gemini):
    body = await gemini(ModelReply(text="x")).sent(
        model="work/gemini-2.5-flash",
        thinking_level="high",
        profile_of=lambda model: ModelProfile(),
    )

    assert "generationConfig" not in body


async def test_tool_results_and_following_messages_merge_into_one_user_content(gemini, tmp_path):
    (tmp_path / "pic").write_bytes(b"png")
    (tmp_path / "doc").write_bytes(b"pdf")
    picture = ImageBlock(asset_id="pic", media_type="image/png")
    moving = ImageBlock(asset_id="pic", media_type="image/gif")
    document = DocumentBlock(asset_id="doc", media_type="application/pdf", name="a.pdf")
    second = ToolCallBlock(id="c2", name="ls", arguments="broken {")
    history = (
        UserMessage(content=(TextBlock("a"), moving)),
        AssistantMessage(content=(TextBlock("ok"), CALL, second)),
        ToolResultMessage(
            tool_call_id="c2",
            tool_name="ls",
            content=(TextBlock("no"), picture, document),
            is_error=True,
        ),
        RESULT,
        user_text("steer"),
        SystemMessage(content=(TextBlock("summary"),)),
    )
    body = await gemini(ModelReply(text="x")).sent(
        messages=history, asset_dir=str(tmp_path), model="work/gemini-2.5-flash"
    )

    first, answer, rest = body["contents"]
    assert "image/gif" in first["parts"][1]["text"]
    assert answer == {
        "role": "model",
        "parts": [
            {"text": "ok"},
            {"functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}}},
            {"functionCall": {"id": "c2", "name": "ls", "args": {"unparsed": "broken {"}}},
        ],
    }
    words = "no\n[The image follows the results.]\n[The document follows the results.]"
    assert rest == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "read", "id": "c1", "response": {"output": "r"}}},
            {"functionResponse": {"name": "ls", "id": "c2", "response": {"error": words}}},
            {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"png").decode()}},
            {
                "inlineData": {
                    "mimeType": "application/pdf",
                    "data": base64.b64encode(b"pdf").decode(),
                }
            },
            {"text": "steer"},
            {"text": "summary"},
        ],
    }
    assert problems("gemini", body) == []


async def test_history_starting_with_assistant_message_gets_leading_user_content(gemini):
    body = await gemini(ModelReply(text="x")).sent(
        messages=(AssistantMessage(content=(TextBlock("ok"),)), user_text("a"))
    )

    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]


async def test_empty_messages_are_not_sent(gemini):
    folded = CompactionBlock(data={"type": "compaction"}, text="old")
    body = await gemini(ModelReply(text="x")).sent(
        messages=(
            user_text("a"),
            UserMessage(content=(TextBlock("  "),)),
            AssistantMessage(content=(TextBlock(" "),)),
            AssistantMessage(content=(folded,)),
        ),
        system=" ",
    )

    assert body == {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}


async def test_longer_history_serializes_with_shorter_one_as_prefix(gemini):
    first = (user_text("a"), AssistantMessage(content=(TextBlock("ok"), CALL)), RESULT)
    later = (*first, AssistantMessage(content=(TextBlock("b"),)), user_text("c"))
    client = gemini(ModelReply(text="x"), ModelReply(text="x"))
    shorter = await client.sent(messages=first, model="work/gemini-3-pro")
    longer = await client.sent(messages=later, model="work/gemini-3-pro")

    written = json.dumps(shorter["contents"]).rstrip("]}")
    assert json.dumps(longer["contents"]).startswith(written)
