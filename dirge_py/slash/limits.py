"""`/limits`: what a run and its session have used of their limits."""

from dirge_py.config.schema import LimitsTable
from dirge_py.config.table import read_table
from dirge_py.conversation.conversation import Conversation
from dirge_py.guards.limits import format_amount, setting_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.lib.text_width import align_columns
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.errors import UsageError
from dirge_py.types.outcomes import LimitName

_ORDER: tuple[LimitName, ...] = (
    "cost", "tokens", "input_tokens", "output_tokens", "time", "requests", "tool_calls",
    "session_cost", "session_tokens",
)  # fmt: skip
_NAMES = {setting_of(name): name for name in _ORDER}
_AMOUNT = late_pattern(r"\d+|\d*\.\d+|none|off")


@command(
    "limits",
    "show limits and how much of them is used; set one for this session",
    usage="[NAME N|none]",
    while_running="yes",
    headless=True,
    complete=lambda conversation: list(_NAMES),
)
async def limits(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not args:
        front.show(_table(conversation))
        return
    key, _, written = args.partition(" ")
    if key not in _NAMES:
        near = nearest(key, _NAMES)
        hint = f"Did you mean {near}?" if near else f"Limits: {', '.join(_NAMES)}."
        raise UsageError(f"There is no limit {key!r}.", hint=hint)
    amount = written.strip().removeprefix("$").replace("_", "").replace(",", "")
    if not amount:
        raise UsageError("Which limit?", hint=f"For example: /limits {key} 5, /limits {key} none.")
    most: float | None = None
    try:
        if not _AMOUNT.fullmatch(amount):
            raise ValueError(amount)
        if amount not in ("none", "off"):
            most = float(amount) if "." in amount else int(amount)
        read_table(LimitsTable, {key: most})
    except ValueError:  # InvalidSettings is one, too.
        unit = " whole" if _NAMES[key] not in ("cost", "session_cost", "time") else ""
        hint = f"Give a{unit} number above 0, or `none`."
        raise UsageError(f"{written.strip()!r} isn't a valid limit.", hint=hint) from None
    conversation.settings.set_limit(key, most)
    since = " from the next run on" if key == "time_s" else ""
    shown = "no longer limited" if most is None else f"at most {format_amount(_NAMES[key], most)}"
    front.show(f"{key}: {shown}{since}, for this session.", tone="good")


def _table(conversation: Conversation) -> str:
    limits = conversation.settings.limits
    used = {**limits.run_used(), **limits.used_by_session()}
    rows = [("", "used", "allowed")]
    for key, name in _NAMES.items():
        most = getattr(limits.most, key)
        allowed = "no limit" if most is None else format_amount(name, most)
        rows.append((key, format_amount(name, used.get(name, 0)), allowed))
    *of_run, cost, tokens = align_columns(rows, right=(1, 2))
    run = "This run" if conversation.is_running else "The last run"
    parts = [run, *of_run, "", "This session", cost, tokens]
    if conversation.cost_usd is None:
        parts += ["", "The price of some requests is unknown; the cost leaves them out."]
    return "\n".join(parts)
