"""Which files a project has: those that are not ignored, as git would list them."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.files.git import GitFolders, make_index_folder
from dirge_py.files.resolve import is_beneath
from dirge_py.files.walk import is_build_artifact, is_dependency_folder, list_unignored
from dirge_py.files.working_copy import CopyFolder, place_for_copies
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git.files import UnreadableRepository
from dirge_py.permission.git.repository import repository_setting
from dirge_py.processes.programs import search_path
from dirge_py.processes.sandbox.mount_plan import repository_of
from dirge_py.session.ids import project_root
from dirge_py.session.snapshots.capture import ignore_options, personal_excludes, project_git
from dirge_py.session.snapshots.git import Git, GitFailed, find_git, private_git
from dirge_py.types.errors import FileError

MOST_FILES = 100_000
_LIST_S = 60.0

_OUR_FILES = re.compile(r"(.*/)?\.dirge-[0-9a-f]{16}\.(tmp|new|old)")
_LINK = "160000"
_NO_NAMES = frozenset(("", ".", "..", ".git"))
_PLAIN_SETTINGS = (
    "core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.symlinks",
    "core.precomposeunicode", "extensions.objectformat", "user.name", "user.email",
)  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Relative paths: `files` and links, ignored folders of `dependencies`, `closed` folders.

    `tracked` are those of the files that git has in its index.
    """

    files: Sequence[str]
    tracked: Set[str] = frozenset()
    dependencies: Sequence[str] = ()
    closed: Sequence[str] = ()

    @property
    def written(self) -> Sequence[str]:
        """The files that somebody wrote: not what programs leave behind, save what is tracked."""
        return [path for path in self.files if path in self.tracked or not is_build_artifact(path)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The project that somebody works in from the folder `cwd`; `root` is where its paths begin.

    That is the git work tree around it. The work tree of a whole home folder is no project: then
    it is `cwd` alone. `own` are folders of ours, which are never a part of it.
    """

    root: str
    cwd: str
    git: Git
    own: Sequence[str] = ()
    _personal: list[Path | None] = field(default_factory=list)

    def git_places(self) -> GitFolders | None:
        """None where there is no repository, or a kind that cannot be read by hand.

        Nothing is run. A `.git` file is followed only to where git made a place for this folder.
        """
        found, repository = project_git(self.root), repository_of(self.root)
        if found.git_dir is None or found.exclude is None or repository is None:
            return None
        common = found.exclude.parent.parent
        real = [os.path.realpath(place) for place in (found.git_dir, common)]
        if repository.top != self.root or not all(
            is_beneath(one, repository.places) for one in real
        ):
            return None
        settings = {}
        try:
            if repository_setting(real[1], "extensions.refstorage"):
                return None
            settings = {key: repository_setting(real[1], key) for key in _PLAIN_SETTINGS}
        except (OSError, UnreadableRepository, UnicodeError):
            return None
        return GitFolders(
            git_dir=Path(real[0]),
            common=Path(real[1]),
            settings={key: value for key, value in settings.items() if value},
        )

    async def files(self, *, dependencies: bool = False) -> Listed:
        """What is not ignored, and on request the folders of dependencies that are.

        Raises:
            FileError: there are too many, or listing them takes too long.
        """
        listed = await self._by_git(dependencies=dependencies)
        if listed is None:
            listed = await in_thread(self._walked)
        elif self._is_elsewhere(listed):
            # Whoever works in an ignored folder means it.
            more = await in_thread(lambda stopped: self._walked(stopped, self._inner))
            listed = Listed(
                files=[*listed.files, *more.files],
                tracked=listed.tracked,
                dependencies=[*listed.dependencies, *more.dependencies],
                closed=more.closed,
            )
        if len(listed.files) > MOST_FILES:
            raise FileError(
                f"{self.root} has more than {MOST_FILES:,} files.",
                hint="Have git ignore what is made or downloaded there.",
            )
        return listed

    @property
    def _inner(self) -> str:
        return "" if self.cwd == self.root else os.path.relpath(self.cwd, self.root)

    def _is_elsewhere(self, listed: Listed) -> bool:
        inner = self._inner
        return bool(inner) and not any(path.startswith(f"{inner}/") for path in listed.files)

    def _walked(self, is_stopped: Callable[[], bool], below: str = "") -> Listed:
        found = list_unignored(self.root, below=below, most=MOST_FILES + 1, is_stopped=is_stopped)
        return Listed(
            files=[path for path in found.paths if self._is_of_it(path)],
            dependencies=found.dependencies,
            closed=found.closed,
        )

    async def _by_git(self, *, dependencies: bool) -> Listed | None:
        """What git says; None where it has nothing to say.

        It is asked about a git folder of ours, so nothing that the project brought acts.
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
            return await in_thread(lambda stopped: self._sorted_out(answers, stopped))
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
            found = await personal_excludes(self.git, project_git(self.root), scratch / "personal")
            self._personal.append(found)
        rules = ignore_options(
            own_folder="", files=(self._personal[0], places.common / "info/exclude")
        )
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

    def _sorted_out(
        self, answers: tuple[Path, Path, Path | None], is_stopped: Callable[[], bool]
    ) -> Listed:
        tracked, others, nested = self._told_apart(answers[0], answers[1])
        files = dict.fromkeys((*tracked, *others))
        folders = [name.rstrip("/") for name in _names(answers[2]) if self._is_installed(name)]
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
            files=[path for path in files if self._is_of_it(path)],
            tracked=frozenset(tracked),
            dependencies=folders,
            closed=closed,
        )

    def _told_apart(self, held: Path, others: Path) -> tuple[list[str], list[str], list[str]]:
        """What git tracks, what it does not, and the repositories in this one."""
        entries = [entry.partition("\t") for entry in _names(held)]
        more = _names(others)
        return (
            [name for about, _, name in entries if not about.startswith(_LINK)],
            [name for name in more if not name.endswith("/")],
            [
                *(name for about, _, name in entries if about.startswith(_LINK)),
                *(name.rstrip("/") for name in more if name.endswith("/")),
            ],
        )

    def _is_installed(self, name: str) -> bool:
        """Whether an ignored entry is a folder of dependencies, or a link to one."""
        full = os.path.join(self.root, name)
        return (name.endswith("/") or os.path.islink(full)) and is_dependency_folder(full)

    def _is_of_it(self, path: str) -> bool:
        # An index may have been made by hand, with names that git never puts in.
        if _OUR_FILES.fullmatch(path) or not _NO_NAMES.isdisjoint(path.lower().split("/")):
            return False
        return not self.own or not is_beneath(os.path.join(self.root, path), self.own)


def _names(listed: Path | None) -> list[str]:
    content = listed.read_bytes() if listed is not None else b""
    return [os.fsdecode(name) for name in content.split(b"\0") if name]


def project_around(config: Config, cwd: Path, roots: Sequence[str]) -> Project:
    """The project of whoever works in `cwd`; git is not taken from the folders `roots`."""
    real, top = os.path.realpath(cwd), os.fspath(project_root(cwd))
    home = os.path.realpath(os.path.expanduser("~"))
    root = real if top == "/" or is_beneath(home, [top]) else top
    environment = config.origin.environment
    own = [os.path.realpath(folder) for folder in (state_dir(environment), config_dir(environment))]
    path = search_path(os.environ.get("PATH", os.defpath), [*roots, root])
    return Project(
        root=root,
        cwd=real,
        git=private_git(find_git(path, root), path, root),
        own=[folder for folder in own if is_beneath(folder, [root])],
    )


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Do `work` in a thread; it is asked to stop, and waited for, when the caller is cancelled."""
    stopped = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stopped.is_set))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.wait([task])
        raise
