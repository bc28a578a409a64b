"""Searches lines of files, or many names, for a pattern.

It runs ripgrep if that is installed, else `line_matcher.py`, also as a separate process: a regular
expression that never ends can't be stopped in this one.
"""

import base64
import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.temporary_folder import TemporaryFolder
from dirge_py.processes.output import OutputStore
from dirge_py.processes.programs import find_program
from dirge_py.processes.runner import Runner
from dirge_py.processes.running_command import CommandResult, shell_arguments
from dirge_py.tools.search import line_matcher
from dirge_py.tools.search.paths import printable_name
from dirge_py.tools.search.pattern import guard_pattern
from dirge_py.tools.threads import in_thread
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import FileError, ToolFailed

LINE_LIMIT = line_matcher.LINE_LIMIT
TIMEOUT_S = 60.0
RIPGREP_BYTES = 256 * 1024 * 1024
"""Memory limit of ripgrep for a large file: enough for lines of more than 100 MB."""
OWN_BYTES = 1024 * 1024 * 1024
"""The same for dirge's own program, which loads the whole file."""
_OUT_OF_MEMORY = ("memory allocation of", "MemoryError")
_ARGUMENT_BYTES = 100_000
"""The most bytes of paths for one program: well below every system's limit."""


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line of a file that matches, or context of a match."""

    path: str
    """The path of the file, as it was given."""
    number: int
    """The number of the line, from 1."""
    text: str
    """The line, cut at `LINE_LIMIT` characters."""
    is_match: bool
    """Whether it matches; otherwise it is context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSearch:
    """What to search for, and where."""

    pattern: str
    """The pattern, as `portable_pattern` returns it."""
    folder: str
    """The folder that `paths` are relative to."""
    paths: Sequence[str]
    """The files to search."""
    context: int = 0
    """Lines of context on either side of a match."""
    most_lines: int | None = None
    """The most lines to return, None: all; all matches are counted."""
    has_large: bool = False
    """Whether a file may be so large that the program's memory must be limited."""


def find_ripgrep(roots: Sequence[str]) -> str | None:
    """Return `rg` from PATH or beside Python, never from the workspace: searching runs unasked."""
    path = (os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable))
    return find_program("rg", path=os.pathsep.join(path), outside=roots)


async def search_lines(
    search: LineSearch, *, runner: Runner, signal: AbortSignal, ripgrep: str | None
) -> tuple[int, Sequence[MatchedLine]]:
    """Return how many lines match, and the first of them with their context.

    The lines are in the order of the paths. Raises FileError for an invalid pattern.
    """
    count = 0
    lines: list[MatchedLine] = []
    program, needed = _search_command(search, ripgrep)
    with TemporaryFolder("grep") as folder:
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
            if finished.aborted:
                raise ToolFailed("Aborted.", outcome="aborted")
            if finished.timed_out:
                raise ToolFailed(
                    f"The search took longer than {TIMEOUT_S:g} s. Narrow the path, the include or"
                    " the pattern.",
                    outcome="timeout",
                )
            left = None if search.most_lines is None else search.most_lines - len(lines)
            more = await in_thread(signal, _parse_matches, finished, search.pattern, batch, left)
            count, lines = count + more[0], lines + more[1]
    return count, lines


def _search_command(search: LineSearch, ripgrep: str | None) -> tuple[list[str], list[str]]:
    """Return the command without the paths, and the files and folders that the program needs."""
    if ripgrep:
        options = ["--json", "--no-config", "--crlf", "--no-mmap", f"--context={search.context}"]
        command = [ripgrep, *options, f"--regexp={search.pattern}", "--"]
        needed, most_bytes = [ripgrep], RIPGREP_BYTES
    else:
        script = os.path.abspath(line_matcher.__file__)
        patterns = [search.pattern, guard_pattern(search.pattern)]
        command = [sys.executable, "-I", "-S", script, *patterns, str(search.context)]
        needed, most_bytes = [sys.prefix, sys.base_prefix, os.path.dirname(script)], OWN_BYTES
    if search.has_large:
        # With more, the program ends. macOS has no such limit.
        limits = f"ulimit -Sc 0; ulimit -Sd {most_bytes // 1024} 2>/dev/null"
        command = [*shell_arguments(f'{limits}; exec "$@"'), "grep", *command]
    return command, needed


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


def _parse_matches(
    finished: CommandResult, pattern: str, batch: Sequence[str], most: int | None
) -> tuple[int, list[MatchedLine]]:
    output = finished.output
    if output.is_file_cut or output.file_error:
        raise FileError(
            "There are too many matches to count.", hint="Narrow the pattern, path or include."
        )
    content = output.head + output.tail
    if output.path:
        content = Path(output.path).read_bytes()
        os.unlink(output.path)
    counts, lines = _by_file(content, pattern, most)
    raw_lines = (raw for path in batch for raw in lines.get(path, ()))
    return sum(counts.values()), [_parse_line(raw) for raw in islice(raw_lines, most)]


_MATCH, _CONTEXT = b'{"type":"match",', b'{"type":"context",'


def _by_file(
    output: bytes, pattern: str, most: int | None
) -> tuple[dict[str, int], dict[str, list[bytes]]]:
    """Return from `rg --json`, by path, the number of matches and the lines, not yet parsed.

    Files that turned out to be binary are left out.
    """
    counts: dict[str, int] = {}
    lines: dict[str, list[bytes]] = {}
    path = ""
    is_whole = False
    message = ""
    for raw in output.split(b"\n"):
        if raw.startswith((_MATCH, _CONTEXT)):
            counts[path] += raw.startswith(_MATCH)
            if most is None or len(lines[path]) < most:
                lines[path].append(raw)
            continue
        try:
            report = json.loads(raw)
        except ValueError:
            if raw.startswith((b"regex parse error", b"rg: regex parse error")):
                raise FileError(f"{pattern!r} is not a regular expression for ripgrep.") from None
            message = raw.decode(errors="replace") or message  # such as: a file is unreadable
            continue
        is_whole = is_whole or report["type"] == "summary"
        if report["type"] == "begin":
            path = _parse_path(report["data"])
            counts[path], lines[path] = 0, []
        elif report["type"] == "end" and report["data"].get("binary_offset") is not None:
            del counts[path], lines[path]
    if not is_whole and message.startswith(_OUT_OF_MEMORY):
        raise ToolFailed(
            "Not searched: the file is too large, or has lines too long, for the memory that a"
            " search may use. Search a part of it, or break its lines, as in `fold -w 4000 FILE |"
            " grep -n PATTERN` with `bash`."
        )
    if not is_whole:
        raise ToolFailed(f"The search failed: {message or 'its program ended early'}.")
    return counts, lines


def _parse_line(raw: bytes) -> MatchedLine:
    data = json.loads(raw)["data"]
    line = data["lines"]
    if "text" in line:
        content = line["text"].encode(errors="surrogatepass")
    else:
        content = base64.b64decode(line["bytes"])
    text = content.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    is_match = raw.startswith(_MATCH)
    return MatchedLine(_parse_path(data), data["line_number"], text[:LINE_LIMIT], is_match)


def _parse_path(data: dict[str, Any]) -> str:
    path = data["path"]
    return path["text"] if "text" in path else os.fsdecode(base64.b64decode(path["bytes"]))


async def search_names(
    pattern: str, names: Sequence[str], *, runner: Runner, signal: AbortSignal, ripgrep: str | None
) -> list[int]:
    """Return the indexes of the names that `pattern` matches. Raises like `search_lines`."""
    if not names:
        return []
    with TemporaryFolder("names") as folder:
        listed = "\n".join(printable_name(name).replace("\n", "\ufffd") for name in names)
        Path(folder, "names").write_bytes(f"{listed}\n".encode())
        search = LineSearch(pattern=pattern, folder=folder, paths=["./names"])
        _, lines = await search_lines(search, runner=runner, signal=signal, ripgrep=ripgrep)
    return [line.number - 1 for line in lines]
