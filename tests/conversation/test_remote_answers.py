"""Calls that are answered with `dirge signal`, from another process."""

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
from tests.conversation.room import Room


class Absent:
    """Nobody sits before this screen; `asked` is set when a question is put up."""

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


async def signal(room: Room, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(room.project.parent),
        "DIRGE_STATE_DIR": str(room.state_dir),
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "dirge_py", "signal", *words],
        cwd=room.project,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def records(room: Room) -> list[Record]:
    with room.journal.open("rb") as lines:
        return scan(lines).records


@pytest.fixture
def answered_remotely(room: Room) -> Room:
    room.configure("\n[permission]\nremote = true\n")
    room.model.will_call("bash", command="touch made").will_say("Done.")
    return room


async def test_an_answer_from_another_process_lets_the_call_run(answered_remotely: Room) -> None:
    room, absent = answered_remotely, Absent()
    talk = room.build(absent, SessionChoice())
    try:
        assert talk.session_id
        await signal_early(room, talk.session_id)
        run = talk.send("make it")
        await absent.asked.wait()
        [waiting] = (await signal(room, talk.session_id)).splitlines()
        call_id, told = waiting.split("  ", 1)
        assert "touch made" in told
        assert not (room.project / "made").exists()

        answer = f'{{"call_id": "{call_id}", "effect": "allow"}}'
        await signal(room, talk.session_id, "answer", answer)

        assert isinstance(await run.outcome, Done)
        assert (room.project / "made").exists()
        assert absent.taken_down
        assert await signal(room, talk.session_id) == "Nothing waits for an answer.\n"
    finally:
        await talk.close()
    kinds = [record.type for record in records(room)]
    assert kinds.count("asked") == kinds.count("answered") == 1


async def signal_early(room: Room, session_id: str) -> None:
    """An answer that was there before the question, for whatever call."""
    [folder] = room.state_dir.glob("sessions/*")
    early = {"call_id": "bash#0", "effect": "allow"}
    SignalBox(folder / session_id / "signals").send("answer", early)


async def test_without_the_setting_a_signal_answers_nothing(room: Room) -> None:
    room.model.will_call("bash", command="touch made").will_say("Refused.")
    async with room.open() as talk:
        outcome = await talk.send("make it").outcome

    assert isinstance(outcome, Done)
    assert [request.tool_name for request in room.person.asked] == ["bash"]
    assert "asked" not in [record.type for record in records(room)]
    assert not (room.project / "made").exists()


async def test_a_person_who_answers_first_is_heard(answered_remotely: Room) -> None:
    room = answered_remotely
    room.person.answer = PermissionAnswer(effect="allow")
    async with room.open() as talk:
        assert isinstance(await talk.send("make it").outcome, Done)

    assert (room.project / "made").exists()
    [told] = [record.data for record in records(room) if record.type == "answered"]
    assert told["remotely"] is False


async def test_a_no_for_one_call_counts_though_the_person_answers_the_rest(
    answered_remotely: Room,
) -> None:
    room = answered_remotely
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
    room.model = ScriptedModel().will_call_all(*calls).will_say("Done.")
    talk = room.build(late, SessionChoice())
    try:
        assert talk.session_id
        run = talk.send("make them")
        await late.asked.wait()
        await signal(room, talk.session_id, "answer", '{"call_id": "bash#0", "effect": "deny"}')
        folder = next(room.state_dir.glob("sessions/*")) / talk.session_id / "signals"
        async with asyncio.timeout(20):
            while list(folder.glob("*.json")):  # noqa: ASYNC110 - a folder tells no events
                await asyncio.sleep(0)
        answer.set()
        assert isinstance(await run.outcome, Done)
    finally:
        await talk.close()

    assert not (room.project / "first").exists()
    assert (room.project / "second").exists()
