from dirge_py.providers.adapter import JsonCache
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamOptions
from dirge_py.types.messages import AssistantMessage, TextBlock, ToolCallBlock, user_text
from tests.support.fake_service import ModelReply
from tests.support.provider_client import KEY, READ


def test_json_cache_keeps_messages_of_last_request_only() -> None:
    json_cache, made = JsonCache(), []
    first, second = user_text("a"), user_text("a")

    def make(message: object) -> int:
        made.append(message)
        return len(made)

    for asked in ([first], [first, second], [second], [first]):
        json_cache.begin_request()
        answers = [json_cache.of(message, make) for message in asked]

    assert answers == [3]
    assert [id(each) for each in made] == [id(first), id(second), id(first)]


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
