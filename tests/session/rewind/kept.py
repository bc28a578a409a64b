"""A conversation whose files are kept: the real snapshots around the runs of a scripted model."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.merge import compose
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import RunSettings
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.snapshots.extension import RunSnapshots
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.rewind import Rewinder
from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.types.extensions import RunContext
from dirge_py.types.hooks import LoopConfig
from tests.conversation.room import Room

LARGE = 100_000
"""Bytes from which a file is too large to be kept here."""


class Desk:
    """What a person and an agent do to the files of one session, in turns."""

    def __init__(self, room: Room, talk: Conversation, repository: SnapshotRepository) -> None:
        self.room = room
        self.talk = talk
        self.repository = repository

    @property
    def timeline(self) -> Rewinder:
        return self.talk.timeline

    @property
    def files(self) -> dict[str, str]:
        folder = self.room.project
        return {
            str(path.relative_to(folder)): path.read_text()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.stat().st_size < LARGE
        }

    def edit(self, **files: str | None) -> None:
        """The person changes files of these names, or removes them."""
        for name, text in files.items():
            path = self.room.project / name
            path.unlink() if text is None else path.write_text(text)

    async def prompt(self, text: str, command: str = "") -> None:
        """The person says something, and the agent runs a command for it."""
        if command:
            self.room.model.will_call("bash", command=command)
        self.room.model.will_say(f"did {text}")
        await self.talk.send(text)
        # Behind the one of the last turn, which would hold what the person does at once as well.
        await self.repository.take_snapshot()


@asynccontextmanager
async def desk(
    room: Room, kind: Any = "new", *, keeping: type[SnapshotRepository] = SnapshotRepository
) -> AsyncIterator[Desk]:
    """A conversation in yolo mode in the session of that kind, its files kept."""
    # The test holds the snapshots itself.
    room.configure("\n[session]\nsnapshots = false\n")
    talk = room.build(room.person, SessionChoice(kind=kind))
    talk.settings.set_mode("yolo")
    deps, recorder = talk._deps, talk.session.recorder
    assert recorder is not None
    repository = keeping(
        room.state_dir,
        room.project,
        session=talk.session_id or "",
        path=os.environ["PATH"],
        limits=SnapshotLimits(file_bytes=LARGE),
    )
    runs = RunSnapshots(repository, note=recorder.note, notice=deps.late_notices.append)

    def configure(settings: RunSettings) -> LoopConfig:
        config = compose(
            *runs.hooks(RunContext(model=settings.model)), config=deps.run.configure(settings)
        )
        return replace(config, interceptors=(runs.interceptor, *config.interceptors))

    talk._deps = replace(
        deps,
        run=replace(deps.run, configure=configure),
    )
    talk.extensions = ExtensionSet([runs, *deps.extensions.all])
    talk.timeline = Rewinder(recorder, repository, report=talk.report, check_idle=talk.check_idle)
    talk.subscribe(runs.on_event)
    try:
        yield Desk(room, talk, repository)
    finally:
        await runs.before_close()
        await talk.close()
