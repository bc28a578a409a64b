"""The `read` tool: shows lines of a text file, or a picture or document as it is."""

import codecs
import difflib
import hashlib
import io
import os
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import BinaryIO, ClassVar

from pydantic import ConfigDict, Field

from dirge_py.files.assets import AssetStore, AssetType, asset_type, kind_of_binary
from dirge_py.files.versions import FileIdentity, sha256_of
from dirge_py.files.workspace import WHOLE_FILE_LIMIT, LocatedPath
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.search.paths import human_size
from dirge_py.tools.threads import in_thread
from dirge_py.types.errors import FileError
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock
from dirge_py.types.tools import LoopToolResult, text_result

DEFAULT_LINES = 2000
LINE_LIMIT = 16 * 1024
"""The most bytes shown of one line."""
RESULT_LIMIT = 256 * 1024
"""The most bytes shown of all lines together."""
FILE_LIMIT = 1 << 30
_COUNTED_BEYOND = 1024
"""How many lines are counted after the shown ones in a file that is too large to be edited."""
_SNIFFED = 4096
_CHUNK = 1 << 20
_MAX_ODD_SHARE = 0.3


class ReadArgs(ToolArgs):
    # A model that gives a limit without an offset gets a note about the default.
    model_config = ConfigDict(
        json_schema_extra={
            "x-together": [
                {"requires": ["offset", "limit"], "defaults": {"offset": 1, "limit": DEFAULT_LINES}}
            ]
        }
    )

    path: PathText
    offset: int = Field(1, ge=1, description="First line, from 1.")
    limit: int = Field(DEFAULT_LINES, ge=1, description="Number of lines.")


class ReadTool(PathTool[ReadArgs]):
    name = "read"
    label = "Read"
    args = ReadArgs
    other_names: ClassVar = {"file_path": "path"}

    async def run(self, args: ReadArgs, ctx: ToolContext) -> LoopToolResult:
        return await in_thread(ctx.signal, _read, args, ctx)


TOOL = ReadTool()


def _read(args: ReadArgs, ctx: ToolContext) -> LoopToolResult:
    path, files = ctx.absolute(args.path), ctx.files
    located = files.locate(path)
    _require_file(args, located, ctx)
    with files.open(path) as (stream, _, status):
        if status.st_size > FILE_LIMIT:
            raise FileError(f"{args.path} is larger than 1 GiB.", hint="Use `grep`, or a command.")
        is_editable = status.st_size <= WHOLE_FILE_LIMIT

        def remember(sha256: str) -> None:
            files.ledger.remember(located.real, FileIdentity.of(status, sha256))

        def remember_bytes() -> None:
            # A file that is not text counts as read, too, so that it can be deleted or renamed.
            stream.seek(0)
            content = stream.read(WHOLE_FILE_LIMIT + 1)
            if len(content) <= WHOLE_FILE_LIMIT:
                remember(sha256_of(content))

        head = stream.read(_SNIFFED)
        stream.seek(0)
        kind, assets = asset_type(head), ctx.services.assets
        if kind is not None and assets is not None:
            result = _store_asset(args, stream, kind, assets, path=path)
            remember_bytes()
            return result
        window = LineWindow(args.offset, args.limit)
        wide = next((name for mark, name in _MARKS if head.startswith(mark)), "")
        if wide and is_editable:
            content = stream.read()
            scan(io.BytesIO(content.decode(wide, "replace").encode(errors="replace")), window)
            remember(sha256_of(content))
            note = f"\n({wide}; `edit` refuses it.)"
            return text_result(_render(args, window, str(window.total)) + note, path=path)
        if _looks_binary(head):
            remember_bytes()
            binary, hint = kind_of_binary(head), "Use a command that knows its format."
            what = f": {binary}" if binary else ""
            if not binary and b"\0" not in head:
                what = ", or text in an encoding other than UTF-8"
                hint = "For text, convert it with `iconv` in a command."
            size = status.st_size
            raise FileError(f"{args.path} is a binary file{what} ({size} bytes).", hint=hint)
        stop_after = None if is_editable else _COUNTED_BEYOND
        sha256 = scan(stream, window, stop_after=stop_after, is_aborted=lambda: ctx.signal.aborted)
        if is_editable and sha256 is not None:
            remember(sha256)
    total = str(window.total) if sha256 else f"≥{window.total}"
    return text_result(_render(args, window, total), path=path)


def _store_asset(
    args: ReadArgs, stream: BinaryIO, kind: AssetType, assets: AssetStore, *, path: str
) -> LoopToolResult:
    """Store a picture or document, and return it as a block after a text about it."""
    size = os.fstat(stream.fileno()).st_size
    if size > kind.limit:
        advice = "Scale it down" if kind.is_picture else "Take a part of it"
        raise FileError(
            f"{args.path} is a {kind.words} of {human_size(size)}; at most"
            f" {kind.limit >> 20} MiB can be shown.",
            hint=f"{advice} with a command.",
        )
    content = stream.read(kind.limit)
    try:
        asset_id = assets.put(content)
    except OSError as error:
        reason = error.strerror
        raise FileError(f"{args.path} could not be stored to be shown: {reason}.") from error
    words = TextBlock(f"{args.path}: {kind.words}, {human_size(len(content))}")
    block: ImageBlock | DocumentBlock
    if kind.is_picture:
        block = ImageBlock(asset_id=asset_id, media_type=kind.media_type)
    else:
        name = os.path.basename(path)
        block = DocumentBlock(asset_id=asset_id, media_type=kind.media_type, name=name)
    return LoopToolResult(content=(words, block), details={"outcome": "ok", "path": path})


def _require_file(args: ReadArgs, located: LocatedPath, ctx: ToolContext) -> None:
    if located.kind == "dir":
        raise FileError(f"{args.path} is a folder.", hint="Use `list_dir` to see what is in it.")
    if located.kind == "missing":
        folder, name = os.path.split(located.real)
        names = difflib.get_close_matches(name, ctx.files.names_beside(located), 9)
        is_withheld = ctx.services.files.withheld
        near = [f"`{each}`" for each in names if not is_withheld(f"{folder}/{each}")][:3]
        hint = f"Did you mean {' or '.join(near)}?" if near else ""
        raise FileError(f"{args.path} does not exist.", hint=hint)


def _render(args: ReadArgs, window: "LineWindow", total: str) -> str:
    if window.total == 0:
        return f"{args.path} is empty (0 lines)."
    if args.offset > window.total:
        raise FileError(
            f"{args.path} has {total} lines; offset {args.offset} is past its end.",
            hint=f"Give an offset of at most {window.total}.",
        )
    width = len(str(window.last))
    texts, is_utf8 = _decode_lines(window.lines, window.is_cut)
    numbered = (
        f"{number:>{width}}: {text}" + (" …[line truncated]" if is_cut else "")
        for number, (text, is_cut) in enumerate(zip(texts, window.is_cut, strict=True), args.offset)
    )
    parts = [f"{args.path}: lines {args.offset}-{window.last} of {total}", "", *numbered]
    notes: list[str] = []
    if window.last < window.total:
        notes.append(f"… more lines follow: read with offset={window.last + 1}.")
    if any(window.is_cut):
        number = args.offset + window.is_cut.index(True)
        rest = f"`sed -n {number}p FILE | cut -b{LINE_LIMIT + 1}-`"
        notes.append(f"(The rest of such a line: {rest}.)")
    if not is_utf8:
        notes.append("(Not UTF-8: shown as Windows-1252; `edit` refuses it.)")
    return "\n".join([*parts, "", *notes] if notes else parts)


_MARKS = (
    # Longer marks first: UTF-32 begins like UTF-16.
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def _decode_lines(lines: Iterable[bytes], cut: Iterable[bool]) -> tuple[list[str], bool]:
    """Return the lines as text, and whether all are UTF-8; others are read as Windows-1252."""
    texts: list[str] = []
    is_utf8 = True
    for line, is_cut in zip(lines, cut, strict=True):
        try:
            texts.append(codecs.getincrementaldecoder("utf-8")().decode(line, final=not is_cut))
        except UnicodeDecodeError:
            is_utf8 = False
            try:
                texts.append(line.decode("cp1252"))
            except UnicodeDecodeError:  # Five bytes have no character in it.
                texts.append(line.decode("latin-1"))
    return texts, is_utf8


@dataclass(slots=True)
class LineWindow:
    """Collects a range of a file's lines from its bytes, and counts all lines."""

    first: int
    """Number of the first line to keep, from 1."""
    count: int
    """The most lines to keep."""
    lines: list[bytes] = field(default_factory=list)
    """The lines kept so far."""
    is_cut: list[bool] = field(default_factory=list)
    """Whether these lines were longer than `LINE_LIMIT`."""
    total: int = 0
    """The number of lines that have ended so far."""
    _is_full: bool = False
    _open: bytearray = field(default_factory=bytearray)
    """The beginning of the line that has not ended, with one byte more than is kept."""
    _size: int = 0

    def feed(self, chunk: bytes) -> None:
        ended = chunk.count(b"\n")
        if self._is_full or self.total + ended < self.first - 1:
            self.total += ended
            if ended:
                self._open.clear()
            self._extend(chunk[chunk.rfind(b"\n") + 1 :])
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._extend(line)
            self._end_line()
        self._extend(rest)

    def finish(self) -> None:
        """Handle the end of the file: a last line without a newline counts too."""
        if self._open:
            self._end_line()

    @property
    def last(self) -> int:
        """Return the number of the last kept line."""
        return self.first - 1 + len(self.lines)

    def _extend(self, piece: bytes) -> None:
        self._open += piece[: LINE_LIMIT + 1 - len(self._open)]

    def _end_line(self) -> None:
        self.total += 1
        if self.total >= self.first and not self._is_full:
            line = bytes(self._open).removesuffix(b"\r")[:LINE_LIMIT]
            self._size += len(line)
            self._is_full = self._size > RESULT_LIMIT and bool(self.lines)
            if not self._is_full:
                self.lines.append(line)
                self.is_cut.append(len(self._open) > LINE_LIMIT)
                self._is_full = len(self.lines) == self.count
        self._open.clear()


def scan(
    stream: BinaryIO,
    window: LineWindow,
    *,
    stop_after: int | None = None,
    is_aborted: Callable[[], bool] = lambda: False,
) -> str | None:
    """Feed a file to the window; return its sha256, or None if it was not read to its end.

    If `stop_after` is given, it stops that many lines after the window.
    """
    digest = hashlib.sha256()
    max_lines = None if stop_after is None else window.first - 1 + window.count + stop_after
    is_first = True
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        window.feed(chunk.removeprefix(codecs.BOM_UTF8) if is_first else chunk)
        is_first = False
        if is_aborted() or (max_lines is not None and window.total >= max_lines):
            return None
    window.finish()
    return digest.hexdigest()


def _looks_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` has a NUL, or too many control characters."""
    if b"\0" in head:
        return True
    odd = sum(head.count(code) for code in _CONTROLS)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        odd += sum(byte > 127 for byte in head)
    return odd > _MAX_ODD_SHARE * len(head)


_CONTROLS = tuple(bytes([code]) for code in (*range(1, 32), 127) if code not in b"\t\n\r\f\b\x1b")
