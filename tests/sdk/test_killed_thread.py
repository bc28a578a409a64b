"""A thread whose process was killed, continued by another process."""

from pathlib import Path

import pytest

from dirge_py import Agent, Continue
from dirge_py.providers.scripted import Reply
from dirge_py.session.store import Store
from dirge_py.testing import ScriptedModel
from dirge_py.types.outcomes import Done, NeedsMoreTurns
from tests.support import agent_tools
from tests.support.agent_tools import TOOLS, results
from tests.support.truncated_journal import cut_behind

CALLS = [("echo", {"text": "hi"}), ("deploy", {"target": "one"})]


@pytest.fixture
async def store(tmp_path: Path) -> Store:
    """A store with a thread `t` that was killed while both of its calls ran."""
    store = Store(tmp_path / "state", tmp_path)
    model = ScriptedModel().will(Reply(calls=CALLS)).will_say("never said")
    async with agent(store, model) as first:
        await first.run("go", thread="t")
    cut_behind(store.folder / "t.jsonl", "tool_started", nth=2)
    agent_tools.tool_log.clear()
    return store


def agent(store: Store, model: ScriptedModel) -> Agent:
    return Agent(
        stream_fn=model.stream_fn, tools=TOOLS, journal=store, allow=["plugin:deploy", "read:*"]
    )


async def test_continue_resumes_a_killed_thread_and_runs_no_call_twice(store: Store) -> None:
    model = ScriptedModel().will_say("looked")

    async with agent(store, model) as second:
        first = await second.run_turn(Continue(), thread="t")
        assert isinstance(first, NeedsMoreTurns)
        assert isinstance(await second.run_turn(Continue(), thread="t"), Done)
        echoed, deployed = results(second.messages(thread="t"))

    assert agent_tools.tool_log == ["echo hi"]
    assert echoed == "hi"
    assert "its outcome is unknown" in deployed
