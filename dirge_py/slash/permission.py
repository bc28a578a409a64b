"""`/mode`, `/why` and `/allow`: what dirge allows without asking, and why."""

from collections.abc import Sequence

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.decision import explain, format_log, format_past_decision
from dirge_py.slash.base import FrontEnd, Tone, command, pick_name
from dirge_py.types.errors import UsageError
from dirge_py.types.modes import mode_named

MODES = {
    "standard": "edits files in the workspace unasked, asks before commands that act",
    "accept": "as standard, and also memory and similar without asking",
    "restrictive": "asks before every edit and every command that acts",
    "plan": "reads only; edits and commands that act are denied",
    "yolo": "asks only before changing dirge's own settings; deny rules still hold",
}
"""What each mode means."""


@command(
    "mode",
    "show or set the permission mode",
    usage="[standard|accept|restrictive|plan|yolo]",
    complete=lambda conversation: list(MODES),
)
async def mode(args: str, conversation: Conversation, front: FrontEnd) -> None:
    settings = conversation.settings
    chosen = await pick_name(
        mode_named(args), front, "Permission mode", MODES, current=settings.mode, noun="mode"
    )
    if chosen is not None:
        settings.set_mode(chosen)  # type: ignore[arg-type]
        tone: Tone = "warning" if chosen == "yolo" else "good"
        front.show(f"Mode {chosen}: {MODES[chosen]}.", tone=tone)


@command(
    "why",
    "what was decided, or would be, and by which rule; runs nothing",
    usage="[NUMBER|TOOL INPUT]",
    headless=True,
    complete=lambda conversation: [f"{name} " for name in conversation.tool_names],
)
async def why(args: str, conversation: Conversation, front: FrontEnd) -> None:
    settings = conversation.settings
    tool, _, call = (part.strip() for part in args.strip().partition(" "))
    if call:
        front.show(explain(settings.why(tool, call), tool, call))
    elif tool.isdecimal():
        past = settings.decisions.get(int(tool))
        if past is None:
            hint = format_log(settings.decisions)
            raise UsageError(f"There is no decision {int(tool)}.", hint=hint)
        front.show(format_past_decision(past))
    elif tool:
        raise UsageError("Which call?", hint="For example: /why bash git push")
    else:
        front.show(format_log(settings.decisions))


def _allow_words(conversation: Conversation) -> list[str]:
    numbers = range(1, len(conversation.settings.grants) + 1)
    return ["list", "add ", *(f"remove {number}" for number in numbers), "clear"]


@command(
    "allow",
    "what is allowed for this session",
    usage="[list|add RULE|remove NUMBER|clear]",
    aliases=("permissions", "approvals", "allowed-tools"),
    while_running="listing",
    complete=_allow_words,
)
async def allow(args: str, conversation: Conversation, front: FrontEnd) -> None:
    settings = conversation.settings
    verb, _, rest = args.partition(" ")
    rest = rest.strip()
    match verb:
        case "" | "list":
            front.show(_grants_text(settings.grants))
        case "add" if rest:
            # Users may quote the rule, as a shell needs it for `*`.
            is_quoted = len(rest) > 2 and rest[0] == rest[-1] and rest[0] in "'\""
            rule = rest[1:-1] if is_quoted else rest
            settings.add_grant(rule)
            front.show(f"Allowed for this session: {rule}", tone="good")
        case "remove" if rest.isdecimal() and 1 <= int(rest) <= len(settings.grants):
            settings.remove_grant(int(rest) - 1)
            front.show(_grants_text(settings.grants))
        case "remove":
            hint = _grants_text(settings.grants)
            raise UsageError(f"There is no grant {rest or 'without a number'}.", hint=hint)
        case "clear":
            settings.clear_grants()
            front.show("Removed: only the rules allow calls now.", tone="good")
        case _:
            hint = "A rule is op:pattern, such as execute:make *"
            raise UsageError("/allow needs list, add RULE, remove NUMBER or clear.", hint=hint)


def _grants_text(grants: Sequence[object]) -> str:
    if not grants:
        return "Nothing is allowed for this session beyond the rules."
    rows = [f"  {number}  {grant}" for number, grant in enumerate(grants, 1)]
    return "\n".join(["Allowed for this session", *rows])
