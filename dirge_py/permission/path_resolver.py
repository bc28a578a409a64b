"""Looks up paths on this machine: where they lead, and why touching them needs a question."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path

from dirge_py.files.safe_read import read_regular
from dirge_py.files.versions import StampCache
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import is_below, is_below_any, upwards
from dirge_py.permission.facts import ResolvedPath
from dirge_py.permission.git.repository import is_bare_repository
from dirge_py.permission.protected import comparable_path, is_of_system, why_protected, why_secret
from dirge_py.types.errors import FileError

MAX_OWN_FILES = 2_000
MAX_CERTIFICATE_BYTES = 1 << 20
_PEM_BLOCK = late_pattern(rb"-----BEGIN ([^-\n]*)-----")
_PUBLIC_BLOCKS = frozenset((
    b"CERTIFICATE", b"TRUSTED CERTIFICATE", b"X509 CERTIFICATE", b"CERTIFICATE REQUEST",
    b"X509 CRL", b"PUBLIC KEY", b"RSA PUBLIC KEY", b"DH PARAMETERS", b"EC PARAMETERS",
))  # fmt: skip
_PUBLIC_FILES: StampCache[bool] = StampCache(4096)


class PathResolver:
    """Looks up paths for one workspace.

    `state_dirs` are dirge's own folders or files that nothing may touch, except to read below
    `own_output_dirs`. `settings` are those that only the user may change. Both include the targets
    of their links and other names of the same files.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        state_dirs: Sequence[Path | str] = (),
        settings: Sequence[Path | str] = (),
        own_output_dirs: Sequence[Path | str] = (),
        home: str = "",
    ) -> None:
        self._workspace = workspace
        self._home = home or os.path.realpath(os.path.expanduser("~"))
        self.state = both_spellings(state_dirs)
        own = both_spellings(settings)
        self.settings = tuple(dict.fromkeys([*own, *_link_targets(own)]))
        self.outputs = both_spellings(own_output_dirs)
        self._linked_settings = _hard_linked(self.settings)
        self._linked_keys = _hard_linked(self.state, is_deep=False)
        self._comparable_settings = _comparable_prefixes(self.settings)
        self._comparable_state = _comparable_prefixes(self.state)

    def find(
        self,
        path: str,
        is_bare: Callable[[str], bool] = is_bare_repository,
        *,
        only_reads: bool = False,
    ) -> ResolvedPath:
        """Look up the absolute `path`; with `only_reads`, without what matters for changes."""
        try:
            located = self._workspace.locate(path)
        except FileError as problem:
            return self._lost(path, problem)
        real, asked = located.real, os.path.normpath(located.path)
        roots = self._workspace.roots
        if asked == real == "/dev/null":
            return ResolvedPath(asked=asked, real=real, inside=True)
        is_output = is_below_any(real, self.outputs)
        elsewhere = why_process_path(located.path, real)
        protected, secret = elsewhere, elsewhere
        if not elsewhere and is_output:
            protected = "it contains dirge's own output"
        elif not elsewhere:
            if not only_reads:
                protected = (
                    why_protected(real, roots)
                    or why_protected(asked, roots)
                    or _bare_above(real, roots, is_bare)
                )
            secret = why_secret(real, roots) or (asked != real and why_secret(asked, roots)) or ""
            secret = "" if secret and is_public(real) else secret
        return ResolvedPath(
            asked=located.path,
            real=real,
            inside=not elsewhere and (located.inside or is_output),
            is_folder=not located.inside and os.path.isdir(real),
            exists=located.exists,
            is_system=is_of_system(real, roots),
            is_too_wide=located.inside and self._is_too_wide(real),
            protected=protected,
            secret=secret,
            forbidden="" if is_output else self._state_reason(real, asked),
            own=self._settings_reason(real, asked),
        )

    def _is_too_wide(self, real: str) -> bool:
        around = (root for root in self._workspace.roots if is_below(real, root))
        return all(holds_more_than_project(root, self._home) for root in around)

    def _state_reason(self, real: str, asked: str) -> str:
        is_state = _is_in(real, asked, self._comparable_state, self._linked_keys)
        return f"{asked} is dirge's own state or keys" if is_state else ""

    def _settings_reason(self, real: str, asked: str) -> str:
        is_own = _is_in(real, asked, self._comparable_settings, self._linked_settings)
        return f"{asked} belongs to dirge's own settings, which only you change" if is_own else ""

    def _lost(self, path: str, problem: FileError) -> ResolvedPath:
        """Return the facts about a path that cannot be resolved."""
        is_path = bool(path) and "\0" not in path
        forbidden = self._state_reason(path, path) if is_path else f"{path!r} is not a valid path"
        elsewhere = why_process_path(path) if is_path else ""
        return ResolvedPath(
            asked=path,
            # No `..` must lead out of a folder that a rule allows.
            real=os.path.normpath(path) if is_path else path,
            inside=False,
            protected=elsewhere or str(problem),
            secret=elsewhere,
            forbidden=forbidden,
            own=self._settings_reason(path, path) if is_path else "",
        )


def holds_more_than_project(root: str, home: str) -> bool:
    """Whether the physical folder is `/`, the home folder, or one above it."""
    return root == "/" or is_below(home, root)


def is_public(path: str) -> bool:
    """Whether a file with the name of a key holds only certificates and public keys."""
    if not path.lower().endswith((".pem", ".key")):
        return False
    try:
        return _PUBLIC_FILES.get(path, _holds_public_blocks, follow=False)
    except OSError:
        return False


def _holds_public_blocks(path: str) -> bool:
    content = read_regular(Path(path), MAX_CERTIFICATE_BYTES + 1, follow=False)
    blocks = set(_PEM_BLOCK.findall(content))
    return len(content) <= MAX_CERTIFICATE_BYTES and bool(blocks) and blocks <= _PUBLIC_BLOCKS


def _comparable_prefixes(places: Iterable[str]) -> tuple[str, ...]:
    """Return how the comparable path of whatever lies in these places begins, with a `/` added."""
    return tuple(f"{comparable_path(place).rstrip('/')}/" for place in places)


def _is_in(
    real: str, asked: str, prefixes: tuple[str, ...], inodes: frozenset[tuple[int, int]]
) -> bool:
    """Whether a path begins with one of the comparable prefixes, or is one of these files."""
    if any(f"{comparable_path(path)}/".startswith(prefixes) for path in {real, asked}):
        return True
    with suppress(OSError):
        status = os.lstat(real) if inodes else None
        return status is not None and (status.st_dev, status.st_ino) in inodes
    return False


def both_spellings(paths: Sequence[Path | str]) -> tuple[str, ...]:
    """Return the absolute paths, as they were named and where they lead."""
    asked = [os.path.abspath(os.fspath(path)) for path in paths]
    return tuple(dict.fromkeys([*asked, *map(os.path.realpath, asked)]))


def _link_targets(places: Iterable[str]) -> Iterator[str]:
    """Yield the targets of links in these folders: settings are often kept elsewhere."""
    too_wide = ("/", os.path.realpath(os.path.expanduser("~")))
    for entry in islice(entries_beneath(places), MAX_OWN_FILES):
        if entry.is_symlink() and (target := os.path.realpath(entry.path)) not in too_wide:
            yield target


def _hard_linked(places: Iterable[str], *, is_deep: bool = True) -> frozenset[tuple[int, int]]:
    """Return device and inode of the files in these places that have further hard links."""
    inodes: set[tuple[int, int]] = set()
    files = [place for place in places if os.path.isfile(place)]
    folders = (one for one in places if is_deep or os.path.basename(one) == "keys")
    entries = islice(entries_beneath(folders), MAX_OWN_FILES)
    for path in (*files, *(entry.path for entry in entries)):
        with suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                inodes.add((status.st_dev, status.st_ino))
    return frozenset(inodes)


def entries_beneath(places: Iterable[str]) -> Iterator[os.DirEntry[str]]:
    """Yield what is in these folders, at any depth; links are not followed."""
    pending = list(places)
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue


def _bare_above(real: str, roots: Sequence[str], is_bare: Callable[[str], bool]) -> str:
    """Return why a path inside a bare repository of the workspace is protected, or ""."""
    within = takewhile(lambda folder: is_below_any(folder, roots), upwards(os.path.dirname(real)))
    bare = next(filter(is_bare, within), "")
    return f"{bare} is protected: it is a bare repository" if bare else ""


_PROCESS_PATH = late_pattern(r"/proc/(?:self|thread-self|[0-9]+)/|/dev/(?:fd|stdin|stdout|stderr)/")
_MAX_LINKS = 40


def why_process_path(path: str, real: str = "") -> str:
    """Return why the absolute `path` leads elsewhere in another process, or "". Follows its links.

    `real` is its target; a path that is its own target has no links to follow.
    """
    if path == real:
        is_other = _PROCESS_PATH.match(path + "/")
        return f"{path} means a different place in each process" if is_other else ""
    pending = path.split("/")[::-1]
    at, links = "", 0
    while pending and links < _MAX_LINKS:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = at.rpartition("/")[0]
            continue
        at = f"{at}/{name}"
        if _PROCESS_PATH.match(at + "/"):
            return f"{at} means a different place in each process"
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue
        links += 1
        at = "" if target.startswith("/") else at.rpartition("/")[0]
        pending.extend(reversed(target.split("/")))
    return ""
