"""Plugins as an extension, the points where one may register a function, and its handles."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import Extension, PluginReport
from dirge_py.types.hooks import HOOK_NAMES, Hooks

PROMPT_POINTS = ("before_prompt", "before_prompt_build", "on_compact")
EVENT_POINTS: tuple[str, ...] = tuple(event.type for event in get_args(LoopEvent))
POINTS = (*HOOK_NAMES, *PROMPT_POINTS, *EVENT_POINTS)

AROUND_TOOL = "around_tool"


class PluginError(DirgeError):
    """A plugin can't be loaded, or something it adds is invalid."""


def check_point(point: str) -> None:
    """Raise `PluginError`, with the nearest name, if there is no such point."""
    if point in POINTS:
        return
    meant = nearest(point, POINTS)
    hint = f"Did you mean `{meant}`?" if meant else f"There are: {', '.join(POINTS)}."
    raise PluginError(f"there is no hook point `{point}`.", hint=hint)


class Registration:
    """A function at a hook point. Calling the handle calls the function; `close` removes it.

    `tool` is the only tool that an `around_tool` function wraps; empty: all tools.
    """

    def __init__(self, plugin: str, point: str, fn: Callable[..., Any], *, tool: str = "") -> None:
        self.plugin = plugin
        self.point = point
        self.fn = fn
        self.tool = tool
        self.failures = 0
        self.is_on = True
        self.name: str = getattr(fn, "__name__", type(fn).__name__)

    @property
    def label(self) -> str:
        return f"{self.plugin}.{self.name}"

    @property
    def path(self) -> str:
        """The file of the function, if known."""
        code = getattr(self.fn, "__code__", None)
        return str(getattr(code, "co_filename", ""))

    def close(self) -> None:
        """Stop calling the function. May be called twice."""
        self.is_on = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def hook_order(bundles: Iterable[Hooks]) -> Sequence[tuple[str, Sequence[str]]]:
    """Return each hook point of the loop, and the names of its functions in order."""
    labels: dict[str, list[str]] = {point: [] for point in HOOK_NAMES}
    for bundle in bundles:
        for point in HOOK_NAMES:
            if (hook := getattr(bundle, point)) is not None:
                labels[point].append(getattr(hook, "label", bundle.name))
    return list(labels.items())


class Plugins(Extension):
    """The plugins of the user: none here; a `PluginHost` has some."""

    name = "plugins"
    summary = "extensions that you wrote or installed"

    def __init__(self) -> None:
        self._run_order: Sequence[tuple[str, Sequence[str]]] = ()
        self._allowed: frozenset[str] | None = None

    def allow_only(self, names: Sequence[str] | None, by: str = "") -> None:
        """Let only these plugins act: their hooks and tools; None: all. `by` is named in notices.

        Commands and keys of the others stay: only the user calls them.
        """
        self._allowed = frozenset(names) if names is not None else None
        self._run_order = ()

    def report(self) -> Sequence[PluginReport]:
        """Return the state of every plugin, in order."""
        return ()

    def note_order(self, hooks: Iterable[Hooks]) -> None:
        """Store the hooks of a run, dirge's own included, for `order`."""
        self._run_order = hook_order(hooks)

    def order(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Return each hook point that has functions, and their names in order."""
        return [(point, labels) for point, labels in self._run_order if labels]

    def chain(self, tool: str) -> Sequence[str]:
        """Return the functions that wrap calls of this tool, the outermost first."""
        return ()

    def remove(self, name: str) -> None:
        """Remove a plugin's hooks, tools and commands. Raises UsageError if there is none."""
        raise UsageError(f"there is no plugin `{name}` that is on.", hint="None is.")
