"""Batches of calls run in parallel if every call is read-only."""

from typing import Any

import pytest

from dirge_py.agent_loop import Hooks, LoopConfig, compose
from dirge_py.agent_loop.tool_calls import NEVER_RAN
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import Hints
from dirge_py.types.abort import AbortSignal
from dirge_py.types.hooks import Defer, EditArgs
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.tools import Claim, LoopToolResult, ShellCommand, text_result
from tests.support.guarded_runs import ClaimingTool
from tests.support.loop_runs import a_breath, run_loop

READ = [Claim("read", "/w/f")]
EDIT = [Claim("edit", "/w/f")]
LOOK = [Claim("execute", ShellCommand("cat f", "/w"))]
TOUCH = [Claim("execute", ShellCommand("touch f", "/w"))]
LATER = [Claim("execute", ShellCommand("cat f", "/w"), in_background=True)]


def asking(*calls: Any) -> ScriptedModel:
    return ScriptedModel().will_call_all(*calls).will_say("done")


def cannot_tell(_arguments: Any) -> list[Claim]:
    raise ValueError("no idea")


def is_read_only(command: ShellCommand) -> bool:
    return command.text.startswith("cat")


@pytest.mark.parametrize(
    ("mode", "claims", "together"),
    [
        (None, [], True),
        (None, READ, True),
        (None, [Claim("meta", "x")], True),
        (None, LOOK, True),
        (None, [*LOOK, *READ], True),
        (None, EDIT, False),
        (None, [*READ, *EDIT], False),
        (None, TOUCH, False),
        (None, LATER, False),
        (None, [Claim("other", "x")], False),
        (None, [Claim("execute", "x")], False),
        ("sequential", READ, False),
        ("parallel", EDIT, True),
    ],
)
async def test_batch_is_parallel_by_execution_mode_or_claims_of_its_tools(mode, claims, together):
    tool = ClaimingTool(body=a_breath, execution_mode=mode, claimed=lambda _: claims)
    reader = ClaimingTool("read", a_breath, claimed=lambda _: READ)
    calls = [("read", {}), ("echo", {}), ("read", {})]

    await run_loop(
        asking(*calls), "go", tools=[tool, reader], config=LoopConfig(only_reads=is_read_only)
    )

    assert reader.most_running == (2 if together else 1)


async def test_commands_run_sequentially_without_a_command_judge():
    tool = ClaimingTool(body=a_breath, claimed=lambda _: LOOK)
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 1


async def test_tool_whose_claims_fail_runs_sequentially():
    tool = ClaimingTool(body=a_breath, claimed=cannot_tell)
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 1


async def test_tool_with_read_only_hint_runs_in_parallel():
    tool = ClaimingTool(body=a_breath, claimed=lambda _: [Claim("other", "x")])
    tool.hints = Hints(read_only=True)  # type: ignore[attr-defined]
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 2


class Steps:
    """A tool whose calls log their steps; `change` in the arguments makes a call a change."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.tool = ClaimingTool(body=self._run, claimed=self._claimed)

    def _claimed(self, arguments: Any) -> list[Claim]:
        return EDIT if arguments.get("change") else READ

    async def _run(self, call_id: str, arguments: Any, *_: Any) -> LoopToolResult:
        self.log.append(f"{call_id} begins")
        await a_breath()
        self.log.append(f"{call_id} ends")
        return text_result(str(arguments))

    def judge(self, _info: Any, call: Any) -> None:
        self.log.append(f"{call.id} judged")


async def run_edited(
    steps: Steps, model: ScriptedModel, number: int, *more: Hooks, **given: Any
) -> Any:
    def edit(_info: Any, call: Any) -> EditArgs | None:
        return EditArgs({"change": True}) if call.id == f"echo#{number}" else None

    config = compose(
        Hooks(name="edit", before_tool_call=edit),
        Hooks(name="permission", before_tool_call=steps.judge),
        *more,
    )
    return await run_loop(model, "go", tools=[steps.tool], config=config, **given)


async def test_call_edited_into_a_change_runs_alone():
    steps = Steps()
    run = await run_edited(steps, asking(*[("echo", {})] * 4), 2)

    assert steps.log == [
        *("echo#0 judged", "echo#1 judged", "echo#2 judged"),
        *("echo#0 begins", "echo#1 begins", "echo#0 ends", "echo#1 ends"),
        *("echo#2 begins", "echo#2 ends"),
        # Calls after the change are judged only once it has run.
        *("echo#3 judged", "echo#3 begins", "echo#3 ends"),
    ]
    assert [r.tool_call_id for r in run.results] == [f"echo#{number}" for number in range(4)]
    assert run.results[2].text == "{'change': True}"


async def test_deferred_call_after_an_edited_change_runs_no_call_twice():
    def defer(_info: Any, call: Any) -> Defer | None:
        return Defer("?") if call.id == "echo#2" else None

    steps = Steps()
    deferring = Hooks(name="defer", before_tool_call=defer)
    run = await run_edited(steps, asking(*[("echo", {})] * 4), 1, deferring)

    assert [step for step in steps.log if step.endswith("begins")] == [
        *("echo#0 begins", "echo#1 begins"),
    ]
    assert isinstance(run.outcome, AwaitingConfirmation)
    assert run.outcome.call_ids == ("echo#2", "echo#3")


async def test_an_abort_while_such_a_change_waits_keeps_it_from_running():
    steps, signal = Steps(), AbortSignal()

    def abort(_info: Any, call: Any, _result: Any) -> None:
        signal.abort("user")

    aborting = Hooks(name="abort", after_tool_call=abort)
    run = await run_edited(steps, asking(*[("echo", {})] * 3), 1, aborting, signal=signal)

    assert [step for step in steps.log if step.endswith("begins")] == ["echo#0 begins"]
    assert run.results[1].text == NEVER_RAN.text
