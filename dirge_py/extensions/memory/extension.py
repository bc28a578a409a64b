"""The extension that remembers things from one session to the next."""

from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.types.extensions import Extension, ExtensionHost
from dirge_py.types.memory import MemoryProvider

if TYPE_CHECKING:
    from dirge_py.extensions.memory.store import open_memory
else:
    # `/memory` is loaded before the first frame; the settings schema is not.
    open_memory = late("dirge_py.extensions.memory.store", "open_memory")


class Memory(Extension):
    """The memory of the project and of the person."""

    name = "memory"
    summary = "what is remembered of the project and of you"

    def __init__(self, provider: MemoryProvider) -> None:
        self.provider = provider
        """Reads and changes what is remembered."""


def make(host: ExtensionHost) -> Memory | None:
    provider = open_memory(host.settings, host.cwd, host.redact)
    return Memory(provider) if provider is not None else None
