"""A plan in a program."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dirge_py import Agent, Done, PlanResult
from dirge_py.plan.approval import Accept, DeferPlan, PlanAnswer, Revise
from dirge_py.plan.document import PlanDocument
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import LoopEvent, PlanPhase
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled

CHECK = "python3 check.py"
PLAN = f"## Steps\n\n1. Write 42 into `total.txt`.\n2. Verify: `{CHECK}`\n"
ITEM = {"requirement": "the total is 42", "status": "verified", "evidence": CHECK}
VERDICT = json.dumps({"verdict": "DONE", "checklist": [ITEM], "missing": ""})


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A workspace in the home folder itself asks before edits.
    monkeypatch.setenv("HOME", str(tmp_path.with_name("home")))
    (tmp_path / "check.py").write_text("assert open('total.txt').read() == '42'\n")
    file = tmp_path / "settings" / "config.toml"
    file.parent.mkdir()
    (file.parent / "empty.toml").write_text("replies = []\n")
    file.write_text(
        '[providers.p]\ntype = "scripted"\nmodel = "m"\nscript = "empty.toml"\n'
        "[loop.gates]\ntodo = 0\n[session]\nsnapshots = false\n"
    )
    return file


@pytest.fixture
async def agent(model: ScriptedModel, settings: Path) -> AsyncIterator[Agent]:
    async with Agent.from_config(settings, stream_fn=model.stream_fn) as agent:
        yield agent


def will_look(model: ScriptedModel) -> ScriptedModel:
    return model.will_say("`check.py` reads it.").will_say(PLAN)


def will_do(model: ScriptedModel) -> ScriptedModel:
    return (
        model.will_call("write", path="total.txt", content="42")
        .will_say("Written.")
        .will_call("bash", command=CHECK)
        .will_say(f"It holds.\n\n```json\n{VERDICT}\n```")
    )


async def test_plan_is_implemented_and_verified(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    will_do(will_look(model))
    heard: list[LoopEvent] = []

    result = await agent.plan("Make the total 42.", on_event=heard.append)

    assert isinstance(result, PlanResult)
    assert isinstance(result.outcome, Done), result
    assert result.plan == PLAN.strip()
    assert CHECK in result.report
    assert (tmp_path / "total.txt").read_text() == "42"
    ended = [e.phase for e in heard if isinstance(e, PlanPhase) and e.state == "ended"]
    assert ended == ["explore", "plan", "implement", "review"]


async def test_accept_function_can_revise_and_edit_the_plan(
    agent: Agent, model: ScriptedModel
) -> None:
    will_do(will_look(model).will_say(PLAN))
    seen: list[PlanDocument] = []

    async def accept(plan: PlanDocument) -> PlanAnswer:
        seen.append(plan)
        return Revise("smaller steps") if len(seen) == 1 else Accept(f"{plan.text}\nMy words.")

    result = await agent.plan("Make the total 42.", accept=accept)

    assert isinstance(result.outcome, Done)
    assert [plan.verify for plan in seen] == [(CHECK,), (CHECK,)]
    assert "smaller steps" in model.seen[2].messages[-1].text
    assert "My words." in str(model.seen[3].messages[-1].content)


@pytest.mark.parametrize("answer", [False, None])
async def test_plan_runs_only_on_an_explicit_yes(
    agent: Agent, model: ScriptedModel, answer: bool, tmp_path: Path
) -> None:
    will_look(model)

    result = await agent.plan("Make the total 42.", accept=lambda plan: answer)

    assert result.outcome == Cancelled(reason="dropped")
    assert not (tmp_path / "total.txt").exists()


async def test_accept_function_can_defer_the_plan(agent: Agent, model: ScriptedModel) -> None:
    will_look(model)

    result = await agent.plan("Make the total 42.", accept=lambda plan: DeferPlan())

    assert isinstance(result.outcome, AwaitingConfirmation)
    assert result.plan == PLAN.strip()


async def test_thread_continues_after_its_plan(agent: Agent, model: ScriptedModel) -> None:
    will_do(will_look(model)).will_say("42.")
    await agent.plan("Make the total 42.", thread="sums")

    answer = await agent.run("What is it?", thread="sums")

    assert answer.response == "42."
    assert any("Make the total 42." in m.text for m in agent.messages(thread="sums"))


async def test_plan_without_workspace_raises_config_error(model: ScriptedModel) -> None:
    async with Agent(stream_fn=model.stream_fn) as bare:
        with pytest.raises(ConfigError, match="no workspace"):
            await bare.plan("Make the total 42.")
    assert model.seen == []


async def test_plan_that_is_switched_off_calls_no_model(
    model: ScriptedModel, settings: Path
) -> None:
    settings.write_text(f"{settings.read_text()}[plan]\nenabled = false\n")
    async with Agent.from_config(settings, stream_fn=model.stream_fn) as agent:
        with pytest.raises(ConfigError, match="Plans are off"):
            await agent.plan("Make the total 42.")
    assert model.seen == []
