"""Commands of plugins, and `/plugins`, in the registry of a front end."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.registry import Registry, discover
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.hooks import Hooks
from tests.support.plugins import PluginFolder, run_with


def conversation_with(plugins: Plugins) -> Any:
    return SimpleNamespace(
        is_running=False,
        is_compacting=False,
        exclusive_owner=None,
        tool_names=["echo", "read"],
        tools=[
            SimpleNamespace(name=name, description=f"{name} it. Fast.", parameters={})
            for name in ("echo", "read")
        ],
        extension=lambda kind: plugins if kind is Plugins else None,
        extensions=ExtensionSet([plugins]),
    )


class Front(PrintFront):
    """A front end with a conversation that has these plugins."""

    def __init__(self, plugins: Plugins) -> None:
        registry = Registry(discover(slash))
        super().__init__(registry)
        self.conversation = conversation_with(plugins)
        assert registry.use_extensions(self.conversation.extensions.commands()) == []


def front_with(host: PluginHost) -> Front:
    return Front(host)


async def typed(front: Front, line: str) -> str:
    front.shown.clear()
    read = front.commands.read(line)
    assert read is not None
    await front.commands.run(read, front.conversation, front)
    return "\n".join(front.shown)


def greeting(dirge: Any) -> None:
    @dirge.command("greet", help="say hello", usage="NAME")
    def greet(args: str, conversation: Any, front: Any) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"Hello, {args}."

    @dirge.command("wave", "wave", while_running="no")
    async def wave(args: str, conversation: Any, front: Any) -> None:
        front.show(f"waving at {conversation.tool_names[0]}")


async def test_plugin_command_runs_and_appears_in_completion_and_help(plugin_folder: PluginFolder):
    front = front_with(plugin_folder.add("a", greeting).host())
    assert await typed(front, "/greet you") == "Hello, you."
    assert await typed(front, "/wave") == "waving at echo"
    assert ("greet", "say hello") in front.commands.complete("gr")
    assert "/greet NAME" in await typed(front, "/help")


async def test_failing_plugin_command_names_its_plugin_and_line(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        @dirge.command("odd", "fails")
        def odd(args: str, conversation: Any, front: Any) -> None:
            raise LookupError("nothing")

        @dirge.command("leave", "exits")
        async def leave(args: str, conversation: Any, front: Any) -> None:
            raise SystemExit

    front = front_with(plugin_folder.add("a", register).host())
    words = r"/odd of the plugin `a` failed: LookupError: nothing \(test_commands.py, line \d+\)"
    with pytest.raises(DirgeError, match=words):
        await typed(front, "/odd")
    with pytest.raises(DirgeError, match="it tried to exit"):
        await typed(front, "/leave")


def test_plugin_command_cannot_replace_a_built_in_command(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        dirge.command("help", "mine", print)
        dirge.command("q", "mine", print)

    registry = Registry(discover(slash))
    built_in = registry.find("help")
    warnings = registry.use_extensions(plugin_folder.add("a", register).host().commands())
    assert registry.find("help") is built_in
    assert warnings == [
        "A plugin's command /help is left out: the name is taken.",
        "A plugin's command /q is left out: the name is taken.",
    ]


def test_plugin_commands_of_a_new_conversation_replace_the_old_ones(
    plugin_folder: PluginFolder,
):
    registry = Registry(discover(slash))
    registry.use_extensions(plugin_folder.add("a", greeting).host().commands())
    assert registry.find("greet")
    registry.use_extensions([])
    assert registry.find("greet") is None
    assert [name for name, _ in registry.complete("gr")] == []
    plugin_folder.found.clear()
    plugin_folder.add("b", lambda dirge: dirge.command("greet", "again", print))
    registry.use_extensions(plugin_folder.host().commands())
    again = registry.find("greet")
    assert again and again.summary == "again"


def test_alias_can_point_to_a_plugin_command(plugin_folder: PluginFolder):
    registry = Registry()
    registry.use_own_names({"/hi": "/greet all"})
    registry.use_extensions(plugin_folder.add("a", greeting).host().commands())
    read = registry.read("/hi")
    assert read and (read.name, read.args) == ("greet", "all")


async def test_plugins_command_lists_contributions_and_load_errors(plugin_folder: PluginFolder):
    def everything(dirge: Any) -> None:
        greeting(dirge)
        dirge.on("before_tool_call", lambda info, call: None)

        @dirge.tool
        def lookup(key: str) -> str:
            """Look up."""
            return key

    plugin_folder.add("a", everything).add("b", lambda dirge: 1 / 0).add("c", greeting)
    front = front_with(plugin_folder.host(off={"c"}))
    assert (await typed(front, "/plugins")).splitlines() == [
        "a  test a",
        "  hooks     before_tool_call <lambda>",
        "  tools     lookup",
        "  commands  /greet, /wave",
        "b (failed)  test b",
        *[line for line in front.shown[0].splitlines() if "ZeroDivisionError" in line],
        "c (off)  test c",
        "  why       `enabled = false`",
    ]
    assert "ZeroDivisionError" in front.shown[0]


async def test_plugins_command_shows_failures_next_to_the_hook(plugin_folder: PluginFolder):
    def fails(info: Any) -> None:
        raise LookupError

    host = plugin_folder.add("a", lambda dirge: dirge.on("transform_context", fails)).host()
    model = ScriptedModel()
    for _ in range(3):
        model.will_say("done")
    for _ in range(3):
        await run_with(host, model)
    assert "transform_context fails (3 failed, off)" in await typed(front_with(host), "/plugins")


async def test_plugins_off_removes_a_plugin_for_the_session(plugin_folder: PluginFolder):
    front = front_with(plugin_folder.add("a", greeting).host())
    assert await typed(front, "/plugins off a") == "The plugin a is off for this session."
    assert front.commands.find("greet") is None
    with pytest.raises(UsageError, match="there is no plugin `a` that is on"):
        await typed(front, "/plugins off a")
    with pytest.raises(UsageError, match="doesn't take 'on a'"):
        await typed(front, "/plugins on a")


async def test_plugins_hooks_and_tools_commands_work_without_plugins(plugin_folder: PluginFolder):
    front = Front(Plugins())
    assert "There are no plugins." in await typed(front, "/plugins")
    assert await typed(front, "/hooks") == "No hook has a handler yet."
    listing = await typed(front, "/tools")
    assert listing.splitlines() == ["echo  echo it", "read  read it"]


async def test_hooks_command_shows_plugin_and_built_in_hooks_in_run_order(
    plugin_folder: PluginFolder,
):
    def guard(info: Any, call: Any) -> None: ...

    host = plugin_folder.add("a", lambda dirge: dirge.on("before_tool_call", guard)).host()
    first = Hooks(name="storm", before_tool_call=guard)
    last = Hooks(name="permission", before_tool_call=guard, transform_context=guard)
    host.note_order([first, *host.hooks(), last])
    assert (await typed(front_with(host), "/hooks")).splitlines() == [
        "What runs at each hook, in order",
        "  transform_context  permission",
        "  before_tool_call   storm → a.guard → permission",
    ]


async def test_case_a14_tools_chain_shows_wrappers_of_a_tool(plugin_folder: PluginFolder):
    async def g1(call: Any, proceed: Any) -> Any: ...

    async def t1(call: Any, proceed: Any) -> Any: ...

    def register(dirge: Any) -> None:
        dirge.around_tool("echo", t1)
        dirge.around_tool(g1)

    front = front_with(plugin_folder.add("a", register).host())
    assert await typed(front, "/tools echo --chain") == "a.g1 → a.t1 → echo"
    described = await typed(front, "/tools read")
    assert described.startswith("read\n")
    assert "Its calls go through: a.g1 → read" in described
    assert "/why read INPUT" in described
    assert "around_tool  a.g1 (every tool) → a.t1 (echo)" in await typed(front, "/hooks")
    with pytest.raises(UsageError, match="There is no tool ech"):
        await typed(front, "/tools ech")
