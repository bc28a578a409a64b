"""Pictures and documents of a session, stored as files that are named after their content."""

import hashlib
from pathlib import Path

from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lean_dataclass import dataclass

PICTURE_LIMIT = 5 * 1024 * 1024
DOCUMENT_LIMIT = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AssetType:
    """A file format that models accept."""

    media_type: str
    words: str
    """Its name for people."""
    limit: int
    """The most bytes that services accept."""

    @property
    def is_picture(self) -> bool:
        return self.limit == PICTURE_LIMIT


_GIF = AssetType("image/gif", "GIF image", PICTURE_LIMIT)
_WEBP = AssetType("image/webp", "WebP image", PICTURE_LIMIT)
_ACCEPTED = (
    (b"\x89PNG\r\n\x1a\n", AssetType("image/png", "PNG image", PICTURE_LIMIT)),
    (b"\xff\xd8\xff", AssetType("image/jpeg", "JPEG image", PICTURE_LIMIT)),
    (b"GIF87a", _GIF),
    (b"GIF89a", _GIF),
    (b"%PDF-", AssetType("application/pdf", "PDF document", DOCUMENT_LIMIT)),
)
_OTHERS = (
    (b"PK\x03\x04", "ZIP archive, or a format built on it such as DOCX or JAR"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"(\xb5/\xfd", "Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "macOS program or library"),
    (b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\x01\0", "icon"),
    (b"OggS", "Ogg sound"),
    (b"ID3", "MP3 sound"),
    (b"fLaC", "FLAC sound"),
    (b"\xd0\xcf\x11\xe0", "older Office document"),
    (b"wOF2", "font"),
    (b"wOFF", "font"),
    (b"\0\x01\0\0", "font"),
)


def asset_type(head: bytes) -> AssetType | None:
    """Return the format that a file's first bytes identify, if models accept it."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _WEBP
    return next((known for start, known in _ACCEPTED if head.startswith(start)), None)


def kind_of_binary(head: bytes) -> str:
    """Return what kind of non-text file this is, by its first bytes; "" if unknown."""
    known = asset_type(head)
    if known is not None:
        return known.words
    if head[4:8] == b"ftyp":
        return "video or sound (MP4)"
    if head[257:262] == b"ustar":
        return "tar archive"
    return next((words for start, words in _OTHERS if head.startswith(start)), "")


class AssetStore:
    """The folder of one session's assets, created with the first one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Store `content`; return its id, which blocks contain. Raises OSError if that fails."""
        # Named by content: the same picture twice is one file, and the name reveals nothing.
        asset_id = hashlib.sha256(content).hexdigest()[:32]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.folder / asset_id).exists():
            atomic_write(self.folder / asset_id, content, mode=0o600)
        return asset_id
