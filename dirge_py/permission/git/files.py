"""The settings of git that act, and the index of a repository, read the way git reads it.

The table lists every setting by which read-only commands could start a program or show a file. It
comes from the documentation of git 2.39 and the release notes of later versions. A test compares it
with the settings that the installed git knows, and lists those that read-only commands don't read.

The index lists other repositories, tracked files and secrets among them. It is read as git would
read it, or counts as unreadable, because the author of a repository also controls its index.
Source: git's documentation "gitformat-index".
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal

from dirge_py.files.versions import StampCache
from dirge_py.git.repository import UnreadableRepository, read_bytes
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.protected import may_be_secret
from dirge_py.processes.environment import git_config_variables

Kind = Literal["program", "file", "helper", "switch"]
"""What the value names: a program, a file or folder, the helper of a remote, or a switch that makes
git start a program or enter another repository."""
Answer = Literal["asks", "asks-unless-own-file", "followed", "overridden"]
"""What dirge does about a setting. `asks`: git runs only after a question. `asks-unless-own-file`:
the same, unless the value is a file of the work tree without secrets. `followed`: the place it
leads to is checked. `overridden`: the `value` in `GIT_HARDENING` replaces the repository's; git
documents nowhere that a submodule gets it, so there it asks."""


@dataclass(frozen=True, slots=True)
class ActingSetting:
    """A git setting that names a program or a file."""

    key: str
    """Its name in lower case; `*` stands for any text."""
    kind: Kind
    """What the setting names."""
    answer: Answer
    """What dirge does about it in read-only commands."""
    value: str = ""
    """The value that overrides it."""


_CONVERTS = "`git status` and `git diff` run it on changed files"
_SIGNATURES = "the format `%G?` runs it"
_HELP = "`--help` opens a viewer with it"
_ROWS: tuple[tuple[Answer, Kind, str, str], ...] = (
    # the answer, what the settings name, the settings (`=VALUE` overrides one), why that answer
    ("asks", "program", "filter.*.clean", _CONVERTS),
    ("asks", "program", "filter.*.smudge", "an external diff runs it"),
    ("asks", "program", "filter.*.process", _CONVERTS),
    ("asks", "program", "diff.external", "`git diff` runs it, and no value turns it off"),
    ("asks", "program", "diff.*.command", "`git diff` runs it"),
    ("asks", "program", "diff.*.textconv", "`git diff`, `git show` and `git blame` run it"),
    ("asks", "program", "hook.*.command", "later versions of git run it as a hook"),
    ("asks", "file", "core.worktree", "git would look at another folder"),
    ("asks", "file", "include.path includeif.*.path", "the file can hold any setting"),
    ("asks", "helper", "remote.*.promisor", "git fetches missing objects when it needs them"),
    ("asks", "helper", "remote.*.partialclonefilter extensions.partialclone",
     "it makes the remote a promisor"),
    ("asks-unless-own-file", "file", "core.excludesfile", "`git check-ignore -v` prints of it"),
    ("asks-unless-own-file", "file", "core.attributesfile", "git prints lines of it in warnings"),
    ("asks-unless-own-file", "file", "blame.ignorerevsfile", "`git blame` prints a bad line"),
    ("followed", "switch", "submodule.*.ignore", "submodules are checked themselves"),
    ("asks", "program", "man.viewer man.*.cmd man.*.path browser.*.cmd browser.*.path", _HELP),
    ("asks", "program", "web.browser help.browser", _HELP),
    ("asks", "switch", "help.format", _HELP),
    ("asks", "file", "help.htmlpath", _HELP),
    ("overridden", "program", "core.fsmonitor=false", "nearly every command runs it"),
    ("overridden", "file", "core.hookspath=/dev/null", "hooks are taken from there"),
    ("overridden", "switch", "diff.submodule=short", "`diff` runs git in submodules"),
    # `dirty` compares commits only; `all` would also leave a staged change of one out.
    ("overridden", "switch", "diff.ignoresubmodules=dirty", "git runs in submodules"),
    ("overridden", "switch", "status.submodulesummary=false", "it runs in submodules"),
    ("overridden", "switch", "submodule.recurse=false", "`git grep` enters submodules"),
    ("overridden", "switch", "log.showsignature=false", "it runs gpg"),
    ("overridden", "switch", "log.diffmerges=separate", "`remerge` runs merge drivers"),
    ("overridden", "program", "gpg.program=false gpg.openpgp.program=false", _SIGNATURES),
    ("overridden", "program", "gpg.x509.program=false gpg.ssh.program=false", _SIGNATURES),
    ("overridden", "file", "gpg.ssh.allowedsignersfile=/dev/null gpg.ssh.revocationfile=/dev/null",
     "signatures"),
    ("overridden", "file", "diff.orderfile=/dev/null", "`git diff` reads it"),
    ("overridden", "file", "mailmap.file=/dev/null", "names of authors show its lines"),
)  # fmt: skip
ACTING_SETTINGS = tuple(
    ActingSetting(key, kind, answer, value)
    for answer, kind, keys, _why in _ROWS
    for key, _, value in (spelled.partition("=") for spelled in keys.split())
)
"""The first row for a setting counts."""
_MORE_SETTINGS = (
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
    ("core.pager", "cat"),
)
# These hold in submodules, too. Without a transport, no setting of a remote or of HTTP acts.
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
}


def hardening() -> Mapping[str, str]:
    """Return the environment that overrides a repository's settings, in two equivalent forms."""
    pairs = (
        *_MORE_SETTINGS,
        *((row.key, row.value) for row in ACTING_SETTINGS if row.answer == "overridden"),
    )
    # Git before 2.31 reads no numbered variables; every version reads those that `git -c` sets.
    parameters = " ".join(f"'{key}={value}'" for key, value in pairs)
    return {**git_config_variables(pairs), "GIT_CONFIG_PARAMETERS": parameters, **_VARIABLES}


@lru_cache(maxsize=1024)
def acting_setting(key: str) -> ActingSetting | None:
    """Return the first row for a setting, or None if no read-only command acts on it."""
    found = _pattern().fullmatch(key.lower())
    return ACTING_SETTINGS[found.lastindex - 1] if found and found.lastindex else None


@cache
def _pattern() -> re.Pattern[str]:
    escaped = (re.escape(row.key).replace(r"\*", ".*") for row in ACTING_SETTINGS)
    return re.compile("|".join(f"({key})" for key in escaped), re.DOTALL)


MAX_INDEX_BYTES = 64 * 1024 * 1024
_STAT_BYTES = 40
_GITLINK = 0xE0
_REGULAR = 0x80
_SPARSE_FOLDER = struct.pack(">I", 0o040000)
_EXTENDED = 0x4000
_NAME_LENGTH = 0x0FFF
_INDEX_VERSIONS = (2, 3, 4)
UNREADABLE = (OSError, UnreadableRepository, ValueError, struct.error, LookupError)
"""The errors which mean that an index, or a repository around it, is unreadable."""
_EMPTY_HEADER = 12


@dataclass(frozen=True, slots=True)
class Tracked:
    """A file that could be a secret."""

    path: str
    """Its path in the work tree."""
    blob: str
    """The id of its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The contents of a repository's index."""

    links: tuple[str, ...] = ()
    """Paths of entries that are other repositories."""
    sparse: tuple[str, ...] = ()
    """Folders that stand for everything in them; git may read that from the repository instead."""
    files: frozenset[str] = frozenset()
    """The regular files, and possibly more."""
    folders: frozenset[str] = frozenset()
    """The folders of these files, at any depth."""
    secrets: tuple[Tracked, ...] = ()
    """Files whose names may be secret."""


_INDEXES: Mapping[bool, StampCache[tuple[Index, bool]]] = {
    wants_files: StampCache(64) for wants_files in (False, True)
}
"""The indexes that were read, without and with their files, and whether each is split."""


def read_index(git_dir: str, *, hash_bytes: int = 20, wants_files: bool = False) -> Index:
    """Return the relevant entries of `git_dir`'s index and its shared index.

    Files are listed only with `wants_files`: that triples the time for a large index.
    Raises one of `UNREADABLE` if not all entries can be read.
    """
    path = f"{git_dir}/index"
    if not os.path.lexists(path):
        return Index()

    def read(path: str) -> tuple[Index, bool]:
        reader = _IndexReader(hash_bytes, wants_files=wants_files)
        shared = reader.read(read_bytes(path, MAX_INDEX_BYTES))
        if shared:
            reader.read_base(read_bytes(f"{git_dir}/sharedindex.{shared}", MAX_INDEX_BYTES))
        return reader.index(), bool(shared)

    found, is_split = _INDEXES[wants_files].get(path, read)
    # The shared part may have changed since it was read.
    return read(path)[0] if is_split else found


def _folders_of(files: Iterable[str]) -> Iterator[str]:
    seen = {""}
    for file in files:
        folder = file.rpartition("/")[0]
        while folder not in seen:
            seen.add(folder)
            yield folder
            folder = folder.rpartition("/")[0]


class _IndexReader:
    """Collects the entries of an index file, and of the shared one that it adds to."""

    def __init__(self, hash_bytes: int, *, wants_files: bool) -> None:
        self._hash_bytes = hash_bytes
        self._wants_files = wants_files
        self._is_base = False
        self._links: dict[str, None] = {}
        self._sparse: dict[str, None] = {}
        self._files: list[str] = []
        self._secrets: dict[Tracked, None] = {}
        self._replacing: list[str] = []
        """The ids of contents that replace others in the shared index."""
        self._folder = ""
        self._is_secret_folder = False

    def index(self) -> Index:
        return Index(
            links=tuple(self._links),
            sparse=tuple(self._sparse),
            files=frozenset(self._files),
            folders=frozenset(_folders_of(self._files)),
            secrets=tuple(self._secrets),
        )

    def read_base(self, content: bytes) -> None:
        """Read the shared index, with the entries that the first one removes or replaces.

        Which contents it replaces is not read, so each replacing one may be that of a secret.
        """
        replacing, known = tuple(self._replacing), self._secrets
        self._is_base, self._secrets = True, {}
        self.read(content)
        found = next(iter(self._secrets), None)
        doubtful = [Tracked(found.path, blob) for blob in replacing] if found else []
        self._secrets = {**known, **self._secrets, **dict.fromkeys(doubtful)}

    def read(self, content: bytes) -> str:
        """Read one index file; return the id of the shared one that it adds to, or ""."""
        self._content = content
        self._starts: dict[int, bool] = {}
        """Where entries start, and whether their names need no other one; only with blocks."""
        signature, version, count = struct.unpack_from(">4sII", content)
        if signature != b"DIRC" or version not in _INDEX_VERSIONS:
            raise UnreadableRepository("an index of an unknown version")
        return self._read_extensions(self._read_entries(count, is_compressed=version == 4))

    def _read_entries(self, count: int, *, is_compressed: bool) -> int:
        """Read the entries; return where they end.

        Compressed names share a prefix with the previous one. Others are padded with 1 to 8 NUL
        bytes to a multiple of eight.
        """
        content, fixed = self._content, _STAT_BYTES + self._hash_bytes
        has_blocks, wants_files = b"IEOT" in content, self._wants_files
        position, name, stripped, find = _EMPTY_HEADER, b"", 0, content.find
        for _ in range(count):
            flags = content[position + fixed] << 8 | content[position + fixed + 1]
            start = position + fixed + (4 if flags & _EXTENDED else 2)
            if is_compressed:
                stripped, start = self._number(start)
                if stripped > len(name):
                    raise UnreadableRepository("an index with a name cut short")
            end = find(b"\0", start)
            if has_blocks:
                self._starts[position] = not is_compressed or stripped == len(name)
            rest = content[start:end]
            name = name[: len(name) - stripped] + rest if is_compressed else rest
            # Git trusts the length. One that does not fit was written to mislead other readers.
            if end < 0 or min(len(name), _NAME_LENGTH) != flags & _NAME_LENGTH:
                raise UnreadableRepository("an index with an entry of the wrong length")
            mode = content[position + 26]
            if mode & 0xF0 == _GITLINK or mode == 0x40:
                self._note(position, name)
            elif wants_files:
                self._note_file(position, name)
            position = end + 1 if is_compressed else position + (end - position) // 8 * 8 + 8
        return position

    def _number(self, position: int) -> tuple[int, int]:
        byte = self._content[position]
        number, position = byte & 0x7F, position + 1
        while byte & 0x80:
            byte = self._content[position]
            number, position = ((number + 1) << 7) | (byte & 0x7F), position + 1
        return number, position

    def _note(self, position: int, name: bytes) -> None:
        if self._content[position + 24 : position + 28] == _SPARSE_FOLDER:
            self._sparse[os.fsdecode(name)] = None
        elif self._content[position + 26] & 0xF0 == _GITLINK:
            if not name:
                raise UnreadableRepository(
                    "an index that replaces an entry of a shared one by a repository"
                )
            self._links[os.fsdecode(name)] = None

    def _note_file(self, position: int, name: bytes) -> None:
        content, text = self._content, name.decode("utf-8", "surrogateescape")
        folder, _, last = text.rpartition("/")
        # Names are sorted, so the result for a folder is reused for many files.
        if folder != self._folder:
            self._folder = folder
            self._is_secret_folder = any(map(may_be_secret, folder.split("/")))
        if content[position + 26] & 0xF0 == _REGULAR or self._is_base:
            self._files.append(text)
        if name and not self._is_secret_folder and not may_be_secret(last):
            return
        blob = content[position + _STAT_BYTES : position + _STAT_BYTES + self._hash_bytes].hex()
        if name:
            self._secrets[Tracked(text, blob)] = None
        else:
            self._replacing.append(blob)

    def _read_extensions(self, position: int) -> str:
        """Check the extensions; return the id in the one that names a shared index, or ""."""
        self._check_end(position)
        content, shared = self._content, ""
        last = len(content) - self._hash_bytes
        while position + 8 <= last:
            name, size = struct.unpack_from(">4sI", content, position)
            start, position = position + 8, position + 8 + size
            if position > last:
                break
            if name == b"IEOT":
                self._check_blocks(start, size)
            if name == b"link":
                base = content[start : start + min(size, self._hash_bytes)]
                if len(base) != self._hash_bytes:
                    raise UnreadableRepository("an index whose shared part is not named")
                shared = base.hex() if any(base) else ""
        if position > last:
            raise UnreadableRepository("an index that ends too early")
        return shared

    def _check_end(self, position: int) -> None:
        """Check the end of the entries in the last extension: git reads extensions from there."""
        at = len(self._content) - 2 * self._hash_bytes - 12
        if at >= position and self._content[at : at + 4] == b"EOIE":
            (end,) = struct.unpack_from(">I", self._content, at + 8)
            if end != position:
                raise UnreadableRepository("an index whose extensions are not behind its entries")

    def _check_blocks(self, start: int, size: int) -> None:
        """Check where the index says that its blocks begin: git reads them from there."""
        starts = list(self._starts)
        first = 0
        for at in range(start + 4, start + size - 7, 8):
            offset, count = struct.unpack_from(">II", self._content, at)
            if not count or first >= len(starts) or starts[first] != offset:
                raise UnreadableRepository("an index whose blocks are not its entries")
            if not self._starts[offset]:
                raise UnreadableRepository("an index with a name that spans two blocks")
            first += count
        if first != len(starts):
            raise UnreadableRepository("an index whose blocks are not its entries")
