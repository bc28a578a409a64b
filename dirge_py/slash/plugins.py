"""`/plugins`, `/hooks` and `/tools`: what plugins added, and what runs at each hook."""

from collections.abc import Sequence

from dirge_py.conversation.conversation import Conversation
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.lib.nearest import nearest
from dirge_py.lib.text_width import align_columns
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import HookReport, PluginReport

_NONE = "There are no plugins. A plugin is one file in the folder `plugins` beside config.toml."


@command(
    "plugins",
    "plugins, and what each added; off NAME turns one off for this session",
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
        raise UsageError(f"/plugins has no {args!r}.", hint="/plugins, or /plugins off NAME.")
    reports = known.report()
    front.show("\n".join(line for plugin in reports for line in _described(plugin)) or _NONE)


@command("hooks", "what runs at each hook, in order")
async def hooks(args: str, conversation: Conversation, front: FrontEnd) -> None:
    order = (conversation.extension(Plugins) or Plugins()).order()
    rows = align_columns([(f"  {point}", " → ".join(labels)) for point, labels in order])
    lines = ["What runs at each hook, in order", *rows]
    front.show("\n".join(lines) if rows else "No hook has a handler yet.")


@command(
    "tools",
    "the tools; with a name, what wraps its calls",
    usage="[NAME] [--chain]",
    complete=lambda conversation: conversation.tool_names,
)
async def tools(args: str, conversation: Conversation, front: FrontEnd) -> None:
    words = [word for word in args.split() if word != "--chain"]
    if not words:
        reasons = {tool.name: getattr(tool, "unavailable", "") for tool in conversation.tools}
        lines = [f"{name}{f'  (not now: {why})' * bool(why)}" for name, why in reasons.items()]
        front.show("\n".join(lines) or "The model has no tools.")
        return
    name = words[0]
    tool = next((tool for tool in conversation.tools if tool.name == name), None)
    if tool is None:
        meant = nearest(name, conversation.tool_names)
        hint = f"Did you mean {meant}?" if meant else "/tools lists them."
        raise UsageError(f"There is no tool {name}.", hint=hint)
    around = (conversation.extension(Plugins) or Plugins()).chain(name)
    front.show(" → ".join([*around, *getattr(tool, "chain", ()), name]))


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
