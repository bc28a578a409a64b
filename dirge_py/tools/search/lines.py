"""Which lines of files, or which of many names, match a pattern.

Asked of ripgrep if there is one, else of our own program: a process of its own, because a regular
expression that takes for ever cannot be stopped in ours.
"""

import base64
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.output import OutputStore
from dirge_py.processes.programs import find_program
from dirge_py.processes.runner import Runner
from dirge_py.processes.running_command import CommandResult, shell_arguments
from dirge_py.tools.base import in_thread
from dirge_py.tools.search import line_matcher
from dirge_py.tools.search.paths import printable_name
from dirge_py.tools.search.pattern import guard_pattern
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import FileError, ToolFailed

LINE_LIMIT = line_matcher.LINE_LIMIT
TIMEOUT_S = 60.0
RIPGREP_BYTES = 256 * 1024 * 1024
"""Of memory for ripgrep in a large file: enough for lines of more than 100 MB."""
OWN_BYTES = 1024 * 1024 * 1024
"""The same for our own program, which holds the whole file."""
_OUT_OF_MEMORY = ("memory allocation of", "MemoryError")
_ARGUMENT_BYTES = 100_000
"""Of paths, for one started program: well below every system's limit."""


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line of a file that matches, or stands beside one that does. Cut at `LINE_LIMIT`."""

    path: str
    number: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSearch:
    """`pattern` is in the shared dialect; `folder` is where `paths` count from.

    `most_lines` are wanted (None: all); matches are counted beyond that. `has_large`: a file may be
    so large that the memory of the program is limited; its lines are held whole in there.
    """

    pattern: str
    folder: str
    paths: Sequence[str]
    context: int = 0
    most_lines: int | None = None
    has_large: bool = False


@dataclass(frozen=True, slots=True)
class LineMatches:
    """How many lines match, and the first of them with their context, in the order of the paths."""

    count: int
    lines: Sequence[MatchedLine]


def find_ripgrep(roots: Sequence[str]) -> str | None:
    """The `rg` on PATH, or the one installed beside our Python; None if there is none.

    One in the workspace does not count: searching only reads, so nobody is asked about it.
    """
    path = (os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable))
    return find_program("rg", path=os.pathsep.join(path), outside=roots)


async def search_lines(
    search: LineSearch, *, runner: Runner, signal: AbortSignal, ripgrep: str | None
) -> LineMatches:
    """The matching lines with their context.

    Raises:
        ToolFailed: aborted, it took longer than `TIMEOUT_S` for one batch of files, or the program
            did not get to its end.
        FileError: the program refused the pattern.
    """
    count = 0
    lines: list[MatchedLine] = []
    program = _ripgrep_command(ripgrep, search) if ripgrep else _own_command(search)
    needed = [ripgrep] if ripgrep else [*_PYTHON, os.path.dirname(program[3])]
    if search.has_large:
        program = _limit_command(program, RIPGREP_BYTES if ripgrep else OWN_BYTES)
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
                shows=[search.folder, *needed],
            )
            _require_ended(finished)
            room = None if search.most_lines is None else search.most_lines - len(lines)
            found = await in_thread(signal, _parse_matches, finished, search.pattern, batch, room)
            count += found.count
            lines += found.lines
    return LineMatches(count, lines)


def _ripgrep_command(program: str, search: LineSearch) -> list[str]:
    options = ["--json", "--no-config", "--crlf", "--no-mmap", f"--context={search.context}"]
    return [program, *options, f"--regexp={search.pattern}", "--"]


def _limit_command(program: Sequence[str], most_bytes: int) -> list[str]:
    """The same program, ended when it needs more memory. macOS takes no such limit."""
    limits = f"ulimit -Sc 0; ulimit -Sd {most_bytes // 1024} 2>/dev/null"
    return [*shell_arguments(f'{limits}; exec "$@"'), "grep", *program]


_PYTHON = (sys.prefix, sys.base_prefix)


def _own_command(search: LineSearch) -> list[str]:
    script = os.path.abspath(line_matcher.__file__)
    patterns = [search.pattern, guard_pattern(search.pattern)]
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


def _require_ended(finished: CommandResult) -> None:
    if finished.aborted:
        raise ToolFailed("Aborted.", outcome="aborted")
    if finished.timed_out:
        raise ToolFailed(
            f"The search took longer than {TIMEOUT_S:g} s. Narrow the path, the include or the"
            " pattern.",
            outcome="timeout",
        )


def _parse_matches(
    finished: CommandResult, pattern: str, batch: Sequence[str], most: int | None
) -> LineMatches:
    order = {path: position for position, path in enumerate(batch)}
    files = _by_file(_output_of(finished), pattern, most)
    lines: list[MatchedLine] = []
    for path in sorted(files, key=order.__getitem__):
        if most is not None and len(lines) >= most:
            break
        lines += (_parse_line(raw) for raw in files[path].raw_lines)
    return LineMatches(sum(file.count for file in files.values()), lines[:most])


def _output_of(finished: CommandResult) -> bytes:
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


class _File:
    """What was reported of a file: lines as JSON, unread because there may be a million."""

    def __init__(self) -> None:
        self.raw_lines: list[bytes] = []
        self.count = 0


_MATCH, _CONTEXT = b'{"type":"match",', b'{"type":"context",'


def _by_file(output: bytes, pattern: str, most: int | None) -> dict[str, _File]:
    """What `rg --json` reported, by path, without files that turned out binary."""
    files: dict[str, _File] = {}
    current = _File()
    is_whole = False
    said = ""
    for raw in output.split(b"\n"):
        if raw.startswith((_MATCH, _CONTEXT)):
            current.count += raw.startswith(_MATCH)
            if most is None or len(current.raw_lines) < most:
                current.raw_lines.append(raw)
            continue
        try:
            message = json.loads(raw)
        except ValueError:
            if raw.startswith((b"regex parse error", b"rg: regex parse error")):
                raise FileError(f"{pattern!r} is not a regular expression for ripgrep.") from None
            said = raw.decode(errors="replace") or said  # a warning about an unreadable file
            continue
        is_whole = is_whole or message["type"] == "summary"
        if message["type"] == "begin":
            current = files[_parse_path(message["data"])] = _File()
        elif message["type"] == "end" and message["data"].get("binary_offset") is not None:
            files.pop(_parse_path(message["data"]))
    if not is_whole and said.startswith(_OUT_OF_MEMORY):
        raise ToolFailed(
            "Not searched: the file is too large, or has lines too long, for the memory that a"
            " search may use. Search a part of it, or break its lines, as in `fold -w 4000 FILE |"
            " grep -n PATTERN` with `bash`."
        )
    if not is_whole:
        raise ToolFailed(f"The search broke off: {said or 'its program ended early'}.")
    return files


def _parse_line(raw: bytes) -> MatchedLine:
    found = json.loads(raw)["data"]
    text = (
        _parse_bytes(found["lines"]).decode(errors="replace").removesuffix("\n").removesuffix("\r")
    )
    is_match = raw.startswith(_MATCH)
    return MatchedLine(_parse_path(found), found["line_number"], text[:LINE_LIMIT], is_match)


def _parse_path(found: dict[str, Any]) -> str:
    path = found["path"]
    return path["text"] if "text" in path else os.fsdecode(base64.b64decode(path["bytes"]))


def _parse_bytes(value: dict[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode(errors="surrogatepass")
    return base64.b64decode(value["bytes"])


async def search_names(
    pattern: str,
    names: Sequence[str],
    *,
    runner: Runner,
    signal: AbortSignal,
    ripgrep: str | None,
) -> list[int]:
    """The positions of the names that `pattern`, in the shared dialect, finds something in.

    Raises:
        ToolFailed: aborted, or it took too long.
        FileError: the program refused the pattern.
    """
    if not names:
        return []
    with tempfile.TemporaryDirectory(prefix="dirge-names-") as folder:
        listed = "\n".join(printable_name(name).replace("\n", "\ufffd") for name in names)
        Path(folder, "names").write_bytes(f"{listed}\n".encode())
        search = LineSearch(pattern=pattern, folder=folder, paths=[f".{os.sep}names"])
        found = await search_lines(search, runner=runner, signal=signal, ripgrep=ripgrep)
    return [line.number - 1 for line in found.lines if line.is_match]
