"""The nine hooks: merging, failures, and every way to stop a run."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.agent_loop import (
    AfterToolCallResult,
    Context,
    Defer,
    EditArgs,
    LoopConfig,
    RequestSettings,
    StopRun,
    ToolOverride,
    TurnUpdate,
    compose,
)
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import ContextReplaced, SystemNotice, ToolExecutionEnd, TurnEnd
from dirge_py.types.hooks import HOOK_NAMES, CallDecision, Hooks
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    TextBlock,
    ToolCallBlock,
    user_text,
)
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, Failed, HookTerminated
from dirge_py.types.tools import LoopToolResult, text_result
from tests.support.loop_runs import LoopRun, Tool, forever, run_loop

FAIL_OPEN = [
    "transform_context",
    "convert_to_llm",
    "after_tool_call",
    "prepare_next_turn",
    "should_stop_after_turn",
    "get_steering_messages",
    "get_followup_messages",
]


def as_either(hook: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """The same hook as a plain function or as a coroutine function."""
    if not is_async:
        return hook

    async def awaited(*args: Any) -> Any:
        await asyncio.sleep(0)
        return hook(*args)

    return awaited


def bundle(name: str, hook: str, body: Callable[..., Any]) -> Hooks:
    return Hooks(name=name, **{hook: body})


async def one_call_run(config: LoopConfig, **more: Any) -> tuple[LoopRun, Tool, ScriptedModel]:
    echo = Tool()
    model = ScriptedModel().will_call("echo", n=1).will_say("done").will_say("after all")
    return await run_loop(model, "go", tools=[echo], config=config, **more), echo, model


def notices(run: LoopRun) -> str:
    return "\n".join(notice.content for notice in run.recorder.of(SystemNotice))


# -- failures at every hook


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("hook", FAIL_OPEN)
async def test_hook_that_raises_is_reported_and_skipped(hook: str, is_async: bool) -> None:
    def bad(*_: Any) -> None:
        raise KeyError("oops")

    run, echo, model = await one_call_run(compose(bundle("plug", hook, as_either(bad, is_async))))

    assert "`plug`" in notices(run)
    assert "oops" in notices(run)
    assert isinstance(run.outcome, Done)
    assert (echo.ran, len(model.seen)) == ([{"n": 1}], 2)
    assert_balanced(run.new)


GARBAGE: list[tuple[str, Any]] = [
    ("transform_context", "garbage"),
    ("transform_context", [user_text("x")]),
    ("transform_context", Context(messages=["not a message"])),  # type: ignore[list-item]
    ("transform_context", Context(system_prompt=5)),  # type: ignore[arg-type]
    ("transform_context", Context(tools=["bash"])),  # type: ignore[list-item]
    ("convert_to_llm", "garbage"),
    ("convert_to_llm", [{"role": "user", "content": "x"}]),
    ("after_tool_call", {"content": "x"}),
    ("after_tool_call", AfterToolCallResult(content="text")),  # type: ignore[arg-type]
    ("after_tool_call", AfterToolCallResult(content=["text"])),  # type: ignore[list-item]
    ("after_tool_call", AfterToolCallResult(details="odd")),  # type: ignore[arg-type]
    ("prepare_next_turn", {"model": "x"}),
    ("prepare_next_turn", TurnUpdate(continue_with="more")),  # type: ignore[arg-type]
    ("prepare_next_turn", TurnUpdate(continue_with=[5])),  # type: ignore[list-item]
    ("prepare_next_turn", TurnUpdate(continue_with=7)),  # type: ignore[arg-type]
    ("prepare_next_turn", TurnUpdate(model=7)),  # type: ignore[arg-type]
    ("prepare_next_turn", TurnUpdate(thinking_level="deep")),  # type: ignore[arg-type]
    ("prepare_next_turn", TurnUpdate(context=Context(messages=[5]))),  # type: ignore[list-item]
    ("should_stop_after_turn", "yes"),
    ("get_steering_messages", "hello"),
    ("get_steering_messages", ["hello"]),
    ("get_followup_messages", user_text("not in a list")),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("hook", "answer"), GARBAGE)
async def test_i09_invalid_hook_value_is_ignored_with_a_notice(
    hook: str, answer: Any, is_async: bool
) -> None:
    body = as_either(lambda *_: answer, is_async)
    run, _, model = await one_call_run(compose(bundle("plug", hook, body)))

    assert "`plug`" in notices(run)
    assert isinstance(run.outcome, Done)
    assert [message.role for message in model.seen[0].messages] == ["user"]
    assert run.outcomes == ["ok"]
    assert run.results[0].text == "ok"


@pytest.mark.parametrize("hook", FAIL_OPEN)
async def test_system_exit_in_a_hook_is_reported_as_a_failure(hook: str) -> None:
    def leaves(*_: Any) -> None:
        raise SystemExit(3)

    run, _, _ = await one_call_run(compose(bundle("plug", hook, leaves)))
    assert "tried to exit (3)" in notices(run)
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda *_: 1 / 0, id="raises"),
        pytest.param(lambda *_: True, id="bool"),
        pytest.param(lambda *_: {"args": {}}, id="dict"),
        pytest.param(lambda *_: EditArgs("x"), id="no arguments"),
        pytest.param(lambda *_: ToolOverride(content=5), id="no content"),
        pytest.param(lambda *_: ToolOverride(content=["x"]), id="no blocks"),
        pytest.param(lambda *_: ToolOverride("x", details=[1]), id="no details"),
    ],
)
async def test_t13_failing_before_tool_call_hook_denies_the_call_with_its_name(
    body: Callable[..., Any], is_async: bool
) -> None:
    later: list[str] = []
    config = compose(
        bundle("plug", "before_tool_call", as_either(body, is_async)),
        bundle("permission", "before_tool_call", lambda *_: later.append("asked")),
    )
    run, echo, _ = await one_call_run(config)

    assert (echo.ran, run.outcomes, later) == ([], ["denied"], [])
    assert "`before_tool_call` hook of `plug`" in run.results[0].text
    assert "`plug`" in notices(run)
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_failing_get_api_key_fails_the_run_as_auth_error(is_async: bool) -> None:
    def bad(_provider: str) -> None:
        raise KeyError("keyring")

    config = compose(bundle("plug", "get_api_key", as_either(bad, is_async)))
    run, echo, model = await one_call_run(config)

    assert isinstance(run.outcome, Failed)
    assert run.outcome.kind == "auth"
    assert "`plug`: get_api_key failed (KeyError('keyring'))" in run.outcome.message
    assert (model.seen, echo.ran) == ([], [])


async def test_api_key_that_is_not_text_fails_the_run() -> None:
    run, _, _ = await one_call_run(compose(bundle("plug", "get_api_key", lambda _: 42)))
    assert isinstance(run.outcome, Failed)
    assert "int" in run.outcome.message


async def test_provider_error_of_get_api_key_keeps_its_message() -> None:
    def bad(_provider: str) -> None:
        raise ProviderError("The keyring is locked.", kind="auth", hint="Unlock it.")

    run, _, _ = await one_call_run(compose(bundle("plug", "get_api_key", bad)))
    assert run.outcome == Failed(kind="auth", message="The keyring is locked.", hint="Unlock it.")


@pytest.mark.parametrize("hook", HOOK_NAMES)
async def test_abort_ends_a_hook_that_hangs(hook: str) -> None:
    signal = AbortSignal()

    async def hang(*_: Any) -> Any:
        asyncio.get_running_loop().call_soon(signal.abort)
        await forever()

    async with asyncio.timeout(5):
        run, _, _ = await one_call_run(compose(bundle("plug", hook, hang)), signal=signal)

    assert_balanced(run.new)
    assert notices(run) == ""
    expected = Done if hook == "get_followup_messages" else Cancelled
    assert isinstance(run.outcome, expected)


# -- stopping at every hook


@pytest.mark.parametrize("way", ["returned", "raised"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("hook", HOOK_NAMES)
async def test_a73_every_hook_can_stop_the_run_and_history_stays_balanced(
    hook: str, is_async: bool, way: str
) -> None:
    outcome = HookTerminated(point=hook, reason="enough")

    def stop(*_: Any) -> StopRun:
        if way == "raised":
            raise StopRun(outcome, say="I was told to stop.")
        return StopRun(outcome, say="I was told to stop.")

    config = compose(bundle("plug", hook, as_either(stop, is_async)))
    run, echo, model = await one_call_run(config)

    assert run.outcome == outcome
    assert_balanced(run.new)
    assert run.new[-1].text == "I was told to stop."  # type: ignore[union-attr]
    assert notices(run) == ""
    asked_before = hook in ("transform_context", "convert_to_llm", "get_api_key")
    if asked_before or hook == "get_steering_messages":
        assert (model.seen, run.recorder.of(TurnEnd)[0].message) == ([], None)
    if hook == "before_tool_call":
        assert (echo.ran, run.outcomes) == ([], ["suppressed"])
    if hook == "after_tool_call":
        assert (len(echo.ran), run.outcomes) == (1, ["ok"])


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_a73_stop_with_pending_calls_gives_each_a_result(mode: Any) -> None:
    def stop(_info: Any, call: Any, _result: Any) -> StopRun | None:
        return StopRun(HookTerminated(point="x", reason="y")) if call.id == "echo#0" else None

    model = ScriptedModel().will_call_all(*[("echo", {})] * 3)
    config = compose(
        bundle("plug", "after_tool_call", stop), config=LoopConfig(tool_execution=mode)
    )
    run = await run_loop(model, "go", tools=[Tool()], config=config)
    assert len(run.results) == 3
    assert_balanced(run.new)


async def test_a73_override_is_an_error_result_and_the_run_continues() -> None:
    run, echo, model = await one_call_run(
        compose(
            bundle("plug", "before_tool_call", lambda *_: ToolOverride("Tool call skipped: no."))
        )
    )
    assert (echo.ran, run.results[0].is_error, run.results[0].text) == (
        [],
        True,
        "Tool call skipped: no.",
    )
    assert len(model.seen) == 2


async def test_every_after_hook_sees_the_result_before_a_stop_applies() -> None:
    """Redaction runs after the hook that stops, so the result is still recorded."""

    async def secret(*_: Any) -> LoopToolResult:
        return text_result("key=sk-1234")

    def scrub(_info: Any, _call: Any, result: LoopToolResult) -> AfterToolCallResult:
        text = result.text.replace("sk-1234", "***")
        return AfterToolCallResult(content=(TextBlock(text),))

    config = compose(
        bundle("plug", "after_tool_call", lambda *_: StopRun(Done(stopped_by="plug"))),
        bundle("scrub", "after_tool_call", scrub),
    )
    model = ScriptedModel().will_call("echo")
    run = await run_loop(model, "go", tools=[Tool(body=secret)], config=config)

    assert run.outcome == replace(run.outcome, stopped_by="plug")  # type: ignore[call-arg]
    assert run.results[0].text == "key=***"
    assert run.recorder.of(ToolExecutionEnd)[0].result.text == "key=***"


# -- chains


async def test_case_15_every_transform_hook_runs_before_the_conversion() -> None:
    order: list[str] = []

    def last(count: int) -> Callable[..., Context]:
        def transform(info: Any) -> Context:
            order.append(f"transform {len(info.context.messages)}")
            return replace(info.context, messages=info.context.messages[-count:])

        return transform

    def convert(_info: Any, messages: Sequence[Any]) -> list[Any]:
        order.append(f"convert {len(messages)}")
        return list(messages)

    config = compose(
        Hooks(name="a", transform_context=last(4)),
        Hooks(name="b", transform_context=last(2), convert_to_llm=convert),
    )
    history = [user_text(str(n)) for n in range(4)]
    context = Context(messages=history)
    model = ScriptedModel().will_say("a")

    await run_loop(model, "p", context=context, config=config)

    assert order == ["transform 5", "transform 4", "convert 2"]
    assert [m.text for m in model.seen[0].messages] == ["3", "p"]
    assert len(history) == 4


async def test_case_14_messages_dropped_by_the_converter_stay_in_the_context() -> None:
    contexts: list[int] = []
    config = compose(
        Hooks(
            name="plug",
            convert_to_llm=lambda _i, messages: [m for m in messages if m.role != "custom"],
            prepare_next_turn=lambda info: contexts.append(len(info.context.messages)),
        )
    )
    context = Context(messages=[CustomMessage(kind="notification")])
    model = ScriptedModel().will_say("a")

    await run_loop(model, "p", context=context, config=config)

    assert [m.role for m in model.seen[0].messages] == ["user"]
    assert contexts == [3]


async def test_converters_of_several_hooks_are_chained() -> None:
    config = compose(
        bundle("a", "convert_to_llm", lambda _i, messages: [*messages, user_text("from a")]),
        bundle("b", "convert_to_llm", lambda _i, messages: None),
        bundle("c", "convert_to_llm", lambda _i, messages: [*messages, user_text("from c")]),
    )
    model = ScriptedModel().will_say("x")
    await run_loop(model, "p", config=config)
    assert [m.text for m in model.seen[0].messages] == ["p", "from a", "from c"]


async def test_case_23_changes_of_several_after_hooks_are_merged() -> None:
    seen: list[Any] = []

    def second(_info: Any, _call: Any, result: LoopToolResult) -> AfterToolCallResult:
        seen.append((result.text, result.is_error))
        return AfterToolCallResult(is_error=True)

    config = compose(
        bundle(
            "a",
            "after_tool_call",
            lambda *_: AfterToolCallResult(content=[TextBlock("shorter")], details={"k": 1}),
        ),
        bundle("b", "after_tool_call", second),
    )
    run, _, _ = await one_call_run(config)

    assert seen == [("shorter", False)]
    (result,) = run.results
    assert (result.text, result.is_error, result.details["k"]) == ("shorter", True, 1)
    assert run.recorder.of(ToolExecutionEnd)[0].is_error


async def test_a69_later_hook_judges_arguments_edited_by_an_earlier_one() -> None:
    asked: list[str] = []

    def permission(_info: Any, call: Any) -> ToolOverride | None:
        return ToolOverride("denied: /etc") if call.arguments["path"] == "/etc" else None

    config = compose(
        bundle("plug", "before_tool_call", lambda *_: EditArgs({"path": "/etc"})),
        bundle("permission", "before_tool_call", permission),
        bundle("never", "before_tool_call", lambda *_: asked.append("asked")),
    )
    run, echo, _ = await one_call_run(config)

    assert (echo.ran, run.results[0].text, asked) == ([], "denied: /etc", [])


async def test_t23_chained_edits_are_each_validated_and_the_last_is_run() -> None:
    def validate(_tool: Any, arguments: Any) -> Any:
        if not isinstance(arguments["n"], int):
            raise ValueError("n: must be a number.")
        return {**arguments, "mode": "safe"}

    judged: list[Any] = []
    config = compose(
        bundle("a", "before_tool_call", lambda _i, call: EditArgs({"n": "wrong"})),
        bundle(
            "b",
            "before_tool_call",
            lambda _i, call: EditArgs({"n": 7}) if call.problem == "invalid_arguments" else None,
        ),
        bundle("permission", "before_tool_call", lambda _i, call: judged.append(call.arguments)),
        config=LoopConfig(validate=validate),
    )
    run, echo, _ = await one_call_run(config)

    assert judged == echo.ran == [{"n": 7, "mode": "safe"}]
    assert run.outcomes == ["ok"]


async def test_case_20_edit_is_used_unchanged_without_a_validator() -> None:
    config = compose(bundle("plug", "before_tool_call", lambda *_: EditArgs({"value": 123})))
    _, echo, _ = await one_call_run(config)
    assert echo.ran == [{"value": 123}]


async def test_case_22_override_without_content_is_a_default_refusal() -> None:
    run, _, _ = await one_call_run(
        compose(bundle("plug", "before_tool_call", lambda *_: ToolOverride()))
    )
    assert "blocked" in run.results[0].text
    assert run.results[0].is_error


async def test_before_tool_call_is_called_for_invalid_calls_too() -> None:
    asked: list[Any] = []

    def before(info: Any, call: Any) -> ToolOverride | None:
        asked.append((call.id, call.problem, len(info.calls)))
        return ToolOverride("Use echo.") if call.problem == "unknown_tool" else None

    model = ScriptedModel().will_call_all(("nope", {}), ("echo", '{"cut'), ("echo", {}))
    config = compose(bundle("plug", "before_tool_call", before))
    run = await run_loop(model.will_say("done"), "go", tools=[Tool()], config=config)

    assert [problem for _, problem, _ in asked] == ["unknown_tool", "truncated", None]
    assert {count for _, _, count in asked} == {3}
    assert run.results[0].text == "Use echo."
    assert run.outcomes == ["unknown_tool", "invalid", "ok"]


async def test_hooks_after_a_defer_are_not_called() -> None:
    asked: list[str] = []
    config = compose(
        bundle("a", "before_tool_call", lambda *_: Defer("who?")),
        bundle("b", "before_tool_call", lambda *_: asked.append("b")),
    )
    run, _, _ = await one_call_run(config)
    assert asked == []
    assert run.outcome == AwaitingConfirmation(call_ids=("echo#0",), description="who?")


# -- between turns


async def test_case_56_changed_system_prompt_is_used_in_the_next_turn() -> None:
    once = ["second"]

    def prepare(info: Any) -> TurnUpdate | None:
        if not once:
            return None
        return TurnUpdate(context=replace(info.context, system_prompt=once.pop()))

    run, _, model = await one_call_run(compose(bundle("plug", "prepare_next_turn", prepare)))

    assert [seen.system_prompt for seen in model.seen] == ["first", "second"]
    assert run.recorder.of(ContextReplaced) == []


async def test_replaced_history_is_emitted_and_used_in_the_next_turn() -> None:
    once = [user_text("A summary.", "harness")]

    def prepare(info: Any) -> TurnUpdate | None:
        return TurnUpdate(context=replace(info.context, messages=[once.pop()])) if once else None

    run, _, model = await one_call_run(compose(bundle("plug", "prepare_next_turn", prepare)))

    (replaced,) = run.recorder.of(ContextReplaced)
    assert [m.text for m in replaced.messages] == ["A summary."]  # type: ignore[union-attr]
    assert [m.text for m in model.seen[1].messages] == ["A summary."]
    assert run.roles == ["user", "assistant", "toolResult", "assistant"]


async def test_case_57_changed_thinking_and_model_apply_from_the_next_turn() -> None:
    script = Reply(calls=[("echo", {})]), Reply(text="done")
    options: list[Any] = []
    model = ScriptedModel().will(script[0]).will(script[1])

    def stream(context: Any, given: Any, signal: Any) -> Any:
        options.append((given.model, given.thinking_level))
        return model.stream_fn(context, given, signal)

    config = compose(
        bundle("a", "prepare_next_turn", lambda _: TurnUpdate(thinking_level="high")),
        bundle("b", "prepare_next_turn", lambda _: TurnUpdate(model="work/big")),
        config=LoopConfig(model="work/small"),
    )
    await run_loop(stream, "go", tools=[Tool()], config=config)
    assert options == [("work/small", "off"), ("work/big", "high")]


async def test_turn_updates_are_merged_by_field_and_the_last_wins() -> None:
    config = compose(
        bundle(
            "a",
            "prepare_next_turn",
            lambda _: TurnUpdate(model="a/m", continue_with=[user_text("from a", "harness")]),
        ),
        bundle("b", "prepare_next_turn", lambda info: TurnUpdate(model="b/m")),
        Hooks(name="end", should_stop_after_turn=lambda info: info.turn == 2),
    )
    models: list[str] = []

    def stream(context: Any, given: Any, signal: Any) -> Any:
        models.append(given.model)
        return ScriptedModel().will_say("x").stream_fn(context, given, signal)

    run = await run_loop(stream, "go", config=config)
    assert models == ["", "b/m"]
    assert [m.text for m in run.new] == ["go", "x", "from a", "x"]  # type: ignore[union-attr]


async def test_turn_hooks_run_in_order_prepare_stop_steering() -> None:
    order: list[str] = []

    def note(name: str, answer: Any = None) -> Callable[..., Any]:
        return lambda *_: order.append(name) or answer

    config = compose(
        Hooks(
            name="a",
            prepare_next_turn=note("prepare"),
            should_stop_after_turn=note("a stops?"),
            get_steering_messages=note("steering", []),
        ),
        Hooks(name="b", should_stop_after_turn=note("b stops", True)),
        Hooks(name="c", should_stop_after_turn=note("c stops?")),
    )
    await one_call_run(config)
    assert order == ["steering", "prepare", "a stops?", "b stops"]


async def test_steering_of_all_hooks_is_joined_in_order() -> None:
    def once(text: str) -> Callable[..., Any]:
        waiting = [user_text(text, "steering")]
        return lambda _info: [waiting.pop()] if waiting else []

    config = compose(
        bundle("a", "get_steering_messages", once("one")),
        bundle("b", "get_steering_messages", once("two")),
    )
    run = await run_loop(ScriptedModel().will_say("x"), "go", config=config)
    assert [m.text for m in run.new] == ["go", "one", "two", "x"]  # type: ignore[union-attr]


async def test_follow_up_hooks_see_messages_of_earlier_hooks() -> None:
    seen: list[list[str]] = []

    def add(*texts: str) -> Callable[..., Any]:
        waiting = [user_text(text, "follow_up") for text in texts]

        def follow_up(_info: Any, so_far: Sequence[Any]) -> list[Any]:
            seen.append([message.text for message in so_far])
            return [waiting.pop()] if waiting else []

        return follow_up

    def gate(info: Any, so_far: Sequence[Any]) -> list[Any]:
        return [] if so_far or info.ended_by != "natural" else [user_text("gate", "harness")]

    config = compose(
        bundle("queue", "get_followup_messages", add("one")),
        bundle("plug", "get_followup_messages", add("two")),
        bundle("gate", "get_followup_messages", gate),
        bundle("end", "should_stop_after_turn", lambda info: info.turn == 3),
    )
    model = ScriptedModel().will_say("a").will_say("b").will_say("c")
    run = await run_loop(model, "go", config=config)

    assert seen == [[], ["one"], [], []]
    assert [m.text for m in run.new if m.role == "user"] == ["go", "one", "two", "gate"]


# -- keys and options


@pytest.mark.parametrize(("found", "used"), [("dynamic", "dynamic"), (None, "static")])
async def test_case_17_dynamic_api_key_overrides_the_static_one(
    found: str | None, used: str
) -> None:
    providers: list[str] = []
    keys: list[Any] = []
    model = ScriptedModel().will_say("x")

    def stream(context: Any, options: Any, signal: Any) -> Any:
        keys.append(options.api_key)
        return model.stream_fn(context, options, signal)

    config = compose(
        bundle("none", "get_api_key", lambda _: None),
        bundle("a", "get_api_key", lambda provider: providers.append(provider) or found),
        config=LoopConfig(provider="work", request=RequestSettings(api_key="static")),
    )
    await run_loop(stream, "go", config=config)
    assert (providers, keys) == (["work"], [used])


async def test_api_key_and_headers_are_not_sent_to_another_provider() -> None:
    given: list[Any] = []
    model = ScriptedModel().will_call("echo").will_say("x")

    def stream(context: Any, options: Any, signal: Any) -> Any:
        given.append((options.model, options.api_key, options.headers))
        return model.stream_fn(context, options, signal)

    config = compose(
        bundle("b", "prepare_next_turn", lambda _: TurnUpdate(model="other/m")),
        config=LoopConfig(
            model="work/m", request=RequestSettings(api_key="static", headers={"x-key": "1"})
        ),
    )
    await run_loop(stream, "go", context=Context(tools=[Tool()]), config=config)

    assert given == [("work/m", "static", {"x-key": "1"}), ("other/m", None, {})]


async def test_first_api_key_found_is_used() -> None:
    asked: list[str] = []
    config = compose(
        bundle("a", "get_api_key", lambda _: "first"),
        bundle("b", "get_api_key", lambda _: asked.append("b") or "second"),
    )
    merged = config.get_api_key
    assert merged is not None
    assert await merged("work") == "first"  # type: ignore[misc]
    assert asked == []


# -- the composed config


def test_composed_config_has_a_coroutine_function_for_every_hook() -> None:
    config = compose(Hooks(name="nothing"))
    assert all(inspect.iscoroutinefunction(getattr(config, name)) for name in HOOK_NAMES)


async def test_hooks_of_the_config_run_first() -> None:
    order: list[str] = []
    config = compose(
        bundle("b", "should_stop_after_turn", lambda _: order.append("bundle")),
        config=LoopConfig(should_stop_after_turn=lambda _: order.append("config")),
    )
    await run_loop(ScriptedModel().will_say("x"), "go", config=config)
    assert order == ["config", "bundle"]


async def test_hook_failures_are_logged_with_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def bad(*_: Any) -> None:
        raise KeyError("oops")

    with caplog.at_level(logging.ERROR):
        await one_call_run(compose(bundle("plug", "prepare_next_turn", bad)))
    assert any(record.exc_info and "plug" in record.getMessage() for record in caplog.records)


async def test_approved_call_skips_defer_hooks_but_not_refusals() -> None:
    call = ToolCallBlock(id="c0", name="echo", arguments={})
    history = [user_text("go"), AssistantMessage(content=(call,), stop_reason="toolUse")]
    for answer, ran_ in ((Defer("again?"), 1), (ToolOverride("no"), 0)):
        echo = Tool()
        await run_loop(
            ScriptedModel().will_say("done"),
            context=Context(messages=history, tools=[echo]),
            config=compose(bundle("plug", "before_tool_call", lambda *_, said=answer: said)),
            decisions=[CallDecision(tool_call_id="c0", allow=True)],
        )
        assert len(echo.ran) == ran_


async def test_slow_hook_has_no_time_limit() -> None:
    """Only plugins have a time limit; questions to the user never have one."""
    clock, asked = FakeClock(), asyncio.Event()

    async def slow(*_: Any) -> None:
        asyncio.get_running_loop().call_soon(asked.set)
        await clock.sleep(3600)

    run = asyncio.ensure_future(one_call_run(compose(bundle("ask", "before_tool_call", slow))))
    await asked.wait()
    clock.advance(3600)
    finished, echo, _ = await run
    assert (len(echo.ran), type(finished.outcome)) == (1, Done)
