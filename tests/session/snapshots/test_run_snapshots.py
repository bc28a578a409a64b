"""When snapshots are taken, and when a run waits for them."""

import asyncio

import pytest

from dirge_py.extensions.snapshots.extension import RunSnapshots
from dirge_py.session.journal import read_journal
from dirge_py.session.snapshots.base import Snapshot
from dirge_py.session.snapshots.repository import NO_GIT
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import AgentEnd, SystemNotice
from dirge_py.types.extensions import RunContext
from dirge_py.types.hooks import Context, TurnInfo
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.types.tools import ToolCall, text_result
from tests.support.project import ScriptedProject

ALLOWED = """
[permission]
mode = "yolo"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    project = ScriptedProject(tmp_path)
    project.configure(f"\n[session]\nsnapshots = true\n{ALLOWED}")
    monkeypatch.chdir(project.folder)
    return project


def recorded(project):
    records = read_journal(project.journal).records
    return [record.data for record in records if record.type == "snapshot"]


async def until(is_so):
    deadline = asyncio.get_running_loop().time() + 20
    while not is_so():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)


async def test_run_that_changes_files_takes_snapshot_before_and_after(project):
    project.model.will_call("bash", command="echo one > made").will_say("Made.")

    async with project.open() as conversation:
        outcome = await conversation.send("make it")

    assert isinstance(outcome, Done)
    before, after = recorded(project)
    assert (before["at"], before["turn"], after["at"], after["turn"]) == (
        "before_run",
        1,
        "turn",
        1,
    )
    assert before["run_id"] == after["run_id"] != ""
    assert before["tree"] != after["tree"]


async def test_run_that_only_reads_takes_one_snapshot(project):
    (project.folder / "f").write_text("one\n")
    project.model.will_call("read", path="f").will_call("list_dir", path=".").will_say("Read.")

    async with project.open() as conversation:
        await conversation.send("read it")
        await until(lambda: recorded(project))

    assert [record["at"] for record in recorded(project)] == ["before_run"]


async def test_command_that_changed_nothing_adds_no_snapshot_record(project):
    project.model.will_call("bash", command="true").will_say("Done.")
    project.model.will_say("Again.")

    async with project.open() as conversation:
        await conversation.send("try")
        await conversation.send("again")
        await until(lambda: len(recorded(project)) == 2)

    first, second = recorded(project)
    assert first["run_id"] != second["run_id"]
    assert first["tree"] == second["tree"]


async def test_changes_of_aborted_command_are_in_a_snapshot(project):
    project.model.will_call("bash", command="echo one > made; exec sleep 60")

    async with project.open() as conversation:
        run = conversation.send("make it")
        await until((project.folder / "made").exists)
        run.abort()
        outcome = await run
        await until(lambda: len(recorded(project)) == 2)

    assert isinstance(outcome, Cancelled)
    assert [record["at"] for record in recorded(project)] == ["before_run", "turn"]


async def test_run_without_git_installed_works_with_one_notice(project, monkeypatch):
    monkeypatch.setenv("PATH", str(project.folder.parent))
    project.model.will_call("bash", command="echo one > made").will_say("Made.").will_say("Yes.")

    async with project.open() as conversation:
        seen = []
        conversation.subscribe(seen.append)
        outcome = await conversation.send("make it")
        await conversation.send("really?")

    assert isinstance(outcome, Done)
    notices = [event.content for event in seen if isinstance(event, SystemNotice)]
    assert notices == [NO_GIT]
    assert recorded(project) == []


# -- with snapshots whose duration the test controls


class SlowSnapshots:
    """Snapshots that finish when `go` is set, with the outcomes `results`."""

    def __init__(self, *results):
        self.results = list(results)
        self.taken = self.pruned = 0
        self.go = asyncio.Event()
        self.unavailable = ""

    async def take_snapshot(self, also=()):
        await self.go.wait()
        self.taken += 1
        result = self.results.pop(0) if self.results else Snapshot(tree=f"t{self.taken}")
        if isinstance(result, Exception):
            raise result
        if result is None:
            self.unavailable = "there is no room"
        return result

    def unheld(self, reals):
        return ()

    async def prune(self):
        self.pruned += 1
        raise OSError("no room")

    async def aclose(self):
        pass


class SnapshotsDriver:
    """Run snapshots, with their records and notices."""

    def __init__(self, snapshots):
        self.notes, self.notices = [], []
        self.taking = RunSnapshots(
            snapshots,
            note=lambda kind, data: self.notes.append((kind, data["at"], data["tree"])),
            notice=self.notices.append,
        )
        self.hooks = self.taking.hooks(RunContext(model="m"))[0]


def turn(run_id="r", number=1):
    return TurnInfo(
        run_id=run_id,
        outer_turn=1,
        turn=number,
        context=Context(),
        new_messages=(),
        signal=AbortSignal(),
        emit=lambda event: None,
    )


CHANGING = ToolCall(id="c", name="unknown", arguments={})


async def proceed():
    return text_result("done")


async def test_changing_tool_call_waits_for_snapshot_before_run():
    snapshots = SlowSnapshots()
    watched = SnapshotsDriver(snapshots)
    watched.hooks.transform_context(turn())
    call = asyncio.create_task(watched.taking.interceptor(CHANGING, proceed))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not call.done()

    snapshots.go.set()
    await call

    assert watched.notes == [("snapshot", "before_run", "t1")]


async def test_snapshot_of_changing_turn_is_taken_before_next_turn():
    snapshots = SlowSnapshots()
    snapshots.go.set()
    watched = SnapshotsDriver(snapshots)
    watched.hooks.transform_context(turn())
    await watched.taking.interceptor(CHANGING, proceed)

    await watched.hooks.prepare_next_turn(turn())
    assert watched.hooks.prepare_next_turn(turn(number=2)) is None

    assert watched.notes == [("snapshot", "before_run", "t1"), ("snapshot", "turn", "t2")]


@pytest.mark.parametrize("result", [None, RuntimeError("broken")])
async def test_failed_snapshots_are_reported_once_and_block_no_call(result):
    snapshots = SlowSnapshots(result, result, result)
    snapshots.go.set()
    watched = SnapshotsDriver(snapshots)
    for run_id in ("r1", "r2", "r3"):
        watched.hooks.transform_context(turn(run_id))
        assert await watched.taking.interceptor(CHANGING, proceed) == text_result("done")
        watched.taking.on_event(AgentEnd(messages=(), outcome=Done()))
    await watched.taking.before_close()

    assert len(watched.notices) == 1
    assert snapshots.taken == 6


async def test_closing_does_not_wait_long_for_unneeded_snapshot():
    watched = SnapshotsDriver(SlowSnapshots())
    watched.hooks.transform_context(turn())

    await asyncio.wait_for(watched.taking.before_close(), timeout=10)

    assert watched.notes == []


async def test_old_snapshots_are_pruned_once_in_background():
    snapshots = SlowSnapshots()
    snapshots.go.set()
    watched = SnapshotsDriver(snapshots)
    for run_id in ("r1", "r2"):
        watched.hooks.transform_context(turn(run_id))
        await watched.taking.interceptor(CHANGING, proceed)
    await watched.taking.before_close()

    assert (snapshots.pruned, watched.notices) == (1, [])
