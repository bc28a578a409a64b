"""Threads that run turn by turn, in one process or several, with pauses for decisions."""

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dirge_py import Agent, Continue, Resume, Text
from dirge_py.providers.scripted import Reply
from dirge_py.session.store import Store
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.errors import DirgeError, SessionBusy, SessionError
from dirge_py.types.events import ToolExecutionStart
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, NeedsMoreTurns
from tests.sdk import thread_worker
from tests.support.agent_tools import TOOLS, results
from tests.support.forked_process import run_forked

Work = Callable[..., dict[str, Any]]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Run one turn in its own process."""

    def turn(given: Any, *replies: dict[str, Any], **more: Any) -> dict[str, Any]:
        job = json.dumps({"input": given, "replies": replies, **more})
        exit_code, stdout, stderr = run_forked(
            thread_worker.work,
            tmp_path,
            job,
            environment=os.environ,
            cwd=Path(__file__).parents[2],
            patience_s=60,
        )
        assert exit_code == 0 and not stderr, stderr
        answer: dict[str, Any] = json.loads(stdout)
        return answer

    return turn


BATCH = {
    "calls": [
        ("look", {"where": "CI"}),
        ("deploy", {"target": "one"}),
        ("deploy", {"target": "two"}),
    ]
}


def resume(waiting: dict[str, Any], confirmed: bool = True, **more: Any) -> dict[str, Any]:
    continuation = waiting["continuation"]
    call_id = continuation["awaiting"]
    return {
        "continuation": continuation,
        "tool_call_id": call_id,
        "confirmed": confirmed,
        **more,
    }


def test_three_processes_continue_one_thread(work: Work) -> None:
    first = work("go", {"calls": [("look", {"where": "a"})]})
    second = work("continue", {"calls": [("look", {"where": "b"})]})
    third = work("continue", {"text": "saw both"})

    assert (first["kind"], first["turn"]) == ("NeedsMoreTurns", 1)
    assert (second["kind"], second["turn"]) == ("NeedsMoreTurns", 2)
    assert (third["kind"], third["response"]) == ("Done", "saw both")
    assert third["results"] == ["saw a", "saw b"]


def test_a57_call_that_needs_approval_pauses_the_thread(work: Work) -> None:
    waiting = work("go", BATCH)

    assert (waiting["kind"], waiting["ran"]) == ("AwaitingConfirmation", ["look CI"])
    told = waiting["continuation"]
    assert told["session_id"] == "t"
    call = next(call for call in told["calls"] if call["id"] == told["awaiting"])
    assert (call["name"], call["args"]) == ("deploy", {"target": "one"})
    assert call["title"] and told["description"]


def test_a58_a61_each_process_decides_one_call_and_no_call_runs_twice(work: Work) -> None:
    first = work("go", BATCH)
    second = work(resume(first))
    third = work(resume(second))
    last = work("continue", {"text": "shipped"})

    assert (second["kind"], second["ran"]) == ("AwaitingConfirmation", ["deploy one"])
    assert second["continuation"]["awaiting"] != first["continuation"]["awaiting"]
    assert len(second["continuation"]["completed"]) == len(first["continuation"]["completed"]) + 1
    assert (third["kind"], third["ran"]) == ("NeedsMoreTurns", ["deploy two"])
    assert third["turn"] == 1
    assert (last["kind"], last["asked"]) == ("Done", 1)
    assert last["results"] == ["saw CI", "shipped one", "shipped two"]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("too risky", "Rejected: too risky"), (None, "Rejected: User rejected")],
)
def test_a58_rejection_becomes_the_tool_result_and_the_batch_continues(
    work: Work, reason: str | None, expected: str
) -> None:
    first = work("go", BATCH)
    second = work(resume(first, False, reason=reason))

    assert (second["kind"], second["ran"]) == ("AwaitingConfirmation", [])
    assert second["results"] == ["saw CI", expected]


def test_a59_deny_rule_added_while_waiting_overrides_the_approval(work: Work) -> None:
    first = work("go", BATCH)
    second = work(resume(first), deny=["plugin:one"])

    assert second["ran"] == []
    assert second["results"][1].startswith("Permission denied")


def test_a60_continuation_can_be_used_only_once(work: Work) -> None:
    first = work("go", BATCH)
    work(resume(first))
    again = work(resume(first))

    assert again["ran"] == []
    assert "used already" in again["error"]


def test_a60_continuation_is_stale_after_another_prompt(work: Work) -> None:
    first = work("go", BATCH)
    work("never mind", {"text": "as you wish"})
    late = work(resume(first))

    assert late["ran"] == []
    assert "stale" in late["error"]


@pytest.mark.parametrize(
    ("change", "thread", "why"),
    [
        ({"v": 2}, "t", "format 2"),
        ({"v": None}, "t", "no version"),
        ({"session_id": "other"}, "t", "thread 'other', not of 't'"),
        ({}, "other", "thread 't', not of 'other'"),
        ({"calls": []}, "t", "not among its calls"),
        ({"description": "deploy: harmless"}, "t", "does not fit"),
        ({"cwd": "/elsewhere"}, "t", "does not fit"),
        ({"note": "harmless"}, "t", "did not write"),
    ],
)
def test_a60_mismatched_continuation_is_refused_and_runs_no_call(
    work: Work, change: dict[str, Any], thread: str, why: str
) -> None:
    first = work("go", BATCH)
    given = resume(first)
    given["continuation"] = {**given["continuation"], **change}

    refused = work(given, thread=thread)
    assert refused["ran"] == []
    assert why in refused["error"]
    assert work(resume(first))["ran"] == ["deploy one"]


def test_a60_only_the_awaiting_call_can_be_decided(work: Work) -> None:
    first = work("go", BATCH)
    given = {**resume(first), "tool_call_id": first["continuation"]["calls"][2]["id"]}

    refused = work(given)
    assert refused["ran"] == []
    assert "waits for a decision about" in refused["error"]


# -- without a journal


@pytest.fixture
async def agent(model: ScriptedModel) -> AsyncIterator[Agent]:
    thread_worker.tool_log.clear()
    async with Agent(
        stream_fn=model.stream_fn, tools=[thread_worker.look, thread_worker.deploy], asker="defer"
    ) as agent:
        yield agent


def ask_for_both(model: ScriptedModel) -> None:
    model.will_call_all(*[(name, arguments) for name, arguments in BATCH["calls"]])


async def test_thread_in_memory_pauses_and_resumes(agent: Agent, model: ScriptedModel) -> None:
    ask_for_both(model)
    model.will_say("done")

    outcome = await agent.run_turn(Text("go"), thread="t")
    for _ in range(2):
        assert isinstance(outcome, AwaitingConfirmation) and outcome.continuation is not None
        assert json.loads(json.dumps(outcome.continuation)) == outcome.continuation
        call_id = outcome.call_ids[0]
        outcome = await agent.run_turn(Resume(outcome.continuation, call_id, True), thread="t")
    assert isinstance(outcome, NeedsMoreTurns) and outcome.turn == 1
    assert isinstance(await agent.run_turn(Continue(), thread="t"), Done)

    assert thread_worker.tool_log == ["look CI", "deploy one", "deploy two"]
    assert_balanced(agent.messages(thread="t"))


@pytest.mark.parametrize("name", [None, "t"])
async def test_continuation_in_memory_can_be_used_only_once(
    agent: Agent, model: ScriptedModel, name: str | None
) -> None:
    ask_for_both(model)
    waiting = await agent.run_turn(Text("go"), thread=name)
    assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None
    decided = Resume(waiting.continuation, waiting.call_ids[0], True)
    await agent.run_turn(decided, thread=name)

    with pytest.raises(SessionError, match="stale"):
        await agent.run_turn(decided, thread=name)
    with pytest.raises(SessionError, match="not of 'other'"):
        await agent.run_turn(decided, thread="other")
    assert thread_worker.tool_log == ["look CI", "deploy one"]


async def test_modified_continuation_is_refused(agent: Agent, model: ScriptedModel) -> None:
    ask_for_both(model)
    waiting = await agent.run_turn(Text("go"))
    assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None
    calls = [{**call, "args": {"target": "prod"}} for call in waiting.continuation["calls"]]
    forged = {**waiting.continuation, "calls": calls}

    with pytest.raises(SessionError, match="does not fit"):
        await agent.run_turn(Resume(forged, waiting.call_ids[0], True))
    for change in ({"description": "deploy: harmless"}, {"cwd": "/"}, {"turn": 9}):
        shown = {**waiting.continuation, **change}
        with pytest.raises(SessionError, match="does not fit"):
            await agent.run_turn(Resume(shown, waiting.call_ids[0], True))
    with pytest.raises(SessionError, match="not among its calls"):
        await agent.run_turn(Resume({**forged, "awaiting": "x"}, "x", True))
    assert thread_worker.tool_log == ["look CI"]


async def test_continue_without_the_pending_decision_is_refused(
    agent: Agent, model: ScriptedModel
) -> None:
    ask_for_both(model)
    await agent.run_turn(Text("go"))
    with pytest.raises(SessionError, match="waits for a decision about `deploy`"):
        await agent.run_turn(Continue())


async def test_continue_of_an_empty_thread_is_refused(agent: Agent, model: ScriptedModel) -> None:
    with pytest.raises(DirgeError, match="nothing to continue"):
        await agent.run_turn(Continue(), thread="new")


async def test_token_usage_is_summed_over_turns(agent: Agent, model: ScriptedModel) -> None:
    used = Usage(input=10, output=1)
    for _ in range(2):
        model.will(Reply(calls=[("look", {"where": "a"})], usage=used))

    first = await agent.run_turn(Text("go"))
    second = await agent.run_turn(Continue())

    assert first == NeedsMoreTurns(turn=1, turn_usage=used, total_usage=used)
    assert second == NeedsMoreTurns(turn=2, turn_usage=used, total_usage=used + used)


async def test_deferred_run_can_be_resumed_as_a_whole_run(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("deploy", target="one").will_say("shipped")

    waiting = await agent.start("go").outcome
    assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None
    result = await agent.run(Resume(waiting.continuation, waiting.call_ids[0], True))

    assert result.response == "shipped"
    assert thread_worker.tool_log == ["deploy one"]


# -- with a journal, in one process


async def test_journaled_thread_is_locked_only_while_it_runs(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_call("echo", text="a").will_say("done")

    async with (
        Agent(stream_fn=model.stream_fn, tools=TOOLS, journal=tmp_path) as one,
        Agent(stream_fn=model.stream_fn, tools=TOOLS, journal=tmp_path) as other,
    ):
        run = one.start("go", thread="t")
        with pytest.raises(SessionBusy):
            await other.run_turn(Continue(), thread="t")
        await run.outcome
        await one._threads.wait_released("t")

        assert len(other.messages(thread="t")) == 4


async def test_queued_messages_wait_for_the_next_run_of_the_thread(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_call("echo", text="a").will_say("done")
    store = Store(tmp_path, tmp_path)

    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, journal=store) as agent:
        run = agent.start(Text("go"), thread="t")
        async for event in run.events():
            if isinstance(event, ToolExecutionStart):
                run.interject()
                run.steer("be quick")
        assert await run.outcome == Cancelled(reason="interject")
        await agent._threads.wait_released("t")
        await agent.run("again", thread="t")

    prompts = [m.text for m in model.seen[1].messages if m.role == "user"]
    assert prompts[:2] == ["go", "again"]
    assert prompts[2].endswith("be quick")


async def test_default_thread_is_stored_in_the_journal(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_call("deploy", target="x").will_call("deploy", target="y").will_say("done")
    async with Agent(
        stream_fn=model.stream_fn, tools=TOOLS, journal=tmp_path, asker="defer"
    ) as agent:
        waiting = await agent.run_turn(Text("go"))
        assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None
        decided = Resume(waiting.continuation, waiting.call_ids[0], True)
        assert isinstance(await agent.run_turn(decided), NeedsMoreTurns)
        waiting = await agent.run_turn(Continue())
    assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None

    async with Agent(
        stream_fn=model.stream_fn, tools=TOOLS, journal=tmp_path, asker="defer"
    ) as agent:
        decided = Resume(waiting.continuation, waiting.call_ids[0], True)
        assert (await agent.run(decided)).response == "done"
        name = str(waiting.continuation["session_id"])
        assert results(agent.messages(thread=name)) == ["shipped to x", "shipped to y"]


async def test_thread_opened_for_a_continuation_is_closed_after_the_run(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_call("deploy", target="x").will_say("done")
    async with Agent(
        stream_fn=model.stream_fn, tools=TOOLS, journal=tmp_path, asker="defer"
    ) as agent:
        waiting = await agent.run_turn(Text("go"), thread="t")
        assert isinstance(waiting, AwaitingConfirmation) and waiting.continuation is not None
        await agent.run(Resume(waiting.continuation, waiting.call_ids[0], True))
        assert not agent._threads.is_open("t")


async def test_journaled_thread_can_be_reopened_immediately_by_another_agent(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with (
        Agent(stream_fn=model.stream_fn, journal=tmp_path) as one,
        Agent(stream_fn=model.stream_fn, journal=tmp_path) as other,
    ):
        for number in range(12):
            model.will_say("ok")
            agent = (one, one, other)[number % 3]
            await agent.run(f"{number}", thread="t")
            model.will_say("ok")
            assert isinstance(await agent.start("go", thread="t").outcome, Done)
            await agent._threads.wait_released("t")
        assert len(one.messages(thread="t")) == 48


async def test_consecutive_runs_of_a_journaled_thread_need_no_wait(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with Agent(stream_fn=model.stream_fn, journal=tmp_path) as agent:
        for _ in range(20):
            model.will_say("ok")
            assert isinstance(await agent.start("go", thread="t").outcome, Done)
    assert len(agent.messages(thread="t")) == 40


async def test_run_that_cannot_start_releases_the_thread(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_say("ok")
    async with (
        Agent(stream_fn=model.stream_fn, journal=tmp_path) as one,
        Agent(stream_fn=model.stream_fn, journal=tmp_path) as other,
    ):
        assert list(one.messages(thread="t")) == []
        with pytest.raises(DirgeError, match="nothing to continue"):
            await one.run_turn(Continue(), thread="t")
        assert (await other.run("go", thread="t")).response == "ok"


async def test_from_config_agent_runs_single_turns(model: ScriptedModel, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[providers.x]\ntype = "scripted"\nscript = "unused.toml"\n')
    (tmp_path / "unused.toml").write_text('[[replies]]\ntext = "unused"\n')
    model.will_call("list_dir", path=".").will_say("Two files.")

    for given, kind in ((Text("look"), NeedsMoreTurns), (Continue(), Done)):
        async with Agent.from_config(settings, stream_fn=model.stream_fn) as agent:
            assert isinstance(await agent.run_turn(given, thread="t"), kind)
    assert len(agent.messages(thread="t")) == 4
