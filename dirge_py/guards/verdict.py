"""Reads the answers of judges. They are a model's words: whatever is unclear counts as approval."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, cast

from dirge_py.lib.lean_dataclass import dataclass

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
MUST_FIX: frozenset[Severity] = frozenset({"critical", "high"})

_ORNAMENT = " \t#*_>`"
# `[HIGH] …`, `**high**: …`, `1. Severity: high`; not `high-level …`, `high/critical`, `high = …`.
_LABEL = re.compile(
    r"[\s#*_>`\-\[(\d.]*(?:severity\W{0,4})?(critical|high|medium|low)\b(?!-\w)(.*)",
    re.IGNORECASE,
)
_AFTER_LABEL = re.compile(r"\s*(?:[\])*_`:—–-]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong with a change. `text` begins with what it is, without the severity."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge said of a run: `missing` is what it has not done, `findings` worst first."""

    kind: Literal["complete", "incomplete", "abstain"]
    missing: str = ""
    findings: tuple[Finding, ...] = ()


def parse_verdict(answer: str) -> Verdict:
    """The verdict in an answer; never raises.

    The first line that says anything decides: INCOMPLETE, else ABSTAIN or INSUFFICIENT, else it is
    complete. After a line `FINDINGS` come blocks that begin with a severity, `---` between them.
    """
    lines = _said(answer)
    first = lines[0] if lines else ""
    marker = next((at for at, line in enumerate(lines) if _is_marker(line)), len(lines))
    findings = tuple(
        sorted(_findings(lines[marker + 1 :]), key=lambda each: SEVERITIES.index(each.severity))
    )
    incomplete = re.search(r"\bINCOMPLETE\b", first, re.IGNORECASE)
    if incomplete:
        missing = _rest(first, incomplete, lines[1:marker])
        return Verdict(kind="incomplete", missing=missing, findings=findings)
    if re.search(r"\b(?:ABSTAIN|INSUFFICIENT)", first, re.IGNORECASE):
        return Verdict(kind="abstain", findings=findings)
    return Verdict(kind="complete", findings=findings)


def parse_goal(answer: str) -> str | None:
    """What is left to do for a goal that is not met, `no detail` if that is not said; else None.

    Only a first line that begins with UNMET, or NOT MET, says that it is not met.
    """
    lines = _said(answer)
    first = lines[0] if lines else ""
    unmet = re.match(r"\W*(?:goal\W*)?(?:UNMET|NOT\s+MET)\b", first, re.IGNORECASE)
    if unmet is None:
        return None
    return _rest(first, unmet, lines[1:]) or "no detail"


def _said(answer: str) -> list[str]:
    """The lines, from the first that has a letter in it on."""
    lines = answer.splitlines()
    begin = next((at for at, line in enumerate(lines) if re.search(r"[^\W\d_]", line)), len(lines))
    return lines[begin:]


def _rest(line: str, verdict: re.Match[str], following: Sequence[str]) -> str:
    """What is said after the verdict: the rest of its line, and the lines below."""
    rest = line[verdict.end() :].lstrip(f"{_ORNAMENT}:.,;—–-")
    return "\n".join([rest, *following]).strip().removesuffix("```").strip()


def _is_marker(line: str) -> bool:
    return line.strip(f"{_ORNAMENT}:.").lower() in ("finding", "findings", "findings: none")


def _findings(lines: Sequence[str]) -> Iterator[Finding]:
    block: list[str] = []
    for line in [*lines, "---"]:
        if not _is_rule(line):
            block.append(line)
            continue
        finding = _finding(block)
        if finding is not None:
            yield finding
        block = []


def _is_rule(line: str) -> bool:
    drawn = line.strip()
    return len(drawn) >= 3 and set(drawn) in ({"-"}, {"*"}, {"_"})


def _finding(block: Sequence[str]) -> Finding | None:
    """The finding in a block: it begins at the first line that is labelled with a severity."""
    for at, line in enumerate(block):
        labelled = _LABEL.fullmatch(line)
        if labelled is None or not _AFTER_LABEL.match(labelled[2]):
            continue
        first = labelled[2].lstrip(" \t])*_`:—–-")
        if first.startswith("="):
            continue  # a legend: what the severities mean
        said = "\n".join([first, *block[at + 1 :]]).strip().removesuffix("```").strip()
        if said:
            return Finding(severity=cast(Severity, labelled[1].lower()), text=said)
    return None
