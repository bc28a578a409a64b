"""A fork put together around the place it works in: its tools, its guards, its prompt."""

from contextlib import AsyncExitStack
from pathlib import Path

from dirge_py.context.attachments import Attacher
from dirge_py.context.hooks import file_reader
from dirge_py.context.prompt_source import SystemPrompt
from dirge_py.conversation.deps import ForkParts, OtherRoom, ReadTree
from dirge_py.extensions.web.access import WebAccess
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.gate import Gate
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.room import Sandbox
from dirge_py.processes.shells import Shells
from dirge_py.sdk.attach import GuardedAttacher
from dirge_py.sdk.explain import Explainer
from dirge_py.sdk.fork_sandbox import Unconfined
from dirge_py.sdk.forks import Parent
from dirge_py.sdk.guards import ForkPlace
from dirge_py.tools.planning.todo_list import TodoList


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """What makes one place of its own. `shut_in` is for people; `cwd` is seen by the model."""

    cwd: Path
    workspace: Workspace
    gate: Gate
    sandbox: Sandbox | Unconfined
    shut_in: str
    prompt: SystemPrompt
    tree: ReadTree


@dataclass(frozen=True, slots=True)
class _Workplace:
    workspace: Workspace
    runner: Runner
    shells: Shells
    web: WebAccess


def fork_in(parent: Parent, place: Furnishing, model: str, undo: AsyncExitStack) -> ForkParts:
    """A fork that works there; what has to be let go of at its end is put on `undo`."""
    sandbox = place.sandbox if isinstance(place.sandbox, Sandbox) else None
    read_only = parent.machine.read_only_profile(place.workspace, sandbox)
    undo.callback(read_only.close)
    runner = Runner(
        parent.machine.environment,
        sandbox.launcher if sandbox else None,
        read_only=read_only,
    )
    shells = Shells(runner)
    undo.push_async_callback(runner.shutdown)
    undo.push_async_callback(shells.shutdown)
    machine = _Workplace(place.workspace, runner, shells, parent.machine.web)
    toolbox = parent.workshop.moved(machine, cwd=place.cwd).toolbox(parent.folders, TodoList())
    authorizer = parent.authorizer.elsewhere(
        place.gate,
        place.workspace,
        runner,
        cwd=str(place.cwd),
        distrusted=parent.machine.workspace.roots,
    )
    guards = parent.guards.for_fork(
        model,
        ForkPlace(
            permission=authorizer.bundle(),
            validate=toolbox.validate,
            read_file=file_reader(place.workspace),
            reread=place.prompt.reread,
        ),
    )
    undo.push_async_callback(guards.context.close)
    attacher = Attacher(cwd=place.cwd, asset_dir=parent.folders.assets)
    guarded = GuardedAttacher(attacher=attacher, gate=place.gate, asker=parent.asker)
    explainer = Explainer(
        gate=place.gate, toolbox=toolbox, workspace=place.workspace, cwd=str(place.cwd)
    )
    room = OtherRoom(
        cwd=place.cwd,
        gate=place.gate,
        shut_in=place.shut_in,
        sandbox=sandbox.kind if sandbox else "",
        system_prompt=place.prompt.text,
        attach=guarded.attach,
        explain=explainer.decide,
        shells=shells,
        tree=place.tree,
    )
    return ForkParts(
        configure=guards.configure,
        tools=toolbox.loop_tools,
        room=room,
        sinks=guards.sinks,
    )
