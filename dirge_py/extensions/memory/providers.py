"""What is remembered, as the settings want it, and the end of a run, of which it hears."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import OnRunEnd
from dirge_py.extensions.memory.base import MemoryProvider
from dirge_py.extensions.memory.files import FileMemory
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lazy import late
from dirge_py.session.ids import project_id, project_root
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.messages import Message

if TYPE_CHECKING:
    from dirge_py.files.atomic import atomic_write
else:
    atomic_write = late("dirge_py.files.atomic", "atomic_write")

SYNC_S = 5.0
ABORTED_SYNC_S = 2.0
"""Who pressed Escape waits less; the rest of the memory's work is given up."""

_logger = logging.getLogger(__name__)


def open_memory(
    config: Config, cwd: Path, redact: Callable[[str], str] = lambda text: text
) -> MemoryProvider | None:
    """The memory of the project around `cwd` and of the person; None where it is turned off.

    That of the project is kept with the person's own state, so that no repository brings it along.
    Nothing is made before something is remembered.
    """
    if not config.memory.enabled:
        return None
    environment = config.origin.environment
    own = state_dir(environment) / "memory" / project_id(project_root(cwd))
    return FileMemory(
        project_file=own / "MEMORY.md",
        user_file=config_dir(environment) / "USER.md",
        read=read_regular,
        write=partial(atomic_write, mode=0o600),
        max_chars=config.memory.max_chars,
        redact=redact,
    )


def at_run_end(
    provider: MemoryProvider | None,
    notify: Callable[[str], None],
    *,
    limit_s: float = SYNC_S,
    aborted_limit_s: float = ABORTED_SYNC_S,
) -> OnRunEnd | None:
    """Has `provider` told of the end of a run; what goes wrong with that is one notice.

    It gets `limit_s`, but only `aborted_limit_s` from an abort on.
    """
    if provider is None:
        return None

    async def sync(messages: Sequence[Message], signal: AbortSignal) -> None:
        task = asyncio.ensure_future(provider.sync(messages))
        try:
            if not await _is_done(task, signal, limit_s, aborted_limit_s):
                notify("Memory was not brought up to date: it took too long.")
            elif task.cancelled():
                notify("Memory was not brought up to date: it gave up.")
            elif error := task.exception():
                _logger.error("memory was not brought up to date", exc_info=error)
                reason = error.message if isinstance(error, DirgeError) else repr(error)
                notify(f"Memory was not brought up to date: {reason}")
        finally:
            task.cancel()

    return sync


async def _is_done(
    task: "asyncio.Future[None]", signal: AbortSignal, limit_s: float, aborted_limit_s: float
) -> bool:
    """Wait for the task, and tell whether it ended. It is not cancelled here."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    waiting = asyncio.ensure_future(signal.wait(unless=task))
    try:
        await asyncio.wait({waiting}, timeout=limit_s)
    finally:
        waiting.cancel()
    if not task.done() and signal.aborted:
        left_s = min(aborted_limit_s, max(0.0, deadline - loop.time()))
        await asyncio.wait({task}, timeout=left_s)
    return task.done()
