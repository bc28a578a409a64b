"""Aborts: a result or an answer that was not checked is never stored."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.providers.scripted import Reply
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import ToolExecutionEnd
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import AssistantMessage, TextBlock
from dirge_py.types.tools import text_result
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import asking


def assistant_text(text: str, **details: Any) -> Any:
    async def body(*_: Any) -> Any:
        return text_result(text, **details)

    return body


def waiting_after(signal: AbortSignal, *, aborts: bool = True) -> Any:
    """An `after_tool_call` that aborts the run and never returns."""

    async def after(*_: Any) -> None:
        if aborts:
            asyncio.get_running_loop().call_soon(signal.abort)
        await asyncio.Event().wait()

    return after


async def test_result_is_withheld_if_an_abort_interrupts_its_check() -> None:
    signal = AbortSignal()
    tool = Tool("read", assistant_text("hunter2", key="hunter2"))
    config = compose(Hooks(name="check", after_tool_call=waiting_after(signal)))
    run = await run_loop(asking(("read", {})), "go", tools=[tool], config=config, signal=signal)

    [result] = run.results
    assert result.text.startswith(
        "[result withheld: the run was stopped before its check finished]"
    )
    assert (result.is_error, result.details["outcome"]) == (True, "aborted")
    assert "hunter2" not in str(run.recorder.of(ToolExecutionEnd)) + str(run.new)


async def test_later_hooks_see_the_withheld_notice_and_not_the_result() -> None:
    signal = AbortSignal()
    seen: list[str] = []
    config = compose(
        Hooks(name="check", after_tool_call=waiting_after(signal)),
        Hooks(name="later", after_tool_call=lambda _i, _c, result: seen.append(result.text)),
    )
    tool = Tool("read", assistant_text("hunter2"))
    await run_loop(asking(("read", {})), "go", tools=[tool], config=config, signal=signal)

    assert len(seen) == 1 and seen[0].startswith("[result withheld")


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_checked_results_of_an_aborted_batch_are_kept(mode: Any) -> None:
    signal = AbortSignal()
    waits = waiting_after(signal)
    config = compose(
        Hooks(name="check", after_tool_call=lambda i, c, r: waits() if c.name == "b" else None),
        config=LoopConfig(tool_execution=mode),
    )
    tools = [Tool(name, assistant_text(f"of {name}")) for name in ("a", "b")]
    run = await run_loop(
        asking(("a", {}), ("b", {})), "go", tools=tools, config=config, signal=signal
    )

    assert run.results[0].text == "of a"
    assert run.results[1].text.startswith("[result withheld")


async def test_result_is_kept_if_only_a_watching_hook_is_interrupted() -> None:
    signal = AbortSignal()
    watch = Hooks(name="watch", only_watches=True, after_tool_call=waiting_after(signal))
    tool = Tool("read", assistant_text("hello"))
    run = await run_loop(
        asking(("read", {})), "go", tools=[tool], config=compose(watch), signal=signal
    )

    assert [result.text for result in run.results] == ["hello"]


async def test_fast_check_still_runs_after_an_abort() -> None:
    signal = AbortSignal()

    async def at_once(*_: Any) -> None:
        await asyncio.sleep(0)

    config = compose(
        Hooks(name="slow", only_watches=True, after_tool_call=waiting_after(signal)),
        Hooks(name="check", after_tool_call=at_once),
    )
    run = await run_loop(
        asking(("read", {})),
        "go",
        tools=[Tool("read", assistant_text("hello"))],
        config=config,
        signal=signal,
    )

    assert [result.text for result in run.results] == ["hello"]


async def test_result_of_an_aborted_call_is_kept() -> None:
    signal = AbortSignal()

    async def body(*_: Any) -> Any:
        signal.abort()
        await asyncio.Event().wait()

    config = compose(Hooks(name="check", after_tool_call=waiting_after(signal, aborts=False)))
    run = await run_loop(
        asking(("read", {})), "go", tools=[Tool("read", body)], config=config, signal=signal
    )

    assert run.results[0].text.startswith("Aborted while it ran.")


async def test_cancelled_run_stores_no_unchecked_result() -> None:
    began = asyncio.Event()

    async def after(*_: Any) -> None:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    recorder = EventRecorder()
    tool = Tool("read", assistant_text("hunter2"))
    task = asyncio.ensure_future(
        run_loop(
            asking(("read", {})),
            "go",
            tools=[tool],
            config=compose(Hooks(name="check", after_tool_call=after)),
            recorder=recorder,
        )
    )
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert "hunter2" not in str(recorder.events)


async def aborted_answer(check: Any) -> AssistantMessage:
    """The stored message of an aborted answer."""
    signal = AbortSignal()

    async def stop() -> None:
        signal.abort()
        await asyncio.Event().wait()

    model = ScriptedModel().will(Reply(text="it is hunter2", hold=stop))
    run = await run_loop(model, "go", config=LoopConfig(check_aborted=check), signal=signal)
    [answer] = [message for message in run.new if isinstance(message, AssistantMessage)]
    assert answer.stop_reason == "aborted"
    return answer


async def test_aborted_answer_is_checked_before_it_is_stored() -> None:
    async def passes(message: AssistantMessage) -> AssistantMessage:
        return message

    async def hides(message: AssistantMessage) -> AssistantMessage:
        return replace(message, content=(TextBlock("[hidden]"),), withheld="a check")

    assert (await aborted_answer(passes)).text == "it is hunter2"
    assert (await aborted_answer(hides)).text == "[hidden]"
    assert (await aborted_answer(None)).text == "it is hunter2"


@pytest.mark.parametrize("kind", ["hangs", "fails"])
async def test_aborted_answer_is_withheld_if_its_check_hangs_or_fails(kind: str) -> None:
    async def check(_message: AssistantMessage) -> AssistantMessage:
        if kind == "hangs":
            await asyncio.Event().wait()
        raise LookupError("broken")

    answer = await aborted_answer(check)
    assert "hunter2" not in str(answer)
    assert answer.withheld == "the run was stopped before its check finished"
