"""The folder of a project's snapshots: made whole or not at all, and moved aside when damaged."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

from dirge_py.session.snapshots.git import ATTRIBUTES, Git
from dirge_py.types.errors import SessionError

SCRATCH = "read"
FRESH = "new"
_INIT_S = 20.0
_LOCK_S = 10.0
_POLL_S = 0.02


class StoreFolder:
    """`<name>.git` in the folder of all snapshots, and what was moved aside beside it."""

    def __init__(self, above: Path, name: str) -> None:
        self._above = above
        self._name = name
        self.path = above / f"{name}.git"

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Alone with the store for a moment: it is made, moved aside, or a seat is taken in it.

        Raises:
            SessionError: another process does not let go of it, or there can be no folder.
        """
        try:
            self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._above / f"{self._name}.lock", flags, 0o600)
        except OSError as error:
            raise SessionError(
                f"{self._above}: no snapshots can be kept there: {error.strerror}.",
                hint="Make room there, or make the folder writable.",
            ) from error
        try:
            deadline = time.monotonic() + _LOCK_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise SessionError(f"{self.path} is held by another process.") from None
                    await asyncio.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether it looks like a store of ours. Its objects are looked at when they are used."""
        path = self.path
        return (
            not path.is_symlink()
            and all((path / name).is_dir() for name in ("objects", "refs", "info"))
            and all((path / name).is_file() for name in ("HEAD", "config"))
            and _content(path / "info" / "attributes") == ATTRIBUTES
        )

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for the time of the block, beside the store."""
        self._above.mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = f"{self._name}.{SCRATCH}-"
        with tempfile.TemporaryDirectory(
            prefix=prefix, dir=self._above, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)

    def leftovers(self) -> Iterator[Path]:
        """What processes that were killed left beside the store, or are still at work on."""
        for kind in (SCRATCH, FRESH):
            yield from self._above.glob(f"{self._name}.{kind}-*")

    def damaged(self) -> list[Path]:
        """Stores that were moved aside, the newest first: what is whole in them can be read."""
        found = self._above.glob(f"{self._name}.git.damaged-*")
        return sorted((path for path in found if (path / "objects").is_dir()), reverse=True)

    def set_aside(self) -> Path | None:
        """Move what stands there away; None if nothing does."""
        if not self.is_there:
            return None
        date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        aside, number = self.path.with_name(f"{self.path.name}.damaged-{date}"), 1
        while os.path.lexists(aside):
            number += 1
            aside = self.path.with_name(f"{self.path.name}.damaged-{date}-{number}")
        os.rename(self.path, aside)
        return aside

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    async def make(self, git: Git) -> None:
        """Make an empty store, in one step.

        Raises:
            GitFailed, OSError: it cannot be made.
        """
        fresh = Path(tempfile.mkdtemp(prefix=f"{self._name}.{FRESH}-", dir=self._above))
        try:
            made = git.command(
                "-c", "init.defaultBranch=main", "init", "--quiet", "--bare", "--template=", fresh
            )
            await git.run(made, store=None, timeout_s=_INIT_S)
            (fresh / "info").mkdir(exist_ok=True)
            (fresh / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
            os.rename(fresh, self.path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
