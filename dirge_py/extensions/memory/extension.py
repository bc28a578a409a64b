"""The extension that remembers things from one session to the next."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.lib.lazy import late
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.extensions import Extension, ExtensionHost, RunContext, Section
from dirge_py.types.hooks import Hooks
from dirge_py.types.memory import MemoryProvider, RecalledMemory, SupportsScopes
from dirge_py.types.messages import Message

if TYPE_CHECKING:
    from dirge_py.extensions.memory.store import open_memory
else:
    # `/memory` is loaded before the first frame; the settings schema is not.
    open_memory = late("dirge_py.extensions.memory.store", "open_memory")

SYNC_S = 5.0
ABORTED_SYNC_S = 2.0
"""How long a run waits for `sync` at its end; less after an abort."""
_logger = logging.getLogger(__name__)


class Memory(Extension):
    """The memory of the project and of the user."""

    name = "memory"
    summary = "notes about the project and about you"

    def __init__(
        self, provider: MemoryProvider, notify: Callable[[str], None] = lambda text: None
    ) -> None:
        """`notify` gets each problem with memory once."""
        self.provider = provider
        """Reads and changes what is remembered."""
        self._notify = notify
        self._notified: set[str] = set()
        self._recalled: RecalledMemory | None = None

    def use_scope(self, scope: str) -> None:
        """Use a separate memory of the project named `scope`; "": the shared one."""
        if isinstance(self.provider, SupportsScopes):
            self.provider.use_scope(scope)
        elif scope:
            self._notify(f"Prompt {scope} uses the shared memory: yours has no separate ones.")

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        """Return no hooks, but read memory again for a new prompt; it then stays for the run."""
        if not run.is_fork and not run.is_continued:
            self._recalled = None
        return ()

    def prompt_sections(self) -> Sequence[Section]:
        if self._recalled is None:
            self._recalled = self._recall()
        text = memory_section(self._recalled.project, self._recalled.user)
        return [Section(name="memory", priority=42, text=text)]

    async def on_run_end(self, messages: Sequence[Message], signal: AbortSignal) -> None:
        await sync_memory(self.provider, messages, signal, self._notify)

    def _recall(self) -> RecalledMemory:
        """Return the current memory; an error in reading it is a notice."""
        try:
            recalled = self.provider.prefetch()
        except Exception as error:
            _logger.exception("memory could not be read")
            recalled = RecalledMemory(notices=(f"Memory was not read: {error!r}.",))
        for notice in recalled.notices:
            if notice not in self._notified:
                self._notified.add(notice)
                self._notify(notice)
        return recalled


def memory_section(project: str, user: str) -> str:
    """Return the section with the text of both stores; "" if both are empty."""
    stores = {"USER.md, about the person": user, "MEMORY.md, about this project": project}
    parts = [quote_text(title, text.strip()) for title, text in stores.items() if text.strip()]
    return "\n\n".join([prompt_text("memory"), *parts]) if parts else ""


def make(host: ExtensionHost) -> Memory | None:
    provider = open_memory(host.settings, host.cwd, host.redact)
    return Memory(provider, host.notify) if provider is not None else None


async def sync_memory(
    provider: MemoryProvider,
    messages: Sequence[Message],
    signal: AbortSignal,
    notify: Callable[[str], None],
    *,
    limit_s: float = SYNC_S,
    aborted_limit_s: float = ABORTED_SYNC_S,
) -> None:
    """Sync `provider` within the time limit of the run's end; a failure becomes one notice."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    task = asyncio.ensure_future(provider.sync(messages))
    waiting = asyncio.ensure_future(signal.wait(unless=task))
    try:
        await asyncio.wait({waiting}, timeout=limit_s)
        if not task.done() and signal.aborted:
            left_s = min(aborted_limit_s, max(0.0, deadline - loop.time()))
            await asyncio.wait({task}, timeout=left_s)
        problem = ""
        if not task.done():
            problem = "it took too long."
        elif task.cancelled():
            problem = "it was cancelled."
        elif error := task.exception():
            _logger.error("memory was not updated", exc_info=error)
            problem = error.message if isinstance(error, DirgeError) else repr(error)
        if problem:
            notify(f"Memory was not updated: {problem}")
    finally:
        waiting.cancel()
        task.cancel()
