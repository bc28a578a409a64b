"""The decision itself: a pure function, so that `/why` can repeat it.

Every policy votes on every claim. Where no rule votes, the table of operations and modes below
decides. A call that asks gets the rules that would allow it again: an exact one, and wider ones for
similar commands (`prefix_rules`) or a folder.
"""

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, cast

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, is_below_any
from dirge_py.permission.decision import Decision, Policy, TraceLine, strictest
from dirge_py.permission.facts import CallFacts, CommandFact, Fact, NameFact, PathFact
from dirge_py.permission.patterns import quoted_command, quoted_path
from dirge_py.permission.prefix_rules import PrefixOffer, offer_prefixes
from dirge_py.permission.rules import (
    Effect,
    Mode,
    PolicySet,
    Rule,
    forbids,
    may_forbid,
    parse_rule,
    permits,
)
from dirge_py.types.questions import AskedClaim

TableRow = Literal[
    "read", "read outside", "edit", "edit guarded", "look", "run", "sandboxed build", "reach out",
    "remember", "recall",
]  # fmt: skip
_MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "plan", "yolo")
_TABLE: dict[TableRow, str] = {
    # in the order of    standard accept restrictive plan yolo, then the reason
    "read": "           allow allow allow allow allow  reading in the workspace",
    "read outside": "   ask   ask   ask   ask   allow  reading outside the workspace",
    "edit": "           allow allow ask   deny  allow  changing a file in the workspace",
    "edit guarded": "   ask   ask   ask   deny  allow  changing something outside the workspace",
    "look": "           allow allow allow allow allow  a read-only command",
    "run": "            ask   ask   ask   deny  allow  a command that can change things",
    "sandboxed build": "allow allow ask   deny  allow  a build or test run inside the sandbox",
    "reach out": "      ask   ask   ask   deny  allow  access to something other than local files",
    "remember": "       ask   allow ask   deny  allow  storing something for later",
    "recall": "         allow allow allow allow allow  nothing outside this session changes",
}  # fmt: skip
_EFFECTS: dict[tuple[TableRow, Mode], Effect] = {
    (row, mode): cast(Effect, effect)
    for row, line in _TABLE.items()
    for mode, effect in zip(_MODES, line.split(), strict=False)
}
_REASONS = {row: line.split(maxsplit=len(_MODES))[-1] for row, line in _TABLE.items()}
_WIDE_WORKSPACE = "the workspace is not a project, but your home folder or a folder above it"
_RECALLING = frozenset(("read", "view", "list", "load", "search", "show", "get", "recall"))


def _table_row(fact: Fact, *, is_sandboxed: bool) -> TableRow:
    if isinstance(fact, CommandFact):
        if not fact.refusal:
            return "look"
        return "sandboxed build" if is_sandboxed and fact.is_build else "run"
    if isinstance(fact, PathFact):
        place = fact.place
        if fact.op == "read":
            return "read" if place.inside and not place.secret else "read outside"
        is_special = place.protected or place.unkept or place.is_system or place.is_too_wide
        return "edit" if place.inside and not is_special else "edit guarded"
    if fact.op in ("network", "mcp", "plugin", "agent", "execute"):
        return "reach out"
    if fact.op == "meta":
        return "recall"
    if fact.op in ("memory", "skill"):
        verb = fact.name.replace(":", " ").split()[:1]
        return "recall" if verb and verb[0].lower() in _RECALLING else "remember"
    return "remember"


def _default_reason(row: TableRow, fact: Fact) -> str:
    if isinstance(fact, CommandFact) and fact.refusal and row != "sandboxed build":
        return fact.refusal
    if isinstance(fact, NameFact) and fact.op == "network":
        return "network access"
    if isinstance(fact, PathFact) and fact.op == "edit" and fact.place.is_system:
        return "changing a file of the operating system"
    if isinstance(fact, PathFact) and fact.place.inside:
        place = fact.place
        wide = _WIDE_WORKSPACE if place.is_too_wide else ""
        special = (place.secret,) if fact.op == "read" else (place.protected, place.unkept, wide)
        return next(filter(None, special), _REASONS[row])
    return _REASONS[row]


def decide(request: CallFacts, policy: PolicySet) -> Decision:
    """Decide what may happen, and by which policy.

    The strictest answer over all claims wins. For one claim the first policy that votes wins: hard
    deny, any deny rule wherever it stands, protected names, grants, the last matching allow or ask
    rule, then the table of defaults. Two modes are more than defaults: yolo overrides everything
    after the deny rules except the protection of dirge's own settings, and no grant or allow rule
    allows what plan mode denies.
    """
    if not request.facts:
        return Decision(effect="allow", policy="builtin", reason="it asks for nothing")
    claims: list[AskedClaim] = []
    trace: list[TraceLine] = []
    commands = [fact for fact in request.facts if isinstance(fact, CommandFact)]
    for fact in request.facts:
        name = f"{fact.op} {fact.resource}"
        votes = [TraceLine(name, *vote) for vote in _votes(fact, policy)]
        claims.append(_claim_decision(fact, votes, policy))
        trace += votes
    effect = strictest(claim.effect for claim in claims)
    pairs = zip(request.facts, claims, strict=True)
    asking = [(fact, claim) for fact, claim in pairs if claim.effect == "ask"]
    offer = _offer(asking, policy) if effect == "ask" else _RuleOffers()
    equal = [claim for claim in claims if claim.effect == effect]
    # Of several allowed claims, report the one that needed more than a default.
    deciding = next((claim for claim in equal if claim.policy != "builtin"), equal[0])
    # One part that runs without a question is enough: git must be hardened for it.
    is_automatic = effect == "allow" and any(
        claim.policy == "builtin" for claim in claims if claim.op == "execute"
    )
    return Decision(
        effect=deciding.effect,
        policy=deciding.policy,
        reason=deciding.reason,
        claims=tuple(claims),
        trace=tuple(trace),
        grant=offer.exact,
        wider=offer.wider,
        widest=offer.widest,
        once_only=offer.missing,
        wanted=_wanted(asking, policy) if effect == "ask" else (),
        needs_hardening=request.has_plain_command and is_automatic,
        only_looks=all(isinstance(f, CommandFact) and not f.refusal for f in request.facts),
        is_read_only=bool(commands) and not any(fact.refusal for fact in commands),
        changes_git=any(fact.changes_git for fact in commands),
    )


def effect_on(fact: Fact, policy: PolicySet) -> Effect:
    """Return the effect of `decide` about this fact alone, for lists of many files."""
    votes = [TraceLine("", *vote) for vote in _votes(fact, policy)]
    return _claim_decision(fact, votes, policy).effect


def _votes(fact: Fact, policy: PolicySet) -> Iterator[tuple[Policy, Effect | None, str]]:
    """Yield one vote of every policy, in order, with its reason; None: it does not apply."""
    yield "hard-deny", *_when("deny", _forbidden(fact, policy))
    yield "deny-rule", *_denied(fact, policy)
    yield "protected", *_protected(fact, policy)
    yield "grant", *_granted(fact, policy)
    last = _last_rule(fact, policy)
    names: Mapping[Effect, Policy] = {"allow": "allow-rule", "ask": "ask-rule"}
    for effect, name in names.items():
        hit = last if last is not None and last.effect == effect else None
        yield name, *_when(effect, _rule_text(hit, f"{effect}s it") if hit else "")
    row = _table_row(fact, is_sandboxed=policy.is_sandboxed)
    effect, usual = _EFFECTS[row, policy.mode], _EFFECTS[row, "standard"]
    reason = _default_reason(row, fact) + _uncovered(fact, policy)
    speaker = "builtin" if effect == "allow" else "default"
    if effect != usual:
        speaker, reason = "mode", f"{policy.mode} mode: {reason}"
    speakers: tuple[Policy, ...] = ("builtin", "mode", "default")
    yield from ((name, *_when(effect, reason if name == speaker else "")) for name in speakers)


def _uncovered(fact: Fact, policy: PolicySet) -> str:
    """Return which rule would allow a command, and which of its words the rule doesn't cover."""
    if not isinstance(fact, CommandFact) or not fact.limits.spelled:
        return ""
    others = replace(fact, limits=replace(fact.limits, spelled=()))
    rules = (*policy.grants, *(rule for rule in policy.rules if rule.effect == "allow"))
    rule = next((one for one in rules if permits(one, others, policy.anchors)), None)
    return f"; the rule `{rule}` doesn't cover {_named(fact)}" if rule else ""


def _named(fact: CommandFact) -> str:
    return f"`{fact.words[fact.limits.spelled[0][0]].text}`, a secret or outside the workspace"


def _claim_decision(fact: Fact, votes: Sequence[TraceLine], policy: PolicySet) -> AskedClaim:
    cast_votes = [vote for vote in votes if vote.effect]
    winner, default = cast_votes[0], cast_votes[-1]
    is_yolo = policy.mode == "yolo" and winner.policy not in ("hard-deny", "protected")
    if winner.effect != "deny" and (default.effect == "deny" or is_yolo):
        winner = default
    reason = winner.reason
    if winner.policy == "protected" and any(
        vote.policy in ("grant", "allow-rule") for vote in cast_votes
    ):
        reason += ", and no rule allows it"
    return AskedClaim(
        op=fact.op,
        resource=fact.resource,
        effect=winner.effect or "ask",
        policy=winner.policy,
        reason=reason,
        real=fact.place.real if isinstance(fact, PathFact) else None,
    )


def _forbidden(fact: Fact, policy: PolicySet) -> str:
    if isinstance(fact, PathFact):
        return fact.place.forbidden
    if not isinstance(fact, CommandFact):
        return ""
    reasons = (place.forbidden for place in fact.reads + fact.touches)
    why = fact.forbidden or next(filter(None, reasons), "")
    # Only in yolo, which asks no questions.
    if not why and fact.collapses and policy.mode == "yolo":
        why = (
            f"{fact.collapses} would be everything if a variable in it is empty:"
            " write the path out, or `${NAME:?}`"
        )
    return why


def _denied(fact: Fact, policy: PolicySet) -> tuple[Effect | None, str]:
    """Return the deny rules' vote: an uncertain match is denied in yolo and asks elsewhere."""
    denying = [rule for rule in policy.rules + policy.project_rules if rule.effect == "deny"]
    for rule in denying:
        if hit := forbids(rule, fact, policy.anchors):
            return "deny", _rule_text(rule, f"denies {hit if hit != fact.resource else 'it'}")
    for rule in denying:
        if doubt := may_forbid(rule, fact):
            effect: Effect = "deny" if policy.mode == "yolo" else "ask"
            return effect, _rule_text(rule, f"may deny it: {doubt}")
    return None, ""


def _protected(fact: Fact, policy: PolicySet) -> tuple[Effect | None, str]:
    """Return the vote for protected names; in yolo only dirge's own settings are protected."""
    own = guarded = ""
    if isinstance(fact, CommandFact):
        own = next((place.own for place in fact.touches if place.own), "")
        guarded = next((place.protected for place in fact.touches if place.protected), "")
    elif isinstance(fact, PathFact) and fact.op == "edit":
        own, guarded = fact.place.own, fact.place.protected
    elif isinstance(fact, PathFact):
        guarded = fact.place.secret
    return _when("ask", own or ("" if policy.mode == "yolo" else guarded))


def _granted(fact: Fact, policy: PolicySet) -> tuple[Effect | None, str]:
    grant = next((one for one in policy.grants if permits(one, fact, policy.anchors)), None)
    return _when("allow", f"granted in this session: `{grant}`" if grant else "")


def _last_rule(fact: Fact, policy: PolicySet) -> Rule | None:
    matches: dict[Effect, Callable[[Rule], bool]] = {
        "allow": lambda rule: permits(rule, fact, policy.anchors),
        "ask": lambda rule: bool(forbids(rule, fact, policy.anchors)),
        "deny": lambda rule: False,
    }
    # A project's rules come last: its `ask` asks, whatever rule allows the call.
    own = (rule for rule in reversed(policy.project_rules) if rule.effect == "ask")
    ordered = (*own, *reversed(policy.rules))
    return next((rule for rule in ordered if matches[rule.effect](rule)), None)


_AskingFacts: TypeAlias = Sequence[tuple[Fact, AskedClaim]]


@dataclass(frozen=True, slots=True)
class _RuleOffers:
    """The rules that would allow a call again, the narrowest first."""

    exact: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    widest: tuple[str, ...] = ()
    missing: str = ""
    """Why there are none, or why only the exact ones."""


def _offer(asking: _AskingFacts, policy: PolicySet) -> _RuleOffers:
    """Return the rules that would allow all asking parts; none if a part may be allowed once."""
    columns: list[Sequence[str]] = []
    missing, is_exact = "", True
    for fact, claim in asking:
        why = "no rule can allow it" if claim.policy in ("protected", "deny-rule") else ""
        if why := why or _why_once_only(fact):
            return _RuleOffers(missing=why)
        exact, wider, why = _rules_for(fact, policy)
        if not exact and not wider:
            return _RuleOffers(missing=why)
        is_exact = is_exact and bool(exact)
        missing = missing or why
        columns.append((exact or wider[0], *(wider or (exact,))))
    exact_rules, wider_rules, widest_rules = (
        tuple(dict.fromkeys(column[at] for column in columns)) for at in (0, 1, -1)
    )
    return _RuleOffers(
        exact=exact_rules if is_exact else (),
        wider=wider_rules if wider_rules != exact_rules or not is_exact else (),
        widest=widest_rules if widest_rules != wider_rules else (),
        missing=missing,
    )


def _why_once_only(fact: Fact) -> str:
    """Return why no rule may allow this again, or ""."""
    if isinstance(fact, CommandFact):
        return fact.once_only
    if isinstance(fact, PathFact) and fact.op == "edit" and not fact.place.inside:
        return "it changes something outside the workspace"
    return ""


def _rules_for(fact: Fact, policy: PolicySet) -> tuple[str, Sequence[str], str]:
    """Return the exact rule, the wider ones, and why one is missing, if one is."""
    exact = exact_rule(fact)
    if isinstance(fact, CommandFact):
        return _rules_for_command(fact, policy)
    if not isinstance(fact, PathFact):
        return exact, (), ""
    place = fact.place
    is_folder = fact.op == "read" and place.is_folder
    folder = (place.real if is_folder else os.path.dirname(place.real)).rstrip("/")
    above = (*policy.anchors.folders, policy.anchors.home)
    if not folder or (not place.inside and _is_too_wide(folder, above)):
        return exact, (), f"{folder or '/'} contains too much for one rule"
    below = f"{fact.op}:{quoted_path(folder)}/**"
    return (below, (), "") if is_folder else (exact, (below,), "")


def _rules_for_command(fact: CommandFact, policy: PolicySet) -> tuple[str, Sequence[str], str]:
    def covering(texts: Iterable[str]) -> list[str]:
        rules = (parse_rule(text, "allow") for text in texts)
        return [str(rule) for rule in rules if permits(rule, fact, policy.anchors)]

    offer = offer_prefixes(fact.words)
    if fact.limits.spelled:
        offer = PrefixOffer(missing=f"it names {_named(fact)}")
    wider = covering(f"execute:{pattern}" for pattern in offer.patterns)
    missing = "" if wider else offer.missing
    if pattern := next((word.text for word in fact.words if word.has_glob), ""):
        return "", wider, "" if wider else f"`{pattern}` can match other files each time"
    exact = next(iter(covering([exact_rule(fact)])), "")
    if not exact:
        missing = "it runs a file of another folder than the one dirge started in"
    return exact, wider, missing


_TOO_WIDE = ("/proc", "/dev", "/sys", "/run")


def _is_too_wide(folder: str, places: Sequence[str]) -> bool:
    """Whether a rule for all of a folder would cover one of the places, or the machine's state."""
    return is_below_any(folder, _TOO_WIDE) or any(is_below(place, folder) for place in places)


def _wanted(asking: _AskingFacts, policy: PolicySet) -> tuple[str, ...]:
    """Return the allow rules that would have made every ask an allow; empty if none could."""
    asks = [rule for rule in policy.project_rules if rule.effect == "ask"]
    for fact, claim in asking:
        has_no_words = isinstance(fact, CommandFact) and not fact.words
        if has_no_words or claim.policy not in ("default", "mode", "ask-rule"):
            return ()
        if any(forbids(rule, fact, policy.anchors) for rule in asks):
            return ()
    return _exact_rules(asking)


def _exact_rules(asking: _AskingFacts) -> tuple[str, ...]:
    return tuple(dict.fromkeys(exact_rule(fact) for fact, _ in asking))


def exact_rule(fact: Fact) -> str:
    """Return the rule that matches this fact and nothing else."""
    if isinstance(fact, CommandFact):
        return f"execute:{quoted_command(fact.words)}"
    if isinstance(fact, NameFact):
        return f"{fact.op}:{quoted_path(fact.name)}"
    return f"{fact.op}:{quoted_path(fact.place.real)}"


def _when(effect: Effect, reason: str) -> tuple[Effect | None, str]:
    return (effect, reason) if reason else (None, "")


def _rule_text(rule: Rule, verb: str) -> str:
    where = f" ({rule.source})" if rule.source else ""
    return f"the rule `{rule}`{where} {verb}"
