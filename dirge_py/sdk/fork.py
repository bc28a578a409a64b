"""Forks: conversations that start from another one, beside it, read-only, or in a copy.

A fork gets guards, tools and a todo list of its own. A read-only fork works in the parent's folder
with commands that can only read; a copy works in a copy of the working tree, without a network.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.context.attachments import Attacher
from dirge_py.context.hooks import file_reader
from dirge_py.context.system_prompt import SystemPrompt
from dirge_py.conversation.deps import (
    ForkEnvironment,
    ForkOptions,
    ReadTree,
    TreeState,
    WorkEnvironment,
)
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.files.git import make_git_folder
from dirge_py.files.resolve import is_beneath, reason_of
from dirge_py.files.safe_read import read_regular
from dirge_py.files.tree_hash import TreeDigest, TreeHash, sha256_of_files
from dirge_py.files.working_copy import (
    CopyFolder,
    CopyResult,
    WorkingCopy,
    place_for_copies,
    remove_abandoned_copies,
    remove_tree,
)
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below
from dirge_py.lib.text import clean
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.engine import ForkPermissionEngine, PermissionEngine
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.rules import Anchors, Rule
from dirge_py.permission.settings import open_engine
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.mount_plan import is_git_directory, repository_of, toolchains
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox, SandboxProfile
from dirge_py.processes.shells import Shells
from dirge_py.sdk.attach import GuardedAttacher
from dirge_py.sdk.environment import (
    ExecutionEnvironment,
    SessionFolders,
    ToolFactory,
    sandbox_profile_of,
)
from dirge_py.sdk.explain import Explainer
from dirge_py.sdk.guards import ForkPlace, Guards
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.project_files import Listed, Project, in_thread
from dirge_py.session.snapshots.git import GitFailed, private_git
from dirge_py.tools.todo_list import TodoList
from dirge_py.types.errors import ConfigError, FileError
from dirge_py.types.questions import Asker

if TYPE_CHECKING:
    from dirge_py.processes.sandbox.probe import find_sandbox
    from dirge_py.sdk.project_files import project_around
else:
    project_around = late("dirge_py.sdk.project_files", "project_around")
    find_sandbox = late("dirge_py.processes.sandbox.probe", "find_sandbox")

_REFRESH_S = 20.0
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What forks get from the conversation that they come from."""

    config: Config
    """The settings."""
    options: BuildOptions
    """The flags that are no settings."""
    cwd: Path
    """The folder it works in."""
    environment: ExecutionEnvironment
    """Its folders, commands and sandbox."""
    tools: ToolFactory
    """Makes its tools."""
    folders: SessionFolders
    """Where its outputs and pictures are stored."""
    prompt: SystemPrompt
    """Its system prompt."""
    gate: PermissionEngine
    """Judges its calls."""
    guards: Guards
    """Configures its runs."""
    authorizer: Authorizer
    """Asks about its calls."""
    extensions: ExtensionSet
    """Its capabilities."""
    asker: Asker
    """Answers its questions."""
    notify: Callable[[str], None]
    """Tells the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCopy:
    """A copy of the working tree of a project."""

    project: Project
    """The project that was copied."""
    top: str
    """The root of the copy."""
    cwd: str
    """The working folder in the copy."""
    roots: Sequence[str]
    """The folders of the workspace in the copy."""
    paths: Sequence[str]
    """The files that were copied, relative to the root."""
    linked: Sequence[str]
    """Folders of dependencies that are links to those of the project."""
    hashes: TreeHash
    """Hashes the files of the copy."""

    async def tree(self) -> TreeState:
        """What was copied, as it is now.

        It is another state than the project's not only while files differ, but also at the first
        look after some were changed and changed back, and while other dependencies are in place:
        what ran meanwhile ran on something else.

        Raises:
            FileError: it cannot be read.
        """
        hashed = await hashed_files(self.hashes, self.paths)
        moved = [path for path in self.linked if not self._is_linked(path)]
        files = hashed.files | dict.fromkeys(hashed.rewritten, "changed back")
        files |= dict.fromkeys(moved, "replaced")
        return TreeState(sha256=sha256_of_files(files), files=files)

    def _is_linked(self, path: str) -> bool:
        try:
            return os.readlink(f"{self.top}/{path}") == f"{self.project.root}/{path}"
        except OSError:
            return False


async def copied(
    project: Project,
    roots: Sequence[str],
    undo: AsyncExitStack,
    notify: Callable[[str], None],
) -> ProjectCopy:
    """Copy the project as it is now; `undo` removes the copy. `notify` hears what is not in it.

    `roots` are the folders of the workspace; those elsewhere are not copied.

    Raises:
        FileError: it cannot be copied.
    """
    inner = [os.path.relpath(one, project.root) for one in (project.cwd, *roots)]
    inner = [one for one in inner if one.split("/")[0] != ".."]
    try:
        place = place_for_copies([project.root])
        if not place:
            raise FileError(
                f"{project.root} cannot be copied: it holds the folders for temporary files.",
                hint="Start in a folder further down, or set TMPDIR to one elsewhere.",
            )
        listed = await project.files(dependencies=True)
        await asyncio.to_thread(remove_abandoned_copies, place)
        folder = CopyFolder(place, os.path.basename(project.root))
        undo.push_async_callback(_remove, folder, notify)
        made = await in_thread(partial(_fill, project.root, folder.top, listed, inner))
    except OSError as error:
        raise FileError(
            f"The project cannot be copied: {reason_of(error)}.",
            hint="Make room in the folder for temporary files, or set TMPDIR to another.",
        ) from error
    linked = [path for path in listed.dependencies if os.path.islink(f"{folder.top}/{path}")]
    await _copy_git(project, folder.top, linked, notify)
    _tell_left_out(made, listed, notify)
    written = set(listed.written)
    places = [os.path.normpath(os.path.join(folder.top, one)) for one in inner]
    return ProjectCopy(
        project=project,
        top=folder.top,
        cwd=places[0],
        roots=places,
        paths=[path for path in made.paths if path in written],
        linked=linked,
        hashes=TreeHash(folder.top),
    )


def gate_for_copy(
    parent: Parent,
    copy: ProjectCopy,
    workspace: Workspace,
    *,
    granted: list[Rule],
    is_sandboxed: bool,
) -> PermissionEngine:
    """Judges as the parent's does, also by what rules say of the paths that were copied.

    The project itself may be read, and not changed.
    """
    roots = parent.gate.folders
    originals = [one for one in (copy.project.root, *roots) if not is_beneath(copy.top, [one])]
    seen = [
        Rule("read", pattern, "allow", "it was copied")
        for root in roots
        for pattern in (quoted_path(root), f"{quoted_path(root)}/**")
    ]
    return open_engine(
        parent.config,
        parent.options,
        workspace,
        parent.folders.output,
        is_sandboxed=is_sandboxed,
        project_rules=parent.options.project_rules,
        anchors=Anchors(
            folders=(str(parent.cwd), os.path.realpath(parent.cwd), *roots),
            copies=((copy.top, copy.project.root),),
        ),
        make=partial(
            ForkPermissionEngine,
            parent=parent.gate,
            granted=granted,
            only_looks=False,
            first=seen,
            # In a sandbox nothing can be written there, and programs are told so.
            kept=() if is_sandboxed else originals,
        ),
    )


def _fill(
    source: str,
    target: str,
    listed: Listed,
    folders: Sequence[str],
    is_stopped: Callable[[], bool],
) -> CopyResult:
    working_copy = WorkingCopy(source, target)
    made = working_copy.copy(listed.files, is_stopped)
    working_copy.link(listed.dependencies)
    working_copy.make_folders(folders)
    return made


async def _copy_git(
    project: Project, top: str, linked: Sequence[str], notify: Callable[[str], None]
) -> None:
    """Have git work in the copy as it does in the project, as far as it does there."""
    places = await asyncio.to_thread(project.git_places)
    if places is None or not project.git.program:
        return
    own = Path(top, ".git")
    try:
        await in_thread(lambda _stopped: make_git_folder(own, places, ignored=linked))
    except OSError as error:
        await asyncio.to_thread(remove_tree, str(own))
        notify(f"Git does not work in the copy of the project: {reason_of(error)}.")
        return
    git = private_git(project.git.program, project.git.path, top)
    # Else every look at what changed reads all files anew: these are others than the index knows.
    refresh = f"{git.command('update-index', '-q', '--refresh')} || :"
    with suppress(GitFailed):
        await git.run(refresh, store=own, index=own / "index", timeout_s=_REFRESH_S)


async def _remove(folder: CopyFolder, notify: Callable[[str], None]) -> None:
    if not await asyncio.to_thread(folder.remove):
        notify(f"A copy of the project could not be removed: {clean(folder.top)}.")


def _tell_left_out(made: CopyResult, listed: Listed, notify: Callable[[str], None]) -> None:
    left_out = [*made.left_out, *((path, "cannot be listed") for path in listed.closed)]
    if not left_out:
        return
    named = ", ".join(f"{clean(path)} ({why})" for path, why in left_out[:_MOST_NAMED])
    more = len(left_out) - _MOST_NAMED
    notify(f"Not in the copy of the project: {named}{f' and {more} more' if more > 0 else ''}.")


_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Unconfined:
    """Why commands are not shut in, for a person."""

    reason: str


def open_fork_sandbox(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str] = ()
) -> Sandbox | Unconfined:
    """A sandbox without a network in which only `writable` and temporary folders can be changed.

    The roots of `workspace` and `project` are seen, and all that the settings show to commands.
    Where the parent's commands are shut in, those of a fork always are. Blocks. Close it at the
    end.

    Raises:
        ConfigError: a sandbox is required, and none works.
    """
    mode = config.sandbox.mode
    if config.plan.sandbox == "off" and mode == "off":
        return Unconfined('`[plan] sandbox` is "off"')
    found = find_sandbox(_fork_profile(config, workspace, project=project, writable=writable))
    if not isinstance(found, NoSandbox):
        return found
    if mode == "required":
        raise ConfigError(f"No sandbox works here: {found.reason}.", hint=found.fix)
    return Unconfined("no sandbox works here")


def _fork_profile(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str]
) -> SandboxProfile:
    usual, roots = sandbox_profile_of(config, workspace), workspace.roots
    home = os.path.realpath(usual.home)
    environment = config.origin.environment or os.environ
    path = environment.get("PATH", os.defpath)
    seen = [*roots, project, *usual.readable, *usual.writable]
    seen += toolchains(path, home, roots=[*roots, project])
    # Where the parent's commands are shut in, they do not see the objects of other repositories.
    of_git = _of_git if config.sandbox.mode == "off" else _of_repository
    for folder in (*roots, project):
        seen += [each for each in of_git(folder) if not is_below(home, each)]
    return SandboxProfile(
        roots=(),
        home=usual.home,
        writable=tuple(writable),
        readable=tuple(dict.fromkeys(seen)),
        hidden=(str(config_dir(environment)), str(state_dir(environment))),
    )


def _of_repository(folder: str) -> Iterator[str]:
    """The repository around a folder, which git needs to see."""
    repository = repository_of(folder)
    if repository is not None:
        yield repository.top
        yield from repository.places


def _of_git(folder: str) -> Iterator[str]:
    """The same, and the places of objects that it shares with other repositories."""
    yield from _of_repository(folder)
    repository = repository_of(folder)
    for place in repository.places if repository is not None else ():
        try:
            named = read_regular(Path(place, "objects/info/alternates"), _SMALL_BYTES)
        except OSError:
            continue
        for line in named.splitlines():
            objects = os.path.realpath(os.path.join(place, "objects", os.fsdecode(line)))
            # It may name any place; only what holds objects of a repository is one.
            above, name = os.path.split(objects)
            if name == "objects" and is_git_directory(above):
                yield objects


class Forks:
    """Makes the forks of one conversation, and reads the project that some of them are about."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._reader: TreeReader | None = None
        self._workspaces: ForkWorkspaces | None = None

    async def make(self, options: ForkOptions, model: str) -> ForkEnvironment:
        """Guards without gates, with a memory of their own, and a todo list; a room as asked.

        Raises:
            FileError: the project cannot be copied.
        """
        extensions = self._parent.extensions.for_fork(options)
        if options.workspace == "shared":
            return self._beside(model, extensions)
        if self._workspaces is None:
            self._workspaces = ForkWorkspaces(self._parent, self._tree())
        make = (
            self._workspaces.read_only
            if options.workspace == "read_only"
            else self._workspaces.copy
        )
        return await make(model, extensions)

    async def tree(self) -> TreeState:
        """The files of the project as they are now.

        Raises:
            FileError: they cannot be listed or read.
        """
        return await self._tree()()

    async def aclose(self) -> None:
        """Let go of what forks that were not closed have left."""
        if self._workspaces is not None:
            await self._workspaces.aclose()

    def _beside(self, model: str, extensions: ExtensionSet) -> ForkEnvironment:
        parent = self._parent
        own = parent.guards.for_fork(model, extensions)
        return ForkEnvironment(
            extensions=extensions,
            configure=own.configure,
            tools=parent.tools.toolbox(parent.folders, TodoList()).loop_tools,
            sinks=own.sinks,
            on_close=(own.context.close,),
        )

    def _tree(self) -> "TreeReader":
        if self._reader is None:
            parent = self._parent
            roots = parent.environment.workspace.roots
            self._reader = TreeReader(project_around(parent.config, parent.cwd, roots))
        return self._reader


class TreeReader:
    """Reads the files of a project; what did not change since the last time is not read again."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._hash = TreeHash(project.root)
        self._turn = asyncio.Lock()

    async def __call__(self) -> TreeState:
        """
        Raises:
            FileError: they cannot be listed or read.
        """
        async with self._turn:
            listed = await self.project.files()
            hashed = await hashed_files(self._hash, listed.written)
            return TreeState(sha256=hashed.sha256, files=hashed.files)


async def hashed_files(hashes: TreeHash, paths: Sequence[str]) -> TreeDigest:
    """
    Raises:
        FileError: the folder is gone, or cannot be opened.
    """

    def read(is_stopped: Callable[[], bool]) -> TreeDigest:
        return hashes.read(paths, is_stopped)

    try:
        return await in_thread(read)
    except OSError as error:
        raise FileError(f"The files cannot be read: {error.strerror or error}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkWorkspace:
    """Where one fork works."""

    cwd: Path
    """Its folder, as the model sees it."""
    workspace: Workspace
    """Its files."""
    gate: PermissionEngine
    """Judges its calls."""
    sandbox: Sandbox | Unconfined
    """Confines its commands, or says why nothing does."""
    isolation: str
    """For people: what keeps its commands from changing the project."""
    prompt: SystemPrompt
    """Its system prompt."""
    tree: ReadTree
    """Reads its files."""


@dataclass(frozen=True, slots=True)
class _Workplace:
    workspace: Workspace
    runner: Runner
    shells: Shells


def _workplace(parent: Parent, place: ForkWorkspace, undo: AsyncExitStack) -> _Workplace:
    """Files and commands of a fork; `undo` gets what ends them."""
    sandbox = place.sandbox if isinstance(place.sandbox, Sandbox) else None
    read_only = parent.environment.read_only_profile(place.workspace, sandbox)
    undo.callback(read_only.close)
    runner = Runner(
        parent.environment.environment,
        sandbox.launcher if sandbox else None,
        read_only=read_only,
    )
    shells = Shells(runner)
    undo.push_async_callback(runner.shutdown)
    undo.push_async_callback(shells.shutdown)
    return _Workplace(place.workspace, runner, shells)


def fork_in(
    parent: Parent,
    place: ForkWorkspace,
    model: str,
    extensions: ExtensionSet,
    undo: AsyncExitStack,
) -> ForkEnvironment:
    """A fork that works there; what has to be let go of at its end is put on `undo`."""
    machine = _workplace(parent, place, undo)
    toolbox = parent.tools.elsewhere(machine, cwd=place.cwd).toolbox(parent.folders, TodoList())
    authorizer = parent.authorizer.for_fork(
        place.gate,
        place.workspace,
        machine.runner,
        cwd=str(place.cwd),
        distrusted=parent.environment.workspace.roots,
    )
    guards = parent.guards.for_fork(
        model,
        extensions,
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
    environment = WorkEnvironment(
        cwd=place.cwd,
        gate=place.gate,
        isolation=place.isolation,
        sandbox=place.sandbox.kind if isinstance(place.sandbox, Sandbox) else "",
        read_only_profile=lambda: str(parent.environment.read_only.mechanism),
        system_prompt=place.prompt.text,
        attach=guarded.attach,
        explain=explainer.decide,
        shells=machine.shells,
        read_tree=place.tree,
        asset_dir=parent.folders.assets,
        instruction_files=parent.prompt.project_files.paths,
    )
    return ForkEnvironment(
        extensions=extensions,
        configure=guards.configure,
        tools=toolbox.loop_tools,
        environment=environment,
        sinks=guards.sinks,
    )


class ForkWorkspaces:
    """Makes the workspaces of one conversation's forks."""

    def __init__(self, parent: Parent, tree: TreeReader) -> None:
        self._parent = parent
        self._tree = tree
        self._granted: list[Rule] = []
        self._open: set[AsyncExitStack] = set()

    async def aclose(self) -> None:
        """Remove the workspaces of forks that were not closed."""
        while self._open:
            await self._open.pop().aclose()

    async def read_only(self, model: str, extensions: ExtensionSet) -> ForkEnvironment:
        """The parent's folder, to look at."""
        return await self._opened(self._to_look, model, extensions)

    async def copy(self, model: str, extensions: ExtensionSet) -> ForkEnvironment:
        """A copy of the project, to work in.

        Raises:
            FileError: it cannot be made.
        """
        return await self._opened(self._to_work, model, extensions)

    async def _opened(
        self,
        make: Callable[[AsyncExitStack], Awaitable[ForkWorkspace]],
        model: str,
        extensions: ExtensionSet,
    ) -> ForkEnvironment:
        async with AsyncExitStack() as undo:
            place = await make(undo)
            made = fork_in(self._parent, place, model, extensions, undo)
            kept = undo.pop_all()
        self._open.add(kept)

        async def close() -> None:
            self._open.discard(kept)
            await kept.aclose()

        return replace(made, on_close=(close,))

    async def _to_look(self, undo: AsyncExitStack) -> ForkWorkspace:
        parent = self._parent
        workspace = Workspace(parent.environment.workspace.roots, parent.cwd)
        undo.callback(workspace.close)
        gate = open_engine(
            parent.config,
            parent.options,
            workspace,
            parent.folders.output,
            project_rules=parent.options.project_rules,
            make=partial(ForkPermissionEngine, parent=parent.gate, granted=[], only_looks=True),
        )
        sandbox = await self._sandbox((), undo)
        if isinstance(sandbox, Sandbox):
            isolation = f"read-only: {sandbox.kind}"
        else:
            isolation = f"{sandbox.reason}: only commands that look"
        return ForkWorkspace(
            cwd=parent.cwd,
            workspace=workspace,
            gate=gate,
            sandbox=sandbox,
            isolation=isolation,
            prompt=parent.prompt,
            tree=self._tree,
        )

    async def _to_work(self, undo: AsyncExitStack) -> ForkWorkspace:
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
        return ForkWorkspace(
            cwd=Path(copy.cwd),
            workspace=workspace,
            gate=gate,
            sandbox=sandbox,
            isolation=_of_copy(sandbox),
            prompt=parent.prompt.at(Path(copy.cwd)),
            tree=copy.tree,
        )

    async def _sandbox(self, writable: Sequence[str], undo: AsyncExitStack) -> Sandbox | Unconfined:
        parent = self._parent
        project, workspace = self._tree.project.root, parent.environment.workspace
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
