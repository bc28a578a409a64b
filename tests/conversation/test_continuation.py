"""The continuation in memory equals the one in the file."""

import json
from pathlib import Path

import pytest

from dirge_py.session.store import Store, continuation_reader
from dirge_py.types.errors import SessionError
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject


async def test_continuation_in_memory_equals_the_stored_continuation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ScriptedProject(tmp_path)
    monkeypatch.chdir(project.folder)
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="make").will_say("done")
    store = Store(project.state_dir, project.folder)

    async with project.open() as conversation:
        outcome = await conversation.send("make it")
        assert isinstance(outcome, AwaitingConfirmation)
        assert conversation.session_id is not None
        told = continuation_reader(store, conversation.session_id)(outcome)

        assert told == json.loads(store.keep_continuation(conversation.session_id).read_text())
        assert told["awaiting"] == outcome.call_ids[0]
        project.user.answer = PermissionAnswer(effect="deny")
        await conversation.send("never mind")
        with pytest.raises(SessionError, match="no call that waits for a decision"):
            continuation_reader(store, conversation.session_id)(outcome)
