"""An `Agent` in a program: runs, events, permission."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import dirge_py
from dirge_py import Agent, AgentResult, Blocks, LoopError, Sampling, Text, tool
from dirge_py.agent_loop import AbortSignal, Hooks, StreamOptions, TurnInfo
from dirge_py.extensions.guardrails.checks import Pass, Trip, Verdict
from dirge_py.guards.limits import Limits
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.options import BuildOptions
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced, assert_event_grammar
from dirge_py.tools.base import ToolContext
from dirge_py.types.errors import ConfigError, DirgeError, NoProvider
from dirge_py.types.events import MessageUpdate, RetryNotice, SystemNotice, ToolExecutionStart
from dirge_py.types.extensions import Section
from dirge_py.types.llm import LlmContext, StreamDone, StreamEvent, TextDelta
from dirge_py.types.messages import AssistantMessage, TextBlock, ToolResultMessage, Usage
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    LimitExceeded,
    MaxTurns,
    Outcome,
    Refused,
)
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall, text_result
from tests.support import agent_tools
from tests.support.agent_tools import TOOLS, echo, results
from tests.support.fake_service import FakeService, ModelReply


@pytest.fixture(autouse=True)
def empty_tool_log() -> Iterator[None]:
    agent_tools.tool_log.clear()
    yield


@pytest.fixture
async def agent(model: ScriptedModel) -> AsyncIterator[Agent]:
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, system_prompt="Be brief.") as agent:
        yield agent


async def test_run_returns_response_messages_usage_and_turns(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("echo", text="a").will_say("It says a.", usage=Usage(input=10, output=2))

    result = await agent.run("Ask the echo.")

    assert isinstance(result, AgentResult)
    assert (result.response, result.turns) == ("It says a.", 2)
    assert result.usage == Usage(input=10, output=2)
    assert list(result.messages) == list(agent.messages())
    assert model.seen[0].system_prompt == "Be brief."
    assert [spec.name for spec in model.seen[0].tools] == ["echo", "deploy"]


async def test_second_run_continues_history_of_first_run(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_say("one").will_say("two")
    await agent.run("first")
    await agent.run("second")

    assert [message.role for message in model.seen[1].messages] == ["user", "assistant", "user"]


async def test_threads_have_separate_histories(agent: Agent, model: ScriptedModel) -> None:
    model.will_say("one").will_say("two")
    await asyncio.gather(agent.run("a", thread="a"), agent.run("b", thread="b"))

    assert [len(context.messages) for context in model.seen] == [1, 1]
    assert len(agent.messages(thread="a")) == 2


async def test_run_events_are_complete_and_in_order(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("done")

    run = agent.start("go")
    events = [event async for event in run.events()]

    assert_event_grammar(events)
    assert isinstance(await run.outcome, Done)


async def test_run_accepts_steering_and_follow_up_messages(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("echo", text="a").will_say("looked").will_say("tested")

    run = agent.start("go")
    async for event in run.events():
        if isinstance(event, ToolExecutionStart):
            run.steer("look at CI first")
            run.follow_up("then write a test")
    outcome = await run.outcome

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == "tested"
    assert model.seen[1].messages[-1].text.endswith("look at CI first")  # type: ignore[union-attr]
    assert model.seen[2].messages[-1].text == "then write a test"  # type: ignore[union-attr]


@pytest.mark.parametrize(("way", "reason"), [("abort", "user"), ("interject", "interject")])
async def test_run_ends_cancelled_on_abort_or_interject(
    agent: Agent, model: ScriptedModel, way: str, reason: str
) -> None:
    model.will_call("echo", text="a").will_say("never")

    run = agent.start("go")
    async for event in run.events():
        if isinstance(event, ToolExecutionStart):
            getattr(run, way)()

    assert await run.outcome == Cancelled(reason=reason)
    assert_balanced(agent.messages())


@pytest.mark.parametrize("way", ["run", "run_turn"])
async def test_cancelling_the_run_task_stops_the_run(
    agent: Agent, model: ScriptedModel, way: str
) -> None:
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    model.will(Reply(text="never", wait=forever)).will_say("here")
    run = asyncio.ensure_future(getattr(agent, way)("go"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert_balanced(agent.messages())
    assert (await agent.run("again")).response == "here"


async def test_run_outcome_is_available_after_an_earlier_wait_timed_out(
    agent: Agent, model: ScriptedModel
) -> None:
    go_on = asyncio.Event()
    model.will(Reply(text="done", wait=go_on.wait))
    run = agent.start("go")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.outcome, 0)
    go_on.set()

    assert isinstance(await run.outcome, Done)
    assert isinstance(await run, Done)


async def test_a48_abort_before_start_calls_no_model_and_keeps_the_prompt(
    agent: Agent, model: ScriptedModel
) -> None:
    run = agent.start("go")
    run.abort()

    assert await run.outcome == Cancelled(reason="user")
    assert model.seen == []
    assert [message.role for message in agent.messages()] == ["user"]
    assert list(run.unsent) == []


async def test_a55_provider_crash_fails_the_run_and_agent_stays_usable(
    agent: Agent, model: ScriptedModel
) -> None:
    def crash(context: Any) -> Any:
        raise KeyError("choices")

    model.will(crash).will_say("pong")

    with pytest.raises(LoopError, match="KeyError") as caught:
        await agent.run("ping")
    assert isinstance(caught.value.outcome, Failed)
    assert (await agent.run("again")).response == "pong"


async def test_agent_without_asker_denies_calls_that_need_approval(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call_all(("echo", {"text": "a"}), ("deploy", {"target": "prod"})).will_say("ok")

    result = await agent.run("ship it")

    assert agent_tools.tool_log == ["echo a"]
    assert results(result.messages)[1].startswith("Permission denied")


@pytest.mark.parametrize("answer", [True, PermissionAnswer(effect="allow")])
async def test_asker_function_can_allow_a_call(model: ScriptedModel, answer: Any) -> None:
    model.will_call("deploy", target="prod").will_say("ok")
    asked: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> Any:
        asked.append(request)
        return answer

    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, asker=ask) as agent:
        await agent.run("ship it")

    assert agent_tools.tool_log == ["deploy prod"]
    assert [(r.tool_name, r.claims[0].op, r.claims[0].resource) for r in asked] == [
        ("deploy", "plugin", "deploy")
    ]


async def test_asker_that_returns_none_does_not_allow_the_call(model: ScriptedModel) -> None:
    model.will_call("deploy", target="prod").will_say("ok")

    def ask(request: PermissionRequest) -> Any:
        return None

    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, asker=ask) as agent:
        await agent.run("ship it")

    assert agent_tools.tool_log == []


async def test_allow_and_deny_rules_apply_without_asking(model: ScriptedModel) -> None:
    model.will_call_all(("deploy", {"target": "prod"}), ("echo", {"text": "a"})).will_say("ok")

    async with Agent(
        stream_fn=model.stream_fn, tools=TOOLS, allow=["plugin:deploy"], deny=["read:echo"]
    ) as agent:
        await agent.run("go")

    assert agent_tools.tool_log == ["deploy prod"]


async def test_asker_abort_ends_the_run_as_cancelled(model: ScriptedModel) -> None:
    model.will_call("deploy", target="prod").will_say("never")
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, asker="abort") as agent:
        assert await agent.start("go").outcome == Cancelled(reason="on-ask")


async def test_plain_agent_reads_no_settings_files(
    model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("this is no TOML")
    monkeypatch.setenv("DIRGE_CONFIG_DIR", str(tmp_path))
    model.will_say("pong")

    async with Agent(stream_fn=model.stream_fn) as agent:
        assert (await agent.run("ping")).response == "pong"

    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml"]


def test_a103_two_tools_with_the_same_name_are_refused(model: ScriptedModel) -> None:
    with pytest.raises(ConfigError, match="Two tools are named `echo`"):
        Agent(stream_fn=model.stream_fn, tools=[*TOOLS, echo])


async def test_a102_tools_of_parallel_runs_see_their_own_agents_app_and_cwd(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool(op="read")
    async def whereabouts(ctx: ToolContext) -> str:
        """Return the agent of this tool."""
        async with both:
            return f"{ctx.app} in {Path(ctx.cwd).name}"

    async def whereabouts_in(name: str) -> list[str]:
        (tmp_path / name).mkdir()
        model = ScriptedModel().will_call("whereabouts").will_say("ok")
        places: Any = {"app": f"app of {name}", "cwd": tmp_path / name}
        async with Agent(stream_fn=model.stream_fn, tools=[whereabouts], **places) as agent:
            return results((await agent.run("go")).messages)

    assert await asyncio.gather(whereabouts_in("a"), whereabouts_in("b")) == [
        ["app of a in a"],
        ["app of b in b"],
    ]


async def test_from_config_reads_settings_and_stores_a_session(
    model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    settings = tmp_path / "settings.toml"
    settings.write_text('[providers.x]\ntype = "scripted"\nscript = "s.toml"\n')
    (tmp_path / "s.toml").write_text('[[replies]]\ntext = "pong"\n')
    model.will_call("read", path="a.txt").will_say("pong")

    async with Agent.from_config(settings, stream_fn=model.stream_fn) as agent:
        result = await agent.run("ping")

    assert "1: one" in results(result.messages)[0]
    assert list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "settings",
    [
        None,
        "",
        '[providers.a]\ntype = "openai"\n[providers.b]\ntype = "anthropic"\n',
        'provider = "ollama"\n',
        '[providers.mine]\ntype = "ollama"\n',
    ],
)
async def test_from_config_with_stream_function_needs_no_provider(
    model: ScriptedModel, tmp_path: Path, settings: str | None
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    path = tmp_path / "settings.toml" if settings is not None else None
    if path is not None:
        path.write_text(settings or "")
    model.will_call("read", path="a.txt").will_say("pong")

    async with Agent.from_config(path, stream_fn=model.stream_fn) as agent:
        result = await agent.run("ping", thread="t")
    model.will_say("again")
    async with Agent.from_config(path, stream_fn=model.stream_fn) as agent:
        assert (await agent.run("and now?", thread="t")).response == "again"

    assert result.response == "pong"
    assert "1: one" in results(result.messages)[0]
    answers = [message for message in result.messages if isinstance(message, AssistantMessage)]
    assert {answer.model for answer in answers} == {"own/model"}


async def test_from_config_with_stream_function_still_rejects_unknown_provider(
    model: ScriptedModel, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('provider = "opnai"\n')
    with pytest.raises(ConfigError, match="opnai"):
        Agent.from_config(settings, stream_fn=model.stream_fn).start("go")


async def test_from_config_without_stream_function_or_provider_raises_no_provider() -> None:
    with pytest.raises(NoProvider, match="no model"):
        Agent.from_config().start("go")


async def test_missing_api_key_or_model_raises_an_error_at_start(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(NoProvider, match="ANTHROPIC_API_KEY"):
        Agent(model="anthropic/claude-sonnet-5").start("go")
    with pytest.raises(ConfigError, match="no model"):
        Agent().start("go")


async def test_agent_that_cannot_start_creates_no_session(
    model: ScriptedModel, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    for agent in (
        Agent(journal=kept),
        Agent(journal=kept, stream_fn=model.stream_fn, allow=["nonsense"]),
    ):
        with pytest.raises(DirgeError):
            agent.start("go")

    assert not kept.exists()


async def test_provider_uses_api_key_and_base_url_environment_variables(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-1234567890")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    clock = FakeClock(is_eager=True)

    async with Agent(model="anthropic/claude-sonnet-5:high", clock=clock) as agent:
        run = agent.start("go")
        events = [event async for event in run.events()]
        outcome = await run.outcome

    assert isinstance(outcome, Failed) and outcome.kind == "network"
    assert len([event for event in events if isinstance(event, RetryNotice)]) == 5
    assert "sk-test" not in repr(outcome)


async def test_any_async_generator_of_stream_events_can_be_the_provider() -> None:
    async def shout(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        yield TextDelta(f"{options.model}: {context.messages[-1].text.upper()}")  # type: ignore[union-attr]
        yield StreamDone()

    async with Agent(model="house/shouter", stream_fn=shout) as agent:
        assert (await agent.run("hello")).response == "house/shouter: HELLO"


async def test_interceptor_wraps_a_tool_call(model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("ok")
    heard: list[str] = []

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        heard.append(f"before {call.name}")
        result = await proceed()
        heard.append("after")
        return text_result(result.text.upper())

    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, interceptors=[around]) as agent:
        result = await agent.run("go")

    assert heard == ["before echo", "after"]
    assert results(result.messages) == ["A"]


async def test_hook_factory_is_called_once_per_run(model: ScriptedModel) -> None:
    model.will_say("one").will_say("two")
    made: list[int] = []

    def counting() -> Hooks:
        made.append(0)

        def count(info: TurnInfo) -> bool:
            made[-1] += 1
            return False

        return Hooks(name="counting", should_stop_after_turn=count)

    async with Agent(stream_fn=model.stream_fn, bundles=[counting]) as agent:
        await agent.run("a")
        await agent.run("b")

    assert made == [1, 1]


def no_secrets(text: str) -> Verdict:
    return Trip("it names the password") if "hunter2" in text else Pass()


async def test_guardrail_blocks_a_prompt(model: ScriptedModel) -> None:
    async with Agent(stream_fn=model.stream_fn, guardrails=[no_secrets]) as agent:
        run = agent.start("log in with hunter2")
        outcome = await run.outcome

        assert isinstance(outcome, HookTerminated) and outcome.point == "before_prompt"
        assert [message.text for message in run.unsent] == ["log in with hunter2"]
        assert list(agent.messages()) == []
    assert model.seen == []


async def test_guardrail_withholds_a_final_answer(model: ScriptedModel) -> None:
    model.will_say("it is hunter2")
    async with Agent(stream_fn=model.stream_fn, guardrails={"output": [no_secrets]}) as agent:
        outcome = await agent.start("tell").outcome

        assert isinstance(outcome, HookTerminated) and outcome.point == "output"
        assert "hunter2" not in str(agent.messages())


async def test_guardrail_withholds_a_tool_result(model: ScriptedModel) -> None:
    model.will_call("echo", text="hunter2").will_say("ok")
    checks: dict[Any, Any] = {"tool_result": [no_secrets]}
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, guardrails=checks) as agent:
        result = await agent.run("go")

    [kept] = [message for message in result.messages if isinstance(message, ToolResultMessage)]
    assert kept.is_error and "hunter2" not in kept.text


async def test_a43_limit_error_names_the_exceeded_limit(model: ScriptedModel) -> None:
    for used in (50_000, 50_123):
        model.will_say("x", usage=Usage(output=used))
    most = Limits(output_tokens=50_000)

    async with Agent(stream_fn=model.stream_fn, limits=most) as agent:
        assert (await agent.run("fits")).response == "x"
        with pytest.raises(LoopError) as caught:
            await agent.run("does not")

    assert isinstance(caught.value.outcome, LimitExceeded)
    assert "output token limit exceeded: 50123 > 50000" in caught.value.message


async def test_a43_first_of_several_exceeded_limits_is_reported(model: ScriptedModel) -> None:
    model.will_say("x", usage=Usage(input=60, output=60))
    most = Limits(input_tokens=50, output_tokens=50, tokens=100, cost_usd=0.0)

    async with Agent(stream_fn=model.stream_fn, limits=most) as agent:
        outcome = await agent.start("go").outcome

    assert outcome == LimitExceeded(name="input_tokens", used=60, max=50)


async def test_a54_every_outcome_but_done_raises_loop_error_with_outcome(
    model: ScriptedModel,
) -> None:
    model.will_call("echo", text="a").will_call("deploy", target="x")
    model.will_fail("no", kind="refused").will_fail("no", kind="auth")
    outcomes: list[Outcome] = []

    async def ended(**given: Any) -> None:
        async with Agent(stream_fn=model.stream_fn, tools=TOOLS, **given) as agent:
            with pytest.raises(LoopError) as caught:
                await agent.run("go")
            assert caught.value.message
            assert isinstance(caught.value.outcome, Outcome)
            outcomes.append(caught.value.outcome)

    await ended(max_turns=1)
    await ended(asker="defer")
    await ended()
    await ended()

    kinds = [MaxTurns, AwaitingConfirmation, Refused, Failed]
    assert [type(outcome) for outcome in outcomes] == kinds


async def test_tool_progress_is_emitted_while_the_tool_runs(model: ScriptedModel) -> None:
    @tool(op="read")
    def slow(ctx: dirge_py.ToolContext) -> str:
        ctx.progress(f"half of {ctx.app}")
        return "whole"

    model.will_call("slow").will_say("ok")
    async with Agent(stream_fn=model.stream_fn, tools=[slow], app="it") as agent:
        run = agent.start("go")
        events = [event async for event in run.events()]

    assert [e.partial_result.text for e in events if e.type == "tool_execution_update"] == [  # type: ignore[union-attr]
        "half of it"
    ]


async def test_internal_progress_does_not_replace_the_progress_for_the_user(
    model: ScriptedModel,
) -> None:
    @tool(op="read")
    def slow(ctx: dirge_py.ToolContext) -> str:
        ctx.progress("half", 1, 2)
        ctx.progress("trying the mirror", audience="internal")
        ctx.progress("trying the other mirror", audience="internal")
        return "whole"

    model.will_call("slow").will_say("ok")
    async with Agent(stream_fn=model.stream_fn, tools=[slow]) as agent:
        run = agent.start("go")
        await run
        events = [event async for event in run.events()]

    updates = [e.partial_result for e in events if e.type == "tool_execution_update"]  # type: ignore[union-attr]
    # A late reader gets the last report for each audience.
    assert [update.text for update in updates] == ["half", "trying the other mirror"]
    assert [update.details.get("audience") for update in updates] == [None, "internal"]


async def test_prompt_can_be_text_or_blocks(agent: Agent, model: ScriptedModel) -> None:
    model.will_say("a").will_say("b")
    await agent.run(Text("one"))
    await agent.run(Blocks((TextBlock("two"), TextBlock("three"))))

    assert [m.text for m in agent.messages() if m.role == "user"] == ["one", "two\nthree"]


async def test_second_concurrent_run_in_a_thread_is_refused(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_say("one")
    run = agent.start("first")
    with pytest.raises(DirgeError, match="a run is active"):
        agent.start("second")
    assert isinstance(await run.outcome, Done)


async def test_stalled_event_reader_is_reported_to_other_readers(model: ScriptedModel) -> None:
    for number in range(60):
        model.will_call("echo", text=str(number))
    model.will_say("done")
    clock = FakeClock(is_eager=True)

    async with Agent(stream_fn=model.stream_fn, tools=[echo], clock=clock) as agent:
        run = agent.start("go")
        stuck = run.events()
        heard = [event async for event in run.events()]
        assert isinstance(await run.outcome, Done)

    assert clock.slept.count(30.0) == 1
    assert any(isinstance(event, SystemNotice) for event in heard)
    assert any(isinstance(event, MessageUpdate) for event in heard)
    assert stuck.seq == 0


def test_importing_dirge_py_loads_only_its_version_module() -> None:
    code = "import sys, dirge_py; print(sorted(m for m in sys.modules if 'dirge' in m), 'typing' in sys.modules)"  # noqa: E501
    bare = "import sys; print('typing' in sys.modules)"
    loaded = _python(code)
    assert loaded.startswith("['dirge_py', 'dirge_py.lib', 'dirge_py.lib.version']")
    assert loaded.split()[-1] == _python(bare).split()[-1]


def test_every_name_in_all_exists() -> None:
    assert [name for name in dirge_py.__all__ if getattr(dirge_py, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        dirge_py.Agnet  # noqa: B018


def _python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


async def test_agent_sampling_is_passed_to_the_model(model: ScriptedModel) -> None:
    seen = []

    def stream_fn(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        seen.append(options.sampling)
        return model.stream_fn(context, options, signal)

    model.will_say("Hello.")
    sampling = Sampling(temperature=0.2, extra={"seed": 3})
    async with Agent(stream_fn=stream_fn, sampling=sampling) as agent:
        await agent.run("Hi.")

    assert seen == [sampling]


async def test_agent_sampling_with_a_reserved_key_raises_config_error(model: ScriptedModel) -> None:
    async with Agent(stream_fn=model.stream_fn, sampling=Sampling(extra={"tools": []})) as agent:
        with pytest.raises(ConfigError, match="dirge itself writes `tools`"):
            await agent.run("Hi.")


async def test_build_option_sampling_replaces_sampling_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIRGE_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "config.toml"
    with FakeService([ModelReply(text="Hello.")]) as service:
        file.write_text(
            f'[providers.work]\ntype = "ollama"\nbase_url = "{service.url("ollama")}"\n'
            'model = "m"\n'
            "temperature = 0.9\ntop_p = 0.5\n[session]\nsave = false\nsnapshots = false\n"
        )
        options = BuildOptions(sampling=Sampling(temperature=0.1))
        async with Agent.from_config(file, options=options) as agent:
            await agent.run("Hi.")
        sent = service.requests[-1].json["options"]

    assert (sent["temperature"], sent["top_p"]) == (0.1, 0.5)


async def test_system_prompt_sections_are_sorted_by_priority() -> None:
    model = ScriptedModel().will_say("hi")
    sections = [
        Section(name="rules", priority=10, text="Keep to the rules."),
        Section(name="role", priority=0, text="You are a clerk."),
    ]
    await Agent("m", stream_fn=model.stream_fn, system_prompt=sections).run("hello")
    assert model.seen[0].system_prompt == "You are a clerk.\n\nKeep to the rules."
