"""Attachments: the files, folders, pictures and documents that a prompt names as `@path`."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dirge_py.files.assets import DOCUMENT_LIMIT, AssetStore, AssetType, asset_type
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock, UserBlock, UserMessage

MAX_TEXT_BYTES = 256 * 1024
_MAX_ENTRIES = 500

# An @ counts at the start of a word only, so that mail addresses and decorators in code stay text.
_AT = r"""(?<![^\s(\[{"'`,;:])@"""
_MENTION = late_pattern(
    rf"""{_AT}(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>[^\s"'`@]+))"""
)
_LINES = late_pattern(r":(\d{1,9})(?:-(\d{1,9}))?\Z")
_TRAILING = ".,;:!?)]}>…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacher:
    """Makes messages of prompts and what they mention."""

    cwd: Path
    """The folder that paths are relative to."""
    asset_dir: Path | None = None
    """The folder that stores pictures and documents; without one they are refused."""

    def attach(self, text: str, pictures: Mapping[str, bytes] | None = None) -> UserMessage:
        """Return a message of `text`, everything it mentions as `@path`, and `pictures` by name.

        The first block is the text as typed; a mention of a file that doesn't exist stays text.
        Raises FileError if a mentioned file exists and can't be attached; send nothing then.
        """
        blocks: list[UserBlock] = [TextBlock(text)]
        attached: list[str] = []
        for written, path in mentions(text, self.cwd):
            if written not in attached:
                try:
                    blocks.extend(self._blocks(written, path))
                except OSError as error:
                    hint = "Write the name without the @ to only mention it."
                    raise FileError(f"@{written}: {error.strerror}.", hint=hint) from error
                attached.append(written)
        for name, content in (pictures or {}).items():
            kind = asset_type(content)
            if kind is None or not kind.is_picture:
                hint = "Remove it from the text."
                raise FileError(f"{name} is not a PNG, JPEG, GIF or WebP.", hint=hint)
            blocks += self._asset_blocks(name, name, content, kind)
            attached.append(name)
        return UserMessage(content=tuple(blocks), attached=tuple(attached))

    def _blocks(self, written: str, path: Path) -> list[UserBlock]:
        lines = _lines_named(written, path)
        if path.is_dir():
            return [TextBlock(f"Attached folder {written}:\n\n{_list_folder(path)}")]
        content = read_regular(path, DOCUMENT_LIMIT + 1)
        kind = asset_type(content)
        if kind is not None:
            return self._asset_blocks(written, path.name, content, kind, prefix="@")
        if len(content) > MAX_TEXT_BYTES and lines is None:
            hint = f"Name the lines that matter: @{written}:1-200."
            raise FileError(f"@{written} is larger than 256 KiB.", hint=hint)
        if b"\0" in content:
            hint = "Write its name without the @ if the agent should look at it."
            problem = f"@{written} is neither text nor a PNG, JPEG, GIF, WebP or PDF."
            raise FileError(problem, hint=hint)
        text = content.decode("utf-8-sig", "replace")
        if lines is None:
            return [TextBlock(f"Attached file {written}:\n\n{_numbered(text)}")]
        part = _part(written, text, lines)
        return [TextBlock(f"Attached lines of file {written}:\n\n{part}")]

    def _asset_blocks(
        self, written: str, name: str, content: bytes, kind: AssetType, *, prefix: str = ""
    ) -> list[UserBlock]:
        if len(content) > kind.limit:
            hint = "Scale the image down." if kind.is_picture else "Attach a part of it."
            limit = f"{kind.limit >> 20} MiB"
            raise FileError(f"{prefix}{written} is larger than {limit}.", hint=hint)
        if self.asset_dir is None:
            text = f"{prefix}{written}: this session cannot store images and documents."
            raise FileError(text, hint="Use a session that is stored.")
        asset_id = AssetStore(self.asset_dir).put(content)
        if kind.is_picture:
            image = ImageBlock(asset_id=asset_id, media_type=kind.media_type)
            return [TextBlock(f"Attached image {written}:"), image]
        document = DocumentBlock(asset_id=asset_id, media_type=kind.media_type, name=name)
        return [TextBlock(f"Attached document {written}:"), document]


def mentions(text: str, cwd: Path) -> Iterator[tuple[str, Path]]:
    """Yield (path as written, absolute path) for every `@path` in `text` that exists.

    Blanks need quotes: `@"two words.txt"`. Lines may be named: `@a.py:10-20`. Punctuation after a
    path belongs to the sentence, unless it is part of the file's name.
    """
    for match in _MENTION.finditer(text):
        quoted, bare = match["double"] or match["single"], match["bare"] or ""
        shortest = max(1, len(bare.rstrip(_TRAILING)))
        readings = [bare[:end] for end in range(len(bare), shortest - 1, -1)]
        for written in [quoted] if quoted else readings:
            path = cwd / os.path.expanduser(written)
            if not os.path.lexists(path) and (named := _LINES.search(written)):
                path = cwd / os.path.expanduser(written[: named.start()])
            if os.path.lexists(path):
                yield written, path
                break


def without_mentions(text: str) -> str:
    """Return `text` with a backslash before each `@` that would name a file."""
    return re.sub(_AT, r"\\@", text)


def _numbered(text: str, first: int = 1) -> str:
    """Return the lines with their numbers, right-aligned."""
    lines = text.removesuffix("\n").split("\n")
    width = len(str(first + len(lines) - 1))
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, first))


def _list_folder(folder: Path) -> str:
    """Return the names in a folder, folders first with a slash."""
    with os.scandir(folder) as entries:
        listed = sorted((not entry.is_dir(), entry.name) for entry in entries)
    names = [name if is_file else f"{name}/" for is_file, name in listed[:_MAX_ENTRIES]]
    if len(listed) > _MAX_ENTRIES:
        names.append(f"… and {len(listed) - _MAX_ENTRIES} more")
    return "\n".join(names) or "(empty)"


def _lines_named(written: str, path: Path) -> tuple[int, int] | None:
    """Return the first and last line that a mention names; None if it names none."""
    named = _LINES.search(written)
    if named is None or path.name.endswith(named[0]):
        return None
    first = max(1, int(named[1]))
    return first, max(first, int(named[2] or first))


def _part(written: str, text: str, lines: tuple[int, int]) -> str:
    all_lines = text.removesuffix("\n").split("\n")
    first, last = lines
    if first > len(all_lines):
        hint = "Name lines that exist."
        raise FileError(f"@{written}: the file has {len(all_lines)} lines.", hint=hint)
    part = "\n".join(all_lines[first - 1 : last])
    if len(part.encode()) > MAX_TEXT_BYTES:
        raise FileError(f"@{written} is larger than 256 KiB.", hint="Name fewer lines.")
    return _numbered(part, first)
