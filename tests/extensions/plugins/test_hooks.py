"""Plugins at the hooks of the loop: return values and failures."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.extensions.plugins.registration import POINTS
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import AfterToolCallResult, Context, Hooks, ToolOverride, TurnUpdate
from dirge_py.types.messages import TextBlock, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done, HookTerminated
from tests.support.loop_runs import Tool
from tests.support.plugins import SHORT_S, PluginFolder, run_with

Register = Callable[[Any], None]


def one_call(**arguments: Any) -> ScriptedModel:
    return ScriptedModel().will_call("echo", **arguments).will_say("done")


def at(point: str, fn: Callable[..., Any]) -> Register:
    return lambda dirge: dirge.on(point, fn)


async def test_example_of_the_manual_refuses_a_call(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        @dirge.on("before_tool_call")
        async def keep_out(info: Any, call: Any) -> Any:
            if "generated/" in str(call.arguments):
                return dirge.refuse("Files under generated/ are built; change the template.")
            return None

    tool = Tool()
    host = plugin_folder.add("gate", register).host()
    model = ScriptedModel().will_call_all(
        ("echo", {"path": "generated/a"}), ("echo", {"path": "b"})
    )
    came = await run_with(host, model.will_say("done"), tools=[tool])
    assert came.outcomes == ["denied", "ok"]
    assert came.results[0].text == "Files under generated/ are built; change the template."
    assert tool.ran == [{"path": "b"}]


async def test_case_i01_first_refusal_is_shown_and_later_plugins_are_not_asked(
    plugin_folder: PluginFolder,
):
    asked: list[str] = []

    def blocker(name: str) -> Register:
        def register(dirge: Any) -> None:
            def block(info: Any, call: Any) -> Any:
                asked.append(name)
                return dirge.refuse(f"{name} says no")

            dirge.on("before_tool_call", block)

        return register

    plugin_folder.add("zebra", blocker("zebra")).add("ant", blocker("ant"))
    came = await run_with(plugin_folder.host(), one_call())
    assert [result.text for result in came.results] == ["ant says no"]
    assert asked == ["ant"]


async def test_case_a69_edits_are_chained_and_hooks_after_a_refusal_are_not_called(
    plugin_folder: PluginFolder,
):
    asked: list[Any] = []

    def edit(dirge: Any) -> None:
        dirge.on("before_tool_call", lambda info, call: dirge.edit({"n": call.arguments["n"] + 1}))

    def block(dirge: Any) -> None:
        def hook(info: Any, call: Any) -> Any:
            asked.append(call.arguments)
            return dirge.refuse("no")

        dirge.on("before_tool_call", hook)

    def never(dirge: Any) -> None:
        dirge.on("before_tool_call", lambda info, call: asked.append("c"))

    plugin_folder.add("a", edit).add("b", block).add("c", never)
    await run_with(plugin_folder.host(), one_call(n=1))
    assert asked == [{"n": 2}]


async def test_permission_check_sees_arguments_edited_by_plugins(plugin_folder: PluginFolder):
    judged: list[Any] = []
    judge = Hooks(name="permission", before_tool_call=lambda i, call: judged.append(call.arguments))
    tool = Tool()
    host = plugin_folder.add(
        "edit", lambda d: d.on("before_tool_call", lambda info, call: d.edit({"n": 2}))
    ).host()
    await run_with(host, one_call(n=1), tools=[tool], after=[judge])
    assert judged == [{"n": 2}]
    assert tool.ran == [{"n": 2}]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_case_i03_hook_that_hangs_is_abandoned_with_one_notice(
    plugin_folder: PluginFolder, kind: str
):
    released = threading.Event()

    def plain(info: Any) -> None:
        released.wait()

    async def waiting(info: Any) -> None:
        await asyncio.Event().wait()

    host = plugin_folder.add(
        "slow", at("transform_context", plain if kind == "plain" else waiting)
    ).host(limit_s=SHORT_S)
    try:
        came = await run_with(host, one_call())
    finally:
        released.set()
    assert isinstance(came.outcome, Done)
    assert len(plugin_folder.notices) == 1
    assert "plugin `slow`" in plugin_folder.notices[0]
    assert "it took longer than 0.05 s" in plugin_folder.notices[0]


async def test_blocking_plain_hook_does_not_block_the_event_loop(
    plugin_folder: PluginFolder,
):
    may_end, ran_meanwhile = threading.Event(), asyncio.Event()

    def blocks(info: Any) -> None:
        loop.call_soon_threadsafe(ran_meanwhile.set)
        assert may_end.wait(20)

    loop = asyncio.get_running_loop()
    host = plugin_folder.add("slow", at("transform_context", blocks)).host()
    run = loop.create_task(run_with(host, ScriptedModel().will_say("done")))
    await asyncio.wait_for(ran_meanwhile.wait(), 20)
    assert not run.done()
    may_end.set()
    assert isinstance((await run).outcome, Done)


@pytest.mark.parametrize(
    "garbage",
    [
        "text",
        42,
        {"messages": []},
        Context(messages=["x"]),  # type: ignore[list-item]
        Context(messages="abc"),  # type: ignore[arg-type]
        Context(tools=["x"]),  # type: ignore[list-item]
        Context(system_prompt=None),  # type: ignore[arg-type]
    ],
)
async def test_case_i09_invalid_context_of_a_hook_is_ignored_with_a_notice(
    plugin_folder: PluginFolder, garbage: Any
):
    host = plugin_folder.add("odd", at("transform_context", lambda info: garbage)).host()
    model = ScriptedModel().will_say("done")
    came = await run_with(host, model, "hello")
    assert isinstance(came.outcome, Done)
    [seen] = model.seen
    assert [m.text for m in seen.messages if isinstance(m, UserMessage)] == ["hello"]
    assert len(plugin_folder.notices) == 1
    assert "`odd`: `<lambda>` at transform_context failed" in plugin_folder.notices[0]


@pytest.mark.parametrize(
    ("point", "garbage"),
    [
        ("convert_to_llm", ["x"]),
        ("after_tool_call", AfterToolCallResult(content="text")),  # type: ignore[arg-type]
        ("after_tool_call", 3),
        ("prepare_next_turn", "x"),
        ("prepare_next_turn", TurnUpdate(continue_with=["x"])),  # type: ignore[list-item]
        ("should_stop_after_turn", "yes"),
        ("get_steering_messages", {"a": 1}),
        ("get_followup_messages", [3]),
    ],
)
async def test_invalid_hook_return_value_is_ignored_with_a_notice(
    plugin_folder: PluginFolder, point: str, garbage: Any
):
    host = plugin_folder.add("odd", at(point, lambda *_: garbage)).host()
    came = await run_with(host, one_call())
    assert isinstance(came.outcome, Done)
    assert came.outcomes == ["ok"]
    assert len(came.new) == 4
    assert any("odd" in told and point in told for told in plugin_folder.notices)


@pytest.mark.parametrize(
    "fails",
    [
        lambda info, call: 1 / 0,
        lambda info, call: "a string",
        lambda info, call: ToolOverride,
        lambda: None,
    ],
)
async def test_failing_before_tool_call_hook_denies_the_call_and_names_the_plugin(
    plugin_folder: PluginFolder, fails: Any
):
    tool = Tool()
    host = plugin_folder.add("lock", at("before_tool_call", fails)).host()
    came = await run_with(host, one_call(), tools=[tool])
    assert tool.ran == []
    assert came.outcomes == ["denied"]
    assert "Blocked: the plugin `lock`" in came.results[0].text


async def test_before_tool_call_hook_that_always_fails_is_reported_once(
    plugin_folder: PluginFolder,
):
    def fails(info: Any, call: Any) -> None:
        raise LookupError("no table")

    tool = Tool()
    model = ScriptedModel()
    for _ in range(5):
        model.will_call("echo")
    host = plugin_folder.add("lock", at("before_tool_call", fails)).host()
    came = await run_with(host, model.will_say("done"), tools=[tool])
    assert tool.ran == []
    assert came.outcomes == ["denied"] * 5
    assert len(plugin_folder.notices) == 1
    assert "/plugins off lock" in plugin_folder.notices[0]
    assert "LookupError: no table (test_hooks.py, line " in plugin_folder.notices[0]


async def test_before_tool_call_hook_that_hangs_denies_the_call(plugin_folder: PluginFolder):
    async def hangs(info: Any, call: Any) -> None:
        await asyncio.Event().wait()

    tool = Tool()
    host = plugin_folder.add("lock", at("before_tool_call", hangs)).host(limit_s=SHORT_S)
    came = await run_with(host, one_call(), tools=[tool])
    assert tool.ran == []
    assert "it took longer than" in came.results[0].text


async def test_failing_hook_is_turned_off_after_three_failures(plugin_folder: PluginFolder):
    asked = []

    def fails(info: Any) -> None:
        asked.append(info.turn)
        raise ValueError("broken")

    model = ScriptedModel()
    for _ in range(4):
        model.will_call("echo")
    host = plugin_folder.add("odd", at("transform_context", fails)).host()
    await run_with(host, model.will_say("done"))
    assert asked == [1, 2, 3]
    assert len(plugin_folder.notices) == 2
    assert "failed 3 times and is off" in plugin_folder.notices[1]
    [report] = host.report()
    assert [(hook.failures, hook.is_on) for hook in report.hooks] == [(3, False)]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), GeneratorExit()]
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_hook_cannot_exit_the_program(
    plugin_folder: PluginFolder, error: BaseException, kind: str
):
    def plain(info: Any) -> None:
        raise error

    async def coroutine(info: Any) -> None:
        raise error

    host = plugin_folder.add(
        "odd", at("transform_context", plain if kind == "plain" else coroutine)
    ).host()
    came = await run_with(host, ScriptedModel().will_say("done"))
    assert isinstance(came.outcome, Done)
    assert len(plugin_folder.notices) == 1


@pytest.mark.parametrize("way", ["return", "raise"])
@pytest.mark.parametrize(
    "point", ["transform_context", "before_tool_call", "after_tool_call", "should_stop_after_turn"]
)
async def test_plugin_can_stop_the_run_at_each_hook(
    plugin_folder: PluginFolder, point: str, way: str
):
    def register(dirge: Any) -> None:
        def hook(*_: Any) -> Any:
            if way == "raise":
                raise dirge.stop("enough")
            return dirge.stop("enough")

        dirge.on(point, hook)

    came = await run_with(plugin_folder.add("stop", register).host(), one_call())
    assert came.outcome == HookTerminated(point=point, reason="enough")


async def test_plugin_can_defer_a_call(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        dirge.on("before_tool_call", lambda info, call: dirge.defer("who knows"))

    came = await run_with(plugin_folder.add("ask", register).host(), one_call())
    assert came.outcome == AwaitingConfirmation(call_ids=("echo#0",), description="who knows")


async def test_plain_text_from_hooks_becomes_follow_up_and_tool_result(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        received: list[str] = []

        @dirge.on("get_followup_messages")
        def more(info: Any, so_far: Any) -> Any:
            if received:
                return None
            received.append("x")
            return "and the tests?"

        dirge.on("after_tool_call", lambda info, call, result: f"[{result.text}]")

    model = one_call().will_say("they pass")
    came = await run_with(plugin_folder.add("chatty", register).host(), model)
    assert came.results[0].content == (TextBlock("[ok]"),)
    [asked] = [m for m in came.new if isinstance(m, UserMessage) and m.origin == "plugin"]
    assert asked.text == "and the tests?"


async def test_hooks_of_one_plugin_at_one_point_run_in_order(
    plugin_folder: PluginFolder,
):
    def register(dirge: Any) -> None:
        for mark in "abc":
            dirge.on(
                "transform_context",
                lambda info, mark=mark: replace(
                    info.context, system_prompt=info.context.system_prompt + mark
                ),
            )

    model = ScriptedModel().will_say("done")
    await run_with(plugin_folder.add("abc", register).host(), model)
    assert model.seen[0].system_prompt == "firstabc"


def test_unknown_hook_point_error_suggests_the_nearest(plugin_folder: PluginFolder):
    host = plugin_folder.add("typo", at("befor_tool_call", lambda info, call: None)).host()
    [notice] = host.notices()
    assert "there is no hook point `befor_tool_call`" in notice
    assert "Did you mean `before_tool_call`?" in notice


@pytest.mark.parametrize("point", POINTS)
def test_every_hook_point_accepts_a_hook(plugin_folder: PluginFolder, point: str):
    host = plugin_folder.add("all", at(point, lambda *_: None)).host()
    assert host.notices() == ()
    assert [(p, labels) for p, labels in host.order()] == [(point, ["all.<lambda>"])]


async def test_event_emitted_in_a_thread_arrives_on_the_event_loop(plugin_folder: PluginFolder):
    from dirge_py.types.events import SystemNotice

    home = threading.get_ident()
    heard: list[int] = []

    def tells(info: Any) -> None:
        info.emit(SystemNotice("from afar"))

    host = plugin_folder.add("teller", at("should_stop_after_turn", tells)).host()
    previous = host.on_event

    def on_event(event: Any) -> None:
        if isinstance(event, SystemNotice):
            heard.append(threading.get_ident())
        previous(event)

    host.on_event = on_event  # type: ignore[method-assign]
    await run_with(host, ScriptedModel().will_say("done"))
    assert heard == [home]


def test_plugin_error_is_a_dirge_error():
    from dirge_py.extensions.plugins.registration import PluginError

    assert issubclass(PluginError, DirgeError)
