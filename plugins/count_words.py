"""Give the model a slow tool: `count_words`, the commonest words of a folder.

It shows what a tool can declare (a time limit, hints, when it is available) and what `ctx` offers:
the folder, whether the run was aborted, and a way to show progress.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

from dirge_py import Hints, ToolFailed


def register(dirge):
    suffixes = dirge.settings.get("suffixes", [".md", ".txt", ".rst"])

    async def log_failures(call, proceed):
        """Wrap this tool only, inside the functions that wrap every tool."""
        result = await proceed()
        if result.is_error:
            dirge.log.warning("count_words %s failed: %s", call.arguments, result.text)
        return result

    @dirge.tool(
        op="read",
        resource="folder",
        mode="parallel",
        timeout_s=30,
        hints=Hints(read_only=True, idempotent=True),
        available=lambda: True if suffixes else "`suffixes` in its settings is empty",
        around=[log_failures],
    )
    def count_words(
        ctx,
        folder: Annotated[str, "Where to look, with all below."] = ".",
        top: Annotated[int, "How many words."] = 20,
    ) -> dict[str, int]:
        """Count words in the text files of a folder, the commonest first."""
        root = Path(ctx.cwd, folder)
        if not root.is_dir():
            raise ToolFailed(f"{folder} is no folder. Use `glob` to find one.")
        files = [path for path in sorted(root.rglob("*")) if path.suffix in suffixes]
        counts = Counter()
        for number, path in enumerate(files, 1):
            if ctx.signal.aborted:
                break
            ctx.progress(path.name, number, len(files))
            # Permission covers the folder of the claim; a link could lead out of it.
            if path.is_file() and not path.is_symlink():
                counts.update(re.findall(r"\w+", path.read_text(errors="replace").lower()))
        return dict(counts.most_common(top))
