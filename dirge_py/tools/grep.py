"""The `grep` tool: finds lines by regular expression."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import ClassVar

from pydantic import Field

from dirge_py.files.walk import FileSearch, FoundFile
from dirge_py.lib.text import plural
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.search.lines import (
    LINE_LIMIT,
    LineSearch,
    MatchedLine,
    find_ripgrep,
    search_lines,
)
from dirge_py.tools.search.paths import path_below, walk_folder, withheld_note
from dirge_py.tools.search.pattern import path_matcher, portable_pattern
from dirge_py.tools.threads import in_thread
from dirge_py.types.errors import FileError
from dirge_py.types.tools import LoopToolResult, text_result

MAX_LINES = 200
MAX_CHARACTERS = 64 * 1024
FILE_LIMIT = 10 * 1024 * 1024


class GrepArgs(ToolArgs):
    pattern: str = Field(
        description="Regular expression without look-around or back-references; (?i) ignores case.",
        min_length=1,
    )
    path: PathText = Field(".", description="Folder or file.")
    include: str = Field("", description="Glob of paths to search, such as `src/**/*.py`.")
    context_lines: int = Field(0, ge=0, le=20)
    include_hidden: bool = False


class GrepTool(PathTool[GrepArgs]):
    name = "grep"
    label = "Search"
    args = GrepArgs
    other_names: ClassVar = {"glob": "include"}
    needs = ("processes",)

    def __init__(self, ripgrep: Callable[[Sequence[str]], str | None] = find_ripgrep) -> None:
        self._find_ripgrep = ripgrep

    async def run(self, args: GrepArgs, ctx: ToolContext) -> LoopToolResult:
        assert ctx.services.processes is not None
        pattern = portable_pattern(args.pattern)
        search, files, is_file = await in_thread(ctx.signal, _find_files, args, ctx)
        large = [file.path for file in files if file.size > FILE_LIMIT]

        def shown(path: str) -> str:
            return args.path if is_file else path_below(args.path, path.removeprefix("./"))

        # `./` keeps a name that begins with a dash from being read as an option.
        paths = [f"./{file.path}" for file in files if is_file or file.size <= FILE_LIMIT]
        count, lines = await search_lines(
            LineSearch(
                pattern=pattern,
                folder=search.root,
                paths=paths,
                context=args.context_lines,
                most_lines=MAX_LINES,
                has_large=is_file and bool(large),
            ),
            runner=ctx.services.processes,
            signal=ctx.signal,
            ripgrep=self._find_ripgrep(ctx.files.roots),
        )
        text = _report(count, lines, len(paths), shown)
        if large and not is_file:
            others = f" and {len(large) - 1} more" if len(large) > 1 else ""
            text += f"\n(Over 10 MiB, not searched: {shown(large[0])}{others}; give such a file as"
            text += " the path.)"
        text += withheld_note(search.withheld)
        return text_result(text, path=ctx.absolute(args.path))


def _find_files(args: GrepArgs, ctx: ToolContext) -> tuple[FileSearch, Sequence[FoundFile], bool]:
    """Return the walk with its root, its files, and whether the call names a single file."""
    located = ctx.files.locate(ctx.absolute(args.path))
    if located.kind == "file":
        folder, name = os.path.split(located.real)
        return FileSearch(root=folder), [FoundFile(name, os.path.getsize(located.real), 0)], True
    if located.kind == "missing":
        raise FileError(f"{args.path} does not exist.", hint="Use `glob` to find the path.")
    search = FileSearch(
        root="",
        include_hidden=args.include_hidden,
        wanted=path_matcher(args.include) if args.include else lambda path: True,
    )
    files = sorted(walk_folder(args.path, search, ctx), key=lambda file: file.path)
    return search, files, False


def _report(
    count: int, lines: Sequence[MatchedLine], searched: int, shown: Callable[[str], str]
) -> str:
    files = plural(searched, "file")
    if not count:
        return f"No matches found (searched {files})."
    sizes = accumulate(len(line.text) for line in lines)
    fitting = sum(size <= MAX_CHARACTERS for size in sizes)
    kept = lines[: max(1, fitting)]
    output = plural(len(kept), "output line")
    header = f"{plural(count, 'match')} ({output}, searched {files}):"
    body = [header, *_render_matches(kept, shown)]
    if any(len(line.text) == LINE_LIMIT for line in kept):
        body.append("(…[truncated]: `read` shows more of such a line.)")
    missing = count - sum(line.is_match for line in kept)
    if missing:
        body.append(f"… {missing} more; narrow the pattern, the path or the include.")
    return "\n".join(body)


def _render_matches(lines: Sequence[MatchedLine], shown: Callable[[str], str]) -> Iterator[str]:
    has_context = not all(line.is_match for line in lines)
    before: MatchedLine | None = None
    for line in lines:
        follows = before and before.path == line.path and before.number + 1 == line.number
        if has_context and before and not follows:
            yield "--"
        text = line.text + ("…[truncated]" if len(line.text) == LINE_LIMIT else "")
        place = f":{line.number}:" if line.is_match else f"-{line.number}: "
        yield shown(line.path) + place + text
        before = line


TOOL = GrepTool()
