"""Responses requests: members, items, and sealed content."""

import json

import pytest

from dirge_py.providers.adapter import ModelCall
from dirge_py.providers.catalog import find_model_profile
from dirge_py.providers.openai_responses import (
    RefusedParts,
    pack_item,
    responses_request,
    unpack_item,
)
from dirge_py.providers.registry import find_provider
from dirge_py.providers.request_cache import RequestCache
from dirge_py.providers.settings import ProviderSettings, Quirks
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, NamedTool, ResponseSchema, StreamOptions
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from tests.support.fake_service import ModelReply, RawReply
from tests.support.provider_client import KEY, READ, Client, text_of
from tests.support.strict_services import problems

JSON = {"content-type": "application/json"}
SUMMARY = [{"type": "summary_text", "text": "hm"}]
REASONING = {"id": "rs_1", "type": "reasoning", "summary": SUMMARY, "encrypted_content": "gAAA"}
THOUGHT = ThinkingBlock(text="hm", signature=pack_item(REASONING))
CALL = ToolCallBlock(id="call_a", name="read", arguments={"path": "x"})
RESULT = ToolResultMessage(tool_call_id="call_a", tool_name="read", content=(TextBlock("one"),))
PICTURE = ImageBlock(asset_id="shot", media_type="image/png")
PAPER = DocumentBlock(asset_id="paper", media_type="application/pdf", name="paper.pdf")


@pytest.fixture
def responses(http, serve):
    return lambda *replies: Client(
        http, "openai-responses", serve(*(replies or [ModelReply(text="x")]))
    )


def profile(model):
    return find_model_profile("openai-responses", model)


def answer(*blocks, model="work/m"):
    return AssistantMessage(content=blocks, model=model)


async def test_request_has_path_headers_and_body_of_responses_api(responses):
    client = responses()
    body = await client.sent(model="work/gpt-5.4", tools=(READ,), thinking_level="high")
    request = client.service.requests[0]

    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "gpt-5.4",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "hello"}],
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read.",
                "parameters": dict(READ.parameters),
                "strict": False,
            }
        ],
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": True,
    }


@pytest.mark.parametrize(
    ("model", "level", "reasoning"),
    [
        ("gpt-5.4", "off", {"effort": "none"}),
        ("gpt-5.4", "minimal", {"effort": "low", "summary": "auto"}),
        ("gpt-5.4", "xhigh", {"effort": "xhigh", "summary": "auto"}),
        ("gpt-5", "off", None),
        ("o3", "xhigh", {"effort": "high", "summary": "auto"}),
        ("gpt-5-pro", "low", {"effort": "high", "summary": "auto"}),
        ("a-model-of-ones-own", "low", {"effort": "low", "summary": "auto"}),
    ],
)
async def test_thinking_level_uses_effort_word_model_knows(responses, model, level, reasoning):
    body = await responses().sent(model=f"work/{model}", thinking_level=level)

    assert body.get("reasoning") == reasoning
    assert body["include"] == ["reasoning.encrypted_content"]


async def test_model_without_thinking_gets_no_reasoning_members(responses):
    body = await responses().sent(model="work/gpt-4o")

    assert not {"reasoning", "include"} & body.keys()


@pytest.mark.parametrize(
    ("model", "level", "limit", "sent"),
    [
        ("gpt-4o", "off", 1000, 1000),
        ("gpt-4o", "off", 1, 16),
        ("gpt-5", "high", 1000, 17_384),
        ("gpt-5", "high", 127_000, 128_000),
    ],
)
async def test_thinking_allowance_is_added_to_max_output_tokens(
    responses, model, level, limit, sent
):
    body = await responses().sent(
        model=f"work/{model}", thinking_level=level, max_output_tokens=limit
    )

    assert body["max_output_tokens"] == sent


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("read"), {"type": "function", "name": "read"}),
    ],
)
async def test_tool_choice_is_sent(responses, choice, sent):
    body = await responses().sent(tools=(READ,), tool_choice=choice)

    assert body.get("tool_choice") == sent


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "required": [], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, False),
    ],
)
async def test_response_schema_is_sent_and_strict_if_schema_qualifies(responses, schema, strict):
    body = await responses().sent(response_schema=ResponseSchema(name="ver dict", schema=schema))

    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "ver_dict",
        "schema": schema,
        "strict": strict,
    }


async def test_system_prompt_uses_configured_role(responses):
    body = await responses().sent(quirks=Quirks(system_role="developer"))

    assert "instructions" not in body
    assert body["input"][0] == {"role": "developer", "content": "Be brief."}


async def test_reasoning_items_are_sent_before_message_and_call_they_led_to(responses):
    history = (
        user_text("go"),
        answer(
            THOUGHT,
            TextBlock("I look."),
            ThinkingBlock(text="", signature=pack_item({"type": "message", "phase": "commentary"})),
            CALL,
        ),
        RESULT,
    )
    body = await responses().sent(messages=history, tools=(READ,))

    assert body["input"][1:] == [
        {"type": "reasoning", "id": "rs_1", "summary": SUMMARY, "encrypted_content": "gAAA"},
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {
            "type": "function_call",
            "call_id": "call_a",
            "name": "read",
            "arguments": '{"path": "x"}',
        },
        {"type": "function_call_output", "call_id": "call_a", "output": "one"},
    ]
    assert problems("openai-responses", body) == []


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        ({"id": "rs_1", "type": "reasoning", "summary": []}, None),
        (
            {"type": "reasoning", "encrypted_content": "e", "status": None, "content": None},
            {"type": "reasoning", "summary": [], "encrypted_content": "e"},
        ),
        (
            {"id": "r" * 65, "type": "reasoning", "summary": [], "encrypted_content": "e"},
            {"type": "reasoning", "summary": [], "encrypted_content": "e"},
        ),
        (
            {"id": "r", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]},
            {
                "type": "reasoning",
                "id": "r",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "t"}],
            },
        ),
    ],
)
async def test_reasoning_items_are_sent_in_accepted_form(responses, item, sent):
    history = (
        user_text("go"),
        answer(ThinkingBlock(text="", signature=pack_item(item)), TextBlock("Yes.")),
        user_text("on"),
    )
    body = await responses().sent(messages=history)

    assert [each for each in body["input"] if each.get("type") == "reasoning"] == (
        [sent] if sent else []
    )


@pytest.mark.parametrize(
    "answered",
    [
        answer(THOUGHT, TextBlock("Yes."), model="claude/x"),
        answer(ThinkingBlock(text="hm", signature="EqQBCkgIB=="), TextBlock("Yes.")),
        answer(ThinkingBlock(text="hm", signature='gemini:["call",0,[]]'), TextBlock("Yes.")),
        answer(ThinkingBlock(text="hm", signature='[{"type":"x"}]'), TextBlock("Yes.")),
        answer(ThinkingBlock(text="", redacted="EqQB"), TextBlock("Yes.")),
        answer(ThinkingBlock(text="hm"), TextBlock("Yes.")),
        answer(CompactionBlock(data={"type": "compaction", "content": "c"}), TextBlock("Yes.")),
        answer(TextBlock("Yes."), THOUGHT),
    ],
)
async def test_foreign_or_trailing_reasoning_is_not_sent(responses, answered):
    body = await responses().sent(messages=(user_text("?"), answered, user_text("on")))

    assert body["input"][1] == {"role": "assistant", "content": "Yes."}
    assert len(body["input"]) == 3


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini", "ollama"])
@pytest.mark.parametrize("alias", ["other", "work"])
async def test_reasoning_of_responses_api_is_not_sent_to_other_services(http, serve, kind, alias):
    client = Client(http, kind, serve(ModelReply(text="x")))
    history = (user_text("?"), answer(THOUGHT, CALL, model=f"{alias}/gpt-5.4"), RESULT)
    await client.ask(messages=history, tools=(READ,), thinking_level="low")
    sent = client.service.requests[0].body.decode()

    assert "gAAA" not in sent
    assert "rs_1" not in sent


async def test_compaction_item_is_sent_back_unchanged(responses):
    folded = {"id": "cmp_1", "type": "compaction", "encrypted_content": "c", "created_by": "s"}
    history = (user_text("?"), answer(CompactionBlock(data=folded), TextBlock("Yes.")))
    body = await responses().sent(messages=(*history, user_text("on")))

    assert body["input"][1] == folded


async def test_images_and_documents_are_sent_in_their_message(responses, tmp_path):
    (tmp_path / "shot").write_bytes(b"png")
    (tmp_path / "paper").write_bytes(b"pdf")
    seen = ToolResultMessage(
        tool_call_id="call_a", tool_name="read", content=(TextBlock("Look:"), PICTURE)
    )
    history = (UserMessage(content=(TextBlock("What?"), PAPER)), answer(CALL), seen)
    body = await responses().sent(
        model="work/gpt-5.4", messages=history, asset_dir=str(tmp_path), tools=(READ,)
    )
    picture = {
        "type": "input_image",
        "detail": "auto",
        "image_url": "data:image/png;base64,cG5n",
    }

    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "What?"},
        {
            "type": "input_file",
            "filename": "paper.pdf",
            "file_data": "data:application/pdf;base64,cGRm",
        },
    ]
    assert body["input"][2]["output"] == [{"type": "input_text", "text": "Look:"}, picture]


async def test_missing_image_is_replaced_by_text(responses, tmp_path):
    message = UserMessage(content=(PICTURE,))
    body = await responses().sent(messages=(message,), asset_dir=str(tmp_path))

    (part,) = body["input"][0]["content"]
    assert "can no longer be read" in part["text"]


async def test_empty_result_and_invalid_arguments_get_placeholders(responses):
    call = ToolCallBlock(id="call_a", name="read", arguments="{not json")
    empty = ToolResultMessage(tool_call_id="call_a", tool_name="read", content=())
    body = await responses().sent(messages=(user_text("?"), answer(call), empty))

    assert json.loads(body["input"][1]["arguments"]) == {"unparsed": "{not json"}
    assert body["input"][2]["output"] == "(no output)"


def ask_model(client, stream, *messages, level="off"):
    options = StreamOptions(model="work/gpt-5.4", thinking_level=level)
    context = LlmContext(system_prompt="s", messages=messages)

    async def events():
        return [event async for event in stream(context, options, AbortSignal())]

    return events()


def stream_of(client):
    settings = ProviderSettings(
        alias="work", type="openai-responses", base_url=client.url, api_key="k", profile_of=profile
    )
    return find_provider("openai-responses").make(settings, client.http)


def refusal(message, code, param=None):
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return RawReply(status=400, body=json.dumps({"error": error}), headers=JSON)


async def test_account_without_reasoning_summaries_is_retried_without_summary(responses):
    words = "Your organization must be verified to generate reasoning summaries."
    client = responses(
        refusal(words, "unsupported_value", "reasoning.summary"),
        ModelReply(text="a"),
        ModelReply(text="b"),
    )
    stream = stream_of(client)
    texts = [text_of(await ask_model(client, stream, user_text("?"), level="low")) for _ in "ab"]

    assert texts == ["a", "b"]
    assert [request.json["reasoning"] for request in client.service.requests] == [
        {"effort": "low", "summary": "auto"},
        {"effort": "low"},
        {"effort": "low"},
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("The encrypted content gAAA...DQ== could not be verified.", "invalid_encrypted_content"),
        ("The encrypted content gAAA could not be verified.", None),
        ("Item with id 'rs_1' not found. Items are not persisted when `store` is false.", None),
        ("Item 'rs_1' of type 'reasoning' was provided without its required item.", None),
    ],
)
async def test_undecryptable_reasoning_is_dropped_and_request_retried(responses, words, code):
    client = responses(refusal(words, code), ModelReply(text="a"), ModelReply(text="b"))
    stream = stream_of(client)
    before = (user_text("?"), answer(THOUGHT, TextBlock("Yes.")), user_text("on"))
    newer = ThinkingBlock(text="", signature=pack_item({**REASONING, "encrypted_content": "new"}))
    first = await ask_model(client, stream, *before)
    second = await ask_model(
        client, stream, *before, answer(newer, TextBlock("a")), user_text("on")
    )

    assert [text_of(first), text_of(second)] == ["a", "b"]
    sealed_sent = [
        [item["encrypted_content"] for item in request.json["input"] if "summary" in item]
        for request in client.service.requests
    ]
    assert sealed_sent == [["gAAA"], [], ["new"]]


async def test_undecryptable_reasoning_reported_mid_stream_is_retried(responses):
    error = {"code": "invalid_encrypted_content", "message": "It could not be verified."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    client = responses(RawReply(body=f"data: {json.dumps(failed)}\n\n"), ModelReply(text="a"))
    before = (user_text("?"), answer(THOUGHT, TextBlock("Yes.")), user_text("on"))

    assert text_of(await ask_model(client, stream_of(client), *before)) == "a"
    assert len(client.service.requests) == 2


async def test_rejected_request_without_reasoning_is_not_retried(responses):
    client = responses(refusal("The encrypted content could not be verified.", None))
    events = await ask_model(client, stream_of(client), user_text("?"))

    assert events[-1].error.kind == "invalid_request"
    assert len(client.service.requests) == 1


@pytest.mark.parametrize("signature", [None, "", "{", "[1]", '{"type":"other"}', "{" * 5000])
def test_only_own_packed_items_are_unpacked(signature):
    assert unpack_item(signature) is None
    assert unpack_item(pack_item(REASONING)) == REASONING


async def test_longer_history_serializes_with_shorter_one_as_prefix(responses):
    client = responses(ModelReply(text="x"), ModelReply(text="x"))
    stream = stream_of(client)
    before = (user_text("grüß"), answer(THOUGHT, CALL), RESULT)
    await ask_model(client, stream, *before)
    await ask_model(client, stream, *before, answer(TextBlock("Yes.")), user_text("on"))
    first, second = (request.body.decode() for request in client.service.requests)

    end = first.index('],"reasoning"')
    assert second.startswith(first[:end])
    assert second[end] == ","


@pytest.mark.parametrize(
    ("base_url", "is_openai"),
    [("https://api.openai.com/v1", True), ("https://gateway.example/v1", False)],
)
def test_prompt_cache_key_is_sent_only_to_openai(base_url, is_openai):
    call = ModelCall(
        context=LlmContext(system_prompt="Be brief.", messages=(user_text("hi"),)),
        options=StreamOptions(),
        settings=ProviderSettings(alias="work", type="openai-responses", base_url=base_url),
        base_url=base_url,
        model="gpt-5.5",
        cache=RequestCache(),
    )
    assert ("prompt_cache_key" in responses_request(call, RefusedParts())) is is_openai
