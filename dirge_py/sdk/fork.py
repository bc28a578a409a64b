"""Forks: conversations that start from another one, beside it, read-only, or in a copy.

A fork has its own guards, tools and todo list. A read-only fork works in the parent's folder with
commands that can only read; a copy works in a copy of the working tree, without a network.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.config.schema import Config
from dirge_py.context.hooks import file_reader
from dirge_py.context.system_prompt import SystemPrompt
from dirge_py.conversation.deps import ConversationDeps, ForkOptions, ReadTree, WorkEnvironment
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.engine import ForkPermissionEngine, PermissionEngine
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.rules import Anchors, Rule
from dirge_py.permission.settings import open_engine
from dirge_py.processes.runner import Shells
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox
from dirge_py.sdk.environment import ExecutionEnvironment, Workplace, open_fork_sandbox
from dirge_py.sdk.guards import GuardParts, Guards, guarded_attach
from dirge_py.sdk.options import BuildOptions
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.questions import Asker

if TYPE_CHECKING:
    from dirge_py.files.tree_hash import TreeDigest
    from dirge_py.sdk.project_files import ProjectCopy, TreeReader


_NO_ANCHORS = Anchors()


class Parent(Protocol):
    """The parts of a conversation that its forks use."""

    config: Config
    options: BuildOptions
    cwd: Path
    environment: ExecutionEnvironment
    folder: Path
    prompt: SystemPrompt
    gate: PermissionEngine
    guards: Guards
    authorizer: Authorizer
    extensions: ExtensionSet
    asker: Asker

    def show_notice(self, text: str, /) -> None: ...
    def make_tools(self, workplace: Workplace, cwd: Path, todo: TodoList) -> Toolbox: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFolder:
    """Where a conversation works."""

    cwd: Path
    """Its folder, as the model sees it."""
    workspace: Workspace
    """Its files."""
    gate: PermissionEngine
    """Judges its calls."""
    sandbox: Sandbox | None
    """Confines its commands; None: nothing does."""
    isolation: str = ""
    """What keeps the commands of a fork from changing the project, in words for people."""
    prompt: SystemPrompt
    """Its system prompt."""
    tree: ReadTree
    """Reads its files."""


class Forks:
    """Makes the forks of one conversation."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._granted: list[Rule] = []
        self._open: set[AsyncExitStack] = set()

    @cached_property
    def _tree(self) -> "TreeReader":
        from dirge_py.sdk.project_files import TreeReader, project_around

        parent = self._parent
        roots = parent.environment.workspace.roots
        return TreeReader(project_around(parent.config, parent.cwd, roots))

    async def make(self, options: ForkOptions, fork: ConversationDeps) -> ConversationDeps:
        """Return the parts of a fork, with its own ones in place of those that it would share.

        Raises FileError: the project can't be copied; ConfigError: no required sandbox works.
        """
        extensions = self._parent.extensions.for_fork(options)
        if options.workspace == "shared":
            return self._beside(fork, extensions)
        async with AsyncExitStack() as undo:
            place = await self._place(undo, is_copy=options.workspace == "copy")
            fork = _fork_in(self._parent, place, fork, extensions, undo)
            resources = undo.pop_all()
        self._open.add(resources)

        async def close() -> None:
            self._open.discard(resources)
            await resources.aclose()

        return replace(fork, on_close=(close,))

    async def tree(self) -> "TreeDigest":
        """Read the project's files as they are now. Raises FileError: they can't be read."""
        return await self._tree()

    async def aclose(self) -> None:
        """Remove the workspaces of forks that were not closed."""
        while self._open:
            await self._open.pop().aclose()

    def _beside(self, fork: ConversationDeps, extensions: ExtensionSet) -> ConversationDeps:
        parent = self._parent
        own = parent.guards.for_fork(fork.model, extensions)
        toolbox = parent.make_tools(parent.environment.workplace, parent.cwd, TodoList())
        return replace(
            fork,
            extensions=extensions,
            run=replace(
                fork.run,
                configure=own.configure,
                tools=toolbox.loop_tools,
                bind_tools=toolbox.bind_tools,
            ),
            sinks=own.sinks,
            on_close=(own.context.close,),
        )

    async def _place(self, undo: AsyncExitStack, *, is_copy: bool) -> WorkFolder:
        """A copy of the project, or the parent's folder with commands that can only read."""
        from dirge_py.sdk.project_files import copy_project

        parent, copy = self._parent, None
        roots: Sequence[str] = parent.environment.workspace.roots
        cwd, writable = parent.cwd, tuple[str, ...]()
        if is_copy:
            folders, notify = parent.gate.folders, parent.show_notice
            copy = await copy_project(self._tree.project, folders, undo, notify)
            roots, cwd, writable = copy.roots, Path(copy.cwd), (copy.top,)
        workspace = Workspace(roots, cwd)
        undo.callback(workspace.close)
        found = await self._sandbox(writable, undo)
        sandbox = found if isinstance(found, Sandbox) else None
        if copy is not None:
            gate = self._gate_of_copy(copy, workspace, is_sandboxed=sandbox is not None)
        else:
            gate = self._gate(workspace, granted=[], only_looks=True)
        return WorkFolder(
            cwd=cwd,
            workspace=workspace,
            gate=gate,
            sandbox=sandbox,
            isolation=_isolation(found, is_copy=is_copy),
            prompt=parent.prompt.at(cwd) if is_copy else parent.prompt,
            tree=copy.tree if copy is not None else self._tree,
        )

    def _gate_of_copy(
        self, copy: "ProjectCopy", workspace: Workspace, *, is_sandboxed: bool
    ) -> PermissionEngine:
        """Make the permission engine of a copy: the parent's rules also hold for the copied paths.

        The project itself may be read, but not changed.
        """
        parent, roots = self._parent, self._parent.gate.folders
        originals = [
            folder for folder in (copy.project.root, *roots) if not is_below_any(copy.top, [folder])
        ]
        seen = [
            Rule("read", pattern, "allow", "it was copied")
            for root in roots
            for pattern in (quoted_path(root), f"{quoted_path(root)}/**")
        ]
        return self._gate(
            workspace,
            is_sandboxed=is_sandboxed,
            anchors=Anchors(
                folders=(str(parent.cwd), os.path.realpath(parent.cwd), *roots),
                copies=((copy.top, copy.project.root),),
            ),
            granted=self._granted,
            only_looks=False,
            first=seen,
            # In a sandbox the kernel keeps these folders unchanged.
            kept=() if is_sandboxed else originals,
        )

    def _gate(
        self,
        workspace: Workspace,
        *,
        is_sandboxed: bool = False,
        anchors: Anchors = _NO_ANCHORS,
        **more: Any,
    ) -> PermissionEngine:
        parent = self._parent
        return open_engine(
            parent.config,
            parent.options,
            workspace,
            parent.folder / "output",
            is_sandboxed=is_sandboxed,
            anchors=anchors,
            make=partial(ForkPermissionEngine, parent=parent.gate, **more),
        )

    async def _sandbox(self, writable: Sequence[str], undo: AsyncExitStack) -> Sandbox | NoSandbox:
        from dirge_py.sdk.project_files import in_thread

        parent = self._parent
        project, workspace = self._tree.project.root, parent.environment.workspace

        def find(_is_stopped: Callable[[], bool]) -> Sandbox | NoSandbox:
            sandbox = open_fork_sandbox(
                parent.config, workspace, project=project, writable=writable
            )
            if isinstance(sandbox, Sandbox):
                undo.callback(sandbox.close)  # here, as the wait for it may be cancelled
            return sandbox

        return await in_thread(find)


def _isolation(sandbox: Sandbox | NoSandbox, *, is_copy: bool) -> str:
    """What keeps the commands of a fork from changing the project, in words for people."""
    if isinstance(sandbox, NoSandbox):
        words = f"{sandbox.reason}: commands ask as usual"
        return f"a copy; {words}" if is_copy else f"{sandbox.reason}: only read-only commands"
    if not is_copy:
        return f"read-only: {sandbox.kind}"
    hole = ", where modes and times of other files can be changed"
    return f"a copy, without a network: {sandbox.kind}{hole * (sandbox.kind == 'landlock')}"


def _fork_in(
    parent: Parent,
    place: WorkFolder,
    fork: ConversationDeps,
    extensions: ExtensionSet,
    undo: AsyncExitStack,
) -> ConversationDeps:
    """The parts of a fork that works in `place`; `undo` gets what closes it."""
    workplace = parent.environment.make_workplace(place.workspace, place.sandbox)
    undo.callback(workplace.read_only.close)
    undo.push_async_callback(workplace.runner.shutdown)
    undo.push_async_callback(workplace.shells.shutdown)
    toolbox = parent.make_tools(workplace, place.cwd, TodoList())
    authorizer = parent.authorizer.for_fork(
        place.gate,
        place.workspace,
        workplace.runner,
        cwd=str(place.cwd),
        distrusted=parent.environment.workspace.roots,
    )

    def in_place(parts: GuardParts) -> GuardParts:
        read_file = file_reader(place.workspace)
        context = replace(parts.context, read_file=read_file, reread=place.prompt.reread)
        return replace(parts, context=context, authorizer=authorizer, validate=toolbox.validate)

    guards = parent.guards.for_fork(fork.model, extensions, in_place)
    undo.push_async_callback(guards.context.close)
    return replace(
        fork,
        extensions=extensions,
        run=replace(
            fork.run,
            configure=guards.configure,
            tools=toolbox.loop_tools,
            bind_tools=toolbox.bind_tools,
        ),
        session=replace(fork.session, uncommitted=None),
        environment=work_environment(parent, place, toolbox, workplace.shells),
        sinks=guards.sinks,
    )


def work_environment(
    parent: Parent, place: WorkFolder, toolbox: Toolbox, shells: Shells
) -> WorkEnvironment:
    """Return the environment of a conversation in `place`: of `parent` itself or of a fork."""
    from dirge_py.context.attachments import Attacher
    from dirge_py.sdk.explain import Explainer

    assets = parent.folder / "assets"
    attacher = Attacher(cwd=place.cwd, asset_dir=assets)
    explainer = Explainer(
        gate=place.gate, toolbox=toolbox, workspace=place.workspace, cwd=str(place.cwd)
    )
    return WorkEnvironment(
        cwd=place.cwd,
        system_prompt=place.prompt.text,
        attach=guarded_attach(attacher, place.gate, parent.asker),
        gate=place.gate,
        explain=explainer.decide,
        shells=shells,
        sandbox=place.sandbox.kind if place.sandbox is not None else "",
        read_only_profile=lambda: str(parent.environment.workplace.read_only.mechanism),
        isolation=place.isolation,
        read_tree=place.tree,
        asset_dir=assets,
        instruction_files=parent.prompt.project_files.paths,
    )
