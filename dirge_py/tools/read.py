"""Show lines of a text file."""

import codecs
import difflib
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from dirge_py.calls import LoopToolResult, text_result
from dirge_py.claims import Claim
from dirge_py.errors import FileError
from dirge_py.files.identity import Identity
from dirge_py.files.lines import SNIFFED, LineWindow, Window, looks_binary, scan
from dirge_py.files.workspace import WHOLE_FILE_LIMIT, CallFiles, Located
from dirge_py.tools.base import PathText, Tool, ToolArgs, ToolContext, in_thread, renamed

DEFAULT_LINES = 2000
LINE_LIMIT = 16 * 1024
RESULT_LIMIT = 256 * 1024
FILE_LIMIT = 1 << 30
COUNTED_BEYOND = 1024
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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


class Read(Tool[ReadArgs]):
    name = "read"
    label = "Read"
    args = ReadArgs

    def prepare(self, arguments: Any) -> Any:
        return renamed(arguments, {"file_path": "path"})

    def claims(self, args: ReadArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(args.path))]

    async def run(self, args: ReadArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        text = await in_thread(ctx.signal, _read, args, path, ctx.files, lambda: ctx.signal.aborted)
        return text_result(text, path=path)


def _read(args: ReadArgs, path: str, files: CallFiles, is_aborted: Callable[[], bool]) -> str:
    located = files.locate(path)
    _require_file(args.path, located, files)
    window = LineWindow(
        Window(first=args.offset, count=args.limit, line_limit=LINE_LIMIT, size_limit=RESULT_LIMIT)
    )
    with files.open(path) as (stream, _, status):
        if status.st_size > FILE_LIMIT:
            raise FileError(f"{args.path} is larger than 1 GiB.", hint="Use `grep`, or a command.")
        head = stream.read(SNIFFED)
        stream.seek(0)
        if head.startswith(_UTF16_MARKS) and status.st_size <= WHOLE_FILE_LIMIT:
            scan(io.BytesIO(stream.read().decode("utf-16", "replace").encode()), window)
            return _shown(args, window, total=str(window.total)) + "\n(UTF-16; `edit` refuses it.)"
        if looks_binary(head):
            raise FileError(
                f"{args.path} is a binary file ({status.st_size} bytes).",
                hint="Use a command that knows its format.",
            )
        is_editable = status.st_size <= WHOLE_FILE_LIMIT
        sha256 = scan(
            stream,
            window,
            stop_after=None if is_editable else COUNTED_BEYOND,
            is_aborted=is_aborted,
        )
    if is_editable and sha256 is not None:
        files.remember_read(located.real, Identity.of(status, sha256))
    return _shown(args, window, total=str(window.total) if sha256 else f"≥{window.total}")


def _require_file(shown: str, located: Located, files: CallFiles) -> None:
    if located.kind == "dir":
        raise FileError(f"{shown} is a folder.", hint="Use `list_dir` to see what is in it.")
    if located.kind == "missing":
        name = os.path.basename(located.path)
        near = difflib.get_close_matches(name, files.names_beside(located), 3)
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
    numbered = (
        f"{number:>{width}}: {line.decode(errors='replace')}"
        + (" …[line truncated]" if number in window.cut_lines else "")
        for number, line in enumerate(window.lines, args.offset)
    )
    header = f"{args.path}: lines {args.offset}-{window.last} of {total}"
    parts = [header, "", *numbered]
    if window.last < window.total:
        parts += ["", f"… more lines follow: read with offset={window.last + 1}."]
    return "\n".join(parts)


TOOL = Read()
