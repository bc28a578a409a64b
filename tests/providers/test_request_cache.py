"""A request of a growing history is the request of the whole one, and costs only what is new."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers import request_cache
from dirge_py.providers.anthropic import messages_request
from dirge_py.providers.gemini import content_request
from dirge_py.providers.ollama import chat_request as ollama_request
from dirge_py.providers.openai import chat_request
from dirge_py.providers.openai_responses import RefusedParts, responses_request
from dirge_py.providers.registry import find_provider
from dirge_py.providers.request_cache import EncodedObject, RequestCache, request_json
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamOptions
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from tests.providers.test_sendable_history import MESSAGES as PLAIN
from tests.security.sizes import size
from tests.support.fake_service import ModelReply
from tests.support.provider_client import KEY, READ, model_call

PICTURE = ImageBlock(asset_id="gone", media_type="image/png")
MESSAGES = st.one_of(
    PLAIN,
    st.builds(user_text, st.just("r"), st.just("harness")),
    st.just(
        ToolResultMessage(tool_call_id="a", tool_name="read", content=(TextBlock("r"), PICTURE))
    ),
    st.builds(
        AssistantMessage,
        content=st.lists(
            st.sampled_from(
                [
                    TextBlock("t"),
                    ThinkingBlock(text="h", signature="c2lnbmVk"),
                    CompactionBlock(data={"content": "c"}),
                    ToolCallBlock(id="a", name="read", arguments={}),
                ]
            ),
            max_size=3,
        ).map(tuple),
        model=st.sampled_from(["work/m", "other/m"]),
        stop_reason=st.sampled_from(["stop", "pause_turn"]),
    ),
)
BODIES = {
    "openai": chat_request,
    "openai-responses": lambda call: responses_request(call, RefusedParts()),
    "anthropic": messages_request,
    "gemini": content_request,
    "ollama": ollama_request,
}


def body_of(kind: str, messages: list[Message], cache: RequestCache, tools: tuple[Any, ...]) -> Any:
    context = LlmContext(system_prompt="Be brief.", messages=messages, tools=tools)
    call = model_call(context, kind=kind, cache=cache, thinking_level="high")
    return json.loads(request_json(BODIES[kind](call)))


@pytest.mark.parametrize("kind", BODIES)
@settings(max_examples=size(25, 150))
@given(history=st.lists(MESSAGES, min_size=1, max_size=12), data=st.data())
def test_request_does_not_depend_on_earlier_ones(kind: str, history: Any, data: Any) -> None:
    cache, tools = RequestCache(), (READ,)
    for end in data.draw(st.lists(st.integers(1, len(history)), max_size=4)):
        reminder = data.draw(st.sampled_from([[], [user_text("Remember.", "harness")]]))
        earlier = [*history[:end], *reminder]
        assert body_of(kind, earlier, cache, tools) == body_of(kind, earlier, RequestCache(), tools)
    whole = body_of(kind, history, RequestCache(), tools)
    assert body_of(kind, history, cache, tools) == whole
    other = [user_text("other"), *history[1:]]
    assert body_of(kind, other, cache, tools) == body_of(kind, other, RequestCache(), tools)


@pytest.mark.parametrize("kind", BODIES)
def test_each_message_is_serialized_once_over_twenty_turns(kind: str, monkeypatch: Any) -> None:
    serialized: list[Any] = []
    plain = request_cache._serialized
    monkeypatch.setattr(
        request_cache, "_serialized", lambda value: serialized.append(value) or plain(value)
    )
    history: list[Message] = [user_text("go")]
    cache, tools = RequestCache(), (READ,)
    for number in range(20):
        body_of(kind, history, cache, tools)
        call = ToolCallBlock(id=f"c{number}", name="read", arguments={"path": f"{number}.txt"})
        result = ToolResultMessage(
            tool_call_id=call.id, tool_name="read", content=(TextBlock(f"text of {number}."),)
        )
        history += [AssistantMessage(content=(call,)), result]
    body_of(kind, history, cache, tools)

    texts = [json.dumps(value) for value in serialized]
    # Anthropic's marks move: what carries one is serialized again.
    most = 3 if kind == "anthropic" else 1
    for number in range(20):
        assert sum(f"text of {number}." in text for text in texts) <= most, number
        assert sum(f"{number}.txt" in text for text in texts) >= 1
    descriptions = sum(READ.description in text for text in texts)
    assert descriptions == (21 if kind == "anthropic" else 1)


def test_cache_keeps_parts_of_recent_owners_only() -> None:
    cache, made = RequestCache(), []
    owners = [[n] for n in range(100)]
    for owner in (*owners, owners[-1], owners[0]):
        cache.part(owner, "key", lambda owner=owner: made.append(owner) or owner)

    assert made == [*owners, owners[0]]


def test_encoded_object_is_json_of_its_members() -> None:
    body = {"a": [EncodedObject(b="ä"), {"c": "\ud800"}], "d": EncodedObject(e=1)}

    assert request_json(body) == '{"a":[{"b":"ä"},{"c":"?"}],"d":{"e":1}}'.encode()


async def test_longer_history_begins_with_same_bytes(openai) -> None:
    client = openai(ModelReply(text="ok"), ModelReply(text="ok"))
    settings = ProviderSettings(alias="work", type="openai", base_url=client.url, api_key=KEY)
    stream = find_provider("openai").make(settings, client.http)
    call = ToolCallBlock(id="odd id!", name=READ.name, arguments={"path": "ä"})
    history = [user_text("hello"), AssistantMessage(content=(TextBlock("well"), call))]

    for messages in (history, [*history, user_text("go on")]):
        context = LlmContext(system_prompt="Be brief.", messages=messages)
        async for _ in stream(context, StreamOptions(model="work/m"), AbortSignal()):
            pass

    before, after = client.service.requests
    assert after.json["messages"][:-1] == before.json["messages"]
    assert after.body.startswith(before.body.partition(b'],"stream"')[0])
