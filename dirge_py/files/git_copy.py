"""A git folder of our own that shows what another holds: its commits by reference, its index as a
copy. Nothing that acts is taken along: no hooks, no settings that name programs.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dirge_py.files.regular_file import read_regular
from dirge_py.lib.lean_dataclass import dataclass

_SMALL_BYTES = 64 * 1024
_LARGE_BYTES = 256 * 1024 * 1024
_MOST_REFS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPlaces:
    """The git folder of a work tree, and what its work trees share; they may be the same.

    `settings` are those to go by (`core.eol`), each value of one line.
    """

    git_dir: Path
    common: Path
    settings: Mapping[str, str]


@contextmanager
def scratch_git(places: GitPlaces) -> Iterator[Path]:
    """A temporary folder for files about a repository; `git` in it is a git folder, without refs.

    Raises:
        OSError: it cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="dirge-list-") as name:
        _make(Path(name, "git"), places)
        yield Path(name)


def make_git_folder(target: Path, places: GitPlaces, *, ignored: Sequence[str] = ()) -> None:
    """Make `target`, which must not exist, for a work tree that is a copy of another.

    Objects stay where they are, and are only ever read there. `ignored` are paths that are ignored
    besides. Blocks.

    Raises:
        OSError: it cannot be made, or the other cannot be read.
    """
    _make(target, places)
    for name in ("packed-refs", "shallow"):
        _copy(places.common / name, target / name)
    _copy_refs(places.common / "refs", target / "refs")
    with open(target / "info/exclude", "ab") as stream:
        stream.writelines(b"\n/" + os.fsencode(_escaped(path)) for path in ignored)


def _make(target: Path, places: GitPlaces) -> None:
    git_dir, common = places.git_dir, places.common
    for folder in ("objects/info", "objects/pack", "refs", "info"):
        (target / folder).mkdir(parents=True)
    head = read_regular(git_dir / "HEAD", _SMALL_BYTES)
    (target / "HEAD").write_bytes(head)
    (target / "config").write_text(_config(places.settings), encoding="utf-8")
    (target / "objects/info/alternates").write_bytes(_quoted(common / "objects") + b"\n")
    _copy(git_dir / "index", target / "index")
    for shared in _names(git_dir, "sharedindex."):
        _copy(git_dir / shared, target / shared)
    for name in ("info/exclude", "info/attributes"):
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


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file, if there is one."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGE_BYTES:
            return
        with open(target, "xb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)


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
            (copy / name).write_bytes(content)


def _names(folder: Path, prefix: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(prefix)]


def _escaped(path: str) -> str:
    """A path as a line of rules that means just that."""
    return re.sub(r"([\\*?\[\]! ])", r"\\\1", path)


def _quoted(path: Path) -> bytes:
    """A path as a line of `alternates`: one that begins with a quote is taken for a quoted one."""
    return b'"' + os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
