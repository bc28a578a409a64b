import asyncio

from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamError, StreamOptions, TextDelta


async def stream(model, options=None, signal=None):
    context = LlmContext(system_prompt="", messages=())
    events = model.stream_fn(context, options or StreamOptions(), signal or AbortSignal())
    return [event async for event in events]


async def test_text_is_streamed_in_pieces_of_the_given_size():
    events = await stream(ScriptedModel().will_say("abcde", chunk_chars=2))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["ab", "cd", "e"]


async def test_reply_can_be_delayed_before_its_first_delta():
    gate = asyncio.Event()
    model = ScriptedModel().will_say("late", wait=gate.wait)
    answer = asyncio.ensure_future(stream(model))
    await asyncio.sleep(0)
    assert model.seen and not answer.done()
    gate.set()
    assert TextDelta("late") in await answer


async def test_scripted_model_records_each_request():
    model = ScriptedModel().will_say("a").will_say("b")
    for level in ("off", "high"):
        await stream(model, StreamOptions(thinking_level=level))
    assert [options.thinking_level for options in model.options] == ["off", "high"]


async def test_request_after_the_last_reply_fails_and_names_the_turn():
    model = ScriptedModel().will_say("only")
    await stream(model)
    (error,) = [event for event in await stream(model) if isinstance(event, StreamError)]
    assert "has 1 replies, but one more was requested" in error.error.message


async def test_failure_comes_after_the_text_before_it():
    model = ScriptedModel().will_fail("gone", kind="network", text="so far")
    events = await stream(model)
    assert TextDelta("so far") in events
    assert isinstance(events[-1], StreamError) and events[-1].error.kind == "network"
