"""A loaded plugin, and the `dirge` object that its `register` gets.

Its functions become tools of the model, slash commands, keys and hooks.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from dirge_py.extensions.plugins.calls import as_exception, as_plugin, call_plugin, is_async
from dirge_py.extensions.plugins.hooks import PluginStop, PromptChange, describe_error
from dirge_py.extensions.plugins.registration import (
    AROUND_TOOL,
    PluginError,
    Registration,
    check_point,
)
from dirge_py.lib.lazy import late_pattern
from dirge_py.tools.function_tool import FunctionTool
from dirge_py.types.errors import DirgeError, ToolFailed
from dirge_py.types.extensions import (
    Command,
    CommandBody,
    HookReport,
    KeyBinding,
    PluginReport,
    SectionChange,
)
from dirge_py.types.hooks import Defer, EditArgs, ToolOverride
from dirge_py.types.tools import Operation, ToolExecutionMode

_COMMAND_NAME = late_pattern(r"[a-z][a-z0-9_-]*")
Fn = Callable[..., Any]
Added = TypeVar("Added", FunctionTool[..., Any], Command, KeyBinding)


class Plugin:
    """One loaded plugin: what its `dirge` object registered, and its state."""

    def __init__(self, name: str, where: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self.where = where
        self.settings: Mapping[str, Any] = MappingProxyType(dict(settings))
        self.state: Literal["on", "off", "failed"] = "on"
        self.problem = ""
        self.hooks: list[Registration] = []
        self.added: list[tuple[Registration, FunctionTool[..., Any] | Command | KeyBinding]] = []

    def at(self, point: str) -> list[Registration]:
        """Return the functions registered at `point`, in order."""
        return [hook for hook in self.hooks if hook.point == point and hook.is_on]

    def live(self, kind: type[Added]) -> Sequence[Added]:
        """Return the tools, commands or keys that are still registered."""
        return [each for handle, each in self.added if isinstance(each, kind) and handle.is_on]

    def drop(self, state: Literal["off", "failed"], problem: str = "") -> None:
        """Remove everything that it added."""
        self.state, self.problem = state, problem
        for handle in (*self.hooks, *(handle for handle, _ in self.added)):
            handle.close()
        if state == "failed":
            # The names of what it added before it failed are free again.
            self.hooks, self.added = [], []

    def report(self) -> PluginReport:
        return PluginReport(
            name=self.name,
            where=self.where,
            state=self.state,
            problem=self.problem,
            hooks=tuple(
                HookReport(point=h.point, name=h.name, failures=h.failures, is_on=h.is_on)
                for h in self.hooks
            ),
            tools=tuple(tool.name for tool in self.live(FunctionTool)),
            commands=tuple(command.name for command in self.live(Command)),
        )


class PluginApi:
    """The `dirge` object of `register(dirge)`.

    Every registering method takes the function as its last argument, or is a decorator without it;
    it returns a handle with `close()`. `taken` maps the names of existing tools to their owners.
    """

    def __init__(
        self, plugin: Plugin, notify: Callable[[str], None], taken: Mapping[str, str]
    ) -> None:
        self._plugin = plugin
        self._notify = notify
        self._taken = taken
        self._is_registering = True
        self.log = logging.getLogger(f"dirge.plugin.{plugin.name}")

    @property
    def name(self) -> str:
        return self._plugin.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings under `[plugins.NAME]`, without `enabled`."""
        return self._plugin.settings

    def notify(self, text: str) -> None:
        """Show the user a notice; no model reads it. May be called from any thread."""
        self._notify(f"{self.name}: {text}")

    # -- hooks

    def on(self, point: str, fn: Fn | None = None) -> Any:
        """Register a function at a hook point or an event, also later than in `register`."""
        check_point(point)
        return self._hook(point, fn)

    def around_tool(self, tool: str | Fn, fn: Fn | None = None) -> Any:
        """Wrap the calls of `tool`, or of all tools: `async def fn(call, proceed)`."""
        if not isinstance(tool, str):
            return self.around_tool("", tool)
        return self._hook(AROUND_TOOL, fn, tool)

    def _hook(self, point: str, fn: Fn | None, tool: str = "") -> Any:
        def register(function: Fn) -> Registration:
            if not callable(function):
                raise PluginError(f"{function!r} isn't a function.")
            self._check_loaded()
            if point == AROUND_TOOL and not is_async(function):
                raise PluginError("a function around a tool has to be an `async def`.")
            handle = Registration(self.name, point, function, tool=tool)
            self._plugin.hooks.append(handle)
            return handle

        return register if fn is None else register(fn)

    # -- adding tools and commands

    def tool(
        self,
        fn: Fn | None = None,
        *,
        name: str | None = None,
        op: Operation = "plugin",
        resource: str | None = None,
        mode: ToolExecutionMode = "sequential",
        **manner: Any,
    ) -> Any:
        """Offer a typed function to the model as a tool; its docstring is the description.

        Permission is decided as for every tool, by its claim: `op` on the name of the tool, or on
        the value of the parameter `resource`. `manner` are further arguments of
        `tools.function_tool.tool`: `description`, `timeout_s`, `hints`, `title`,
        `output_schema`, `max_result_chars`, `available`, `around`.
        """

        def register(function: Fn) -> Registration:
            self._check_registering("tool")
            handle = Registration(self.name, "tool", function)
            body = _guard_function(handle)
            made = FunctionTool(body, name=name, op=op, resource=resource, mode=mode, **manner)
            own = {each.name for _, each in self._plugin.added if isinstance(each, FunctionTool)}
            if owner := self._taken.get(made.name) or "this plugin" * (made.name in own):
                raise PluginError(
                    f"the tool `{made.name}` cannot be added: {owner} has that name.",
                    hint="Give it another name: `dirge.tool(name=…)`.",
                )
            self._plugin.added.append((handle, made))
            return handle

        return register if fn is None else register(fn)

    def command(
        self,
        name: str,
        help: str = "",  # noqa: A002
        fn: Fn | None = None,
        *,
        usage: str = "",
        while_running: Literal["yes", "listing", "no"] = "yes",
        headless: bool = False,
    ) -> Any:
        """Add the slash command `/name`: `fn(args, conversation, front)`; returned text is shown.

        A plain function runs in a thread; one that uses the front end has to be an `async def`.
        """
        if not _COMMAND_NAME.fullmatch(name):
            raise PluginError(f"`{name}` cannot be a command: a to z, 0 to 9, `-` and `_`.")

        def register(function: Fn) -> Registration:
            self._check_registering("command")
            handle = Registration(self.name, "command", function)
            command = Command(
                name=name,
                summary=help or f"of the plugin {self.name}",
                run=_command_body(handle, name),
                usage=usage,
                while_running=while_running,
                headless=headless,
            )
            self._plugin.added.append((handle, command))
            return handle

        return register if fn is None else register(fn)

    def key(
        self,
        keys: str | Sequence[str],
        command: str | Fn | None = None,
        *,
        help: str = "",  # noqa: A002
    ) -> Any:
        """Bind a key, or two after each other (`"ctrl+x j"`), to a slash command.

        `command` is a line such as `"/model fast"`; a function becomes a command of its own, named
        after it: `fn(args, conversation, front)`.
        """
        self._check_registering("key")
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        if isinstance(command, str):
            line = command.removeprefix("/")
            binding = KeyBinding(id=f"{self.name}: {line}", keys=names, command=line, summary=help)
            self._plugin.added.append((Registration(self.name, "key", self.key), binding))
            return binding

        def register(function: Fn) -> Registration:
            name = getattr(function, "__name__", "").replace("_", "-").strip("-")
            handle: Registration = self.command(name, help, function)
            binding = KeyBinding(id=name, keys=names, command=name, summary=help)
            self._plugin.added.append((handle, binding))
            return handle

        return register if command is None else register(command)

    # -- answers

    def refuse(self, text: str) -> ToolOverride:
        """Block the call, with `text` for the model; or the prompt, with `text` for the user."""
        return ToolOverride(text, details={"outcome": "denied"})

    def edit(self, args: Mapping[str, Any]) -> EditArgs:
        """Run the call with these arguments; they are validated and judged like the model's."""
        return EditArgs(args)

    def defer(self, description: str) -> Defer:
        """Leave the call open and end the run, so that it can be decided later."""
        return Defer(description)

    def stop(self, reason: str) -> PluginStop:
        """End the run. Return it or raise it."""
        return PluginStop(reason)

    def prompt(
        self,
        *,
        prepend: str = "",
        append: str = "",
        override: str = "",
        changes: Sequence[SectionChange] = (),
    ) -> PromptChange:
        """Change the system prompt; `override` needs `allow_override = true` in the settings.

        `changes` are those of single sections (`section`); they come before the other ones.
        """
        return PromptChange(
            prepend=prepend, append=append, override=override, changes=tuple(changes)
        )

    def section(
        self,
        name: str,
        text: str = "",
        *,
        how: Literal["before", "after", "replace", "remove"] = "after",
        priority: int = 50,
    ) -> SectionChange:
        """Insert `text` before or after the section `name`, or replace or remove the section.

        Of several texts at one place that with the lowest priority comes first; of several
        replacements it counts. To replace and remove needs `allow_override = true`.
        """
        if how not in ("before", "after", "replace", "remove"):
            raise PluginError(f"`how` cannot be {how!r}: before, after, replace or remove.")
        label = f"plugin {self.name}"
        return SectionChange(section=name, text=text, how=how, priority=priority, name=label)

    # -- inside

    def end_registering(self) -> None:
        self._is_registering = False

    def _check_loaded(self) -> None:
        if self._plugin.state != "on":
            raise PluginError(f"the plugin `{self.name}` is off.")

    def _check_registering(self, what: str) -> None:
        self._check_loaded()
        if not self._is_registering:
            raise PluginError(f"a {what} can only be added in `register`.")


def _command_body(handle: Registration, name: str) -> CommandBody:
    """Return what runs the function, without a time limit: it may ask the user something."""

    async def run(args: str, conversation: Any, front: Any) -> None:
        if not handle.is_on:
            raise PluginError(f"/{name}: the plugin `{handle.plugin}` is off.")
        try:
            answer = await call_plugin(handle.fn, args, conversation, front, limit_s=None)
        except (DirgeError, asyncio.CancelledError):
            raise
        except Exception as error:
            handle.failures += 1
            reason = describe_error(error, handle.path)
            text = f"/{name} of the plugin `{handle.plugin}` failed: {reason}."
            raise PluginError(text) from error
        if isinstance(answer, str):
            front.show(answer)

    return run


def _guard_function(handle: Registration) -> Callable[..., Any]:
    """Return the function with its output on stderr; it can't exit, and fails once it is closed."""
    fn = handle.fn

    @contextmanager
    def guarded() -> Iterator[None]:
        if not handle.is_on:
            raise ToolFailed(f"The plugin `{handle.plugin}` was turned off. Don't use this tool.")
        with as_plugin():
            try:
                yield
            except (SystemExit, KeyboardInterrupt) as error:
                raise as_exception(error) from None

    async def as_coroutine(*args: Any, **kwargs: Any) -> Any:
        with guarded():
            return await fn(*args, **kwargs)

    def as_function(*args: Any, **kwargs: Any) -> Any:
        with guarded():
            return fn(*args, **kwargs)

    return functools.wraps(fn)(as_coroutine if is_async(fn) else as_function)
