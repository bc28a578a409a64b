"""What of a verdict is believed: a claim counts with evidence of this review, on these files."""

from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.verdict import Verdict

Finding: TypeAlias = tuple[str, str]
"""(requirement, why)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`problem` says why a DONE, or the verdict at all, was not believed; "" where it was.

    `has_verdict` is False where none could be read. `missing` is what the reviewer asks for.
    """

    is_approved: bool
    verified: tuple[Finding, ...] = ()
    not_verified: tuple[Finding, ...] = ()
    cannot: tuple[Finding, ...] = ()
    problem: str = ""
    has_verdict: bool = True
    missing: str = ""


def judge(verdict: Verdict | str, ledger: EvidenceLedger, *, tree: str, step: int) -> Judgement:
    """What is believed of the verdict of this step's review, given the files' hash now."""
    if isinstance(verdict, str):
        return Judgement(is_approved=False, problem=verdict, has_verdict=False)
    passed = [e for e in ledger.of("review", step) if e.has_passed and e.tree == tree]
    is_proved = any(not each.is_look for each in passed)
    return Judgement(is_approved=verdict.is_done and is_proved, missing=verdict.missing)
