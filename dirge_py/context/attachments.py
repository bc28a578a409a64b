"""`@path` in a prompt: files, folders, pictures and documents that the person sends along."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from dirge_py.files.assets import DOCUMENT_LIMIT, AssetStore, AssetType, asset_type
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError
from dirge_py.types.messages import (
    DocumentBlock,
    ImageBlock,
    Origin,
    TextBlock,
    UserBlock,
    UserMessage,
)

MAX_TEXT_BYTES = 256 * 1024
_MAX_ENTRIES = 500

# An @ counts at the start of a word only, so that mail addresses and decorators in code stay text.
_AT = r"""(?<![^\s(\[{"'`,;:])@"""
_MENTION = re.compile(
    rf"""{_AT}(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>[^\s"'`@]+))"""
)
_LINES = re.compile(r":(\d{1,9})(?:-(\d{1,9}))?\Z")
_TRAILING = ".,;:!?)]}>…"

Read = TypeVar("Read")

Render: TypeAlias = Callable[[str, str], str]
"""(path as written, text) → what the model reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacher:
    """How attachments are read. `asset_dir` keeps pictures and documents; without one they
    are refused."""

    cwd: Path
    asset_dir: Path | None = None
    show_file: Render = lambda path, text: numbered(text)
    show_folder: Callable[[Path], str] = lambda folder: listing(folder)

    def attach(
        self, text: str, pictures: Mapping[str, bytes] | None = None, *, origin: Origin = "user"
    ) -> UserMessage:
        """`text` as a message with everything it mentions as `@path`, and these pictures, by name.

        The first block is the text as it was typed. A mention of something that does not exist
        stays just that.

        Raises:
            FileError: something that was mentioned exists and cannot be attached. Send nothing.
        """
        blocks: list[UserBlock] = [TextBlock(text)]
        attached: list[str] = []
        for written, path in mentions(text, self.cwd):
            if written not in attached:
                blocks.extend(self._blocks(written, path))
                attached.append(written)
        for name, content in (pictures or {}).items():
            blocks += self._picture(name, content)
            attached.append(name)
        return UserMessage(content=tuple(blocks), origin=origin, attached=tuple(attached))

    def _picture(self, name: str, content: bytes) -> list[UserBlock]:
        kind = asset_type(content)
        if kind is None or not kind.is_picture:
            raise FileError(
                f"{name} is no PNG, JPEG, GIF or WebP.", hint="Take it out of the text."
            )
        return [
            TextBlock(f"Attached image {name}:"),
            self._stored(name, name, content, kind),
        ]

    def _blocks(self, written: str, path: Path) -> list[UserBlock]:
        lines = _lines_named(written, path)
        if path.is_dir():
            names = _or_refuse(written, lambda: self.show_folder(path))
            return [TextBlock(f"Attached folder {written}:\n\n{names}")]
        content = _or_refuse(written, lambda: read_regular(path, DOCUMENT_LIMIT + 1))
        kind = asset_type(content)
        if kind is not None:
            what = "image" if kind.is_picture else "document"
            return [
                TextBlock(f"Attached {what} {written}:"),
                self._stored(f"@{written}", path.name, content, kind),
            ]
        if len(content) > MAX_TEXT_BYTES and lines is None:
            raise FileError(
                f"@{written} is larger than 256 KiB.",
                hint=f"Name the lines that matter: @{written}:1-200.",
            )
        if b"\0" in content:
            raise FileError(
                f"@{written} is not text and no PNG, JPEG, GIF, WebP or PDF.",
                hint="Write its name without the @ if the agent should look at it.",
            )
        text = content.decode("utf-8-sig", "replace")
        if lines is not None:
            part = _part(written, text, lines)
            return [TextBlock(f"Attached lines of file {written}:\n\n{part}")]
        return [TextBlock(f"Attached file {written}:\n\n{self.show_file(written, text)}")]

    def _stored(
        self, written: str, name: str, content: bytes, kind: AssetType
    ) -> ImageBlock | DocumentBlock:
        if len(content) > kind.limit:
            hint = "Scale the image down." if kind.is_picture else "Attach a part of it."
            raise FileError(f"{written} is larger than {kind.limit >> 20} MiB.", hint=hint)
        if self.asset_dir is None:
            raise FileError(
                f"{written}: there is no place to keep images and documents.",
                hint="Use a stored session.",
            )
        asset_id = AssetStore(self.asset_dir).put(content)
        if kind.is_picture:
            return ImageBlock(asset_id=asset_id, media_type=kind.media_type)
        return DocumentBlock(asset_id=asset_id, media_type=kind.media_type, name=name)


def mentions(text: str, cwd: Path) -> Iterator[tuple[str, Path]]:
    """(path as written, absolute path) of every `@path` in `text` that exists.

    Blanks need quotes: `@"two words.txt"`. Lines may be named: `@a.py:10-20`. Punctuation after a
    path belongs to the sentence, unless a file is really called so.
    """
    for match in _MENTION.finditer(text):
        quoted = match["double"] or match["single"]
        for written in [quoted] if quoted else _readings(match["bare"]):
            path = cwd / os.path.expanduser(written)
            if not _exists(path) and (named := _LINES.search(written)):
                path = cwd / os.path.expanduser(written[: named.start()])
            if _exists(path):
                yield written, path
                break


def without_mentions(text: str) -> str:
    """`text` with a backslash before each `@` that would name a file."""
    return re.sub(_AT, r"\\@", text)


def numbered(text: str, first: int = 1) -> str:
    """Lines with their numbers, right-aligned."""
    lines = text.removesuffix("\n").split("\n")
    width = len(str(first + len(lines) - 1))
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, first))


def listing(folder: Path) -> str:
    """The names in a folder, folders first with a slash."""
    with os.scandir(folder) as entries:
        found = sorted((not entry.is_dir(), entry.name) for entry in entries)
    names = [name if is_file else f"{name}/" for is_file, name in found[:_MAX_ENTRIES]]
    if len(found) > _MAX_ENTRIES:
        names.append(f"… and {len(found) - _MAX_ENTRIES} more")
    return "\n".join(names) or "(empty)"


def _lines_named(written: str, path: Path) -> tuple[int, int] | None:
    """The first and last line that a mention names, if it does and that is not the file's name."""
    named = _LINES.search(written)
    if named is None or path.name.endswith(named[0]):
        return None
    first = max(1, int(named[1]))
    return first, max(first, int(named[2] or first))


def _part(written: str, text: str, lines: tuple[int, int]) -> str:
    whole = text.removesuffix("\n").split("\n")
    first, last = lines
    if first > len(whole):
        raise FileError(f"@{written}: the file has {len(whole)} lines.", hint="Name others.")
    part = "\n".join(whole[first - 1 : last])
    if len(part.encode()) > MAX_TEXT_BYTES:
        raise FileError(f"@{written} is larger than 256 KiB.", hint="Name fewer lines.")
    return numbered(part, first)


def _readings(bare: str) -> Iterator[str]:
    """What a bare mention can mean: itself, then with less and less punctuation at its end."""
    yield bare
    while bare and bare[-1] in _TRAILING:
        bare = bare[:-1]
        if bare:
            yield bare


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _or_refuse(written: str, read: Callable[[], Read]) -> Read:
    """What `read` gives, its errors in words for the person."""
    try:
        return read()
    except OSError as error:
        raise FileError(
            f"@{written}: {error.strerror}.",
            hint="Write the name without the @ to only mention it.",
        ) from error
