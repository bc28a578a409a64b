import asyncio
import json

import pytest

from dirge_py.providers.scripted import Reply, Script, load_script
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, Usage, user_text

PROMPT = LlmContext(system_prompt="", messages=(user_text("hello"),))


async def collect_events(script, context=PROMPT, signal=None):
    stream = script.stream(context, StreamOptions(model="x/y"), signal or AbortSignal())
    return [event async for event in stream]


async def test_scripted_reply_streams_thinking_text_calls_and_end():
    script = Script(
        [Reply(text="ab", thinking="t", calls=[("read", {"p": 1})], usage=Usage(input=1))]
    )

    assert await collect_events(script) == [
        StreamStart("x/y"),
        ThinkingDelta("t"),
        ThinkingEnd(),
        TextDelta("ab"),
        ToolCallDelta(key="call_1", id="call_1", name="read"),
        ToolCallDelta(key="call_1", arguments='{"p": 1}'),
        ToolCallEnd(key="call_1"),
        StreamDone(stop_reason="toolUse", usage=Usage(input=1)),
    ]


async def test_script_records_contexts_it_received():
    script = Script([Reply(text="a"), lambda context: Reply(text=context.messages[0].text)])

    await collect_events(script)
    events = await collect_events(script)

    assert TextDelta("hello") in events
    assert script.seen == [PROMPT, PROMPT]
    assert script.is_spent


async def test_call_beyond_last_scripted_reply_is_error_with_count():
    events = await collect_events(Script([]))

    assert isinstance(events[-1], StreamError)
    assert "0 replies" in events[-1].error.message


async def test_scripted_call_ids_skip_ids_in_history():
    block = ToolCallBlock(id="call_2", name="read", arguments={})
    history = LlmContext(system_prompt="", messages=(AssistantMessage(content=(block,)),))

    events = await collect_events(Script([Reply(calls=[("a", {}), ("b", {})])]), history)

    assert [e.key for e in events if isinstance(e, ToolCallEnd)] == ["call_3", "call_4"]


async def test_abort_ends_held_reply_at_once():
    signal, reached = AbortSignal(), asyncio.Event()

    async def never():
        reached.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(
        collect_events(Script([Reply(text="half", hold=never)]), PROMPT, signal)
    )
    await reached.wait()
    signal.abort()
    events = await running

    assert events[1] == TextDelta("half")
    assert events[-1].error.kind == "aborted"


async def test_scripted_text_is_split_by_chunk_chars():
    events = await collect_events(Script([Reply(text="abcde", chunk_chars=2)]))

    assert [e.text for e in events if isinstance(e, TextDelta)] == ["ab", "cd", "e"]


async def test_scripted_error_follows_its_text():
    error = ProviderError("busy", kind="server")

    events = await collect_events(Script([Reply(text="half", error=error)]))

    assert events[1:] == [TextDelta("half"), StreamError(error)]


async def test_script_loads_from_toml_and_json(tmp_path):
    toml, as_json = tmp_path / "s.toml", tmp_path / "s.json"
    toml.write_text('[[replies]]\ntext = "a"\ncalls = [{ name = "read", arguments = { p = 1 } }]\n')
    as_json.write_text(
        json.dumps({"replies": [{"text": "a", "calls": [{"name": "read", "arguments": {"p": 1}}]}]})
    )

    assert await collect_events(load_script(str(toml))) == await collect_events(
        load_script(str(as_json))
    )


@pytest.mark.parametrize(
    "text", ["[[replies]]\nsay = 1\n", "x = 1\n", "[[replies]", "[[replies]]\ncalls=[{}]"]
)
def test_invalid_script_is_config_error(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text)

    with pytest.raises(ConfigError):
        load_script(str(path))
