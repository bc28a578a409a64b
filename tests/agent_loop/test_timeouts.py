import asyncio
import os

import pytest

from dirge_py.agent_loop import LoopConfig, ToolOverride
from dirge_py.agent_loop.cancellation import Aborted, timeout_interceptor
from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.tools.base import ToolServices
from dirge_py.tools.bash import TOOL as BASH
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import ToolExecutionEnd
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.types.tools import ToolCall, text_result
from tests.support.loop_runs import Tool, a_breath, boom, forever, run_loop, stubborn


def limited(default_s=0.02, per_tool=None):
    return LoopConfig(interceptors=[timeout_interceptor(default_s, per_tool or {})])


def calling(*names):
    model = ScriptedModel()
    return model.will_call_all(*[(name, {}) for name in names]).will_say("on we go")


@pytest.mark.parametrize("body", [forever, stubborn])
async def test_a16_tool_over_its_time_limit_is_stopped_with_an_error(body):
    run = await run_loop(calling("grep"), "go", tools=[Tool("grep", body)], config=limited())

    (result,) = run.results
    assert result.is_error
    assert result.details == {"outcome": "timeout", "timeout_s": 0.02}
    assert result.text.startswith("`grep` timed out after 0.02 s")
    assert isinstance(run.outcome, Done) and run.new[-1].text == "on we go"
    assert_balanced(run.new)


async def test_a16_time_limit_of_a_single_tool_is_applied():
    config = limited(0.02, {"patient": 60, "hasty": 0.02})
    tools = [Tool("patient", a_breath), Tool("hasty", forever)]
    run = await run_loop(calling("patient", "hasty"), "go", tools=tools, config=config)
    assert run.outcomes == ["ok", "timeout"]


@pytest.mark.parametrize(
    ("default_s", "per_tool", "own_s"),
    [(0, {}, None), (0.001, {"slow": 0}, None), (0.001, {}, 0.0)],
)
async def test_tool_without_a_limit_can_run_longer_than_the_default(default_s, per_tool, own_s):
    gate = asyncio.Event()

    async def slow(*_):
        await gate.wait()
        return text_result("done")

    asyncio.get_running_loop().call_later(0.05, gate.set)
    tool = Tool("slow", slow)
    tool.timeout_s = own_s
    run = await run_loop(calling("slow"), "go", tools=[tool], config=limited(default_s, per_tool))
    assert run.outcomes == ["ok"]


async def test_setting_limits_a_tool_that_times_itself():
    config = limited(60, {"bash": 0.02})
    tool = Tool("bash", forever)
    tool.timeout_s = 0.0
    run = await run_loop(calling("bash"), "go", tools=[tool], config=config)
    assert run.outcomes == ["timeout"]


async def test_permission_question_does_not_count_toward_the_time_limit():
    answered = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, answered.set)

    async def ask(_info, _call):
        await answered.wait()
        return ToolOverride("no", details={"outcome": "denied"})

    config = LoopConfig(
        interceptors=[timeout_interceptor(0.001, {})],
        before_tool_call=ask,
    )
    run = await run_loop(calling("grep"), "go", tools=[Tool("grep", forever)], config=config)
    assert run.outcomes == ["denied"]


async def test_error_within_the_time_limit_keeps_its_message():
    run = await run_loop(calling("grep"), "go", tools=[Tool("grep", boom)], config=limited(60))
    assert (run.outcomes, run.results[0].text) == (["error"], "nothing matched")


async def test_abort_ends_a_call_before_its_time_limit():
    signal = AbortSignal()

    async def body(*_):
        signal.abort()
        await forever()

    tools = [Tool("grep", body)]
    run = await run_loop(calling("grep"), "go", tools=tools, config=limited(60), signal=signal)
    assert (run.outcomes, run.outcome) == (["aborted"], Cancelled(reason="user"))


async def test_aborted_error_inside_a_call_is_not_a_timeout():
    async def proceed():
        raise Aborted

    around = timeout_interceptor(60, {})
    with pytest.raises(Aborted):
        await around(ToolCall(id="1", name="grep", arguments={}), proceed)


async def test_a16_timed_out_command_leaves_no_process_running(tmp_path):
    runner = Runner(EnvironmentPolicy())
    services = ToolServices(
        files=Workspace([tmp_path], str(tmp_path)),
        processes=runner,
        outputs=OutputStore(tmp_path / "output"),
    )
    tools = Toolbox([BASH], services, str(tmp_path)).loop_tools
    model = ScriptedModel()
    model.will_call("bash", command="sleep 300 & echo $! > pid; sleep 300").will_say("ok")

    run = await run_loop(model, "go", tools=tools, config=limited(60, {"bash": 1}))
    pid = (tmp_path / "pid").read_text().strip()
    async with asyncio.timeout(10):
        while os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC110 - it sets no event of ours
            await asyncio.sleep(0)
    await runner.shutdown()

    assert "`bash` timed out after 1 s" in run.results[0].text
    assert run.recorder.of(ToolExecutionEnd)[0].duration_ms < 10_000
