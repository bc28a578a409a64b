"""Reads the index of a repository: other repositories in it, tracked files, secrets among them.

What git would take from an index is found here or the index counts as not read: whoever made the
repository made its index, too. Source: git's documentation "gitformat-index".
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence

from dirge_py.files.stamps import Stamp, is_settled, stamp_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git.config import UnreadableRepository, read_bytes
from dirge_py.permission.protected import may_be_secret

MAX_INDEX_BYTES = 64 * 1024 * 1024

_STAT_BYTES = 40
_GITLINK = 0xE0
_REGULAR = 0x80
_SPARSE_FOLDER = struct.pack(">I", 0o040000)
_EXTENDED = 0x4000
_NAME_LENGTH = 0x0FFF
_VERSIONS = (2, 3, 4)
UNREADABLE = (OSError, UnreadableRepository, ValueError, struct.error, LookupError)
"""What says that an index, or a repository around it, cannot be told."""

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
    """What the index of a repository says."""

    links: tuple[str, ...] = ()
    """Paths of entries that are other repositories."""
    sparse: tuple[str, ...] = ()
    """Folders that stand for all that is in them; git may read that from the repository instead."""
    files: frozenset[str] = frozenset()
    """At least the regular files."""
    folders: frozenset[str] = frozenset()
    """What these lie in, at any depth."""
    secrets: tuple[Tracked, ...] = ()
    """Files whose names may be secret."""


_CACHE: dict[tuple[str, bool], tuple[tuple[Stamp, ...], Index]] = {}
_MAX_CACHED = 64


def read_index(git_dir: str, *, hash_bytes: int = 20, wants_files: bool = False) -> Index:
    """The entries of `git_dir`'s index that matter, those of a shared index included.

    Files are told only if they are wanted: it triples the time that a large index takes.

    Raises:
        One of `UNREADABLE`: they cannot all be told.
    """
    path = f"{git_dir}/index"
    if not os.path.lexists(path):
        return Index()
    key, stamps = (path, wants_files), [stamp_of(path)]
    cached = _CACHE.get(key)
    if cached and cached[0] == tuple(stamps):
        return cached[1]
    parsed = _Parsed(read_bytes(path, MAX_INDEX_BYTES), hash_bytes, wants_files=wants_files)
    found = parsed.index()
    if parsed.shared:
        shared = f"{git_dir}/sharedindex.{parsed.shared}"
        stamps.append(stamp_of(shared))
        if cached and cached[0] == tuple(stamps):
            return cached[1]
        content = read_bytes(shared, MAX_INDEX_BYTES)
        base = _Parsed(content, hash_bytes, wants_files=wants_files, is_base=True)
        found = _joined(found, base.index(), parsed.replacing)
    if len(_CACHE) >= _MAX_CACHED:
        _CACHE.clear()
    if all(map(is_settled, stamps)):
        _CACHE[key] = (tuple(stamps), found)
    return found


def _joined(one: Index, base: Index, replacing: Sequence[str]) -> Index:
    """Both; also what `one` takes out of `base` or replaces.

    `replacing` are the ids of contents that come in the place of others. Which these are is not
    read: each may be the content of a secret.
    """
    doubtful = [Tracked(base.secrets[0].path, blob) for blob in replacing] if base.secrets else []
    return Index(
        links=tuple(dict.fromkeys((*one.links, *base.links))),
        sparse=tuple(dict.fromkeys((*one.sparse, *base.sparse))),
        files=one.files | base.files,
        folders=one.folders | base.folders,
        secrets=tuple(dict.fromkeys((*one.secrets, *base.secrets, *doubtful))),
    )


def _folders_of(files: Iterable[str]) -> Iterator[str]:
    seen = {""}
    for file in files:
        folder = file.rpartition("/")[0]
        while folder not in seen:
            seen.add(folder)
            yield folder
            folder = folder.rpartition("/")[0]


class _Parsed:
    """One index file, taken apart. `is_base`: another one may replace what is in it."""

    def __init__(
        self, content: bytes, hash_bytes: int, *, wants_files: bool, is_base: bool = False
    ) -> None:
        self._content = content
        self._hash_bytes = hash_bytes
        self._wants_files = wants_files
        self._links: list[str] = []
        self._sparse: list[str] = []
        self._is_base = is_base
        self._files: list[str] = []
        self._secrets: list[Tracked] = []
        self.replacing: list[str] = []
        self._folder = ""
        self._is_secret_folder = False
        self.shared = ""
        self._starts: dict[int, bool] = {}
        self._has_blocks = b"IEOT" in content
        signature, version, count = struct.unpack_from(">4sII", content)
        if signature != b"DIRC" or version not in _VERSIONS:
            raise UnreadableRepository("an index of an unknown version")
        end = self._read_compressed(count) if version == 4 else self._read_plain(count)
        self._read_extensions(end)

    def index(self) -> Index:
        return Index(
            links=tuple(self._links),
            sparse=tuple(self._sparse),
            files=frozenset(self._files),
            folders=frozenset(_folders_of(self._files)),
            secrets=tuple(self._secrets),
        )

    def _read_plain(self, count: int) -> int:
        """Entries with whole names, padded with 1 to 8 NUL bytes to a multiple of eight."""
        content, fixed = self._content, _STAT_BYTES + self._hash_bytes
        position, find = _EMPTY_HEADER, content.find
        for _ in range(count):
            flags = content[position + fixed] << 8 | content[position + fixed + 1]
            start = position + fixed + (4 if flags & _EXTENDED else 2)
            end = find(b"\0", start)
            # Git believes the length. One that does not fit was written to mislead a reader.
            if end < 0 or min(end - start, _NAME_LENGTH) != flags & _NAME_LENGTH:
                raise UnreadableRepository("an index with an entry of the wrong length")
            if self._has_blocks:
                self._starts[position] = True
            mode = content[position + 26]
            if mode & 0xF0 == _GITLINK or mode == 0x40:
                self._note(position, content[start:end])
            elif self._wants_files:
                self._note_file(position, content[start:end])
            position += (end - position) // 8 * 8 + 8
        return position

    def _read_compressed(self, count: int) -> int:
        """Entries whose names begin like the one before, without padding."""
        content, fixed = self._content, _STAT_BYTES + self._hash_bytes
        position, name = _EMPTY_HEADER, b""
        for _ in range(count):
            flags = content[position + fixed] << 8 | content[position + fixed + 1]
            stripped, start = self._number(position + fixed + (4 if flags & _EXTENDED else 2))
            end = content.index(b"\0", start)
            if stripped > len(name):
                raise UnreadableRepository("an index with a name cut short")
            if self._has_blocks:
                self._starts[position] = stripped == len(name)
            name = name[: len(name) - stripped] + content[start:end]
            if min(len(name), _NAME_LENGTH) != flags & _NAME_LENGTH:
                raise UnreadableRepository("an index with an entry of the wrong length")
            mode = content[position + 26]
            if mode & 0xF0 == _GITLINK or mode == 0x40:
                self._note(position, name)
            elif self._wants_files:
                self._note_file(position, name)
            position = end + 1
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
            self._sparse.append(os.fsdecode(name))
        elif self._content[position + 26] & 0xF0 == _GITLINK:
            if not name:
                raise UnreadableRepository(
                    "an index that replaces an entry of a shared one by a repository"
                )
            self._links.append(os.fsdecode(name))

    def _note_file(self, position: int, name: bytes) -> None:
        content, text = self._content, name.decode("utf-8", "surrogateescape")
        folder, _, last = text.rpartition("/")
        # Names are sorted: what is said of a folder holds for many files.
        if folder != self._folder:
            self._folder = folder
            self._is_secret_folder = any(map(may_be_secret, folder.split("/")))
        if content[position + 26] & 0xF0 == _REGULAR or self._is_base:
            self._files.append(text)
        if name and not self._is_secret_folder and not may_be_secret(last):
            return
        blob = content[position + _STAT_BYTES : position + _STAT_BYTES + self._hash_bytes].hex()
        if name:
            self._secrets.append(Tracked(text, blob))
        else:
            self.replacing.append(blob)

    def _read_extensions(self, position: int) -> None:
        self._check_end(position)
        for name, start, size in self._extensions(position):
            if name == b"IEOT":
                self._check_blocks(start, size)
            if name == b"link":
                base = self._content[start : start + min(size, self._hash_bytes)]
                if len(base) != self._hash_bytes:
                    raise UnreadableRepository("an index whose shared part is not named")
                self.shared = base.hex() if any(base) else ""

    def _check_end(self, position: int) -> None:
        """Git takes the extensions from where the last one says that the entries end."""
        at = len(self._content) - 2 * self._hash_bytes - 12
        if at >= position and self._content[at : at + 4] == b"EOIE":
            (end,) = struct.unpack_from(">I", self._content, at + 8)
            if end != position:
                raise UnreadableRepository("an index whose extensions are not behind its entries")

    def _check_blocks(self, start: int, size: int) -> None:
        """Git reads blocks of entries at once, from where the index says that they begin."""
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

    def _extensions(self, position: int) -> Iterator[tuple[bytes, int, int]]:
        last = len(self._content) - self._hash_bytes
        while position + 8 <= last:
            name = self._content[position : position + 4]
            (size,) = struct.unpack_from(">I", self._content, position + 4)
            if position + 8 + size > last:
                raise UnreadableRepository("an index that ends too early")
            yield name, position + 8, size
            position += 8 + size
        if position > last:
            raise UnreadableRepository("an index that ends too early")
