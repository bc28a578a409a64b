"""`/mode`, `/why` and `/allow`: what dirge allows without asking, and why."""

from collections.abc import Sequence

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.decision import explain, format_log, format_past_decision
from dirge_py.slash.base import FrontEnd, Tone, command, pick_name
from dirge_py.types.errors import UsageError
from dirge_py.types.modes import mode_named

MODES = {
    "standard": "edits workspace files; asks before commands that can change things",
    "accept": "like standard, and also writes memory without asking",
    "restrictive": "asks before edits and before commands that can change things",
    "plan": "only reads; denies everything that can change things",
    "yolo": "asks only before changing dirge's own settings; deny rules still apply",
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
    "explain a past decision, or what dirge would decide; runs nothing",
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
    "show or change what is allowed for this session",
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
            mode = f"Mode {settings.mode}: {MODES[settings.mode]}; /mode changes it."
            front.show(f"{mode}\n{_grants_text(settings.grants)}")
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
            raise UsageError(f"This session has no rule {rest or 'without a number'}.", hint=hint)
        case "clear":
            settings.clear_grants()
            front.show("Removed. Only the rules in your settings allow calls now.", tone="good")
        case _:
            hint = "A rule is op:pattern, such as execute:make *"
            raise UsageError("Use /allow with list, add RULE, remove NUMBER or clear.", hint=hint)


def _grants_text(grants: Sequence[object]) -> str:
    if not grants:
        return "Nothing is allowed for this session beyond the rules in your settings."
    rows = [f"  {number}  {grant}" for number, grant in enumerate(grants, 1)]
    return "\n".join(["Allowed for this session", *rows])
