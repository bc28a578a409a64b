"""What rules would let pass beyond the call they are offered for, tried on this session's calls."""

import os.path
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.permission.decision import DecisionLog
from dirge_py.permission.engine import PermissionEngine, SimulatedCall
from dirge_py.permission.rules import Rule, parse_rule
from dirge_py.types.questions import Reach
from dirge_py.types.tools import Claim, ShellCommand

ENOUGH_ALIKE = 3
"""Approvals one by one after which a rule for all of their kind is worth a hint."""

_MOST_TRIED = 8
_MOST_ALSO = 2
_MOST_STILL = 1


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The call that is asked about."""

    claims: tuple[Claim, ...]
    """What it would do."""
    cwd: str
    """The folder it would run in."""
    can_keep: bool = False
    """Its rules may go into the settings, too."""


_Tried: TypeAlias = tuple[tuple[Claim, ...], SimulatedCall]


def preview_rules(
    gate: PermissionEngine, asking: AskedCall, grant: Sequence[str], wider: Sequence[str]
) -> tuple[Reach | None, Reach | None]:
    """What the exact and the wider rules of a call stand for; None for those it does not have."""
    trials = list(_earlier(gate, asking, (*_parsed(grant), *_parsed(wider))))
    exact_also, exact_still = _tried(gate, asking, _parsed(grant), trials)
    wide_also, wide_still = _tried(gate, asking, _parsed(wider), trials)
    times = sum(past.tried == asking.claims for past in gate.history)
    before = f", asked about {_times(times)} before" if times else ""
    # That another command is another one goes without saying, save for those that are much alike.
    alike_still = [call for call in exact_still if call in wide_also]
    return (
        _reach(_exactly(_parsed(grant)) + before, exact_also, alike_still) if grant else None,
        _reach(_widely(_parsed(wider), asking.cwd), wide_also, wide_still) if wider else None,
    )


def _reach(words: str, also: Sequence[str], still: Sequence[str]) -> Reach:
    return Reach(words=words, also=tuple(also[:_MOST_ALSO]), still=tuple(still[:_MOST_STILL]))


def count_alike(log: DecisionLog, family: Sequence[str]) -> int:
    """How many calls of a family were allowed one by one since the last that was not.

    0 while they are too few to suggest a rule for all of them.
    """
    count = 0
    for past in reversed(tuple(log)) if family else ():
        if past.family != tuple(family):
            continue
        if past.effect != "allow":
            break
        count += 1
    return count if count >= ENOUGH_ALIKE else 0


def _tried(
    gate: PermissionEngine, asking: AskedCall, rules: Sequence[Rule], trials: Sequence[_Tried]
) -> tuple[Sequence[str], Sequence[str]]:
    """The calls that these rules would have let pass, and those that they would not."""
    also: list[str] = []
    still: list[str] = []
    for claims, trial in trials:
        if trial.effect(grants=()) != "ask":
            continue
        kept = trial.effect(grants=(), rules=rules) if asking.can_keep else "allow"
        if trial.effect(grants=rules) == "allow":
            also += [_shown(claims, asking.cwd)] if kept == "allow" else []
        elif trial.effect(grants=(*gate.grants, *rules)) == "ask":
            is_clear = _is_of_kind(claims, asking) and (kept == "ask" or not asking.can_keep)
            still += [_shown(claims, asking.cwd)] if is_clear else []
    return also, still


def _earlier(gate: PermissionEngine, asking: AskedCall, rules: Sequence[Rule]) -> Iterator[_Tried]:
    """Other calls that were asked about and that the rules could be about, the newest first."""
    seen = {asking.claims}
    tried = 0
    for past in reversed(tuple(gate.history)):
        if past.tried in seen or not _could_match(past.tried, rules):
            continue
        seen.add(past.tried)
        trial = gate.trial(past.tried, asking.cwd, tool=past.tool)
        if trial is not None:
            yield past.tried, trial
        tried += 1
        if tried == _MOST_TRIED:
            return


def _could_match(claims: Sequence[Claim], rules: Sequence[Rule]) -> bool:
    """A cheap look: reading a command anew takes a moment."""
    for claim in claims:
        for rule in rules:
            text = claim.resource.text if isinstance(claim.resource, ShellCommand) else ""
            if claim.op == rule.op and (claim.op != "execute" or rule.pattern.split()[0] in text):
                return True
    return False


def _is_of_kind(claims: Sequence[Claim], asking: AskedCall) -> bool:
    """Whether somebody could take one for the other: one operation, and of commands one program."""
    return _kind(claims[0]) == _kind(asking.claims[0])


def _kind(claim: Claim) -> tuple[str, str]:
    is_command = isinstance(claim.resource, ShellCommand)
    words = claim.resource.text.split() if isinstance(claim.resource, ShellCommand) else []
    return claim.op, words[0] if is_command and words else ""


def _shown(claims: Sequence[Claim], cwd: str) -> str:
    resource = claims[0].resource
    if isinstance(resource, ShellCommand):
        name = resource.text
    else:
        name = _near(resource, cwd) if claims[0].op in ("read", "edit") else resource
    return name if len(claims) == 1 else f"{name} and {len(claims) - 1} more"


def _near(path: str, cwd: str) -> str:
    """The path as it is called from the folder the session works in."""
    return os.path.relpath(path, cwd) if is_below_any(path, [cwd]) else path


def _parsed(texts: Sequence[str]) -> Sequence[Rule]:
    return [parse_rule(text, "allow") for text in texts]


_EXACTLY = {
    "execute": ("only exactly this command", "only exactly these {} commands"),
    "edit": ("any change of this file", "any change of these {} files"),
    "read": ("reading this file", "reading these {} files"),
    "network": ("whatever is asked of this host", "whatever is asked of these {} hosts"),
    "mcp": ("this tool, whatever it is given", "these {} tools, whatever they are given"),
    "plugin": ("this tool, whatever it is given", "these {} tools, whatever they are given"),
    "agent": ("this agent, whatever it is told", "these {} agents, whatever they are told"),
}


def _exactly(rules: Sequence[Rule]) -> str:
    counts = Counter(rule.op for rule in rules)
    return " and ".join(_counted(op, count) for op, count in counts.items())


def _counted(op: str, count: int) -> str:
    one, several = _EXACTLY.get(op, ("only exactly this", "only exactly these {}"))
    return one if count == 1 else several.format(count)


def _widely(rules: Sequence[Rule], cwd: str) -> str:
    return ", ".join(_wide(rule, cwd) for rule in rules)


def _wide(rule: Rule, cwd: str) -> str:
    if rule.op == "execute" and rule.pattern.endswith(" *"):
        return f"`{rule.pattern[:-2]}` with whatever follows"
    if rule.op == "edit" and rule.pattern.endswith("/**"):
        folder = _near(rule.pattern[:-3], cwd)
        where = "this folder" if folder == "." else folder
        return f"any change below {where}, save of protected names"
    return f"exactly `{rule.pattern}`"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
