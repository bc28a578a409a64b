"""The files of a project that git does not ignore: listed, hashed and copied."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.files.resolve import reason_of
from dirge_py.files.tree_hash import TreeDigest, TreeHash
from dirge_py.files.walk import is_build_artifact, is_dependency_folder, list_unignored
from dirge_py.files.working_copy import (
    CopyFolder,
    CopyResult,
    WorkingCopy,
    place_for_copies,
    remove_abandoned_copies,
    remove_tree,
)
from dirge_py.git.objects import read_names
from dirge_py.git.repository import (
    GitFolders,
    UnreadableRepository,
    git_folders,
    repository_setting,
    work_tree_of,
)
from dirge_py.git.repository_copy import make_git_folder, make_index_folder
from dirge_py.git.runner import (
    OWN_FILE,
    Git,
    GitFailed,
    find_git,
    ignore_options,
    personal_excludes,
)
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.lib.text import clean
from dirge_py.processes.programs import search_path
from dirge_py.processes.sandbox.mount_plan import repository_of
from dirge_py.types.errors import FileError

MOST_FILES = 100_000
_LIST_S = 60.0
_REFRESH_S = 20.0
_MOST_NAMED = 5

_LINK = "160000"
_NO_NAMES = frozenset(("", ".", "..", ".git"))
_PLAIN_SETTINGS = (
    "core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.symlinks",
    "core.precomposeunicode", "extensions.objectformat", "user.name", "user.email",
)  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The files of a project, as relative paths."""

    files: Sequence[str]
    """Files and links."""
    tracked: Set[str] = frozenset()
    """The files that git tracks."""
    dependencies: Sequence[str] = ()
    """Ignored folders of dependencies."""
    closed: Sequence[str] = ()
    """Folders that can't be listed."""

    @property
    def written(self) -> Sequence[str]:
        """The source files: no build artifacts, unless git tracks them."""
        return [path for path in self.files if path in self.tracked or not is_build_artifact(path)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The git work tree around a working folder, or that folder alone."""

    root: str
    """The folder that its paths are relative to."""
    cwd: str
    """The working folder."""
    git: Git
    """Runs git without the project's settings."""
    own: Sequence[str] = ()
    """Folders of dirge, which are never part of the project."""
    _personal: list[Path | None] = field(default_factory=list)

    def git_places(self) -> GitFolders | None:
        """Return the git folders; None without a repository, or for one of an unknown format.

        Nothing is run. A `.git` file is followed only to a folder that git made for this work tree.
        """
        found, repository = git_folders(self.root), repository_of(self.root)
        if found is None or repository is None or repository.top != self.root:
            return None
        common = str(found.common)
        if not all(
            is_below_any(folder, repository.places) for folder in (str(found.git_dir), common)
        ):
            return None
        try:
            if repository_setting(common, "extensions.refstorage"):
                return None
            settings = {key: repository_setting(common, key) for key in _PLAIN_SETTINGS}
        except (OSError, UnreadableRepository, UnicodeError):
            return None
        return replace(found, settings={key: value for key, value in settings.items() if value})

    async def files(self, *, dependencies: bool = False) -> Listed:
        """List the files that are not ignored, and on request the ignored folders of dependencies.

        Raises FileError: there are too many, or listing them takes too long.
        """
        inner = "" if self.cwd == self.root else os.path.relpath(self.cwd, self.root)
        listed = await self._by_git(dependencies=dependencies)
        if listed is None:
            listed = await in_thread(self._walked)
        elif inner and not any(path.startswith(f"{inner}/") for path in listed.files):
            # The working folder is ignored by git, but the user works there.
            more = await in_thread(lambda stopped: self._walked(stopped, inner))
            listed = Listed(
                files=[*listed.files, *more.files],
                tracked=listed.tracked,
                dependencies=[*listed.dependencies, *more.dependencies],
                closed=more.closed,
            )
        if len(listed.files) > MOST_FILES:
            raise FileError(
                f"{self.root} has more than {MOST_FILES:,} files.",
                hint="Let git ignore generated and downloaded files.",
            )
        return listed

    def _walked(self, is_stopped: Callable[[], bool], below: str = "") -> Listed:
        found = list_unignored(self.root, below=below, most=MOST_FILES + 1, is_stopped=is_stopped)
        return Listed(
            files=[path for path in found.paths if self._belongs(path)],
            dependencies=found.dependencies,
            closed=found.closed,
        )

    async def _by_git(self, *, dependencies: bool) -> Listed | None:
        """List the files with git; None if git can't be used.

        Git runs with a git folder of dirge, so that no setting of the project has an effect.
        """
        places = await asyncio.to_thread(self.git_places)
        if places is None or not self.git.program:
            return None
        try:
            place = place_for_copies([self.root])
            if not place:
                return None
            scratch = CopyFolder(place, "git")
        except OSError:
            return None
        try:
            await in_thread(lambda _stopped: make_index_folder(Path(scratch.top), places))
            answers = await self._ask_git(places, Path(scratch.folder), dependencies)
            return await in_thread(lambda stopped: self._classify(answers, stopped))
        except GitFailed as error:
            if not error.timed_out:
                return None
            raise FileError(f"Listing the files of {self.root} took too long.") from error
        except OSError:
            return None
        finally:
            await in_thread(lambda _stopped: scratch.remove())

    async def _ask_git(
        self, places: GitFolders, scratch: Path, dependencies: bool
    ) -> tuple[Path, Path, Path | None]:
        if not self._personal:
            self._personal.append(await personal_excludes(self.git, places, scratch / "personal"))
        rules = ignore_options(own_folder="", files=(self._personal[0], places.exclude))
        held, others, ignored = (scratch / name for name in ("held", "others", "ignored"))
        commands = [
            self.git.command("ls-files", "-z", "--stage", stdout=held),
            self.git.command("ls-files", "-z", "--others", *rules, stdout=others),
        ]
        if dependencies:
            words = ("ls-files", "-z", "--others", "--ignored", "--directory")
            commands.append(self.git.command(*words, *rules, stdout=ignored))
        index = scratch / "git" / "index"
        await self.git.run(*commands, store=scratch / "git", index=index, timeout_s=_LIST_S)
        return held, others, ignored if dependencies else None

    def _classify(
        self, answers: tuple[Path, Path, Path | None], is_stopped: Callable[[], bool]
    ) -> Listed:
        held, others, ignored = answers
        entries = [entry.partition("\t") for entry in read_names(held)]
        tracked = [name for about, _, name in entries if not about.startswith(_LINK)]
        nested = [name for about, _, name in entries if about.startswith(_LINK)]
        untracked = read_names(others)
        nested += [name.rstrip("/") for name in untracked if name.endswith("/")]
        files = dict.fromkeys((*tracked, *(name for name in untracked if not name.endswith("/"))))
        unused = read_names(ignored) if ignored is not None else ()
        folders = [name.rstrip("/") for name in unused if self._is_installed(name)]
        closed: list[str] = []
        for name in nested:
            if os.path.islink(os.path.join(self.root, name)):
                files[name] = None
                continue
            if not os.path.isdir(os.path.join(self.root, name)):
                continue
            inner = self._walked(is_stopped, name)
            files |= dict.fromkeys(inner.files)
            folders += inner.dependencies
            closed += inner.closed
        return Listed(
            files=[path for path in files if self._belongs(path)],
            tracked=frozenset(tracked),
            dependencies=folders,
            closed=closed,
        )

    def _is_installed(self, name: str) -> bool:
        """Whether an ignored entry is a folder of dependencies, or a link to one."""
        full = os.path.join(self.root, name)
        return (name.endswith("/") or os.path.islink(full)) and is_dependency_folder(full)

    def _belongs(self, path: str) -> bool:
        # An index made by hand may hold names that git itself never adds.
        if OWN_FILE.fullmatch(os.path.basename(path)):
            return False
        if not _NO_NAMES.isdisjoint(path.lower().split("/")):
            return False
        return not self.own or not is_below_any(os.path.join(self.root, path), self.own)


def project_around(config: Config, cwd: Path, roots: Sequence[str]) -> Project:
    """Find the project around `cwd`; a git program in the folders `roots` is not used.

    If the work tree is a whole home folder, the project is `cwd` alone.
    """
    real = os.path.realpath(cwd)
    top = work_tree_of(real)
    home = os.path.realpath(os.path.expanduser("~"))
    root = real if top == "/" or is_below_any(home, [top]) else top
    environment = config.origin.environment
    own = [os.path.realpath(folder) for folder in (state_dir(environment), config_dir(environment))]
    path = search_path(os.environ.get("PATH", os.defpath), [*roots, root])
    return Project(
        root=root,
        cwd=real,
        git=Git(program=find_git(path, root), path=path, root=root),
        own=[folder for folder in own if is_below_any(folder, [root])],
    )


class TreeReader:
    """Hashes the files of a project, reading only those that changed since the last time."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._hash = TreeHash(project.root)
        self._lock = asyncio.Lock()

    async def __call__(self) -> TreeDigest:
        """Read the current state of the files. Raises FileError: they cannot be listed or read."""
        async with self._lock:
            return await hashed_files(self._hash, (await self.project.files()).written)


async def hashed_files(hashes: TreeHash, paths: Sequence[str]) -> TreeDigest:
    """Hash files. Raises FileError: the folder does not exist, or can't be opened."""
    try:
        return await in_thread(partial(hashes.read, paths))
    except OSError as error:
        raise FileError(f"Cannot read the files: {error.strerror or error}.") from error


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

    async def tree(self) -> TreeDigest:
        """Read the current state of the copied files.

        It also differs from the project's state at the first call after files were changed and
        changed back, and while dependencies are replaced: checks in between saw other files. Raises
        FileError: it cannot be read.
        """
        hashed = await hashed_files(self.hashes, self.paths)
        moved = [path for path in self.linked if not self._is_linked(path)]
        hashed.files |= dict.fromkeys(hashed.rewritten, "changed back")
        hashed.files |= dict.fromkeys(moved, "replaced")
        return hashed

    def _is_linked(self, path: str) -> bool:
        try:
            return os.readlink(f"{self.top}/{path}") == f"{self.project.root}/{path}"
        except OSError:
            return False


async def copy_project(
    project: Project, roots: Sequence[str], undo: AsyncExitStack, notify: Callable[[str], None]
) -> ProjectCopy:
    """Copy the project as it is now; `undo` removes the copy. `notify` is told what was left out.

    `roots` are the folders of the workspace; those outside of the project are not copied. Raises
    FileError: it cannot be copied.
    """
    inner = [os.path.relpath(folder, project.root) for folder in (project.cwd, *roots)]
    inner = [path for path in inner if path.split("/")[0] != ".."]
    try:
        place = place_for_copies([project.root])
        if not place:
            raise FileError(
                f"Cannot copy {project.root}: it contains the folders for temporary files.",
                hint="Start dirge in a subfolder, or set TMPDIR to a folder outside.",
            )
        listed = await project.files(dependencies=True)
        await asyncio.to_thread(remove_abandoned_copies, place)
        folder = CopyFolder(place, os.path.basename(project.root))
        undo.push_async_callback(_remove, folder, notify)
        made = await in_thread(partial(_fill, project.root, folder.top, listed, inner))
    except OSError as error:
        raise FileError(
            f"Cannot copy the project: {reason_of(error)}.",
            hint="Free space in the folder for temporary files, or set TMPDIR to another.",
        ) from error
    linked = [path for path in listed.dependencies if os.path.islink(f"{folder.top}/{path}")]
    await _copy_git(project, folder.top, linked, notify)
    _notify_left_out(made, listed, notify)
    written = set(listed.written)
    places = [os.path.normpath(os.path.join(folder.top, path)) for path in inner]
    return ProjectCopy(
        project=project,
        top=folder.top,
        cwd=places[0],
        roots=places,
        paths=[path for path in made.paths if path in written],
        linked=linked,
        hashes=TreeHash(folder.top),
    )


def _fill(
    source: str, target: str, listed: Listed, folders: Sequence[str], is_stopped: Callable[[], bool]
) -> CopyResult:
    working_copy = WorkingCopy(source, target)
    made = working_copy.copy(listed.files, is_stopped)
    working_copy.link(listed.dependencies)
    working_copy.make_folders(folders)
    return made


async def _copy_git(
    project: Project, top: str, linked: Sequence[str], notify: Callable[[str], None]
) -> None:
    """Make the copy a git work tree, if the project is one."""
    places = await asyncio.to_thread(project.git_places)
    if places is None or not project.git.program:
        return
    own = Path(top, ".git")
    try:
        await in_thread(lambda _stopped: make_git_folder(own, places, ignored=linked))
    except OSError as error:
        await asyncio.to_thread(remove_tree, str(own))
        notify(f"Git doesn't work in the copy of the project: {reason_of(error)}.")
        return
    git = Git(program=project.git.program, path=project.git.path, root=top)
    # Without this each `git status` reads all files, as their stamps differ from the index.
    refresh = f"{git.command('update-index', '-q', '--refresh')} || :"
    with suppress(GitFailed):
        await git.run(refresh, store=own, index=own / "index", timeout_s=_REFRESH_S)


async def _remove(folder: CopyFolder, notify: Callable[[str], None]) -> None:
    if not await asyncio.to_thread(folder.remove):
        notify(f"Cannot remove a copy of the project: {clean(folder.top)}.")


def _notify_left_out(made: CopyResult, listed: Listed, notify: Callable[[str], None]) -> None:
    left_out = [*made.left_out, *((path, "cannot be listed") for path in listed.closed)]
    if not left_out:
        return
    named = ", ".join(f"{clean(path)} ({why})" for path, why in left_out[:_MOST_NAMED])
    more = len(left_out) - _MOST_NAMED
    notify(f"Not in the copy of the project: {named}{f' and {more} more' if more > 0 else ''}.")


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run `work` in a thread; if the caller is cancelled, ask it to stop and wait for it."""
    stopped = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stopped.is_set))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.wait([task])
        raise
