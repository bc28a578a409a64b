"""What a fork of a conversation gets of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.schema import Config
from dirge_py.context.prompt_source import SystemPrompt
from dirge_py.conversation.deps import ChildSpec, ForkParts, TreeState
from dirge_py.lib.late import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.gate import Gate
from dirge_py.sdk.guards import Guards
from dirge_py.sdk.machine import Machine
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.workshop import Folders, Workshop
from dirge_py.tools.planning.todo_list import TodoList
from dirge_py.types.questions import Asker

if TYPE_CHECKING:
    from dirge_py.sdk.fork_rooms import Rooms
    from dirge_py.sdk.project_files import project_around
    from dirge_py.sdk.tree import TreeReader
else:
    Rooms = late("dirge_py.sdk.fork_rooms", "Rooms")
    TreeReader = late("dirge_py.sdk.tree", "TreeReader")
    project_around = late("dirge_py.sdk.project_files", "project_around")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What forks get from the conversation that they come from. `notify` tells the person."""

    config: Config
    options: BuildOptions
    cwd: Path
    machine: Machine
    workshop: Workshop
    folders: Folders
    prompt: SystemPrompt
    gate: Gate
    guards: Guards
    authorizer: Authorizer
    asker: Asker
    notify: Callable[[str], None]


class Forks:
    """Makes the forks of one conversation, and reads the project that some of them are about."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._reader: TreeReader | None = None
        self._rooms: Rooms | None = None

    async def make(self, spec: ChildSpec, model: str) -> ForkParts:
        """Guards without gates, with a memory of their own, and a todo list; a room as asked.

        Raises:
            FileError: the project cannot be copied.
        """
        if spec.room == "shared":
            return self._beside(model)
        if self._rooms is None:
            self._rooms = Rooms(self._parent, self._tree())
        make = self._rooms.read_only if spec.room == "read_only" else self._rooms.copy
        return await make(model)

    async def tree(self) -> TreeState:
        """The files of the project as they are now.

        Raises:
            FileError: they cannot be listed or read.
        """
        return await self._tree()()

    async def aclose(self) -> None:
        """Let go of what forks that were not closed have left."""
        if self._rooms is not None:
            await self._rooms.aclose()

    def _beside(self, model: str) -> ForkParts:
        parent = self._parent
        own = parent.guards.for_fork(model)
        return ForkParts(
            configure=own.configure,
            tools=parent.workshop.toolbox(parent.folders, TodoList()).loop_tools,
            sinks=own.sinks,
            on_close=(own.context.close,),
        )

    def _tree(self) -> "TreeReader":
        if self._reader is None:
            parent = self._parent
            roots = parent.machine.workspace.roots
            self._reader = TreeReader(project_around(parent.config, parent.cwd, roots))
        return self._reader
