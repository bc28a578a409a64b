"""Calls answered with `dirge signal` from another process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from dirge_py.conversation.durable import SignalBox
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.record import Record
from dirge_py.session.segments import scan
from dirge_py.testing import ScriptedModel
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from tests.support.project import ScriptedProject


class Absent:
    """An asker without a user; `asked` is set when a question appears."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.taken_down = False

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.taken_down = True
            raise
        raise AssertionError


async def signal(project: ScriptedProject, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(project.folder.parent),
        "DIRGE_STATE_DIR": str(project.state_dir),
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "dirge_py", "signal", *words],
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def records(project: ScriptedProject) -> list[Record]:
    with project.journal.open("rb") as lines:
        return scan(lines).records


@pytest.fixture
def answered_remotely(project: ScriptedProject) -> ScriptedProject:
    project.configure("\n[permission]\nremote = true\n")
    project.model.will_call("bash", command="touch made").will_say("Done.")
    return project


async def test_allow_signal_from_another_process_runs_the_call(
    answered_remotely: ScriptedProject,
) -> None:
    project, absent = answered_remotely, Absent()
    conversation = project.build(absent, SessionChoice())
    try:
        assert conversation.session_id
        await signal_early(project, conversation.session_id)
        run = conversation.send("make it")
        await absent.asked.wait()
        [waiting] = (await signal(project, conversation.session_id)).splitlines()
        call_id, told = waiting.split("  ", 1)
        assert "touch made" in told
        assert not (project.folder / "made").exists()

        answer = f'{{"call_id": "{call_id}", "effect": "allow"}}'
        await signal(project, conversation.session_id, "answer", answer)

        assert isinstance(await run.outcome, Done)
        assert (project.folder / "made").exists()
        assert absent.taken_down
        assert await signal(project, conversation.session_id) == "Nothing waits for an answer.\n"
    finally:
        await conversation.close()
    kinds = [record.type for record in records(project)]
    assert kinds.count("asked") == kinds.count("answered") == 1


async def signal_early(project: ScriptedProject, session_id: str) -> None:
    """A signal that arrives before the question, for any call."""
    [folder] = project.state_dir.glob("sessions/*")
    early = {"call_id": "bash#0", "effect": "allow"}
    SignalBox(folder / session_id / "signals").send("answer", early)


async def test_signal_is_ignored_without_the_remote_setting(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Refused.")
    async with project.open() as conversation:
        outcome = await conversation.send("make it").outcome

    assert isinstance(outcome, Done)
    assert [request.tool_name for request in project.user.asked] == ["bash"]
    assert "asked" not in [record.type for record in records(project)]
    assert not (project.folder / "made").exists()


async def test_local_answer_before_any_signal_decides_the_call(
    answered_remotely: ScriptedProject,
) -> None:
    project = answered_remotely
    project.user.answer = PermissionAnswer(effect="allow")
    async with project.open() as conversation:
        assert isinstance(await conversation.send("make it").outcome, Done)

    assert (project.folder / "made").exists()
    [told] = [record.data for record in records(project) if record.type == "answered"]
    assert told["remotely"] is False


async def test_remote_denial_of_one_call_overrides_a_later_local_approval(
    answered_remotely: ScriptedProject,
) -> None:
    project = answered_remotely
    answer = asyncio.Event()

    class Late(Absent):
        async def permission(
            self, requests: Sequence[PermissionRequest]
        ) -> Sequence[PermissionAnswer]:
            self.asked.set()
            await answer.wait()
            return [PermissionAnswer(effect="allow") for _ in requests]

    late = Late()
    calls = [("bash", {"command": "touch first"}), ("bash", {"command": "touch second"})]
    project.model = ScriptedModel().will_call_all(*calls).will_say("Done.")
    conversation = project.build(late, SessionChoice())
    try:
        assert conversation.session_id
        run = conversation.send("make them")
        await late.asked.wait()
        await signal(
            project, conversation.session_id, "answer", '{"call_id": "bash#0", "effect": "deny"}'
        )
        folder = next(project.state_dir.glob("sessions/*")) / conversation.session_id / "signals"
        async with asyncio.timeout(20):
            while list(folder.glob("*.json")):  # noqa: ASYNC110 - a folder tells no events
                await asyncio.sleep(0)
        answer.set()
        assert isinstance(await run.outcome, Done)
    finally:
        await conversation.close()

    assert not (project.folder / "first").exists()
    assert (project.folder / "second").exists()
