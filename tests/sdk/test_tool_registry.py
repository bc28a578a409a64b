"""The tools of an agent: registered, described and called without a model."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from dirge_py import Agent, Hints, ToolFailed, tool
from dirge_py.conversation.deps import ForkOptions
from dirge_py.extensions.guardrails.checks import Pass, Trip, Verdict
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.testing import ScriptedModel
from dirge_py.tools.function_tool import FunctionTool
from dirge_py.types.errors import ConfigError, DirgeError, UsageError
from dirge_py.types.events import LoopEvent
from dirge_py.types.hooks import AfterToolCallResult, Hooks, TurnInfo
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionRequest
from dirge_py.types.tools import Claim, LoopToolResult, Proceed, ToolCall, text_result
from tests.support import agent_tools
from tests.support.agent_tools import TOOLS, tool_log
from tests.support.project import ScriptedProject


@pytest.fixture(autouse=True)
def empty_tool_log() -> Iterator[None]:
    agent_tools.tool_log.clear()
    yield


@pytest.fixture
async def agent(model: ScriptedModel) -> AsyncIterator[Agent]:
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS) as agent:
        yield agent


def named(name: str, answer: str = "") -> FunctionTool[..., Any]:
    @tool(name=name, op="read", hints=Hints(read_only=True))
    def made(key: str = "") -> str:
        """Look up a value by key."""
        return answer or f"{name} {key}".strip()

    return made


def other_details(info: TurnInfo, call: ToolCall, result: LoopToolResult) -> AfterToolCallResult:
    return AfterToolCallResult(details={"other": True})


async def test_registered_tool_is_offered_from_the_next_run_on(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_say("one").will_call("lookup", key="a").will_say("two").will_say("three")
    await agent.run("first")
    agent.tools.register(named("lookup"))
    result = await agent.run("second")
    await agent.run("third", thread="other")

    offered = [[spec.name for spec in context.tools] for context in model.seen]
    assert offered == [["echo", "deploy"], *[["echo", "deploy", "lookup"]] * 3]
    assert "lookup a" in [message.text for message in result.messages if message.role != "custom"]


async def test_duplicate_tool_name_is_refused_unless_replace_is_set(
    agent: Agent,
) -> None:
    with pytest.raises(ConfigError, match="There is a tool `echo` already"):
        agent.tools.register(named("echo"))

    agent.tools.register(named("echo", "new"), replace=True)

    assert [each.name for each in agent.tools] == ["echo", "deploy"]
    assert (await agent.tools.execute("echo")).text == "new"


@pytest.mark.parametrize("workspace", ["shared", "read_only", "copy"])
async def test_forks_get_registered_tools(
    project: ScriptedProject, workspace: Literal["shared", "read_only", "copy"]
) -> None:
    async with project.open() as conversation:
        for added in (named("lookup"), named("read", "instead of the built-in one")):
            conversation.put_tool(added)
        fork = await conversation.fork(ForkOptions(workspace=workspace))
        limited = await conversation.fork(ForkOptions(workspace=workspace, tools=["read"]))
        assert "lookup" in fork.tool_names
        [read] = limited.tools
        assert read.description == "Look up a value by key."
        await fork.close()
        await limited.close()


async def test_direct_tool_call_uses_no_model_and_leaves_history_unchanged(
    agent: Agent, model: ScriptedModel
) -> None:
    events: list[LoopEvent] = []
    result = await agent.tools.execute("echo", {"text": "hi"}, on_event=events.append)

    assert (result.text, result.is_error) == ("hi", False)
    assert (model.seen, agent.messages()) == ([], ())
    assert "tool_execution_end" in [event.type for event in events]


async def test_direct_tool_call_that_needs_approval_is_denied(agent: Agent) -> None:
    result = await agent.tools.execute("deploy", {"target": "prod"})

    assert (result.is_error, result.details["outcome"], tool_log) == (True, "denied", [])


async def test_direct_tool_call_follows_rules_and_asker_of_the_agent(model: ScriptedModel) -> None:
    asked: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> bool:
        asked.append(request)
        return True

    async with Agent(
        stream_fn=model.stream_fn, tools=TOOLS, asker=ask, deny=["plugin:deploy"]
    ) as denying:
        denied = await denying.tools.execute("deploy", {"target": "a"})
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, asker=ask) as asking:
        allowed = await asking.tools.execute("deploy", {"target": "b"})

    assert (denied.details["outcome"], allowed.text) == ("denied", "shipped to b")
    assert [request.tool_name for request in asked] == ["deploy"]


async def test_direct_tool_call_that_would_be_deferred_is_denied(model: ScriptedModel) -> None:
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, asker="defer") as agent:
        result = await agent.tools.execute("deploy", {"target": "a"})

    assert "nobody can decide it later" in result.text
    assert (result.details["outcome"], tool_log) == ("denied", [])


async def test_interceptors_and_guardrails_apply_to_direct_tool_calls(model: ScriptedModel) -> None:
    seen: list[str] = []

    async def note(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        seen.append(call.name)
        return await proceed()

    def no_keys(text: str) -> Verdict:
        return Trip("it holds a key") if "sk-" in text else Pass()

    async with Agent(
        stream_fn=model.stream_fn,
        tools=TOOLS,
        interceptors=[note],
        guardrails={"tool_result": [no_keys]},
    ) as agent:
        result = await agent.tools.execute("echo", {"text": "sk-123"})

    assert seen == ["echo"]
    assert "sk-123" not in result.text


async def test_same_direct_tool_call_can_be_repeated(agent: Agent) -> None:
    results = [await agent.tools.execute("echo", {"text": "a"}) for _ in range(12)]

    assert {result.text for result in results} == {"a"}


@pytest.mark.parametrize("arguments", [{}, {"text": 3}, {"text": "a", "more": 1}])
async def test_direct_tool_call_with_wrong_arguments_is_not_repaired(
    agent: Agent, arguments: dict[str, Any]
) -> None:
    result = await agent.tools.execute("echo", arguments)

    assert (result.is_error, result.details["outcome"], tool_log) == (True, "invalid", [])


async def test_failing_tool_returns_an_error_result(agent: Agent) -> None:
    @tool(op="read")
    def fail() -> str:
        """Fail."""
        raise ToolFailed("No such key. Try another.")

    agent.tools.register(fail)

    assert (await agent.tools.execute("fail")).text == "No such key. Try another."


async def test_unknown_tool_error_suggests_the_nearest_name(agent: Agent) -> None:
    with pytest.raises(UsageError) as refused:
        await agent.tools.execute("ecco")

    assert refused.value.hint == "Did you mean `echo`?"


async def test_direct_tool_call_during_a_run_of_its_thread_is_refused(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_say("done")
    run = agent.start("go")
    with pytest.raises(DirgeError, match="a run is active"):
        await agent.tools.execute("echo", {"text": "a"})
    await run.outcome


async def test_cancelled_direct_call_aborts_the_tool(agent: Agent) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(op="read")
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    agent.tools.register(wait)
    call = asyncio.ensure_future(agent.tools.execute("wait"))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert ended.is_set()


@pytest.mark.parametrize("bundles", [(), (Hooks(name="other", after_tool_call=other_details),)])
async def test_result_over_the_limit_of_its_tool_is_truncated(
    model: ScriptedModel, bundles: Sequence[Hooks]
) -> None:
    @tool(op="read", max_result_chars=1_000)
    def fetch() -> str:
        """Fetch."""
        return "x" * 5_000

    model.will_call("fetch").will_say("done")
    async with Agent(stream_fn=model.stream_fn, tools=[fetch], bundles=bundles) as agent:
        await agent.run("Fetch it.")

    sent = model.seen[-1].messages[-1]
    assert isinstance(sent, ToolResultMessage) and sent.text.count("x") == 1_000
    assert "[truncated — 5000 chars total; " in sent.text


async def test_definitions_contain_title_annotations_and_schemas(agent: Agent) -> None:
    @tool(op="read", title="Count all", output_schema={"type": "integer"})
    def count() -> int:
        """Count."""
        return 1

    agent.tools.register(count)
    agent.tools.register(named("lookup"))
    *_, counting, looking = agent.tools.definitions()

    assert (counting["title"], counting["outputSchema"]) == ("Count all", {"type": "integer"})
    assert looking["annotations"] == {"readOnlyHint": True}
    assert looking["inputSchema"]["properties"].keys() == {"key"}


def test_definitions_are_identical_in_every_process() -> None:
    code = (
        "import json; from dirge_py import Agent; from tests.support.agent_tools import TOOLS\n"
        "agent = Agent(stream_fn=print, tools=TOOLS)\n"
        "print(json.dumps(agent.tools.definitions()))"
    )
    written = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert written[0] == written[1]
    assert [each["name"] for each in json.loads(written[0])] == ["echo", "deploy"]


async def test_thread_stays_open_for_a_direct_call_after_its_run_ends(
    model: ScriptedModel, tmp_path: Path
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @tool(op="read")
    async def slow() -> str:
        """Wait."""
        began.set()
        await may_end.wait()
        return "end"

    model.will_say("Hi.")
    async with Agent(stream_fn=model.stream_fn, tools=[slow], journal=tmp_path / "j") as agent:
        call = asyncio.ensure_future(agent.tools.execute("slow", thread="a"))
        await began.wait()
        await agent.run("hi", thread="a")
        was_open = agent._threads.is_open("a")
        may_end.set()
        result = await call
        assert (was_open, result.text, agent._threads.is_open("a")) == (True, "end", False)


class Ready:
    """A tool of the loop itself, which needs no services."""

    name = label = description = "ready"
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    execution_mode = None

    def prepare_arguments(self, arguments: Any) -> Any:
        return arguments

    def claims(self, arguments: Mapping[str, Any]) -> list[Claim]:
        return [Claim("read", os.path.abspath("note.txt"))]

    async def execute(self, *_call: object) -> LoopToolResult:
        return text_result("ran")


async def test_from_config_tools_follow_permission_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "note.txt").write_text("plover\n")
    file = tmp_path / "config.toml"
    file.write_text(
        '[providers.work]\ntype = "ollama"\nmodel = "m"\n'
        '[[permission.rule]]\nop = "edit"\nmatch = "**"\neffect = "deny"\n'
    )
    monkeypatch.chdir(project)
    monkeypatch.setenv("DIRGE_STATE_DIR", str(tmp_path / "state"))
    options = BuildOptions(session=SessionChoice(kind="none"))
    async with Agent.from_config(file, options=options) as agent:
        agent.tools.register(named("lookup"))
        read = await agent.tools.execute("read", {"path": "note.txt"})
        wrote = await agent.tools.execute("write", {"path": "new.txt", "content": "x"})
        looked = await agent.tools.execute("lookup", {"key": "a"})

        agent.tools.register(Ready())
        assert (await agent.tools.execute("ready")).text == "ran"

    assert "plover" in read.text and looked.text == "lookup a"
    assert wrote.details["outcome"] == "denied" and not (project / "new.txt").exists()


async def test_direct_call_and_fork_leave_the_reported_order_of_hooks_as_it_is(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        project.model.will_say("one").will_say("two")
        await conversation.send("first")
        plugins = conversation.extension(Plugins)
        assert plugins is not None
        order = plugins.order()
        [read] = [each for each in conversation.tools if each.name == "read"]
        await conversation.call_tool(read, {"path": "missing"}, lambda event: None)
        fork = await conversation.fork(ForkOptions())
        await fork.send("second")
        await fork.close()
        assert len(order) > 2
        assert plugins.order() == order
