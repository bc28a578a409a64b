"""The continuation as a value equals the one that is written to a file."""

import json
from pathlib import Path

import pytest

from dirge_py.session.store import Store, continuation_reader
from dirge_py.types.errors import SessionError
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room


async def test_a_run_that_waits_is_told_as_its_file_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(tmp_path)
    monkeypatch.chdir(room.project)
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="make").will_say("done")
    store = Store(room.state_dir, room.project)

    async with room.open() as talk:
        outcome = await talk.send("make it")
        assert isinstance(outcome, AwaitingConfirmation)
        assert talk.session_id is not None
        told = continuation_reader(store, talk.session_id)(outcome)

        assert told == json.loads(store.keep_continuation(talk.session_id).read_text())
        assert told["awaiting"] == outcome.call_ids[0]
        room.person.answer = PermissionAnswer(effect="deny")
        await talk.send("never mind")
        with pytest.raises(SessionError, match="waits for no decision"):
            continuation_reader(store, talk.session_id)(outcome)
