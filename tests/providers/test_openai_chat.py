import json

import pytest

from dirge_py.providers.openai import chat_request
from dirge_py.types.llm import LlmContext, StreamStart, ThinkingEnd, ToolCallEnd
from dirge_py.types.messages import (
    AssistantMessage,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)
from tests.support.fake_service import ModelReply, RawReply
from tests.support.provider_client import (
    KEY,
    READ,
    calls_of,
    done_of,
    model_call,
    text_of,
    thinking_of,
)

OPENAI = "https://api.openai.com/v1"
HELLO = (user_text("hello"),)


def lines(*payloads, done=True):
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads)
    return RawReply(body=body + ("data: [DONE]\n\n" if done else ""))


def delta(finish=None, **fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(arguments="", **call):
    name = call.pop("name", None)
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return delta(tool_calls=[{**call, "function": function}])


def body(model="gpt-4o", *, messages=HELLO, tools=(), official=True, **options):
    context = LlmContext(system_prompt="Be brief.", messages=messages, tools=tools)
    base_url = OPENAI if official else "https://service.example/v1"
    return chat_request(model_call(context, model=model, base_url=base_url, **options))


async def test_streamed_answer_yields_thinking_text_calls_and_usage_in_order(openai):
    say = ModelReply(
        text="Hello.",
        thinking="hm",
        calls=[("read", {"p": 1}), ("ls", {})],
        usage=(100, 7, 60, 0),
        delta_chars=2,
    )
    events = await openai(say).ask()

    assert events[0] == StreamStart("fake")
    assert (thinking_of(events), text_of(events)) == ("hm", "Hello.")
    assert calls_of(events) == [("call_0", "read", '{"p": 1}'), ("call_1", "ls", "{}")]
    assert done_of(events).stop_reason == "toolUse"
    assert done_of(events).usage == Usage(input=100, output=7, cache_read=60)
    assert events.index(ThinkingEnd()) == 2


async def test_request_has_path_headers_and_body_of_chat_completions(openai):
    client = openai(ModelReply(text="x"))
    await client.ask(tools=[READ], model="work/some/model", option_headers={"X-Extra": "1"})

    request = client.service.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-extra"] == "1"
    assert request.json == {
        "model": "some/model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Read.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_api_key_of_call_overrides_configured_key(openai):
    client = openai(ModelReply(text="x"))
    await client.ask(key="configured", api_key="of the call")

    assert client.service.requests[0].headers["authorization"] == "Bearer of the call"


async def test_interleaved_calls_are_separated_by_index(openai):
    events = await openai(
        lines(
            piece(index=0, id="a", name="read"),
            piece(index=1, id="b", name="ls"),
            piece('{"x"', index=0),
            piece('{"y"', index=1),
            piece(": 1}", index=0),
            piece(": 2}", index=1),
            delta(finish="tool_calls"),
        )
    ).ask()

    assert calls_of(events) == [("a", "read", '{"x": 1}'), ("b", "ls", '{"y": 2}')]


async def test_calls_without_ids_get_distinct_ids(openai):
    events = await openai(
        lines(piece("{}", index=0, name="read"), piece("{}", index=1, name="ls"), delta("stop"))
    ).ask()
    (first, _, _), (second, _, _) = calls_of(events)

    assert first and second and first != second
    assert done_of(events).stop_reason == "toolUse"


async def test_calls_with_same_index_are_separated_by_id(openai):
    events = await openai(
        lines(
            piece('{"x": 1}', index=0, id="a", name="read"),
            piece('{"y": 2}', index=0, id="b", name="read"),
            delta("tool_calls"),
        )
    ).ask()

    assert calls_of(events) == [("a", "read", '{"x": 1}'), ("b", "read", '{"y": 2}')]


async def test_calls_without_index_are_separated_by_id(openai):
    events = await openai(
        lines(
            piece('{"x":', id="a", name="read"),
            piece(" 1}", id="a"),
            piece("{}", id="b", name="ls"),
            delta("tool_calls"),
        )
    ).ask()

    assert calls_of(events) == [("a", "read", '{"x": 1}'), ("b", "ls", "{}")]


async def test_tool_call_id_used_in_history_is_replaced(openai):
    call = ToolCallBlock(id="call_0", name="read", arguments={})
    history = (
        user_text("a"),
        AssistantMessage(content=(call,)),
        ToolResultMessage(tool_call_id="call_0", tool_name="read", content=(TextBlock("r"),)),
    )
    events = await openai(ModelReply(calls=[("read", {})])).ask(messages=history)

    assert calls_of(events)[0][0] != "call_0"


async def test_arguments_sent_as_object_are_parsed(openai):
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": {"p": 1}}}
    events = await openai(lines(delta(tool_calls=[call]), delta("tool_calls"))).ask()

    assert [e.arguments for e in events if isinstance(e, ToolCallEnd)] == [{"p": 1}]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_is_read_from_reasoning_and_reasoning_content(openai, field):
    events = await openai(lines(delta(**{field: "hm"}), delta(content="x"), delta("stop"))).ask()

    assert (thinking_of(events), text_of(events)) == ("hm", "x")


async def test_thinking_sent_under_both_names_is_read_once(openai):
    events = await openai(lines(delta(reasoning="hm", reasoning_content="hm"), delta("stop"))).ask()

    assert thinking_of(events) == "hm"


@pytest.mark.parametrize(
    ("finish", "reason"), [("stop", "stop"), ("length", "length"), ("?", "stop")]
)
async def test_stop_reason_is_mapped(openai, finish, reason):
    events = await openai(ModelReply(text="x", stop=finish)).ask()

    assert done_of(events).stop_reason == reason


async def test_filtered_answer_is_refusal_and_keeps_text(openai):
    events = await openai(ModelReply(text="so far", stop="content_filter")).ask()

    assert text_of(events) == "so far"
    assert (events[-1].error.kind, events[-1].error.is_retryable) == ("refused", False)


async def test_refusal_text_is_shown_in_error(openai):
    events = await openai(lines(delta(refusal="I will not."), delta("stop"))).ask()

    assert text_of(events) == "I will not."
    assert "I will not." in events[-1].error.message


async def test_error_mid_stream_maps_to_kind(openai):
    error = {"error": {"message": "Rate limit exceeded, retry_after: 3", "code": 429}}
    events = await openai(lines(delta(content="half"), error)).ask()

    assert text_of(events) == "half"
    last = events[-1].error
    assert (last.kind, last.phase, last.retry_after_s) == ("rate_limit", "stream", 3.0)


async def test_stream_without_done_marker_ends_normally(openai):
    events = await openai(lines(delta(content="x"), delta("stop"), done=False)).ask()

    assert done_of(events).stop_reason == "stop"


async def test_unstreamed_json_answer_is_parsed(openai):
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Hi.", "tool_calls": [call]}
    whole = {
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    headers = {"content-type": "application/json"}
    events = await openai(RawReply(body=json.dumps(whole), headers=headers)).ask()

    assert text_of(events) == "Hi."
    assert calls_of(events) == [("a", "read", "{}")]
    assert done_of(events).usage == Usage(input=3, output=2)


async def test_call_without_messages_is_error_and_sends_nothing(openai):
    client = openai()
    error = await client.error(messages=())

    assert error.kind == "invalid_request"
    assert client.service.requests == []


async def test_missing_api_key_error_names_its_variable(openai):
    error = await openai().error(base_url="", key=None)

    assert error.kind == "auth"
    assert "OPENAI_API_KEY" in error.hint


async def test_custom_base_url_needs_no_key(openai):
    client = openai(ModelReply(text="x"))
    await client.ask(key=None)

    assert "authorization" not in client.service.requests[0].headers


@pytest.mark.parametrize(
    ("level", "effort"),
    [
        ("off", None),
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
    ],
)
def test_thinking_level_is_sent_as_reasoning_effort(level, effort):
    assert body("gpt-5", thinking_level=level).get("reasoning_effort") == effort


def test_model_without_thinking_gets_no_reasoning_effort():
    assert "reasoning_effort" not in body("gpt-4o", thinking_level="high")


def test_compatible_server_gets_reasoning_effort_for_any_model():
    assert body("qwen", official=False, thinking_level="high")["reasoning_effort"] == "high"


def test_model_that_refuses_tools_while_thinking_gets_effort_none():
    assert body("gpt-5.5", tools=[READ])["reasoning_effort"] == "none"
    assert body("gpt-5.5", thinking_level="xhigh")["reasoning_effort"] == "xhigh"


def test_output_limit_is_max_completion_tokens_only_for_openai():
    assert body(max_output_tokens=9)["max_completion_tokens"] == 9
    assert body(official=False, max_output_tokens=9)["max_tokens"] == 9


def test_history_is_sent_as_chat_messages(tmp_path):
    (tmp_path / "pic").write_bytes(b"png")
    picture = ImageBlock(asset_id="pic", media_type="image/png")
    call = ToolCallBlock(id="c1", name="read", arguments={"p": "ä"})
    context = LlmContext(
        system_prompt="",
        asset_dir=str(tmp_path),
        messages=(
            UserMessage(content=(TextBlock("look"), picture)),
            AssistantMessage(
                content=(ThinkingBlock(text="hm", signature="s"), TextBlock("ok"), call)
            ),
            ToolResultMessage(
                tool_call_id="c1", tool_name="read", content=(TextBlock("r"), picture)
            ),
            SystemMessage(content=(TextBlock("summary"),)),
        ),
    )
    written = chat_request(model_call(context))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}}

    assert written["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"p": "ä"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "r\n[The image follows the results.]",
        },
        {
            "role": "user",
            "content": [{"type": "text", "text": "The images of the tool results above:"}, image],
        },
        {"role": "user", "content": "summary"},
    ]


def test_a99_documents_of_tool_results_follow_in_user_message(tmp_path):
    (tmp_path / "doc").write_bytes(b"pdf")
    document = DocumentBlock(asset_id="doc", media_type="application/pdf", name="a.pdf")
    call = ToolCallBlock(id="c1", name="read", arguments={})
    result = ToolResultMessage(tool_call_id="c1", tool_name="read", content=(document,))
    context = LlmContext(
        system_prompt="",
        asset_dir=str(tmp_path),
        messages=(AssistantMessage(content=(call,)), result),
    )

    def shown_to(model):
        written = chat_request(model_call(context, model=model, base_url=OPENAI))
        return written["messages"][-1]

    title = {"type": "text", "text": "The documents of the tool results above:"}
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}
    assert shown_to("gpt-5") == {"role": "user", "content": [title, {"type": "file", "file": file}]}
    assert "you cannot read it" in shown_to("qwen3")["content"][1]["text"]


def test_unreadable_image_is_replaced_by_text(tmp_path):
    picture = ImageBlock(asset_id="../secret", media_type="image/png")
    written = body(messages=(UserMessage(content=(picture,)),))

    (part,) = written["messages"][-1]["content"]
    assert part["type"] == "text"
    assert "can no longer be read" in part["text"]


async def test_lone_surrogate_is_sent_as_question_mark(openai):
    sent = await openai(ModelReply(text="x")).sent(messages=(user_text("a\ud800b"),))

    assert sent["messages"][-1]["content"] == "a?b"
