"""What differs from the last commit, for a person who keeps no snapshots."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.files.workspace import Workspace
from dirge_py.lib.late import late
from dirge_py.processes.runner import Runner
from dirge_py.session.difference import Uncommitted

if TYPE_CHECKING:
    from dirge_py.sdk.working_tree import WorkingTree
else:
    WorkingTree = late("dirge_py.sdk.working_tree", "WorkingTree")


def uncommitted(
    runner: Runner, workspace: Workspace, *, cwd: Path, withholds: Callable[[str], bool]
) -> Uncommitted:
    """The change with new files; `withholds` tells of a physical path that it is left out."""

    async def diff() -> str | None:
        found = await WorkingTree(
            runner=runner, cwd=str(cwd), roots=workspace.roots, withholds=withholds
        ).diff()
        return found.text if found is not None else None

    return diff
