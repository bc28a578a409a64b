"""A conversation with real snapshots around the runs of a scripted model."""

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
from tests.support.project import ScriptedProject

LARGE = 100_000
"""Bytes from which a file is too large to be kept here."""


class RewindDriver:
    """Drives one session: edits by the user, and runs of the agent that change files."""

    def __init__(
        self, project: ScriptedProject, conversation: Conversation, repository: SnapshotRepository
    ) -> None:
        self.project = project
        self.conversation = conversation
        self.repository = repository

    @property
    def timeline(self) -> Rewinder:
        return self.conversation.timeline

    @property
    def files(self) -> dict[str, str]:
        folder = self.project.folder
        return {
            str(path.relative_to(folder)): path.read_text()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.stat().st_size < LARGE
        }

    def edit(self, **files: str | None) -> None:
        """Change files as the user; None removes one."""
        for name, text in files.items():
            path = self.project.folder / name
            path.unlink() if text is None else path.write_text(text)

    async def prompt(self, text: str, command: str = "") -> None:
        """Send a prompt, for which the agent runs a command."""
        if command:
            self.project.model.will_call("bash", command=command)
        self.project.model.will_say(f"did {text}")
        await self.conversation.send(text)
        # Behind the one of the last turn, which would hold what the person does at once as well.
        await self.repository.take_snapshot()


@asynccontextmanager
async def rewindable(
    project: ScriptedProject,
    kind: Any = "new",
    *,
    keeping: type[SnapshotRepository] = SnapshotRepository,
) -> AsyncIterator[RewindDriver]:
    """A conversation in yolo mode in the session of that kind, with snapshots."""
    # The test holds the snapshots itself.
    project.configure("\n[session]\nsnapshots = false\n")
    conversation = project.build(project.user, SessionChoice(kind=kind))
    conversation.settings.set_mode("yolo")
    deps, recorder = conversation._deps, conversation.session.recorder
    assert recorder is not None
    repository = keeping(
        project.state_dir,
        project.folder,
        session=conversation.session_id or "",
        path=os.environ["PATH"],
        limits=SnapshotLimits(file_bytes=LARGE),
    )
    runs = RunSnapshots(repository, note=recorder.note, notice=deps.late_notices.append)

    def configure(settings: RunSettings) -> LoopConfig:
        config = compose(
            *runs.hooks(RunContext(model=settings.model)), config=deps.run.configure(settings)
        )
        return replace(config, interceptors=(runs.interceptor, *config.interceptors))

    conversation._deps = replace(
        deps,
        run=replace(deps.run, configure=configure),
    )
    conversation.extensions = ExtensionSet([runs, *deps.extensions.all])
    conversation.timeline = Rewinder(
        recorder, repository, report=conversation.report, check_idle=conversation.check_idle
    )
    conversation.subscribe(runs.on_event)
    try:
        yield RewindDriver(project, conversation, repository)
    finally:
        await runs.before_close()
        await conversation.close()
