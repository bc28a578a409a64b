"""Memory as an extension: what is kept from one session to the next."""

from dirge_py.extensions.memory.provider import MemoryProvider
from dirge_py.extensions.memory.store import open_memory
from dirge_py.types.extensions import Extension, ExtensionHost


class Memory(Extension):
    """What is kept from one session to the next."""

    name = "memory"
    summary = "what is remembered of the project and of you"

    def __init__(self, provider: MemoryProvider) -> None:
        self.provider = provider
        """Reads and changes it."""


def make(host: ExtensionHost) -> Memory | None:
    provider = open_memory(host.settings, host.cwd, host.redact)
    return Memory(provider) if provider is not None else None
