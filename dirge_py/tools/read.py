"""Show lines of a text file, or a picture or document as it is."""

import codecs
import difflib
import io
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from pydantic import ConfigDict, Field

from dirge_py.files.assets import AssetStore, AssetType, asset_type, kind_of_binary
from dirge_py.files.identity import FileIdentity, sha256_of
from dirge_py.files.line_window import SNIFFED, LineWindow, Window, looks_binary, scan
from dirge_py.files.workspace import WHOLE_FILE_LIMIT, CallFiles, LocatedPath
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.base import Hints, PathText, Tool, ToolArgs, ToolContext, in_thread, rename_keys
from dirge_py.tools.search.paths import human_size
from dirge_py.types.errors import FileError
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock
from dirge_py.types.tools import Claim, LoopToolResult, text_result

DEFAULT_LINES = 2000
LINE_LIMIT = 16 * 1024
RESULT_LIMIT = 256 * 1024
FILE_LIMIT = 1 << 30
COUNTED_BEYOND = 1024


class ReadArgs(ToolArgs):
    # A model that says how much but not where from is told what it got.
    model_config = ConfigDict(
        json_schema_extra={
            "x-together": [
                {
                    "requires": ["offset", "limit"],
                    "defaults": {"offset": 1, "limit": DEFAULT_LINES},
                }
            ]
        }
    )

    path: PathText
    offset: int = Field(1, ge=1, description="First line, from 1.")
    limit: int = Field(DEFAULT_LINES, ge=1, description="Number of lines.")


class ReadTool(Tool[ReadArgs]):
    name = "read"
    label = "Read"
    args = ReadArgs
    hints = Hints(read_only=True)

    def prepare(self, arguments: Any) -> Any:
        return rename_keys(arguments, {"file_path": "path"})

    def claims(self, args: ReadArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(args.path))]

    async def run(self, args: ReadArgs, ctx: ToolContext) -> LoopToolResult:
        reading = _Reading(
            args=args,
            path=ctx.absolute(args.path),
            files=ctx.files,
            assets=ctx.services.assets,
            is_withheld=ctx.services.files.withheld,
            is_aborted=lambda: ctx.signal.aborted,
        )
        return await in_thread(ctx.signal, _read, reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    args: ReadArgs
    path: str
    files: CallFiles
    assets: AssetStore | None
    is_withheld: Callable[[str], bool]
    is_aborted: Callable[[], bool]


def _read(reading: _Reading) -> LoopToolResult:
    args = reading.args
    located = reading.files.locate(reading.path)
    _require_file(reading, located)
    with reading.files.open(reading.path) as (stream, _, status):
        if status.st_size > FILE_LIMIT:
            raise FileError(f"{args.path} is larger than 1 GiB.", hint="Use `grep`, or a command.")
        head = stream.read(SNIFFED)
        stream.seek(0)
        kind = asset_type(head)
        if kind is not None and reading.assets is not None:
            return _as_it_is(reading, kind, stream, located, status, reading.assets)
        wide = wide_encoding(head) if status.st_size <= WHOLE_FILE_LIMIT else None
        if wide is not None:
            text = _wide_text(reading, *wide, stream=stream, located=located, status=status)
        elif looks_binary(head):
            _remember_bytes(reading, stream, located, status)
            raise _binary(args.path, head, status.st_size)
        else:
            text = _text(reading, stream=stream, located=located, status=status)
    return text_result(text, path=reading.path)


def _text(
    reading: _Reading, *, stream: BinaryIO, located: LocatedPath, status: os.stat_result
) -> str:
    window = _window(reading.args)
    is_editable = status.st_size <= WHOLE_FILE_LIMIT
    sha256 = scan(
        stream,
        window,
        stop_after=None if is_editable else COUNTED_BEYOND,
        is_aborted=reading.is_aborted,
    )
    if is_editable and sha256 is not None:
        reading.files.remember_read(located.real, FileIdentity.of(status, sha256))
    return _shown(reading.args, window, total=str(window.total) if sha256 else f"≥{window.total}")


def _wide_text(
    reading: _Reading,
    codec: str,
    name: str,
    *,
    stream: BinaryIO,
    located: LocatedPath,
    status: os.stat_result,
) -> str:
    content = stream.read()
    window = _window(reading.args)
    scan(io.BytesIO(content.decode(codec, "replace").encode(errors="replace")), window)
    reading.files.remember_read(located.real, FileIdentity.of(status, sha256_of(content)))
    return f"{_shown(reading.args, window, total=str(window.total))}\n({name}; `edit` refuses it.)"


def _remember_bytes(
    reading: _Reading, stream: BinaryIO, located: LocatedPath, status: os.stat_result
) -> None:
    """Count a file that is no text as read, so that it can be deleted or renamed."""
    stream.seek(0)
    content = stream.read(WHOLE_FILE_LIMIT + 1)
    if len(content) <= WHOLE_FILE_LIMIT:
        reading.files.remember_read(located.real, FileIdentity.of(status, sha256_of(content)))


def _window(args: ReadArgs) -> LineWindow:
    return LineWindow(
        Window(first=args.offset, count=args.limit, line_limit=LINE_LIMIT, size_limit=RESULT_LIMIT)
    )


def _as_it_is(
    reading: _Reading,
    kind: AssetType,
    stream: BinaryIO,
    located: LocatedPath,
    status: os.stat_result,
    assets: AssetStore,
) -> LoopToolResult:
    """The file as a block beside words about it."""
    shown = reading.args.path
    if status.st_size > kind.limit:
        wish = "Scale it down" if kind.is_picture else "Take a part of it"
        raise FileError(
            f"{shown} is a {kind.words} of {human_size(status.st_size)}; at most"
            f" {kind.limit >> 20} MiB can be shown.",
            hint=f"{wish} with a command.",
        )
    content = stream.read(kind.limit)
    try:
        asset_id = assets.put(content)
    except OSError as error:
        raise FileError(f"{shown} could not be kept to be shown: {error.strerror}.") from error
    _remember_bytes(reading, stream, located, status)
    words = TextBlock(f"{shown}: {kind.words}, {human_size(len(content))}")
    if kind.is_picture:
        block: ImageBlock | DocumentBlock = ImageBlock(
            asset_id=asset_id, media_type=kind.media_type
        )
    else:
        name = os.path.basename(reading.path)
        block = DocumentBlock(asset_id=asset_id, media_type=kind.media_type, name=name)
    return LoopToolResult(content=(words, block), details={"outcome": "ok", "path": reading.path})


def _binary(shown: str, head: bytes, size: int) -> FileError:
    kind = kind_of_binary(head)
    if not kind and b"\0" not in head:
        return FileError(
            f"{shown} is a binary file, or text in an encoding other than UTF-8 ({size} bytes).",
            hint="For text, convert it with `iconv` in a command.",
        )
    named = f": {kind}" if kind else ""
    return FileError(
        f"{shown} is a binary file{named} ({size} bytes).",
        hint="Use a command that knows its format.",
    )


def _require_file(reading: _Reading, located: LocatedPath) -> None:
    shown = reading.args.path
    if located.kind == "dir":
        raise FileError(f"{shown} is a folder.", hint="Use `list_dir` to see what is in it.")
    if located.kind == "missing":
        folder, name = os.path.split(located.real)
        names = difflib.get_close_matches(name, reading.files.names_beside(located), 9)
        near = [each for each in names if not reading.is_withheld(f"{folder}/{each}")][:3]
        hint = f"Did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
        raise FileError(f"{shown} does not exist.", hint=hint)


def _shown(args: ReadArgs, window: LineWindow, *, total: str) -> str:
    if window.total == 0:
        return f"{args.path} is empty (0 lines)."
    if args.offset > window.total:
        raise FileError(
            f"{args.path} has {total} lines; offset {args.offset} is behind its end.",
            hint=f"Give an offset of at most {window.total}.",
        )
    width = len(str(window.last))
    is_cut = [number in window.cut_lines for number in range(args.offset, window.last + 1)]
    texts, is_utf8 = decode_lines(window.lines, is_cut)
    numbered = (
        f"{number:>{width}}: {text}" + (" …[line truncated]" if number in window.cut_lines else "")
        for number, text in enumerate(texts, args.offset)
    )
    header = f"{args.path}: lines {args.offset}-{window.last} of {total}"
    parts = [header, "", *numbered]
    notes: list[str] = []
    if window.last < window.total:
        notes.append(f"… more lines follow: read with offset={window.last + 1}.")
    if any(is_cut):
        number = args.offset + is_cut.index(True)
        notes.append(
            f"(The rest of such a line: `sed -n {number}p FILE | cut -b{LINE_LIMIT + 1}-`.)"
        )
    if not is_utf8:
        notes.append("(Not UTF-8: shown as Windows-1252; `edit` refuses it.)")
    return "\n".join([*parts, "", *notes] if notes else parts)


TOOL = ReadTool()


_MARKS = (
    # Longer marks first: UTF-32 begins like UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)


def wide_encoding(head: bytes) -> tuple[str, str] | None:
    """The codec and the name of an encoding with more than one byte to a letter, by its mark."""
    return next(((codec, name) for mark, codec, name in _MARKS if head.startswith(mark)), None)


def decode_lines(lines: Iterable[bytes], cut: Iterable[bool]) -> tuple[list[str], bool]:
    """The lines as text, and whether all of them are UTF-8.

    One that is not is read as Windows-1252, which contains all letters of Latin-1. `cut` lines may
    end in the middle of a character.
    """
    texts: list[str] = []
    is_utf8 = True
    for line, is_cut in zip(lines, cut, strict=True):
        try:
            texts.append(codecs.getincrementaldecoder("utf-8")().decode(line, final=not is_cut))
        except UnicodeDecodeError:
            texts.append(_western(line))
            is_utf8 = False
    return texts, is_utf8


def _western(line: bytes) -> str:
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:  # five of its places stand for nothing
        return line.decode("latin-1")
