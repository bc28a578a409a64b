"""The last words of a plan: what was verified, what was not, and what could not be."""

from collections.abc import Iterator, Sequence

from dirge_py.plan.evidence import Evidence, EvidenceLedger, ending
from dirge_py.plan.exit_codes import hides_failures
from dirge_py.plan.judgement import Finding, Judgement

_MOST_OF_LINE = 300
_MOST_LINES = 40
_CHANGED_SINCE = "The files have changed since the review: what it verified may hold no longer."
_CANNOT = ("denied", "timeout", "stopped")


def final_report(
    judgement: Judgement | None,
    ledger: EvidenceLedger,
    *,
    request: str,
    ended: str,
    tree: str,
    notes: Sequence[str] = (),
) -> str:
    """The report in Markdown.

    `judgement` is that of the last review, None where there was none. `ended` says in a sentence
    how the plan ended; `tree` is the hash of the files as they are now, "" where they cannot be
    read: evidence that was taken on others is named as such.
    """
    blocks = [f"**Plan:** {_line(request)}", ended.strip()]
    if judgement and judgement.verified and not any(_is_about(e, tree) for e in ledger.items):
        blocks.append(_CHANGED_SINCE)
    blocks += [_section(title, lines) for title, lines in _findings(judgement, ledger) if lines]
    last = _last_checks(ledger)
    blocks.append(_section(_title(last), [_check(item, tree) for item in last]) if last else "")
    blocks.append("\n".join(f"- {_line(note)}" for note in notes))
    return "\n\n".join(block for block in blocks if block)


def _findings(
    judgement: Judgement | None, ledger: EvidenceLedger
) -> Iterator[tuple[str, list[str]]]:
    if judgement is None:
        return
    cannot = [*judgement.cannot, *_not_run(judgement, ledger)]
    yield "Verified", _told(judgement.verified)
    not_verified = _told(judgement.not_verified)
    problem = judgement.problem.rstrip(".")
    if problem and not judgement.is_approved:
        kind = "The verdict does not count" if judgement.has_verdict else "There is no verdict"
        not_verified.append(f"{kind}: {_line(problem)}.")
    not_verified += [
        f"Missing: {_line(line.lstrip('-* '))}"
        for line in judgement.missing.splitlines()
        if line.strip("-* ")
    ]
    yield "Not verified", not_verified
    yield "Cannot be verified here", _told(cannot)


def _told(findings: Sequence[Finding]) -> list[str]:
    return [f"{_line(requirement)}: {_line(why)}" for requirement, why in findings]


def _not_run(judgement: Judgement, ledger: EvidenceLedger) -> Iterator[Finding]:
    """Commands of the last review that never came to an end, unless a finding tells of them."""
    told = "\n".join(why for _, why in judgement.cannot)
    for item in _last_checks(ledger):
        if item.phase == "review" and item.outcome in _CANNOT and ending(item) not in told:
            yield "a check of the review", ending(item)


def _last_checks(ledger: EvidenceLedger) -> list[Evidence]:
    """What the last review ran to verify, or else the last implementation: each command's end."""
    for phase in ("review", "implement"):
        items = [item for item in ledger.items if item.phase == phase and not item.is_look]
        if items:
            last = {item.command: item for item in items if item.step == items[-1].step}
            return list(last.values())
    return []


def _title(items: Sequence[Evidence]) -> str:
    if items[0].phase == "review":
        return f"Run by review {items[0].step}"
    return "Run by the implementation, and reviewed by nobody"


def _check(item: Evidence, tree: str) -> str:
    mark = "✓" if item.has_passed else "✗"
    remarks = ""
    if item.has_passed and hides_failures(item.command):
        remarks += "; that is not the exit code of every check in it"
    if not _is_about(item, tree):
        remarks += (
            "; the files are no longer those it was run on"
            if tree and item.tree
            else ("; on which files is not known")
        )
    return f"{mark} {ending(item)}{remarks}"


def _is_about(item: Evidence, tree: str) -> bool:
    return bool(tree) and item.tree == tree


def _section(title: str, lines: Sequence[str]) -> str:
    shown = [f"- {line}" for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"- … and {len(lines) - _MOST_LINES} more")
    return "\n".join([f"### {title}", "", *shown])


def _line(text: str) -> str:
    """In one line, which no part of the text can leave."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_OF_LINE else line[: _MOST_OF_LINE - 1] + "…"
