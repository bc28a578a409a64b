"""The plugins of one conversation: loads them, and offers what they added."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dirge_py.agent_loop.cancellation import GRACE_S
from dirge_py.context.system_prompt import change_sections, check_section_name
from dirge_py.extensions.plugins.api import Plugin, PluginApi
from dirge_py.extensions.plugins.calls import (
    PluginFailure,
    call_plugin_blocking,
    is_async,
    split_stdout,
)
from dirge_py.extensions.plugins.discovery import PluginSource, unique_by_name, unload_module
from dirge_py.extensions.plugins.hooks import (
    EventQueue,
    HookCaller,
    PromptChange,
    call_around_tool,
    describe_error,
    hook_bundles,
)
from dirge_py.extensions.plugins.registration import (
    AROUND_TOOL,
    POINTS,
    PluginError,
    Plugins,
    Registration,
    hook_order,
)
from dirge_py.lib.nearest import nearest
from dirge_py.tools.base import Tool
from dirge_py.tools.function_tool import FunctionTool
from dirge_py.types.errors import UsageError
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import (
    Command,
    ExtensionStatus,
    KeyBinding,
    PluginReport,
    PromptCheck,
    RunContext,
    Section,
    SectionChange,
    Summarize,
)
from dirge_py.types.hooks import HOOK_NAMES, Context, Hooks, StopRun, ToolOverride, TurnInfo
from dirge_py.types.messages import UserMessage, joined_text
from dirge_py.types.outcomes import HookTerminated
from dirge_py.types.tools import Interceptor, ToolCall


class PluginHost(Plugins):
    """Loads plugins in the order of their names, which is also the order of their hooks.

    `settings` are the plugins' settings by name, `off` the names of those not to load, `built_in`
    the tool names that are taken. `notify` gets later problems; those of loading are in `notices`.
    """

    def __init__(
        self,
        found: Iterable[PluginSource],
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        off: Collection[str] = (),
        built_in: Collection[str] = (),
        limit_s: float = 5.0,
        notify: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._settings = settings or {}
        self._taken = dict.fromkeys(built_in, "a built-in tool")
        self._notices: list[str] = []
        self._notify = self._notices.append
        self._caller = HookCaller(limit_s, self._tell)
        self._plugins: list[Plugin] = []
        self._queues: dict[str, EventQueue] = {}
        chosen, clashes = unique_by_name(found)
        unknown = {*self._settings} - {*off} - {each.name for each in chosen}
        self._notices += clashes
        self._notices += [f"[plugins.{name}]: there is no such plugin." for name in sorted(unknown)]
        if chosen:
            split_stdout()
        for each in chosen:
            self._plugins.append(self._load(each, is_wanted=each.name not in off))
        self._notify = notify

    def notices(self) -> Sequence[str]:
        """Problems of loading."""
        return tuple(self._notices)

    def hooks(self, run: RunContext | None = None) -> Sequence[Hooks]:
        hooks = [
            bundle
            for plugin in self._active
            for bundle in hook_bundles(self._caller, plugin.name, plugin.hooks)
        ]
        if not self._all_tools():
            return hooks
        tools = Hooks(
            name="plugins",
            transform_context=self._without_dropped_tools,
            before_tool_call=self._refuse_dropped_tools,
        )
        return [tools, *hooks]

    def around_tool(self, run: RunContext | None = None) -> Sequence[Interceptor]:
        """Return the interceptors, outermost first: those of every tool, then of single ones."""
        hooks = self._hooks_around_tools()
        return [partial(call_around_tool, self._caller, hook) for hook in hooks]

    def allow_only(self, names: Sequence[str] | None, by: str = "") -> None:
        super().allow_only(names, by)
        known = {plugin.name for plugin in self._plugins}
        for name in names or ():
            if name not in known:
                meant = nearest(name, known)
                hint = f" Did you mean `{meant}`?" if meant else ""
                self._tell(f"{by} names the plugin `{name}`, which doesn't exist.{hint}")

    @property
    def _active(self) -> Sequence[Plugin]:
        """The plugins that may act now."""
        allowed = self._allowed
        return [each for each in self._plugins if allowed is None or each.name in allowed]

    def tools(self) -> Sequence[Tool[Any]]:
        return [tool for plugin in self._plugins for tool in plugin.live(FunctionTool)]

    def commands(self) -> Sequence[Command]:
        return [command for plugin in self._plugins for command in plugin.live(Command)]

    def key_bindings(self) -> Sequence[KeyBinding]:
        return [key for plugin in self._plugins for key in plugin.live(KeyBinding)]

    def prompt_checks(self) -> Sequence[PromptCheck]:
        """Return a check that asks the functions at `before_prompt`."""
        return (self._check_prompt,)

    def around_summary(self, summarize: Summarize) -> Summarize:
        """Return a summariser that asks plugins (`on_compact`) first, else `summarize`."""

        async def ask_plugins(prompt: str, budget_tokens: int) -> str:
            for hook in self._at("on_compact"):
                summary: str | None = await self._caller.ask(hook, prompt, budget_tokens)
                if summary and summary.strip():
                    return summary
            return await summarize(prompt, budget_tokens)

        return ask_plugins

    def on_event(self, event: LoopEvent) -> None:
        """Queue the event for the plugins that watch it; never waits."""
        for plugin in self._active:
            if watchers := plugin.at(event.type):
                queue = self._queues.setdefault(plugin.name, EventQueue(self._caller))
                queue.put(watchers, event)

    def status(self) -> ExtensionStatus | None:
        names = ", ".join(f"{plugin.name} ({plugin.state})" for plugin in self._plugins)
        has_failed = any(plugin.state == "failed" for plugin in self._plugins)
        return ExtensionStatus(text=names, is_ok=not has_failed) if names else None

    def report(self) -> Sequence[PluginReport]:
        return [plugin.report() for plugin in self._plugins]

    def order(self) -> Sequence[tuple[str, Sequence[str]]]:
        hooks = self._run_order or hook_order(self.hooks())
        around_tools = [f"{h.label} ({h.tool or 'every tool'})" for h in self._hooks_around_tools()]
        points = (point for point in POINTS if point not in HOOK_NAMES)
        others = [(point, [hook.label for hook in self._at(point)]) for point in points]
        every = (*hooks, (AROUND_TOOL, around_tools), *others)
        return [(point, labels) for point, labels in every if labels]

    def chain(self, tool: str) -> Sequence[str]:
        return [hook.label for hook in self._hooks_around_tools() if hook.tool in ("", tool)]

    def remove(self, name: str) -> None:
        on = {plugin.name: plugin for plugin in self._plugins if plugin.state == "on"}
        if name not in on:
            hint = f"On: {', '.join(on)}." if on else "None is."
            raise UsageError(f"there is no plugin `{name}` that is on.", hint=hint)
        on[name].drop("off", "turned off in this session")
        self._run_order = ()

    async def close(self) -> None:
        """Let watchers handle the queued events within the time limit, then unload the modules."""
        tasks = {queue.task for queue in self._queues.values() if queue.task is not None}
        if tasks := {task for task in tasks if not task.done()}:
            _, late = await asyncio.wait(tasks, timeout=self._caller.limit_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=GRACE_S)
        for plugin in self._plugins:
            unload_module(plugin.name)

    def _load(self, found: PluginSource, *, is_wanted: bool) -> Plugin:
        plugin = Plugin(found.name, found.where, self._settings.get(found.name, {}))
        if not is_wanted:
            plugin.drop("off", "`enabled = false`")
            return plugin
        api = PluginApi(plugin, self._tell, self._taken)

        def register() -> None:
            function = found.load()
            if is_async(function):
                raise PluginError("`register` has to be a plain `def`.")
            function(api)

        try:
            call_plugin_blocking(register, limit_s=self._caller.limit_s)
        except Exception as error:
            problem = f"{describe_error(error, found.where)}."
            if isinstance(error, PluginError):
                problem = error.in_one_line()
            plugin.drop("failed", problem)
            unload_module(plugin.name)
            self._tell(f"plugin `{plugin.name}` is not loaded: {plugin.problem} ({found.where})")
        api.end_registering()
        self._taken |= {
            tool.name: f"the plugin `{plugin.name}`" for tool in plugin.live(FunctionTool)
        }
        return plugin

    def _tell(self, text: str) -> None:
        self._notify(text)

    def _at(self, point: str) -> list[Registration]:
        return [hook for plugin in self._active for hook in plugin.at(point)]

    def _hooks_around_tools(self) -> list[Registration]:
        return sorted(self._at(AROUND_TOOL), key=lambda hook: bool(hook.tool))

    def _dropped_tools(self) -> set[str]:
        """The names of tools whose plugin is off, or may not act now."""
        live = {tool.name for plugin in self._active for tool in plugin.live(FunctionTool)}
        return self._all_tools() - live

    def _all_tools(self) -> set[str]:
        every = (each for plugin in self._plugins for _, each in plugin.added)
        return {each.name for each in every if isinstance(each, FunctionTool)}

    def _refuse_dropped_tools(self, _info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        if self._allowed is None or call.name not in self._dropped_tools():
            return None
        text = f"`{call.name}` is not available: its plugin is off now. Continue without it."
        return ToolOverride(text, details={"outcome": "denied"})

    def _without_dropped_tools(self, info: TurnInfo) -> Context | None:
        dropped = self._dropped_tools()
        tools = [tool for tool in info.context.tools if tool.name not in dropped]
        return replace(info.context, tools=tools) if len(tools) < len(info.context.tools) else None

    async def _check_prompt(self, message: UserMessage) -> str | None:
        """Return the first reason not to send this prompt; None if there is none."""
        for hook in self._at("before_prompt"):
            try:
                answer: ToolOverride | None = await self._caller.ask(hook, message)
            except StopRun as stop:
                outcome = stop.outcome
                return outcome.reason if isinstance(outcome, HookTerminated) else str(outcome)
            if answer is not None:
                content = answer.content
                text = content if isinstance(content, str) else joined_text(tuple(content))
                return text or f"the plugin `{hook.plugin}` refused it"
        return None

    def edit_prompt(self, sections: Sequence[Section]) -> Sequence[Section]:
        """Return the sections as plugins change them; of each kind of change the first wins."""
        chosen: dict[str, Section] = {}
        changes: list[SectionChange] = []
        for hook in self._at("before_prompt_build"):
            change: PromptChange | None = self._caller.ask_blocking(hook, tuple(sections))
            if change is None:
                continue
            if problem := self._objection(hook, change, sections):
                self._caller.failed(hook, PluginFailure(problem))
                continue
            changes += change.changes
            for kind in ("prepend", "override", "append"):
                if text := getattr(change, kind):
                    priority = 100 if kind == "append" else 0
                    section = Section(name=f"plugin {hook.plugin}", priority=priority, text=text)
                    chosen.setdefault(kind, section)
        sections = change_sections(changes)(sections)
        before, after = ([chosen[kind]] if kind in chosen else [] for kind in ("prepend", "append"))
        return [*before, *([chosen["override"]] if "override" in chosen else sections), *after]

    def _objection(
        self, hook: Registration, change: PromptChange, sections: Sequence[Section]
    ) -> str:
        """Return why this change of the prompt can't be made; "" if it can."""
        replaces = any(each.how in ("replace", "remove") for each in change.changes)
        if change.override or replaces:
            settings = next(p.settings for p in self._plugins if p.name == hook.plugin)
            if settings.get("allow_override") is not True:
                setting = f"`allow_override = true` under [plugins.{hook.plugin}]"
                return f"to replace {'parts of ' * (not change.override)}the prompt set {setting}"
        try:
            for each in change.changes:
                check_section_name(each.section, sections)
        except UsageError as error:
            return f"{error.message} {error.hint}"
        return ""
