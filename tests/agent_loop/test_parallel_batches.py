"""Which batches of calls run together: those in which every call only looks."""

from typing import Any

import pytest

from dirge_py.agent_loop import Hooks, LoopConfig, compose
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import Hints
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


def looks(command: ShellCommand) -> bool:
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
async def test_a_tool_says_how_its_calls_run_or_their_claims_do(mode, claims, together):
    tool = ClaimingTool(body=a_breath, execution_mode=mode, claimed=lambda _: claims)
    reader = ClaimingTool("read", a_breath, claimed=lambda _: READ)
    calls = [("read", {}), ("echo", {}), ("read", {})]

    await run_loop(asking(*calls), "go", tools=[tool, reader], config=LoopConfig(only_reads=looks))

    assert reader.most_running == (2 if together else 1)


async def test_a_command_counts_as_a_change_where_nothing_judges_commands():
    tool = ClaimingTool(body=a_breath, claimed=lambda _: LOOK)
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 1


async def test_a_call_whose_tool_cannot_tell_what_it_would_do_counts_as_a_change():
    tool = ClaimingTool(body=a_breath, claimed=cannot_tell)
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 1


async def test_a_tool_that_is_marked_as_read_only_only_looks():
    tool = ClaimingTool(body=a_breath, claimed=lambda _: [Claim("other", "x")])
    tool.hints = Hints(read_only=True)  # type: ignore[attr-defined]
    await run_loop(asking(("echo", {}), ("echo", {})), "go", tools=[tool])
    assert tool.most_running == 2


class Steps:
    """A tool whose calls log their steps; `change` in the arguments makes one a change."""

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


async def run_edited(steps: Steps, model: ScriptedModel, number: int, *more: Hooks) -> Any:
    def edit(_info: Any, call: Any) -> EditArgs | None:
        return EditArgs({"change": True}) if call.id == f"echo#{number}" else None

    config = compose(
        Hooks(name="edit", before_tool_call=edit),
        Hooks(name="permission", before_tool_call=steps.judge),
        *more,
    )
    return await run_loop(model, "go", tools=[steps.tool], config=config)


async def test_a_call_that_a_hook_turns_into_a_change_runs_alone():
    steps = Steps()
    run = await run_edited(steps, asking(*[("echo", {})] * 4), 2)

    assert steps.log == [
        *("echo#0 judged", "echo#1 judged", "echo#2 judged"),
        *("echo#0 begins", "echo#1 begins", "echo#0 ends", "echo#1 ends"),
        *("echo#2 begins", "echo#2 ends"),
        # What comes after it is judged after it, and not by what was true before.
        *("echo#3 judged", "echo#3 begins", "echo#3 ends"),
    ]
    assert [r.tool_call_id for r in run.results] == [f"echo#{number}" for number in range(4)]
    assert run.results[2].text == "{'change': True}"


async def test_a_call_that_is_deferred_after_such_a_change_runs_nothing_twice():
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
