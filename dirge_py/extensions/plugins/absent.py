"""What stands in for plugins where there are none: most starts load nothing for them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dirge_py.lib.lazy import late
from dirge_py.types.errors import UsageError
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import Command, KeyBinding, PluginReport
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import UserMessage
from dirge_py.types.tools import Interceptor

if TYPE_CHECKING:
    from dirge_py.context.prompt_sections import PromptEdit
    from dirge_py.context.summary import Summarise
    from dirge_py.extensions.plugins.hooking import order_of
    from dirge_py.tools.base import Tool
else:
    order_of = late("dirge_py.extensions.plugins.hooking", "order_of")


class NoPlugins:
    """A `PluginHost` without a plugin."""

    notices: Sequence[str] = ()
    interceptors: Sequence[Interceptor] = ()
    tools: "Sequence[Tool[Any]]" = ()
    commands: Sequence[Command] = ()
    keys: Sequence[KeyBinding] = ()
    prompt_edits: "tuple[PromptEdit, ...]" = ()
    prompt_checks: Sequence[Callable[[UserMessage], Awaitable[str | None]]] = ()

    def __init__(self) -> None:
        self._bundles: tuple[Hooks, ...] = ()

    def bundles(self) -> Sequence[Hooks]:
        return ()

    def summarising(self, otherwise: "Summarise") -> "Summarise":
        return otherwise

    def on_event(self, event: LoopEvent) -> None:
        """Nobody watches."""

    def report(self) -> Sequence[PluginReport]:
        return ()

    def note_order(self, bundles: Iterable[Hooks]) -> None:
        self._bundles = tuple(bundles)

    def order(self) -> Sequence[tuple[str, Sequence[str]]]:
        return [(point, labels) for point, labels in order_of(self._bundles) if labels]

    def chain(self, tool: str) -> Sequence[str]:
        return ()

    def remove(self, name: str) -> None:
        raise UsageError(f"there is no plugin `{name}` that is on.", hint="None is.")

    async def aclose(self) -> None:
        """There is nothing to let go."""
