"""The extensions of one conversation."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import Sink
from dirge_py.types.extensions import (
    Command,
    Extension,
    ExtensionHost,
    HookStage,
    KeyBinding,
    PromptCheck,
    RunContext,
    Section,
    Summarize,
    Theme,
)
from dirge_py.types.hooks import CheckAborted, Hooks
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import AssistantMessage, Message
from dirge_py.types.tools import Interceptor

E = TypeVar("E", bound=Extension)

_logger = logging.getLogger(__name__)


class ExtensionSet:
    """The extensions of one conversation, and everything they offer."""

    def __init__(
        self, extensions: Sequence[Extension] = (), host: ExtensionHost | None = None
    ) -> None:
        self.all = tuple(extensions)
        """The extensions, in the order in which they are called."""
        self._host = host
        self._starting: asyncio.Task[None] | None = None

    def find(self, kind: type[E]) -> E | None:
        """Return the extension of that class; None if it isn't loaded."""
        return next((each for each in self.all if isinstance(each, kind)), None)

    def tools(self) -> list[Any]:
        """Return their tools (`tools.base.Tool`)."""
        return [tool for each in self.all for tool in each.tools()]

    def commands(self) -> list[Command]:
        return [command for each in self.all for command in each.commands()]

    def key_bindings(self) -> list[KeyBinding]:
        return [key for each in self.all for key in each.key_bindings()]

    def themes(self) -> list[Theme]:
        return [theme for each in self.all for theme in each.themes()]

    def hooks(self, run: RunContext, stage: HookStage) -> list[Hooks]:
        """Return the hooks of the extensions at this stage."""
        return [hooks for each in self.all if each.stage == stage for hooks in each.hooks(run)]

    def around_tool(self, run: RunContext, *, is_first: bool) -> list[Interceptor]:
        """Return the interceptors of the stage `first`, or those of the others."""
        chosen = [each for each in self.all if (each.stage == "first") is is_first]
        return [interceptor for each in chosen for interceptor in each.around_tool(run)]

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        """Return `stream_fn` wrapped by every extension, the first one outermost."""
        for each in reversed(self.all):
            stream_fn = each.around_model(stream_fn)
        return stream_fn

    def around_summary(self, summarize: Summarize) -> Summarize:
        """Return `summarize` wrapped by every extension, the first one outermost."""
        for each in reversed(self.all):
            summarize = each.around_summary(summarize)
        return summarize

    def check_aborted(self) -> CheckAborted | None:
        """Return all checks of aborted answers as one; None if there are none."""
        checks = [check for each in self.all if (check := each.check_aborted()) is not None]
        if not checks:
            return None

        async def check_all(message: AssistantMessage) -> AssistantMessage:
            for check in checks:
                message = await check(message)
            return message

        return check_all

    def prompt_checks(self) -> list[PromptCheck]:
        return [check for each in self.all for check in each.prompt_checks()]

    def prompt_sections(self) -> list[Section]:
        return [section for each in self.all for section in each.prompt_sections()]

    def edit_prompt(self, sections: Sequence[Section]) -> Sequence[Section]:
        """Return the sections of the system prompt as all extensions have edited them, in order."""
        for each in self.all:
            sections = each.edit_prompt(sections)
        return sections

    def notices(self) -> list[str]:
        return [notice for each in self.all for notice in each.notices()]

    def sinks(self) -> list[Sink]:
        """Return the `on_event` of each extension that overrides it."""
        return [each.on_event for each in self.all if type(each).on_event is not Extension.on_event]

    def for_fork(self, options: Any) -> "ExtensionSet":
        """Return the extensions for a fork."""
        forked = (each.for_fork(options) for each in self.all)
        return ExtensionSet([each for each in forked if each is not None], self._host)

    def start(self) -> None:
        """Begin their background work, once, without waiting for it."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())

    async def on_run_end(self, messages: Sequence[Message], signal: AbortSignal) -> None:
        """Pass what a run added to each of them in turn."""
        for each in self.all:
            await each.on_run_end(messages, signal)

    async def before_close(self) -> None:
        """Let them finish what has to be recorded."""
        for each in self.all:
            await each.before_close()

    async def close(self) -> None:
        """Close them, the last one first."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        for each in reversed(self.all):
            try:
                await each.close()
            except Exception:
                _logger.exception("the extension %s could not be closed", each.name)

    async def _start(self) -> None:
        host = self._host
        if host is None:
            return
        starts = (each.start(host) for each in self.all)
        started = await asyncio.gather(*starts, return_exceptions=True)
        for each, failure in zip(self.all, started, strict=True):
            if isinstance(failure, Exception):
                host.notify(f"The extension {each.name} did not start: {failure}")
