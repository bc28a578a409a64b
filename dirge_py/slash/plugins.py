"""`/plugins`, `/hooks` and `/tools`: what plugins added, and what runs at each hook."""

from collections.abc import Iterator, Mapping, Sequence

from dirge_py.conversation.conversation import Conversation
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.lib.nearest import nearest
from dirge_py.lib.text import truncate
from dirge_py.lib.text_width import align_columns
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import HookReport, PluginReport
from dirge_py.types.tools import LoopTool

_SUMMARY_CHARS = 100
_NONE = "There are no plugins. A plugin is one file in the `plugins` folder next to config.toml."


@command(
    "plugins",
    "list plugins and what each adds; off NAME turns one off for this session",
    usage="[off NAME]",
    complete=lambda conversation: ["off"],
)
async def plugins(args: str, conversation: Conversation, front: FrontEnd) -> None:
    known = conversation.extension(Plugins) or Plugins()
    verb, _, name = args.partition(" ")
    name = name.strip()
    if verb == "off" and name:
        known.remove(name)
        front.commands.use_extensions(conversation.extensions.commands())
        front.show(f"The plugin {name} is off for this session.", tone="good")
        return
    if args:
        raise UsageError(f"/plugins doesn't take {args!r}.", hint="/plugins, or /plugins off NAME.")
    reports = known.report()
    front.show("\n".join(line for plugin in reports for line in _described(plugin)) or _NONE)


@command("hooks", "list what runs at each hook, in order")
async def hooks(args: str, conversation: Conversation, front: FrontEnd) -> None:
    order = (conversation.extension(Plugins) or Plugins()).order()
    rows = align_columns([(f"  {point}", " → ".join(labels)) for point, labels in order])
    lines = ["What runs at each hook, in order", *rows]
    front.show("\n".join(lines) if rows else "No hook has a handler yet.")


@command(
    "tools",
    "list the tools; NAME: its description and arguments; --chain: what wraps its calls",
    usage="[NAME] [--chain]",
    complete=lambda conversation: conversation.tool_names,
)
async def tools(args: str, conversation: Conversation, front: FrontEnd) -> None:
    words = [word for word in args.split() if word != "--chain"]
    name = words[0] if words else ""
    if not name:
        rows = [(tool.name, _summary(tool)) for tool in conversation.tools]
        front.show("\n".join(align_columns(rows)) or "The model has no tools.")
        return
    tool = next((tool for tool in conversation.tools if tool.name == name), None)
    if tool is None:
        meant = nearest(name, conversation.tool_names)
        hint = f"Did you mean {meant}?" if meant else "/tools lists them."
        raise UsageError(f"There is no tool {name}.", hint=hint)
    around = (conversation.extension(Plugins) or Plugins()).chain(name)
    chain = [*around, *getattr(tool, "chain", ())]
    if "--chain" in args.split():
        front.show(" → ".join([*chain, name]))
    else:
        front.show("\n".join(_described_tool(tool, chain)))


def _summary(tool: LoopTool) -> str:
    """What the tool is for, in one line, or why it can't be used now."""
    why = getattr(tool, "unavailable", "")
    first = tool.description.strip().partition("\n")[0].partition(". ")[0].removesuffix(".")
    return f"not now: {why}" if why else truncate(first, _SUMMARY_CHARS)


def _described_tool(tool: LoopTool, chain: Sequence[str]) -> Iterator[str]:
    yield tool.name
    if why := getattr(tool, "unavailable", ""):
        yield f"Not now: {why}"
    yield from ("", tool.description.strip())
    properties = tool.parameters.get("properties")
    if isinstance(properties, Mapping) and properties:
        required = tool.parameters.get("required", ())
        rows = [
            (f"  {name}", "" if name in required else "optional", str(about.get("description", "")))
            for name, about in properties.items()
            if isinstance(about, Mapping)
        ]
        yield from ("", "Arguments", *align_columns(rows))
    if chain:
        yield from ("", f"Its calls go through: {' → '.join([*chain, tool.name])}")
    yield from ("", f"/why {tool.name} INPUT shows whether a call would be allowed.")


def _described(plugin: PluginReport) -> Sequence[str]:
    rows = [
        ("hooks", ", ".join(_hook(hook) for hook in plugin.hooks)),
        ("tools", ", ".join(plugin.tools)),
        ("commands", ", ".join(f"/{name}" for name in plugin.commands)),
        ("why", plugin.problem),
    ]
    shown = [row for row in rows if row[1]] if plugin.state == "on" else rows[-1:]
    head = plugin.name if plugin.state == "on" else f"{plugin.name} ({plugin.state})"
    return [f"{head}  {plugin.where}", *(f"  {left:<8}  {right}" for left, right in shown)]


def _hook(hook: HookReport) -> str:
    notes = [f"{hook.failures} failed"] * bool(hook.failures) + ["off"] * (not hook.is_on)
    return f"{hook.point} {hook.name}" + (f" ({', '.join(notes)})" if notes else "")
