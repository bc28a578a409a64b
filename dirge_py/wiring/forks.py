"""What a fork of a conversation gets of its own."""

from dirge_py.parts import ChildSpec, ForkParts
from dirge_py.tools.planning.todo_list import TodoList
from dirge_py.wiring.guards import Guards
from dirge_py.wiring.workshop import Folders, Workshop


class Forks:
    """Makes the forks of one conversation."""

    def __init__(self, guards: Guards, workshop: Workshop, folders: Folders) -> None:
        self._guards = guards
        self._workshop = workshop
        self._folders = folders

    async def make(self, _spec: ChildSpec, model: str) -> ForkParts:
        """Guards without gates, with a memory of their own, and a todo list of its own."""
        own = self._guards.for_fork(model)
        return ForkParts(
            configure=own.configure,
            tools=self._workshop.toolbox(self._folders, TodoList()).loop_tools,
            sinks=own.sinks,
            on_close=(own.context.close,),
        )
