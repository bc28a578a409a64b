"""A decision as a value: its effect, who said so, and every vote that was cast."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.facts import Plan
from dirge_py.permission.rules import Effect
from dirge_py.types.tools import Operation

Policy = Literal[
    "hard-deny", "deny-rule", "protected", "grant", "allow-rule", "ask-rule", "builtin", "mode",
    "default",
]  # fmt: skip

_STRICTNESS: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDecision:
    """The answer for one claim. `real` is the physical path a `read` or `edit` would open."""

    op: Operation
    resource: str
    effect: Effect
    policy: Policy
    reason: str
    real: str | None = None


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One policy's vote on one claim; effect None = it had nothing to say."""

    claim: str
    policy: Policy
    effect: Effect | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What may happen with one tool call.

    `grant` are the rules that "allow for this session" stores, exactly; empty = it can be allowed
    only once. `wider` are rules that cover more of the kind, where such a family makes sense.
    `wanted` are the allow rules that would have allowed it; empty = none could. `plan` is there
    when a command was allowed because it only looks: run it with `GIT_HARDENING`. `changes_git`:
    once allowed, it may write to the repository's own files. `only_looks`: it is nothing but
    commands that the grammar allows. `is_read_only`: all its commands are such, so that they can be
    held to looking; it may name files, too.
    """

    effect: Effect
    policy: Policy
    reason: str
    claims: tuple[ClaimDecision, ...] = ()
    trace: tuple[TraceLine, ...] = ()
    grant: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    plan: Plan | None = None
    changes_git: bool = False
    only_looks: bool = False
    is_read_only: bool = False

    def votes(self) -> Mapping[str, Sequence[TraceLine]]:
        """The lines of the trace by the claim they are about."""
        found: dict[str, list[TraceLine]] = {}
        for line in self.trace:
            found.setdefault(line.claim, []).append(line)
        return found

    def as_json(self) -> dict[str, Any]:
        """The shape that `dirge why --json` prints."""
        return {
            "effect": self.effect,
            "policy": self.policy,
            "reason": self.reason,
            "claims": [
                {
                    "op": claim.op,
                    "resource": claim.resource,
                    "effect": claim.effect,
                    "policy": claim.policy,
                    "reason": claim.reason,
                }
                for claim in self.claims
            ],
            "trace": [
                {
                    "claim": line.claim,
                    "policy": line.policy,
                    "effect": line.effect,
                    "reason": line.reason,
                }
                for line in self.trace
            ],
        }


def strictest(effects: Iterable[Effect]) -> Effect:
    """The effect that wins among several claims."""
    return max(effects, key=_STRICTNESS.__getitem__)


def explain(decision: Decision, tool: str, input_text: str) -> str:
    """The decision and its trace as lines of text, for `/why` and `dirge why`."""
    lines = [f"{tool} {input_text}", f"{decision.effect}: {decision.reason} [{decision.policy}]"]
    votes = decision.votes()
    for claim in decision.claims:
        lines += ["", f"{claim.op} {claim.resource}", f"  → {claim.effect} [{claim.policy}]"]
        if claim.real and claim.real != claim.resource:
            lines.append(f"  leads to {claim.real}")
        lines += map(_vote_line, votes.get(f"{claim.op} {claim.resource}", ()))
    if decision.grant:
        lines += ["", "for this session: " + ", ".join(f"`{rule}`" for rule in decision.grant)]
    if decision.wider:
        lines.append("or the like: " + ", ".join(f"`{rule}`" for rule in decision.wider))
    return "\n".join(lines)


def _vote_line(line: TraceLine) -> str:
    return f"  {line.policy:<10} {line.effect or 'n/a':<5} {line.reason}".rstrip()
