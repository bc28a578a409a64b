import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from dirge_py.agent_loop import AfterToolCallResult, EditArgs, LoopConfig, ToolOverride, compose
from dirge_py.testing import EventRecorder, ScriptedModel, assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ModelRetry, ToolFailed
from dirge_py.types.events import ToolExecutionEnd, ToolExecutionUpdate
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import ImageBlock, TextBlock
from dirge_py.types.tools import LoopToolResult, ToolCall, text_result
from tests.support.loop_runs import Tool, a_breath, boom, forever, run_loop, stubborn
from tests.support.tool_arguments import OperationTool


def strict(_tool, arguments):
    if not isinstance(arguments.get("path"), str):
        raise ValueError("path: a string is required.")
    return arguments


def asking(*calls):
    return ScriptedModel().will_call_all(*calls).will_say("done")


@pytest.mark.parametrize(
    ("name", "arguments", "outcome", "words"),
    [
        pytest.param("raed", {}, "unknown_tool", "`read`", id="25-26 similar tool name"),
        pytest.param(
            "search_filesystem", {}, "unknown_tool", "There are: read", id="26 unknown tool name"
        ),
        pytest.param("read", {"path": 1}, "invalid", "path: a string", id="89 invalid"),
        pytest.param("read", '{"path": tru', "invalid", "cut off", id="truncated"),
        pytest.param("read", "[1]", "invalid", "JSON object", id="not an object"),
    ],
)
async def test_invalid_calls_get_an_error_result(name, arguments, outcome, words):
    tool = Tool("read")
    seen = []
    config = LoopConfig(
        validate=strict, before_tool_call=lambda _i, call: seen.append(call.problem)
    )
    run = await run_loop(asking((name, arguments)), "go", tools=[tool], config=config)

    assert tool.ran == []
    assert run.outcomes == [outcome]
    assert words in run.results[0].text
    assert run.results[0].is_error
    assert None not in seen


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        (LookupError("nothing matched"), "error", "nothing matched"),
        (KeyError(), "error", "KeyError"),
        (ToolFailed("Do this.", outcome="failed_command"), "failed_command", "Do this."),
        (ModelRetry("Other way."), "invalid", "Other way."),
        (TimeoutError(), "timeout", "It timed out."),
        (SystemExit(3), "error", "tried to exit"),
        (asyncio.CancelledError(), "error", "cancelled itself"),
    ],
)
async def test_tool_that_raises_gives_an_error_result(error, outcome, words):
    async def body(*_):
        raise error

    tools = [Tool("bad", body), Tool()]
    run = await run_loop(asking(("bad", {}), ("echo", {})), "go", tools=tools)

    assert run.outcomes == [outcome, "ok"]
    assert words in run.results[0].text


async def test_tool_that_returns_a_wrong_type_gives_an_error_result():
    async def body(*_):
        return "text"

    run = await run_loop(asking(("bad", {})), "go", tools=[Tool("bad", body)])
    assert run.outcomes == ["error"]


async def test_arguments_are_prepared_before_they_are_validated():
    tool = Tool("read", prepare=lambda given: {"path": given["file"]})
    run = await run_loop(
        asking(("read", {"file": "a"})), "go", tools=[tool], config=LoopConfig(validate=strict)
    )
    assert (tool.ran, run.outcomes) == ([{"path": "a"}], ["ok"])


async def test_override_without_content_gives_a_default_refusal():
    config = LoopConfig(before_tool_call=lambda *_: ToolOverride())
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool()], config=config)
    assert (run.results[0].text, run.outcomes) == ("This call was blocked.", ["denied"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"content": (TextBlock("new"),)}, ("new", {"outcome": "ok", "k": 1}, False)),
        ({"is_error": True}, ("old", {"outcome": "error", "k": 1}, True)),
        ({"details": {"outcome": "ok"}}, ("old", {"outcome": "ok"}, False)),
    ],
)
async def test_fields_set_by_the_after_hook_replace_fields_of_the_result(change, expected):
    async def body(*_):
        return text_result("old", k=1)

    config = LoopConfig(after_tool_call=lambda *_: AfterToolCallResult(**change))
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool(body=body)], config=config)
    result = run.results[0]
    assert (result.text, dict(result.details), result.is_error) == expected


async def test_image_in_a_result_is_kept():
    image = ImageBlock(asset_id="a", media_type="image/png")

    async def body(*_):
        return LoopToolResult(content=(image,))

    run = await run_loop(asking(("echo", {})), "go", tools=[Tool(body=body)])
    assert run.results[0].content == (image,)


@pytest.mark.parametrize(
    ("mode", "other", "most"),
    [("parallel", None, 3), ("sequential", None, 1), ("parallel", "sequential", 1)],
)
async def test_one_sequential_tool_makes_the_batch_sequential(mode, other, most):
    echo = Tool(body=a_breath)
    tools = [echo, Tool("seq", a_breath, execution_mode=other)]
    calls = [("echo", {}), ("echo", {}), ("seq", {}), ("echo", {})]
    run = await run_loop(asking(*calls), "go", tools=tools, config=LoopConfig(tool_execution=mode))

    assert echo.most_running == most
    assert [r.tool_call_id for r in run.results] == ["echo#0", "echo#1", "seq#0", "echo#2"]
    if most == 1:
        tool_part = [kind for kind in run.recorder.types if kind.startswith("tool_execution")]
        assert tool_part == ["tool_execution_start", "tool_execution_end"] * 4


async def test_max_parallel_limits_how_many_calls_run_at_once():
    echo = Tool(body=a_breath)
    await run_loop(
        asking(*[("echo", {})] * 6), "go", tools=[echo], config=LoopConfig(max_parallel=2)
    )
    assert (echo.most_running, len(echo.ran)) == (2, 6)


async def test_end_events_come_as_calls_finish_and_results_in_call_order():
    second_done = asyncio.Event()

    async def body(call_id, *_):
        if call_id == "echo#1":
            second_done.set()
        else:
            await second_done.wait()
        return text_result(call_id)

    calls = [("echo", {}), ("echo", {}), ("nonexistent", {})]
    run = await run_loop(asking(*calls), "go", tools=[Tool(body=body)])

    ends = [event.tool_call_id for event in run.recorder.of(ToolExecutionEnd)]
    assert ends == ["nonexistent#0", "echo#1", "echo#0"]
    assert [r.tool_call_id for r in run.results] == ["echo#0", "echo#1", "nonexistent#0"]


async def test_no_tool_runs_before_the_last_before_tool_call_hook():
    order = []

    async def body(call_id, *_):
        order.append(f"run {call_id}")
        return text_result("ok")

    async def before(info, call):
        await asyncio.sleep(0)
        order.append(f"ask {call.id} of {len(info.calls)}")

    await run_loop(
        asking(("echo", {}), ("echo", {})),
        "go",
        tools=[Tool(body=body)],
        config=LoopConfig(before_tool_call=before),
    )
    assert order == ["ask echo#0 of 2", "ask echo#1 of 2", "run echo#0", "run echo#1"]


async def test_updates_are_emitted_until_the_tool_ends_also_from_threads():
    late = []

    async def body(_id, _arguments, _signal, on_update):
        on_update(text_result("1"))
        thread = threading.Thread(target=on_update, args=(text_result("2"),))
        thread.start()
        await asyncio.to_thread(thread.join)
        late.append(on_update)
        return text_result("ok")

    recorder = EventRecorder()
    await run_loop(asking(("echo", {"a": 1})), "go", tools=[Tool(body=body)], recorder=recorder)
    late[0](text_result("3"))

    updates = recorder.of(ToolExecutionUpdate)
    assert [(u.partial_result.text, u.args) for u in updates] == [("1", {"a": 1}), ("2", {"a": 1})]


async def test_first_interceptor_is_the_outermost():
    order = []

    def around(name):
        async def interceptor(_call, proceed):
            order.append(f"in {name}")
            result = await proceed()
            order.append(f"out {name}")
            return result

        return interceptor

    config = LoopConfig(interceptors=[around("a"), around("b")])
    await run_loop(asking(("echo", {})), "go", tools=[Tool()], config=config)
    assert order == ["in a", "in b", "out b", "out a"]


async def twice_in_turn(_call: ToolCall, proceed: Any) -> Any:
    first = await proceed()
    second = await proceed()
    return text_result(f"{first.text}, {second.text}")


async def twice_at_once(_call: ToolCall, proceed: Any) -> Any:
    first, second = await asyncio.gather(proceed(), proceed())
    return text_result(f"{first.text}, {second.text}")


@pytest.mark.parametrize("around", [twice_in_turn, twice_at_once])
async def test_call_runs_once_if_an_interceptor_proceeds_twice(around):
    inside = []

    async def noting(call, proceed):
        inside.append(call.id)
        return await proceed()

    echo = Tool(body=a_breath)
    config = LoopConfig(interceptors=[around, noting])
    run = await run_loop(asking(("echo", {})), "go", tools=[echo], config=config)

    assert (len(echo.ran), len(inside), run.results[0].text) == (1, 1, "ok, ok")


async def again_after_an_error(_call: ToolCall, proceed: Any) -> Any:
    with contextlib.suppress(LookupError):
        await proceed()
    return await proceed()


@pytest.mark.parametrize(("operation", "runs"), [("read", 2), ("edit", 1)])
async def test_only_a_read_call_runs_again_after_an_error(operation, runs):
    tool = OperationTool(body=boom, ops=[operation])
    config = LoopConfig(interceptors=[again_after_an_error])
    run = await run_loop(asking(("echo", {})), "go", tools=[tool], config=config)

    assert (len(tool.ran), run.outcomes) == (runs, ["error"])
    assert "nothing matched" in run.results[0].text


async def test_timed_out_call_is_not_run_again():
    async def impatient(_call, proceed):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await proceed()
        return await proceed()

    tool = OperationTool(body=forever, ops=["edit"])
    config = LoopConfig(interceptors=[impatient])
    run = await run_loop(asking(("echo", {})), "go", tools=[tool], config=config)

    assert len(tool.ran) == 1
    assert "The call was stopped while it ran." in run.results[0].text


async def test_failing_interceptor_prevents_the_tool_from_running():
    async def cannot_write(_call, _proceed):
        raise OSError("disk full")

    echo = Tool()
    run = await run_loop(
        asking(("echo", {})), "go", tools=[echo], config=LoopConfig(interceptors=[cannot_write])
    )
    assert (echo.ran, run.outcomes) == ([], ["error"])


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("body", [forever, stubborn], ids=["stops on cancel", "ignores cancel"])
async def test_abort_gives_every_call_a_result_within_the_grace_period(body, mode):
    signal, at = AbortSignal(), []

    def stop():
        at.append(time.monotonic())
        signal.abort()

    async def started(*arguments):
        asyncio.get_running_loop().call_soon(stop)
        return await body(*arguments)

    model = asking(*[("echo", {})] * 3)
    run = await run_loop(
        model,
        "go",
        tools=[Tool(body=started)],
        signal=signal,
        config=LoopConfig(tool_execution=mode),
    )

    assert time.monotonic() - at[0] < 1
    assert run.outcomes == ["aborted"] * 3
    assert [r.tool_call_id for r in run.results] == ["echo#0", "echo#1", "echo#2"]
    assert_balanced(run.new)
    assert len(model.seen) == 1


async def test_abort_does_not_wait_for_a_tool_blocked_in_a_thread():
    signal, release = AbortSignal(), threading.Event()

    async def body(*_):
        asyncio.get_running_loop().call_soon(signal.abort)
        await asyncio.to_thread(release.wait, 5)
        return text_result("late")

    began = time.monotonic()
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool(body=body)], signal=signal)
    took = time.monotonic() - began
    release.set()

    assert (run.outcomes, took < 2) == (["aborted"], True)


async def test_abort_in_before_tool_call_starts_no_tool():
    signal, echo = AbortSignal(), Tool()
    config = LoopConfig(before_tool_call=lambda *_: signal.abort())
    run = await run_loop(
        asking(("echo", {}), ("echo", {})), "go", tools=[echo], config=config, signal=signal
    )
    assert (echo.ran, run.outcomes) == ([], ["aborted", "aborted"])
    assert run.results[0].details["synthetic"] == "aborted"


async def test_failing_call_does_not_affect_its_neighbours():
    tools = [Tool("bad", boom), Tool(body=a_breath)]
    run = await run_loop(asking(("echo", {}), ("bad", {}), ("echo", {})), "go", tools=tools)
    assert run.outcomes == ["ok", "error", "ok"]


async def test_interceptor_cannot_change_the_judged_arguments() -> None:
    echo = Tool()

    async def meddle(call: ToolCall, proceed: Any) -> Any:
        call.arguments["path"] = "/etc/shadow"
        return await proceed()

    model = ScriptedModel().will_call("echo", path="a").will_say("done")
    await run_loop(model, "go", tools=[echo], config=LoopConfig(interceptors=[meddle]))
    assert echo.ran == [{"path": "a"}]


async def test_hook_cannot_change_edited_arguments_after_they_are_judged() -> None:
    kept: list[Any] = []
    echo = Tool()

    def edit(_info: Any, call: ToolCall) -> EditArgs:
        kept.append({"path": "a", "more": {"x": 1}})
        return EditArgs(kept[0])

    def judge(_info: Any, call: ToolCall) -> None:
        assert call.arguments == {"path": "a", "more": {"x": 1}}

    async def meddle(_call: ToolCall, proceed: Any) -> Any:
        kept[0]["more"]["x"] = 2
        return await proceed()

    config = compose(
        Hooks(name="edits", before_tool_call=edit),
        Hooks(name="judges", before_tool_call=judge),
        config=LoopConfig(interceptors=[meddle]),
    )
    await run_loop(
        ScriptedModel().will_call("echo").will_say("done"), "go", tools=[echo], config=config
    )
    assert echo.ran == [{"path": "a", "more": {"x": 1}}]
