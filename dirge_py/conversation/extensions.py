"""The extensions of one conversation, taken together."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from dirge_py.types.events import Sink
from dirge_py.types.extensions import (
    Command,
    Extension,
    ExtensionHost,
    KeyBinding,
    RunContext,
    Section,
)
from dirge_py.types.hooks import Hooks
from dirge_py.types.llm import StreamFn
from dirge_py.types.tools import Interceptor

E = TypeVar("E", bound=Extension)

_logger = logging.getLogger(__name__)


class ExtensionSet:
    """The extensions of one conversation, and what they offer taken together."""

    def __init__(
        self, extensions: Sequence[Extension] = (), host: ExtensionHost | None = None
    ) -> None:
        self.all = tuple(extensions)
        """In the order in which they are asked."""
        self._host = host
        self._starting: asyncio.Task[None] | None = None

    def find(self, kind: type[E]) -> E | None:
        """The extension of that class; None where it is not loaded."""
        return next((each for each in self.all if isinstance(each, kind)), None)

    def tools(self) -> list[Any]:
        """Their tools (`tools.base.Tool`)."""
        return [tool for each in self.all for tool in each.tools()]

    def commands(self) -> list[Command]:
        return [command for each in self.all for command in each.commands()]

    def key_bindings(self) -> list[KeyBinding]:
        return [key for each in self.all for key in each.key_bindings()]

    def hooks(self, run: RunContext) -> list[Hooks]:
        made = [each.hooks(run) for each in self.all]
        return [hooks for hooks in made if hooks is not None]

    def interceptors(self) -> list[Interceptor]:
        around = [each.around_tool() for each in self.all]
        return [interceptor for interceptor in around if interceptor is not None]

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        """The call with every extension around it, the first one outermost."""
        for each in reversed(self.all):
            stream_fn = each.around_model(stream_fn)
        return stream_fn

    def prompt_sections(self) -> list[Section]:
        return [section for each in self.all for section in each.prompt_sections()]

    def sinks(self) -> list[Sink]:
        """Those that receive events, and not only could."""
        return [each.on_event for each in self.all if type(each).on_event is not Extension.on_event]

    def for_fork(self, options: Any) -> "ExtensionSet":
        """What a fork gets of them."""
        given = [each.for_fork(options) for each in self.all]
        return ExtensionSet([each for each in given if each is not None], self._host)

    def start(self) -> None:
        """Let them begin their background work, once; nothing waits for it."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())

    async def close(self) -> None:
        """End what they began, the last one first."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        for each in reversed(self.all):
            try:
                await each.close()
            except Exception:
                _logger.exception("the extension %s could not be closed", each.name)

    async def _start(self) -> None:
        started = await asyncio.gather(
            *(each.start(self._host) for each in self.all if self._host is not None),
            return_exceptions=True,
        )
        for each, failure in zip(self.all, started, strict=False):
            if isinstance(failure, Exception) and self._host is not None:
                self._host.notify(f"The extension {each.name} did not start: {failure}")
