"""A copy of the project for a fork to work in: its files, its history, and its rules."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from dirge_py.conversation.deps import TreeState
from dirge_py.files.copy_folder import CopyFolder, place_for_copies, remove_leftovers
from dirge_py.files.git_copy import make_git_folder
from dirge_py.files.removal import remove_tree
from dirge_py.files.resolve import is_beneath, reason_of
from dirge_py.files.tree_hash import TreeHash, sha256_of_files
from dirge_py.files.working_copy import Copied, WorkingCopy
from dirge_py.files.workspace import Workspace
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.gate import Gate
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.room_gate import RoomGate
from dirge_py.permission.rules import Anchors, Rule
from dirge_py.permission.settings import open_gate
from dirge_py.sdk.forks import Parent
from dirge_py.sdk.project_files import Listed, Project, in_thread
from dirge_py.sdk.tree import hashed_files
from dirge_py.session.snapshots.git import GitFailed, private_git
from dirge_py.types.errors import FileError

_REFRESH_S = 20.0
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCopy:
    """`top` is what the project's root is in the copy, `paths` are the files that were copied.

    `cwd` and `roots` are what the folders of the workspace are there.
    """

    project: Project
    top: str
    cwd: str
    roots: Sequence[str]
    paths: Sequence[str]
    linked: Sequence[str]
    hashes: TreeHash

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
        await asyncio.to_thread(remove_leftovers, place)
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
) -> Gate:
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
    return open_gate(
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
            RoomGate,
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
) -> Copied:
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


def _tell_left_out(made: Copied, listed: Listed, notify: Callable[[str], None]) -> None:
    left_out = [*made.left_out, *((path, "cannot be listed") for path in listed.closed)]
    if not left_out:
        return
    named = ", ".join(f"{clean(path)} ({why})" for path, why in left_out[:_MOST_NAMED])
    more = len(left_out) - _MOST_NAMED
    notify(f"Not in the copy of the project: {named}{f' and {more} more' if more > 0 else ''}.")
