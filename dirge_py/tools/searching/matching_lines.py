"""Which lines of given files match: asked of ripgrep if there is one, else of our own program."""

import base64
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dirge_py.abort import AbortSignal
from dirge_py.errors import FileError, ToolFailed
from dirge_py.files.programs import find_program
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.outputs import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.processes.running import Finished
from dirge_py.tools.base import in_thread
from dirge_py.tools.searching import line_matcher
from dirge_py.tools.searching.dialect import guarded

LINE_LIMIT = line_matcher.LINE_LIMIT
TIMEOUT_S = 60.0
_ARGUMENT_BYTES = 100_000
"""Of paths, for one started program: well below every system's limit."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file that matches, or stands beside one that does. Cut at `LINE_LIMIT`."""

    path: str
    number: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSearch:
    """`pattern` is in the shared dialect; `folder` is where `paths` count from."""

    pattern: str
    folder: str
    paths: Sequence[str]
    context: int = 0


def find_ripgrep(roots: Sequence[str]) -> str | None:
    """The `rg` on PATH, or the one installed beside our Python; None if there is none.

    One in the workspace does not count: searching only reads, so nobody is asked about it.
    """
    on_path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return find_program("rg", [*on_path, os.path.dirname(sys.executable)], roots)


async def matching_lines(
    search: LineSearch, *, runner: Runner, signal: AbortSignal, ripgrep: str | None
) -> list[Line]:
    """All matching lines with their context, in the order of `paths`.

    Raises:
        ToolFailed: aborted, or it took longer than `TIMEOUT_S` for one batch of files.
        FileError: the program refused the pattern.
    """
    lines: list[Line] = []
    program = _ripgrep_command(ripgrep, search) if ripgrep else _own_command(search)
    with tempfile.TemporaryDirectory(prefix="dirge-grep-") as folder:
        outputs = OutputStore(Path(folder))
        for batch in _batches(search.paths):
            finished = await runner.run(
                [*program, *batch],
                cwd=search.folder,
                timeout_s=TIMEOUT_S,
                call_id="",
                signal=signal,
                outputs=outputs,
            )
            _require_ended(finished)
            lines += await in_thread(signal, _lines_in, finished, search.pattern, batch)
    return lines


def _ripgrep_command(program: str, search: LineSearch) -> list[str]:
    options = ["--json", "--no-config", "--crlf", "--no-mmap", f"--context={search.context}"]
    return [program, *options, f"--regexp={search.pattern}", "--"]


def _own_command(search: LineSearch) -> list[str]:
    script = os.path.abspath(line_matcher.__file__)
    patterns = [search.pattern, guarded(search.pattern)]
    return [sys.executable, "-I", "-S", script, *patterns, str(search.context)]


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        length = len(os.fsencode(path)) + 1
        if batch and size + length > _ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def _require_ended(finished: Finished) -> None:
    if finished.aborted:
        raise ToolFailed("Aborted.", outcome="aborted")
    if finished.timed_out:
        raise ToolFailed(
            f"The search took longer than {TIMEOUT_S:g} s. Narrow the path, the include or the"
            " pattern.",
            outcome="timeout",
        )


def _lines_in(finished: Finished, pattern: str, batch: Sequence[str]) -> list[Line]:
    order = {path: position for position, path in enumerate(batch)}
    found = _parse(_output_of(finished), pattern)
    return sorted(found, key=lambda line: (order[line.path], line.number))


def _output_of(finished: Finished) -> bytes:
    output = finished.output
    if output.is_file_cut or output.file_error:
        raise FileError(
            "There are too many matches to count.", hint="Narrow the pattern, path or include."
        )
    if not output.path:
        return output.head + output.tail
    with open(output.path, "rb") as stream:
        content = stream.read()
    os.unlink(output.path)
    return content


def _parse(output: bytes, pattern: str) -> list[Line]:
    """The lines that `rg --json` reported, without those of files that turned out binary."""
    lines: list[Line] = []
    binary: set[str] = set()
    for raw in output.split(b"\n"):
        try:
            message = json.loads(raw)
        except ValueError:
            if raw.startswith((b"regex parse error", b"rg: regex parse error")):
                raise FileError(f"{pattern!r} is not a regular expression for ripgrep.") from None
            continue  # a warning about an unreadable file, or the cut end of too much output
        kind, found = message["type"], message["data"]
        if kind in ("match", "context"):
            lines.append(_line(found, is_match=kind == "match"))
        elif kind == "end" and found.get("binary_offset") is not None:
            binary.add(_path(found))
    return [line for line in lines if line.path not in binary]


def _line(found: dict[str, Any], *, is_match: bool) -> Line:
    text = _bytes(found["lines"]).decode(errors="replace").removesuffix("\n").removesuffix("\r")
    return Line(_path(found), found["line_number"], text[:LINE_LIMIT], is_match)


def _path(found: dict[str, Any]) -> str:
    path = found["path"]
    return path["text"] if "text" in path else os.fsdecode(base64.b64decode(path["bytes"]))


def _bytes(value: dict[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode(errors="surrogatepass")
    return base64.b64decode(value["bytes"])
