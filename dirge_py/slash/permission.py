"""`/mode`, `/why` and `/allow`: what may happen without a question, and why."""

from typing import TYPE_CHECKING

from dirge_py.permission.decision import explain, format_log, format_past_decision
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_MODES = {
    "standard": "reads and edits in the workspace; asks before commands that act",
    "accept": "as standard, and also memory and similar without asking",
    "restrictive": "asks before every edit and every command that acts",
    "plan": "reads only; edits and commands that act are denied",
    "yolo": "asks only before changing dirge's own settings; deny rules still hold",
}


async def mode(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    chosen: str | None = args
    if not args:
        choices = [Choice(id=name, label=name, detail=words) for name, words in _MODES.items()]
        chosen = await front.pick("Permission mode", choices, current=conversation.settings.mode)
    if chosen is None:
        return
    if chosen not in _MODES:
        raise UsageError(f"There is no mode {chosen!r}.", hint=f"Modes: {', '.join(_MODES)}.")
    conversation.settings.set_mode(chosen)  # type: ignore[arg-type]
    front.show(f"Mode {chosen}: {_MODES[chosen]}.", tone="warning" if chosen == "yolo" else "good")


async def why(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    tool, _, call = args.strip().partition(" ")
    if not tool:
        front.show(format_log(conversation.settings.decisions))
        return
    if tool.isdigit() and not call:
        front.show(_past_decision(conversation, int(tool)))
        return
    if not call.strip():
        raise UsageError("Which call?", hint="For example: /why bash git push")
    front.show(explain(conversation.settings.why(tool, call.strip()), tool, call.strip()))


def _past_decision(conversation: "Conversation", number: int) -> str:
    past = conversation.settings.decisions.get(number)
    if past is None:
        raise UsageError(
            f"There is no decision {number}.", hint=format_log(conversation.settings.decisions)
        )
    return format_past_decision(past)


async def allow(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    verb, _, rest = args.partition(" ")
    rest = rest.strip()
    match verb:
        case "" | "list":
            front.show(_rules_text(conversation))
        case "add" if rest:
            # Quoted as for a shell, where a `*` has to be.
            is_quoted = len(rest) > 2 and rest[0] == rest[-1] and rest[0] in "'\""
            rule = rest[1:-1] if is_quoted else rest
            conversation.settings.add_grant(rule)
            front.show(f"Allowed for this session: {rule}", tone="good")
        case "remove" if rest.isdigit() and 1 <= int(rest) <= len(conversation.settings.grants):
            conversation.settings.remove_grant(int(rest) - 1)
            front.show(_rules_text(conversation))
        case "remove":
            raise UsageError(
                f"There is no grant {rest or 'without a number'}.", hint=_rules_text(conversation)
            )
        case "clear":
            conversation.settings.clear_grants()
            front.show("Nothing is allowed beyond the rules any more.", tone="good")
        case _:
            raise UsageError(
                "/allow wants list, add RULE, remove NUMBER or clear.",
                hint="A rule is op:pattern, such as execute:make *",
            )


def _rules_text(conversation: "Conversation") -> str:
    if not conversation.settings.grants:
        return "Nothing is allowed for this session beyond the rules."
    rows = [f"  {number}  {grant}" for number, grant in enumerate(conversation.settings.grants, 1)]
    return "\n".join(["Allowed for this session", *rows])


def modes(conversation: "Conversation") -> list[str]:
    return list(_MODES)


def verbs(conversation: "Conversation") -> list[str]:
    numbers = range(1, len(conversation.settings.grants) + 1)
    return ["list", "add ", *(f"remove {number}" for number in numbers), "clear"]


def tools(conversation: "Conversation") -> list[str]:
    return [f"{name} " for name in conversation.tool_names]


COMMANDS = (
    Command(
        name="mode",
        summary="show or set the permission mode",
        usage="[standard|accept|restrictive|plan|yolo]",
        run=mode,
        complete=modes,
    ),
    Command(
        name="why",
        summary="what was decided, or would be, and by which rule; runs nothing",
        usage="[NUMBER|TOOL INPUT]",
        run=why,
        headless=True,
        complete=tools,
    ),
    Command(
        name="allow",
        summary="what is allowed for this session",
        usage="[list|add RULE|remove NUMBER|clear]",
        run=allow,
        aliases=("permissions", "approvals", "allowed-tools"),
        while_running="listing",
        complete=verbs,
    ),
)
