"""What the files of a project hold, as one hash."""

import asyncio
from collections.abc import Callable, Sequence

from dirge_py.conversation.deps import TreeState
from dirge_py.files.tree_hash import Hashed, TreeHash
from dirge_py.sdk.project_files import Project, in_thread
from dirge_py.types.errors import FileError


class TreeReader:
    """Reads the files of a project; what did not change since the last time is not read again."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._hash = TreeHash(project.root)
        self._turn = asyncio.Lock()

    async def __call__(self) -> TreeState:
        """
        Raises:
            FileError: they cannot be listed or read.
        """
        async with self._turn:
            listed = await self.project.files()
            hashed = await hashed_files(self._hash, listed.written)
            return TreeState(sha256=hashed.sha256, files=hashed.files)


async def hashed_files(hashes: TreeHash, paths: Sequence[str]) -> Hashed:
    """
    Raises:
        FileError: the folder is gone, or cannot be opened.
    """

    def read(is_stopped: Callable[[], bool]) -> Hashed:
        return hashes.read(paths, is_stopped)

    try:
        return await in_thread(read)
    except OSError as error:
        raise FileError(f"The files cannot be read: {error.strerror or error}.") from error
