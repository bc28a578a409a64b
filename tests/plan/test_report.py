"""The final report of a plan."""

from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.review import final_report
from dirge_py.plan.verdict import CheckedVerdict, ChecklistItem, ReviewVerdict, check_verdict
from tests.support.plan_evidence import record_command


def report(judgement: CheckedVerdict, ledger: EvidenceLedger, **changes: str) -> str:
    texts = {"request": "Add dates", "ended": "It is over.", "tree": "now"} | changes
    return final_report(judgement, ledger, notes=(), **texts)


def test_report_separates_verified_not_verified_and_unverifiable_requirements() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    record_command(ledger, "make lint", code=2)
    record_command(ledger, "make lint", code=1)
    record_command(ledger, "make old", tree="before")
    record_command(ledger, "ls", is_look=True)
    record_command(ledger, "docker run x", outcome="denied")
    record_command(ledger, "pytest | tail")
    items = [
        ChecklistItem(requirement="it adds", status="verified", evidence=("make test",)),
        ChecklistItem(requirement="it is\nclean", status="verified", evidence=("make lint",)),
        ChecklistItem(requirement="it deploys", status="cannot_verify", note="no network"),
    ]
    judgement = check_verdict(
        ReviewVerdict(is_done=True, checklist=tuple(items)), ledger, tree="now", step=1
    )
    text = final_report(
        judgement,
        ledger,
        request="Add dates\n# to the app",
        ended="Not verified: the cycles are used up.",
        tree="now",
        notes=["One file changed meanwhile."],
    )
    assert (
        text
        == """\
**Plan:** Add dates # to the app

Not verified: the cycles are used up.

### Verified

- it adds: `make test` (E1): exit code 0

### Not verified

- it is clean: `make lint` (E3): exit code 1
- The verdict does not count: 2 of 3 requirements have no evidence that counts.

### Cannot be verified here

- it deploys: no network
- a check of the review: `docker run x` (E6): was not allowed to run

### Run by review 1

- ✓ `make test` (E1): exit code 0
- ✗ `make lint` (E3): exit code 1
- ✓ `make old` (E4): exit code 0; the files have changed since
- ✗ `docker run x` (E6): was not allowed to run
- ✓ `pytest | tail` (E7): exit code 0; that is not the exit code of every check in it

- One file changed meanwhile."""
    )


def test_report_lists_missing_work_point_by_point() -> None:
    text = report(CheckedVerdict(is_approved=False, missing="- one\n\n* two"), EvidenceLedger())
    assert "### Not verified\n\n- Missing: one\n- Missing: two" in text
    unread = CheckedVerdict(is_approved=False, has_verdict=False, problem="there is no block")
    assert "- There is no verdict: there is no block." in report(unread, EvidenceLedger())


def test_report_without_review_findings_lists_only_commands_run() -> None:
    empty = CheckedVerdict(is_approved=False)
    ledger = EvidenceLedger()
    record_command(ledger, "make", phase="implement")
    record_command(ledger, "make test", phase="implement", step=2)
    text = report(empty, ledger)
    assert text.endswith(
        "### Run by the implementation, not reviewed\n\n- ✓ `make test` (E2): exit code 0"
    )
    assert "erified\n" not in text
    assert report(empty, EvidenceLedger()) == "**Plan:** Add dates\n\nIt is over."


def test_report_says_when_files_changed_since_review() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    item = ChecklistItem(requirement="it adds", status="verified", evidence=("E1",))
    judgement = check_verdict(
        ReviewVerdict(is_done=True, checklist=(item,)), ledger, tree="now", step=1
    )
    assert judgement.is_approved
    assert "have changed since" not in report(judgement, ledger)
    assert "have changed since" in report(judgement, ledger, tree="later")
    assert "on unknown files" in report(judgement, ledger, tree="")


def test_long_reports_are_truncated() -> None:
    findings = tuple((f"requirement {n} " * 100, "x" * 10_000) for n in range(1_000))
    text = report(CheckedVerdict(is_approved=True, verified=findings), EvidenceLedger())
    assert len(text) < 30_000
    assert "… and 960 more" in text
