"""Finds what a repository's own settings and hooks would make git run or read, without running git.

`.git/config` is under the control of the repository's author. `git/files.py` lists the settings
that act; before git runs without a question, this reader looks for those that the environment does
not override, in the repository and in each submodule that git could enter.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from dirge_py.files.versions import StampCache
from dirge_py.git.repository import (
    MAX_CONFIG_BYTES,
    UnreadableRepository,
    common_dir,
    git_dir_at,
    parse_settings,
    read_text,
    repository_setting,
)
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, is_below_any, upwards
from dirge_py.permission.git.files import (
    UNREADABLE,
    ActingSetting,
    Index,
    Tracked,
    acting_setting,
    hardening,
    read_index,
)
from dirge_py.permission.protected import why_secret

GIT_HARDENING: Mapping[str, str] = hardening()
"""Environment for git commands without a question; it overrides the repository's settings."""
MAX_REPOSITORIES = 64
_FALSE = ("false", "0", "no", "off")
_NOT_ENTERED = ("all", "dirty")
_HASH_BYTES = {"sha1": 20, "sha256": 32}
_SETTINGS: StampCache[tuple[tuple[str, str], ...]] = StampCache(4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """A repository. `is_entered`: git enters it as a submodule, perhaps without `GIT_HARDENING`."""

    git_dir: str
    work_tree: str | None
    is_entered: bool = False


def git_hazard(folder: str, roots: Sequence[str] = ()) -> str:
    """Return why git must not run in the physical `folder` without a question, or "".

    Checks every repository that git could find there, linked work trees and submodules. `roots`
    are the physical folders of the workspace: a repository may lead to another one in there.
    """
    try:
        return next(_hazards(_repositories_above(folder), roots), "")
    except UNREADABLE as error:
        return f"the repository's settings cannot be read: {error}"


def is_bare_repository(folder: str) -> bool:
    """Whether git would treat the folder itself as a repository."""
    # `HEAD` may be a link to a missing file, and `commondir` may name the folder with the rest.
    if not os.path.lexists(os.path.join(folder, "HEAD")):
        return False
    return os.path.lexists(os.path.join(folder, "commondir")) or (
        os.path.isdir(os.path.join(folder, "objects"))
        and os.path.isdir(os.path.join(folder, "refs"))
    )


def git_dir_of(folder: str) -> str | None:
    """Return the git folder with the hooks and settings of the physical `folder`, if there is one.

    Raises OSError or UnreadableRepository if the repository cannot be read.
    """
    found = next(_repositories_above(folder), None)
    return None if found is None else common_dir(found.git_dir)


def git_dirs_of(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the readable git folders of these folders."""
    found = []
    for folder in folders:
        with suppress(*UNREADABLE):
            found.append(git_dir_of(folder))
    return tuple(one for one in found if one is not None)


def _hazards(repositories: Iterable[_Repository], roots: Sequence[str]) -> Iterator[str]:
    pending = list(repositories)
    seen: set[_Repository] = set()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > MAX_REPOSITORIES:
            yield f"there are more than {MAX_REPOSITORIES} repositories in it"
            return
        if one.work_tree is None:
            yield f"{one.git_dir} looks like a bare repository"
            return
        common = common_dir(one.git_dir)
        values = _values(one.git_dir, common)
        for file, key, value in values:
            row = acting_setting(key)
            if row is not None and _acts(row, value, one, common):
                does = "can run a program" if row.kind != "file" else "names a file that git reads"
                yield f"{file} sets `{key}`, which {does}"
        yield from _misplaced(one.git_dir, common, one.work_tree, roots)
        modules = _values_of(f"{one.work_tree}/.gitmodules")
        index = _index(one, modules, values)
        if index is None:
            yield f"the index of {one.work_tree} cannot be read, and git could enter its submodules"
            return
        named = [value for key, value in modules if key.endswith(".path")]
        pending += _submodules(one.work_tree, (*index.links, *named))
        pending += _kept_modules(common, one.work_tree)


def _values(git_dir: str, common: str) -> list[tuple[str, str, str]]:
    """Return file, key and value of every setting of the repository."""
    files = (f"{common}/config", f"{git_dir}/config.worktree", f"{common}/config.worktree")
    return [(file, *pair) for file in dict.fromkeys(files) for pair in _values_of(file)]


def _values_of(path: str) -> tuple[tuple[str, str], ...]:
    """Return the relevant settings of a file; empty if it does not exist."""
    return _SETTINGS.get(path, _read_values) if os.path.lexists(path) else ()


def _read_values(path: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (key, value)
        for key, value in parse_settings(read_text(path, MAX_CONFIG_BYTES))
        if acting_setting(key) is not None or key.startswith(("submodule.", "extensions."))
    )


def _acts(row: ActingSetting, value: str, one: _Repository, common: str) -> bool:
    if row.answer == "overridden":
        # A switch only makes git enter submodules, and all submodules are checked.
        is_off = row.key == "core.fsmonitor" and value.strip().lower() in _FALSE
        return one.is_entered and row.kind != "switch" and not is_off
    if row.answer == "asks-unless-own-file":
        return not _is_own_file(value, one.work_tree or "")
    if row.key == "core.worktree":
        git_dir = one.git_dir if common == one.git_dir else ""
        return not _is_own_place(value, git_dir, one.work_tree or "")
    return row.answer == "asks"


def _is_own_place(value: str, git_dir: str, work_tree: str) -> bool:
    """Whether the value only names the actual work tree, as it does in every submodule."""
    if not git_dir or not value:
        return False
    return os.path.realpath(os.path.join(git_dir, value)) == os.path.realpath(work_tree)


def _is_own_file(value: str, work_tree: str) -> bool:
    """Whether the value is a file of the work tree that may be read."""
    if value.startswith(("~", "%")):
        return False
    real, top = os.path.realpath(os.path.join(work_tree, value)), os.path.realpath(work_tree)
    return not value or (is_below(real, top) and not why_secret(real, (top,)))


def indexes_above(folder: str) -> Iterator[tuple[str, Index]]:
    """Yield work tree and index of each repository around the physical `folder`.

    Raises one of `UNREADABLE` if one of them cannot be read.
    """
    for one in _repositories_above(folder):
        if one.work_tree is not None:
            values = _values(one.git_dir, common_dir(one.git_dir))
            yield one.work_tree, _read_index(one, values, wants_files=True)


def tracked_secrets(folder: str) -> list[Tracked]:
    """Return the secret files in the index of the repository around `folder`, by absolute path.

    Empty where the index cannot be read: then git does not run without a question.
    """
    try:
        top, index = next(indexes_above(folder), (folder, Index()))
    except UNREADABLE:
        return []
    named = (Tracked(os.path.join(top, each.path), each.blob) for each in index.secrets)
    return [each for each in named if why_secret(each.path, (top,))]


def _index(
    one: _Repository, modules: Iterable[tuple[str, str]], values: Iterable[tuple[str, str, str]]
) -> Index | None:
    """Return the index; None if git could enter submodules that it does not list."""
    try:
        found = _read_index(one, values)
    except UNREADABLE:
        found = None
    # Only the repository knows what a folder of a sparse index stands for.
    if found is not None and not any(
        os.path.lexists(os.path.join(one.work_tree or "", folder)) for folder in found.sparse
    ):
        return found
    if one.is_entered or not os.path.isfile(f"{one.work_tree}/.gitmodules"):
        return None
    settings = [*modules, *((key, value) for _, key, value in values)]
    # These values override `diff.ignoreSubmodules` for one submodule.
    ignoring = [v for k, v in settings if k.startswith("submodule.") and k.endswith(".ignore")]
    return found or Index() if all(value in _NOT_ENTERED for value in ignoring) else None


def _read_index(
    one: _Repository, values: Iterable[tuple[str, str, str]], *, wants_files: bool = False
) -> Index:
    named = (value for _, key, value in values if key.lower() == "extensions.objectformat")
    hash_bytes = _HASH_BYTES[next(named, "sha1").lower()]
    return read_index(one.git_dir, hash_bytes=hash_bytes, wants_files=wants_files)


def _submodules(work_tree: str, paths: Iterable[str]) -> Iterator[_Repository]:
    for path in dict.fromkeys(paths):
        inner = os.path.join(work_tree, path)
        if not path or ".." in path.split("/") or os.path.isabs(path):
            continue
        if os.path.lexists(f"{inner}/.git"):
            place = os.path.realpath(inner)
            yield _Repository(git_dir=git_dir_at(inner), work_tree=place, is_entered=True)


def _kept_modules(common: str, work_tree: str) -> Iterator[_Repository]:
    """Yield the git folders of submodules inside this one, whether they are in use or not."""
    pending = [f"{common}/modules"]
    count = 0
    while pending:
        folder = pending.pop()
        if os.path.lexists(f"{folder}/HEAD"):
            git_dir = os.path.realpath(folder)
            named = dict(_values_of(f"{git_dir}/config")).get("core.worktree", "")
            place = os.path.realpath(os.path.join(git_dir, named)) if named else work_tree
            if is_below(place, os.path.realpath(work_tree)):
                yield _Repository(git_dir=git_dir, work_tree=place, is_entered=True)
            continue
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            pending.append(f"{folder}/{name}")
            count += 1
            if count > MAX_REPOSITORIES:
                raise UnreadableRepository(
                    f"{common}/modules contains more than {MAX_REPOSITORIES} folders"
                )


def _repositories_above(folder: str) -> Iterator[_Repository]:
    """Yield all repositories upwards from here, because git skips incomplete ones."""
    for at in upwards(folder):
        if os.path.lexists(f"{at}/.git"):
            yield _Repository(git_dir=git_dir_at(at), work_tree=at)
        if is_bare_repository(at):
            yield _Repository(git_dir=at, work_tree=None)


def _misplaced(git_dir: str, common: str, work_tree: str, roots: Sequence[str]) -> Iterator[str]:
    """Yield why git would show another repository or other files than those of this folder."""
    if common != git_dir and os.path.dirname(os.path.dirname(git_dir)) != common:
        yield f"{git_dir}/commondir points to the repository {common}"
    top = os.path.realpath(work_tree)
    if not is_below(git_dir, top) and not _belongs(git_dir, common, top):
        yield f"{work_tree}/.git points to {git_dir}, which doesn't belong to this folder"
    for folder in dict.fromkeys((git_dir, common)):
        yield from foreign_files(folder, common, (top, git_dir, common, *roots))


def _belongs(git_dir: str, common: str, top: str) -> bool:
    """Whether a git folder elsewhere names this folder as its work tree."""
    back = f"{git_dir}/gitdir"
    if os.path.exists(back):
        place = os.path.join(git_dir, read_text(back).strip())
        return os.path.realpath(os.path.dirname(place)) == top
    named = (value for _, key, value in _values(git_dir, common) if key.lower() == "core.worktree")
    return any(_is_own_place(value, git_dir, top) for value in named)


_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_MOVED = ("post-checkout", "reference-transaction")
_HOOKS = {
    "commit": (*_COMMIT, "post-rewrite", "reference-transaction"),
    "merge": ("pre-merge-commit", *_COMMIT, "post-merge", "reference-transaction"),
    "pull": ("pre-merge-commit", *_COMMIT, "post-merge", "pre-rebase", *_MOVED),
    "push": ("pre-push", "reference-transaction"),
    **dict.fromkeys(("checkout", "switch", "worktree"), _MOVED),
    "rebase": ("pre-rebase", *_COMMIT, "post-rewrite", *_MOVED),
    **dict.fromkeys(("cherry-pick", "revert"), (*_COMMIT, *_MOVED)),
    "am": ("applypatch-msg", "pre-applypatch", "post-applypatch", *_COMMIT),
    "gc": ("pre-auto-gc",),
}
_ALWAYS = ("fsmonitor-watchman", "post-index-change")
_MOST_NAMED = 8
EVERY_HOOK = tuple(sorted({*_ALWAYS, *(name for names in _HOOKS.values() for name in names)}))


def hooks_at(folder: str, words: Sequence[str]) -> str:
    """Return a text about the hooks that the git command `words` would run in `folder`, or ""."""
    try:
        git_dir = git_dir_of(folder)
        if git_dir is None:
            return ""
        chosen = repository_setting(git_dir, "core.hookspath")
        base = os.path.dirname(git_dir) if os.path.basename(git_dir) == ".git" else folder
        where = os.path.join(base, os.path.expanduser(chosen)) if chosen else f"{git_dir}/hooks"
        names = [name for name in sorted(os.listdir(where)) if _runs(f"{where}/{name}", words)]
    except (OSError, UnreadableRepository, UnicodeError, ValueError):
        return ""
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    shown = ", ".join(names[:_MOST_NAMED]) + more
    return f"it would run the hooks {shown}" + (f" of {where}" if chosen else "")


def _runs(path: str, words: Sequence[str]) -> bool:
    name = os.path.basename(path)
    wanted = [hooks for verb, hooks in _HOOKS.items() if verb in words[1:]]
    # Which hooks an unlisted subcommand runs is unknown.
    if wanted and name not in _ALWAYS and not any(name in hooks for hooks in wanted):
        return False
    return "." not in name and os.path.isfile(path) and os.access(path, os.X_OK)


MAX_FOLDERS = 4096
MAX_ALTERNATES = 16

# Git prints lines of these files, in a message about a bad line or unchanged, or the contents of
# the revisions that they name.
_WALKED = (
    "refs", "logs", "info", "worktrees", "reftable", "remotes", "branches", "rebase-merge",
    "rebase-apply", "sequencer",
)  # fmt: skip


_LISTINGS: StampCache[tuple[tuple[str, ...], tuple[str, ...]]] = StampCache(4 * MAX_FOLDERS)


def foreign_files(git_dir: str, common: str, own: Sequence[str]) -> Iterator[str]:
    """Yield why git would show files of another place for the git folder `git_dir`.

    Links among its files lead there, and folders that objects are borrowed from. `own` are the
    physical folders whose contents git may show. A link into one of them, to a file of the same
    name, is how several work trees share a repository. Raises OSError or UnreadableRepository if
    the git folder cannot be read.
    """
    walk = _FolderWalk(git_dir, own)
    yield from walk.links_in(git_dir)
    yield from walk.links_beneath([f"{git_dir}/{name}" for name in _WALKED])
    yield from _misled_worktrees(git_dir, common)
    yield from walk.objects(f"{git_dir}/objects")


class _FolderWalk:
    """Walks through one git folder, and through own folders that its links lead to."""

    def __init__(self, git_dir: str, own: Sequence[str]) -> None:
        self._git_dir = git_dir
        self._own = own
        self._seen: set[str] = set()

    def links_in(self, folder: str) -> Iterator[str]:
        yield from filter(None, map(self._why_foreign, _listing(folder)[0]))

    def links_beneath(self, folders: Sequence[str]) -> Iterator[str]:
        pending = list(folders)
        while pending:
            folder = pending.pop()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            if len(self._seen) > MAX_FOLDERS:
                raise UnreadableRepository(
                    f"{self._git_dir} contains more than {MAX_FOLDERS} folders"
                    " (`git pack-refs --all` makes one file of many branches)"
                )
            links, subfolders = _listing(folder)
            pending += subfolders
            for link in links:
                if why := self._why_foreign(link):
                    yield why
                else:
                    pending.append(os.path.realpath(link))

    def objects(self, folder: str) -> Iterator[str]:
        """Check a folder of objects, and every folder that it borrows objects from."""
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

    def _why_foreign(self, link: str) -> str:
        real, name = os.path.realpath(link), os.path.basename(link)
        if is_below(real, self._git_dir):
            return ""
        if os.path.basename(real) != name:
            return f"{link} is a link, and git prints lines of the file it points to"
        # No read-only command reads the hooks.
        if self._is_own(real) or link == f"{self._git_dir}/hooks":
            return ""
        return f"{link} points to {real}, and git would show what is there"

    def _is_own(self, real: str) -> bool:
        return is_below_any(real, self._own)


def links_of(folder: str) -> tuple[str, ...]:
    """Return the paths of the links in a folder; none if it does not exist. Raises OSError."""
    return _listing(folder)[0]


def _lenders(objects: str, file: str) -> Iterator[str]:
    """Yield the folders that `file` says to borrow from, in every way git may read a line."""
    if not os.path.lexists(file):
        return
    base = os.path.realpath(objects)
    for line in read_text(file).split("\n"):
        if line.startswith('"'):
            raise UnreadableRepository(f"{file} names a folder in quotation marks")
        if line and not line.startswith("#"):
            joined = os.path.join(base, line)
            # Some versions resolve `..` as text, others follow links first.
            yield from dict.fromkeys(map(os.path.realpath, (os.path.normpath(joined), joined)))


def _misled_worktrees(git_dir: str, common: str) -> Iterator[str]:
    """Yield the worktrees of a repository whose branches git would read from another one."""
    links, folders = _listing(f"{git_dir}/worktrees")
    for tree in (*folders, *links):
        file = f"{tree}/commondir"
        if os.path.lexists(file):
            place = os.path.realpath(os.path.join(tree, read_text(file).strip()))
            if place != common:
                yield f"{file} points to the repository {place}"


def _listing(folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of the links and of the folders in a folder; none if it does not exist."""
    try:
        return _LISTINGS.get(folder, _listed)
    except (FileNotFoundError, NotADirectoryError):
        return (), ()


def _listed(folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    links = tuple(entry.path for entry in entries if entry.is_symlink())
    return links, tuple(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
