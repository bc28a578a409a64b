"""What of a verdict is believed: a claim counts with evidence of this review, on these files."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.plan.citations import Citations
from dirge_py.plan.evidence import Evidence, EvidenceLedger, ending
from dirge_py.plan.exit_codes import hides_failures
from dirge_py.plan.verdict import Item, Verdict

Finding: TypeAlias = tuple[str, str]
"""(requirement, why)."""

_Belief: TypeAlias = tuple[Literal["verified", "not_verified", "cannot_verify"], str]


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
    """What is believed of the verdict of this step's review.

    `tree` is the hash of the files as they are now, "" where they cannot be read. DONE is believed
    only if nothing is missing, every requirement rests on commands that this review ran on these
    files and that passed, and one of them did more than look.
    """
    if isinstance(verdict, str):
        return Judgement(is_approved=False, problem=verdict, has_verdict=False)
    review = _Review(ledger, tree=tree, step=step)
    beliefs = review.beliefs(verdict)
    found: dict[str, list[Finding]] = {"verified": [], "not_verified": [], "cannot_verify": []}
    for item, (status, why) in zip(verdict.checklist, beliefs, strict=True):
        found[status].append((item.requirement, why))
    unmet = len(found["not_verified"]) + len(found["cannot_verify"])
    problem = _problem(verdict, unmet, is_proved=review.is_proved, is_known=bool(tree))
    return Judgement(
        is_approved=verdict.is_done and not problem,
        verified=tuple(found["verified"]),
        not_verified=tuple(found["not_verified"]),
        cannot=tuple(found["cannot_verify"]),
        problem=problem,
        missing=verdict.missing,
    )


def _problem(verdict: Verdict, unmet: int, *, is_proved: bool, is_known: bool) -> str:
    if not verdict.is_done:
        is_told = verdict.missing or unmet
        return "" if is_told else "the verdict is NEEDS_FIX, without a word on what is missing"
    if verdict.missing:
        return "the verdict is DONE, and yet something is missing"
    if not verdict.checklist:
        return "the verdict is DONE, without a checklist"
    if not is_known:
        return "the files cannot be read, so no evidence is about them as they are"
    if not is_proved:
        return "no command that does more than look has passed on the files as they are"
    if unmet:
        return f"{unmet} of {len(verdict.checklist)} requirements have no evidence that counts"
    return ""


class _Review:
    """One review as the ledger has it."""

    def __init__(self, ledger: EvidenceLedger, *, tree: str, step: int) -> None:
        self._tree = tree
        self._step = step
        self._citations = Citations(ledger, tree=tree, step=step)
        self._checks = [e for e in self._citations.current.values() if not e.is_look]

    @property
    def is_proved(self) -> bool:
        """Whether a check has passed at all."""
        return any(self._belief(check)[0] == "verified" for check in self._checks)

    def beliefs(self, verdict: Verdict) -> list[_Belief]:
        """What is believed of each item of the checklist."""
        items = verdict.checklist
        if verdict.is_itemised:
            return [self._of_item(item, self._cited(item)) for item in items]
        named = [self._citations.named(item.requirement) for item in items]
        names_any = any(
            self._belief(each)[0] == "verified" for evidence in named for each in evidence
        )
        on_the_whole = () if names_any or not verdict.is_done else self._telling
        return [
            self._of_item(item, evidence or on_the_whole)
            for item, evidence in zip(items, named, strict=True)
        ]

    @property
    def _telling(self) -> list[Evidence]:
        """The checks whose exit codes say something; where there are none, all."""
        return [each for each in self._checks if not hides_failures(each.command)] or self._checks

    def _cited(self, item: Item) -> list[Evidence]:
        return [each for entry in item.evidence for each in self._entry(entry)]

    def _entry(self, entry: str) -> list[Evidence]:
        """One entry: a command, which may have several lines, or one on each line."""
        lines = entry.splitlines()
        return self._citations.cited(entry) or [
            each for line in lines if len(lines) > 1 for each in self._citations.cited(line)
        ]

    def _of_item(self, item: Item, evidence: Sequence[Evidence]) -> _Belief:
        if item.status == "cannot_verify":
            return "cannot_verify", item.note or "the reviewer could not verify it"
        if item.status == "not_verified":
            return "not_verified", item.note or "the review did not find it met"
        if not evidence:
            claimed = ", ".join(item.evidence)
            if claimed:
                return "not_verified", f"the review ran no such command: {claimed}"
            return "not_verified", "no command that was run is named for it"
        beliefs = [self._belief(each) for each in evidence]
        for status in ("not_verified", "cannot_verify"):
            for belief in beliefs:
                if belief[0] == status:
                    return belief
        return "verified", "; ".join(dict.fromkeys(why for _, why in beliefs))

    def _belief(self, item: Evidence) -> _Belief:
        """What one piece of evidence is worth by itself."""
        told = ending(item)
        if item.phase != "review":
            return "not_verified", f"{told}, but only the implementation ran it"
        if item.step != self._step:
            return "not_verified", f"{told}, but in an earlier review"
        if not self._tree or item.tree != self._tree:
            return "not_verified", f"{told}, but the files are no longer those it was run on"
        if item.outcome in ("denied", "timeout", "stopped"):
            return "cannot_verify", told
        if not item.has_passed:
            return "not_verified", told
        if hides_failures(item.command):
            return "not_verified", f"{told}, but that is not the exit code of every check in it"
        return "verified", told
