"""Where the files of a git folder lead out of it, so that git would show what lies elsewhere.

Whoever made the repository made its `.git`, too. Links among git's files, and folders that objects
are borrowed from, make `git log` and `git show` print another repository of this machine.
"""

import os
from collections.abc import Iterator, Sequence

from dirge_py.files.stamps import StampCache
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below
from dirge_py.permission.git.config import UnreadableRepository, read_text

MAX_FOLDERS = 4096
MAX_ALTERNATES = 16

# Git prints lines of their files, in a message about a bad line or as they are, or what the
# revisions that they name stand for.
_WALKED = (
    "refs", "logs", "info", "worktrees", "reftable", "remotes", "branches", "rebase-merge",
    "rebase-apply", "sequencer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Listing:
    """What matters of a folder's entries: the paths of its links and of the folders in it."""

    links: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


_CACHE: StampCache[_Listing] = StampCache(4 * MAX_FOLDERS)


def foreign_files(git_dir: str, common: str, own: Sequence[str]) -> Iterator[str]:
    """Why git would show files of another place for the git folder `git_dir`: a sentence for each.

    `own` are the physical folders of which git may show what it likes. A link into one of them, to
    a file of the same name, is how several work trees share a repository.

    Raises:
        OSError, Unreadable: it cannot be told.
    """
    look = _FolderWalk(git_dir, own)
    yield from look.links_in(git_dir)
    yield from look.links_beneath([f"{git_dir}/{name}" for name in _WALKED])
    yield from _misled_worktrees(git_dir, common)
    yield from look.objects(f"{git_dir}/objects")


class _FolderWalk:
    """One look at a git folder. What a link that is not foreign leads to is looked at as well."""

    def __init__(self, git_dir: str, own: Sequence[str]) -> None:
        self._git_dir = git_dir
        self._own = own
        self._seen: set[str] = set()

    def links_in(self, folder: str) -> Iterator[str]:
        for link in _listing(folder).links:
            yield from self._check(link, os.path.realpath(link))

    def links_beneath(self, folders: Sequence[str]) -> Iterator[str]:
        pending = list(folders)
        while pending:
            folder = pending.pop()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            if len(self._seen) > MAX_FOLDERS:
                raise UnreadableRepository(
                    f"{self._git_dir} holds more than {MAX_FOLDERS} folders"
                    " (`git pack-refs --all` makes one file of many branches)"
                )
            listing = _listing(folder)
            pending += listing.folders
            for link in listing.links:
                real = os.path.realpath(link)
                why = next(self._check(link, real), "")
                if why:
                    yield why
                else:
                    pending.append(real)

    def objects(self, folder: str) -> Iterator[str]:
        """The same of a folder of objects, and of all that git goes on to from there."""
        pending, seen = [folder], {folder}
        while pending:
            one = pending.pop()
            yield from self.links_in(one)
            yield from self.links_beneath([f"{one}/info", f"{one}/pack"])
            file = f"{one}/info/alternates"
            for further in _lenders(one, file):
                if not self._is_own(further):
                    yield f"{file} names {further}, and git would show what is stored there"
                elif further not in seen:
                    seen.add(further)
                    pending.append(further)
            if len(seen) > MAX_ALTERNATES:
                raise UnreadableRepository(
                    f"{folder} borrows from more than {MAX_ALTERNATES} folders"
                )

    def _check(self, link: str, real: str) -> Iterator[str]:
        if is_below(real, self._git_dir):
            return
        name = os.path.basename(link)
        if os.path.basename(real) != name:
            yield f"{link} is a link, and git prints lines of the file it leads to"
        # No command that only looks takes anything from the hooks.
        elif not self._is_own(real) and link != f"{self._git_dir}/hooks":
            yield f"{link} leads to {real}, and git would show what is there"

    def _is_own(self, real: str) -> bool:
        return any(is_below(real, folder) for folder in self._own)


def links_of(folder: str) -> tuple[str, ...]:
    """The paths of the links in a folder; none where there is no folder.

    Raises:
        OSError: it cannot be listed.
    """
    return _listing(folder).links


def _lenders(objects: str, file: str) -> Iterator[str]:
    """The folders that the objects folder borrows from, in every way that git may read a line."""
    if not os.path.lexists(file):
        return
    base = os.path.realpath(objects)
    for line in read_text(file).split("\n"):
        if line.startswith('"'):
            raise UnreadableRepository(f"{file} names a folder in quotation marks")
        if line and not line.startswith("#"):
            joined = os.path.join(base, line)
            # Some versions take `..` as text, others follow links first.
            yield from dict.fromkeys(map(os.path.realpath, (os.path.normpath(joined), joined)))


def _misled_worktrees(git_dir: str, common: str) -> Iterator[str]:
    """The worktrees of a repository whose branches git would take from another one."""
    listing = _listing(f"{git_dir}/worktrees")
    for tree in (*listing.folders, *listing.links):
        file = f"{tree}/commondir"
        if os.path.lexists(file):
            place = os.path.realpath(os.path.join(tree, read_text(file).strip()))
            if place != common:
                yield f"{file} leads to the repository {place}"


def _listing(folder: str) -> _Listing:
    """What is in a folder; nothing if it is not there."""
    try:
        return _CACHE.get(folder, _listed)
    except (FileNotFoundError, NotADirectoryError):
        return _Listing()


def _listed(folder: str) -> _Listing:
    links: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return _Listing(tuple(links), tuple(folders))
