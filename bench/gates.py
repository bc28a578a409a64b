"""How often the checks at the end of a run interfere with ordinary work.

    python bench/gates.py

Twenty tasks (`tests/support/ordinary_tasks.py`) are done by a scripted model with real tools, each
in a temporary project with default settings. A row shows the model calls that the task itself
needs, the further calls that dirge made, and the check that caused them. Nothing here fails: it
prints. A test asserts the share.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.ordinary_tasks import TASKS, run_task


async def main() -> None:
    rows = []
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(await run_task(task, Path(folder), os.chdir))
            os.chdir("/")
    print(f"{'scenario':<48} calls extra  by")
    for row in rows:
        print(f"{row.name:<48} {row.calls:5} {row.extra:5}  {', '.join(row.gates)}")
    calls, extra = sum(row.calls for row in rows), sum(row.extra for row in rows)
    print(f"{len(rows)} scenarios: {calls} calls by themselves, {extra} more = {extra / calls:.0%}")


if __name__ == "__main__":
    asyncio.run(main())
