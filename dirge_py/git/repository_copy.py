"""Copies of a git folder, made without git: commits by reference, the index as a copy.

Hooks and settings that name programs are not copied.
"""

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dirge_py.files.safe_read import read_regular
from dirge_py.git.repository import GitFolders
from dirge_py.git.runner import escape_rule
from dirge_py.lib.lazy import late_pattern

_SMALL_BYTES = 64 * 1024
_LARGE_BYTES = 256 * 1024 * 1024
_MOST_REFS = 50_000
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)
"""The errors of reading what isn't there, or is no regular file."""

# A downloaded repository may hold links to files of the user. So a file is only copied if it has
# the format that git gives it.
_HEAD = late_pattern(rb"(?:ref: ?refs/[^\0\n]{1,4096}|[0-9a-f]{40}|[0-9a-f]{64})\s*")
_HASH = late_pattern(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_PACKED_REF = late_pattern(
    rb"# pack-refs with:[a-z -]*|\^?[0-9a-f]{40,64}|[0-9a-f]{40,64} refs/\S+"
)
_INDEX = b"DIRC"


def make_git_folder(target: Path, places: GitFolders, *, ignored: Sequence[str] = ()) -> None:
    """Make the git folder `target`, which must not exist, for a copy of the work tree.

    Objects are not copied: git reads them where they are. `ignored` are further paths to ignore.

    Raises OSError: the folder can't be made, or the original can't be read.
    """
    make_index_folder(target, places)
    _copy_lines(places.common / "packed-refs", target / "packed-refs", _PACKED_REF)
    _copy_lines(places.common / "shallow", target / "shallow", _HASH)
    _copy_refs(places.common / "refs", target / "refs")
    with open(target / "info/exclude", "ab") as stream:
        named = (os.fsencode(escape_rule(path)) for path in ignored if "\n" not in path)
        stream.writelines(b"\n/" + path for path in named)


def make_index_folder(target: Path, places: GitFolders) -> None:
    """Make a git folder without refs, enough to list and compare files. Raises OSError."""
    git_dir, common = places.git_dir, places.common
    for folder in ("objects/info", "objects/pack", "refs", "info"):
        (target / folder).mkdir(parents=True)
    head = read_regular(git_dir / "HEAD", _SMALL_BYTES)
    if not _HEAD.fullmatch(head):
        raise OSError(errno.EINVAL, "its HEAD is not valid")
    (target / "HEAD").write_bytes(head)
    (target / "config").write_text(_config(places.settings), encoding="utf-8")
    objects = os.fsencode(common / "objects")
    if b"\n" in objects:
        # Git would read the line break as the end of the path.
        raise OSError(errno.EINVAL, "its path has a line break")
    (target / "objects/info/alternates").write_bytes(objects + b"\n")
    shared = [name for name in os.listdir(git_dir) if name.startswith("sharedindex.")]
    for name in ("index", *shared):
        _copy(git_dir / name, target / name, begins=_INDEX)
    for name in ("info/exclude", "info/attributes"):
        if not (common / "info").is_symlink():
            _copy(common / name, target / name)


def _config(settings: Mapping[str, str]) -> str:
    is_extended = any(key.startswith("extensions.") for key in settings)
    core = {
        "core.repositoryformatversion": str(int(is_extended)),
        "core.bare": "false",
        "core.logallrefupdates": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
    }
    lines = []
    for key, value in {**core, **settings}.items():
        section, _, name = key.rpartition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{section}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)


def _copy(source: Path, target: Path, *, begins: bytes = b"") -> None:
    """Copy a regular file, if it exists.

    A link is followed only to a file that `begins` with these bytes: it may lead to any file of the
    user.
    """
    try:
        content = read_regular(source, _LARGE_BYTES + 1, follow=bool(begins))
    except OSError as error:
        if error.errno in _NO_FILE:
            return
        raise
    if content.startswith(begins) and len(content) <= _LARGE_BYTES:
        target.write_bytes(content)


def _copy_lines(source: Path, target: Path, wanted: re.Pattern[bytes]) -> None:
    """Copy the lines of a file that match `wanted`, if the file exists."""
    try:
        lines = read_regular(source, _LARGE_BYTES).split(b"\n")
    except FileNotFoundError:
        return
    target.write_bytes(b"".join(line + b"\n" for line in lines if wanted.fullmatch(line)))


def _copy_refs(source: Path, target: Path) -> None:
    count = 0
    for folder, _folders, names in os.walk(source):
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        for name in names:
            count += 1
            if count > _MOST_REFS:
                return
            try:
                content = read_regular(Path(folder, name), _SMALL_BYTES, follow=False)
            except OSError:
                continue
            if _HEAD.fullmatch(content):
                (copy / name).write_bytes(content)
