"""The rooms that forks work in: the project's own folder to look at, or a copy of it to work in."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from dirge_py.conversation.deps import ForkParts
from dirge_py.files.workspace import Workspace
from dirge_py.permission.room_gate import RoomGate
from dirge_py.permission.rules import Rule
from dirge_py.permission.settings import open_gate
from dirge_py.processes.sandbox.room import Sandbox
from dirge_py.sdk.fork_copy import copied, gate_for_copy
from dirge_py.sdk.fork_place import Furnishing, fork_in
from dirge_py.sdk.fork_sandbox import Unconfined, open_fork_sandbox
from dirge_py.sdk.forks import Parent
from dirge_py.sdk.project_files import in_thread
from dirge_py.sdk.tree import TreeReader


class Rooms:
    """Makes the rooms of one conversation's forks."""

    def __init__(self, parent: Parent, tree: TreeReader) -> None:
        self._parent = parent
        self._tree = tree
        self._granted: list[Rule] = []
        self._open: set[AsyncExitStack] = set()

    async def aclose(self) -> None:
        """Let go of the rooms whose forks were not closed."""
        while self._open:
            await self._open.pop().aclose()

    async def read_only(self, model: str) -> ForkParts:
        """The parent's folder, to look at."""
        return await self._opened(self._to_look, model)

    async def copy(self, model: str) -> ForkParts:
        """A copy of the project, to work in.

        Raises:
            FileError: it cannot be made.
        """
        return await self._opened(self._to_work, model)

    async def _opened(
        self, furnish: Callable[[AsyncExitStack], Awaitable[Furnishing]], model: str
    ) -> ForkParts:
        async with AsyncExitStack() as undo:
            place = await furnish(undo)
            made = fork_in(self._parent, place, model, undo)
            kept = undo.pop_all()
        self._open.add(kept)

        async def close() -> None:
            self._open.discard(kept)
            await kept.aclose()

        return replace(made, on_close=(close,))

    async def _to_look(self, undo: AsyncExitStack) -> Furnishing:
        parent = self._parent
        workspace = Workspace(parent.machine.workspace.roots, parent.cwd)
        undo.callback(workspace.close)
        gate = open_gate(
            parent.config,
            parent.options,
            workspace,
            parent.folders.output,
            project_rules=parent.options.project_rules,
            make=partial(RoomGate, parent=parent.gate, granted=[], only_looks=True),
        )
        sandbox = await self._sandbox((), undo)
        if isinstance(sandbox, Sandbox):
            shut_in = f"read-only: {sandbox.kind}"
        else:
            shut_in = f"{sandbox.reason}: only commands that look"
        return Furnishing(
            cwd=parent.cwd,
            workspace=workspace,
            gate=gate,
            sandbox=sandbox,
            shut_in=shut_in,
            prompt=parent.prompt,
            tree=self._tree,
        )

    async def _to_work(self, undo: AsyncExitStack) -> Furnishing:
        parent, project = self._parent, self._tree.project
        copy = await copied(project, parent.gate.folders, undo, parent.notify)
        workspace = Workspace(copy.roots, copy.cwd)
        undo.callback(workspace.close)
        sandbox = await self._sandbox([copy.top], undo)
        gate = gate_for_copy(
            parent,
            copy,
            workspace,
            granted=self._granted,
            is_sandboxed=isinstance(sandbox, Sandbox),
        )
        return Furnishing(
            cwd=Path(copy.cwd),
            workspace=workspace,
            gate=gate,
            sandbox=sandbox,
            shut_in=_of_copy(sandbox),
            prompt=parent.prompt.at(Path(copy.cwd)),
            tree=copy.tree,
        )

    async def _sandbox(self, writable: Sequence[str], undo: AsyncExitStack) -> Sandbox | Unconfined:
        parent = self._parent
        project, workspace = self._tree.project.root, parent.machine.workspace
        made: list[Sandbox | Unconfined] = []

        def close() -> None:
            for each in made:
                if isinstance(each, Sandbox):
                    each.close()

        def find(_is_stopped: Callable[[], bool]) -> None:
            made.append(
                open_fork_sandbox(parent.config, workspace, project=project, writable=writable)
            )

        undo.callback(close)  # before it is found: whoever waits for it may be stopped
        await in_thread(find)
        return made[0]


def _of_copy(sandbox: Sandbox | Unconfined) -> str:
    if isinstance(sandbox, Unconfined):
        return f"a copy; {sandbox.reason}: commands ask as always"
    limits = (
        ", where modes and times of other files can be changed"
        if sandbox.kind == "landlock"
        else ""
    )
    return f"a copy, without a network: {sandbox.kind}{limits}"
