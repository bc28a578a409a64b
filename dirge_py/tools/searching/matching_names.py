"""Which of many names match: asked of the same programs that search files.

A process of its own, because a regular expression that takes for ever cannot be stopped in ours.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dirge_py.processes.runner import Runner
from dirge_py.tools.searching.matching_lines import LineSearch, matching_lines
from dirge_py.tools.searching.places import printable
from dirge_py.types.abort import AbortSignal


async def matching_names(
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
        listed = "\n".join(printable(name).replace("\n", "\ufffd") for name in names)
        Path(folder, "names").write_bytes(f"{listed}\n".encode())
        search = LineSearch(pattern=pattern, folder=folder, paths=[f".{os.sep}names"])
        found = await matching_lines(search, runner=runner, signal=signal, ripgrep=ripgrep)
    return [line.number - 1 for line in found.lines if line.is_match]
