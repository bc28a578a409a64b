"""The last words of a plan: what was verified, what was not, and what could not be."""

from collections.abc import Sequence

from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.judgement import Judgement


def final_report(
    judgement: Judgement | None,
    ledger: EvidenceLedger,
    *,
    request: str,
    ended: str,
    tree: str,
    notes: Sequence[str] = (),
) -> str:
    """The report in Markdown. `ended` says in a sentence how the plan ended."""
    lines = ["# Plan", ended, *(f"- {note}" for note in notes)]
    lines += [f"- `{each.command}`: {each.outcome}" for each in ledger.items]
    return "\n\n".join(lines)
