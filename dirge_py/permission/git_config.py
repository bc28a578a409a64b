"""What a repository's own settings would make git run, found without running git.

`.git/config` belongs to whoever made the repository. Several of its keys name programs that even
`git status` starts, so before git runs unasked this reader looks for them.
"""

import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping

from dirge_py.permission.git_settings import Unreadable, settings

GIT_HARDENING: Mapping[str, str] = {
    "GIT_CONFIG_COUNT": "7",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_CONFIG_KEY_2": "safe.bareRepository",
    "GIT_CONFIG_VALUE_2": "explicit",
    "GIT_CONFIG_KEY_3": "core.pager",
    "GIT_CONFIG_VALUE_3": "cat",
    "GIT_CONFIG_KEY_4": "protocol.ext.allow",
    "GIT_CONFIG_VALUE_4": "never",
    "GIT_CONFIG_KEY_5": "diff.ignoreSubmodules",
    "GIT_CONFIG_VALUE_5": "all",
    "GIT_CONFIG_KEY_6": "log.showSignature",
    "GIT_CONFIG_VALUE_6": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
}
"""Environment for git commands that nobody was asked about: it beats the repository's settings."""

MAX_CONFIG_BYTES = 256 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_REPOSITORIES = 64

_HAZARDOUS = (
    r"core\.(fsmonitor|hookspath|sshcommand|pager|editor|askpass|gitproxy|worktree"
    r"|alternaterefscommand)"
    r"|alias\..*|include\.path|includeif\..*|diff\.external|diff\..*\.(command|textconv)"
    r"|filter\..*|merge\..*\.driver|credential\..*|gpg\.(.*\.)?program|remote\..*\.(uploadpack"
    r"|receivepack|vcs|promisor|partialclonefilter)|submodule\..*\.update"
    r"|uploadpack\.packobjectshook|extensions\.partialclone|sequence\.editor|pager\..*"
    r"|interactive\.difffilter|(difftool|mergetool|browser|man)\..*\.(cmd|path)|web\.browser"
    r"|trailer\..*\.(command|cmd)|log\.(showsignature|diffmerges)"
)
_GITLINK = struct.pack(">I", 0o160000)
_INDEX_ENTRY = 62

_Stamp = tuple[int, int, int, int]
_KEYS: dict[str, tuple[_Stamp, tuple[tuple[str, str], ...]]] = {}
_LINKS: dict[str, tuple[_Stamp, tuple[str, ...]]] = {}


def hazard(folder: str) -> str:
    """Why git must not run unasked in the physical `folder`, or "".

    Looks at every repository git could find there, at linked work trees and at submodules.
    """
    try:
        return next(_hazards(_repositories_above(folder)), "")
    except (OSError, Unreadable, UnicodeError, struct.error) as error:
        return f"the repository's settings cannot be read: {error}"


def is_bare_repository(folder: str) -> bool:
    """Whether git would take the folder itself for a repository."""
    # `HEAD` may be a link that leads nowhere yet, and `commondir` say where the rest is.
    if not os.path.lexists(os.path.join(folder, "HEAD")):
        return False
    return os.path.lexists(os.path.join(folder, "commondir")) or (
        os.path.isdir(os.path.join(folder, "objects"))
        and os.path.isdir(os.path.join(folder, "refs"))
    )


def _hazards(repositories: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    pending = list(repositories)
    seen: set[str] = set()
    while pending:
        git_dir, work_tree = pending.pop()
        if git_dir in seen:
            continue
        seen.add(git_dir)
        if len(seen) > MAX_REPOSITORIES:
            yield f"there are more than {MAX_REPOSITORIES} repositories in it"
            return
        if work_tree is None:
            yield f"{git_dir} looks like a bare repository"
            return
        common = _common_dir(git_dir)
        for file in (f"{common}/config", f"{git_dir}/config.worktree", f"{common}/config.worktree"):
            for key, value in _hazardous_keys(file):
                if not _is_own_place(key, value, git_dir if common == git_dir else "", work_tree):
                    yield f"{file} sets `{key}`, which can run a program"
        for path in _submodules(f"{git_dir}/index"):
            inner = os.path.join(work_tree, path)
            if os.path.lexists(f"{inner}/.git"):
                pending.append((_git_dir_at(inner), inner))


def _repositories_above(folder: str) -> Iterator[tuple[str, str | None]]:
    """Git folder and work tree of all that git could find from here; no work tree = bare.

    Not only the first: git passes over one that is not whole and goes on upwards.
    """
    while True:
        if os.path.lexists(f"{folder}/.git"):
            yield _git_dir_at(folder), folder
        if is_bare_repository(folder):
            yield folder, None
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _git_dir_at(work_tree: str) -> str:
    entry = f"{work_tree}/.git"
    if os.path.isdir(entry):
        return os.path.realpath(entry)
    text = _read(entry, 4096).strip()
    if not text.startswith("gitdir:"):
        raise Unreadable(entry)
    return os.path.realpath(os.path.join(work_tree, text.removeprefix("gitdir:").strip()))


def _common_dir(git_dir: str) -> str:
    pointer = f"{git_dir}/commondir"
    if not os.path.lexists(pointer):
        return git_dir
    return os.path.realpath(os.path.join(git_dir, _read(pointer, 4096).strip()))


def git_dir_of(folder: str) -> str | None:
    """The git folder that holds the hooks and settings for the physical `folder`, if there is one.

    Raises:
        OSError, Unreadable: it cannot be told.
    """
    found = next(_repositories_above(folder), None)
    return None if found is None else _common_dir(found[0])


def setting(git_dir: str, key: str) -> str:
    """The last value of `key` (in lower case) in the repository's own settings, or "".

    Raises:
        OSError, Unreadable: they cannot be read.
    """
    every = settings(_read(f"{git_dir}/config", MAX_CONFIG_BYTES))
    return next((value for name, value in reversed(every) if name.lower() == key), "")


def _is_own_place(key: str, value: str, git_dir: str, work_tree: str) -> bool:
    """Whether this says only where the work tree lies, and it lies there: so in every submodule."""
    if key.lower() != "core.worktree" or not git_dir or not value:
        return False
    return os.path.realpath(os.path.join(git_dir, value)) == os.path.realpath(work_tree)


def _hazardous_keys(path: str) -> tuple[tuple[str, str], ...]:
    if not os.path.lexists(path):
        return ()
    stamp = _stamp(path)
    cached = _KEYS.get(path)
    if cached and cached[0] == stamp:
        return cached[1]
    found = tuple(
        (key, value) for key, value in settings(_read(path, MAX_CONFIG_BYTES)) if _runs(key, value)
    )
    _KEYS[path] = (stamp, found)
    return found


def _runs(key: str, value: str) -> bool:
    if key == "core.fsmonitor" and value.strip().lower() in ("false", "0", "no", "off"):
        return False
    return re.fullmatch(_HAZARDOUS, key.lower()) is not None


def _submodules(index: str) -> tuple[str, ...]:
    """Paths of the index entries that are other repositories."""
    if not os.path.exists(index):
        return ()
    stamp = _stamp(index)
    cached = _LINKS.get(index)
    if cached and cached[0] == stamp:
        return cached[1]
    content = _bytes(index, MAX_INDEX_BYTES)
    # Nearly every index has none, and then one search says so.
    found = tuple(_gitlinks(content)) if _GITLINK in content else ()
    _LINKS[index] = (stamp, found)
    return found


def _gitlinks(content: bytes) -> Iterator[str]:
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in (2, 3):
        raise Unreadable("an index of an unknown version")
    position = 12
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", content, position + 60)
        start = position + _INDEX_ENTRY + (2 if flags & 0x4000 else 0)
        end = content.index(b"\0", start)
        if content[position + 24 : position + 28] == _GITLINK:
            yield os.fsdecode(content[start:end])
        # Entries are padded with 1 to 8 NUL bytes to a multiple of eight.
        position += (end - position) // 8 * 8 + 8


def _read(path: str, limit: int) -> str:
    return _bytes(path, limit).decode("utf-8", "surrogateescape")


def _bytes(path: str, limit: int) -> bytes:
    # O_NONBLOCK: a pipe in a file's place must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(f"{path} is no regular file")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise Unreadable(f"{path} is too large")
    return content


def _stamp(path: str) -> _Stamp:
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_dev
