"""A claim counts only with evidence of this review on the current files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.evidence import Evidence, EvidenceLedger
from dirge_py.plan.verdict import CheckedVerdict, ChecklistItem, ReviewVerdict, check_verdict
from tests.support.plan_evidence import record_command


def item(*evidence: str, requirement: str = "it adds") -> ChecklistItem:
    return ChecklistItem(requirement=requirement, status="verified", evidence=evidence)


def done(*items: ChecklistItem) -> ReviewVerdict:
    return ReviewVerdict(is_done=True, checklist=items)


def text(*lines: str, is_done: bool = True) -> ReviewVerdict:
    status = "verified" if is_done else "not_verified"
    items = tuple(ChecklistItem(requirement=line, status=status) for line in lines)
    return ReviewVerdict(is_done=is_done, checklist=items, is_itemised=False)


def checked_verdict(
    verdict: ReviewVerdict | str, ledger: EvidenceLedger, tree: str = "now"
) -> CheckedVerdict:
    return check_verdict(verdict, ledger, tree=tree, step=1)


def test_done_with_passed_check_for_every_requirement_is_approved() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    record_command(ledger, "grep -q ISO README.md", is_look=True)
    verdict = done(item("make test"), item("E2", requirement="the README tells it"))
    assert checked_verdict(verdict, ledger) == CheckedVerdict(
        is_approved=True,
        verified=(
            ("it adds", "`make test` (E1): exit code 0"),
            ("the README tells it", "`grep -q ISO README.md` (E2): exit code 0"),
        ),
    )


def test_unreadable_verdict_is_not_approved() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    assert checked_verdict("there is no block", ledger) == CheckedVerdict(
        is_approved=False, has_verdict=False, problem="there is no block"
    )


@pytest.mark.parametrize(
    "citation",
    [
        "make test",
        "  make\n test ",
        "`make test`",
        "$ make test",
        "make",
        "test",
        "E1",
        "E1: make test",
        "make test (exit code 0)",
        "make test → 12 passed",
        "`make test` and it passed",
    ],
)
def test_citation_may_name_command_in_other_words(citation: str) -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make  test")
    assert checked_verdict(done(item(citation)), ledger).is_approved


@pytest.mark.parametrize(
    "citation",
    [
        "make test-all",
        "make test -B",
        "make tests",
        "make lint",
        "mak",
        "te",
        "E2",
        "E11",
        "all tests pass",
        "ran make test",
        "",
    ],
)
def test_citation_of_command_that_did_not_run_is_no_evidence(citation: str) -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    judgement = checked_verdict(done(item(citation)), ledger)
    assert not judgement.is_approved
    assert [requirement for requirement, _ in judgement.not_verified] == ["it adds"]


def test_last_run_of_command_decides_whether_it_passed() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test", code=2)
    record_command(ledger, "make test")
    assert checked_verdict(done(item("E1")), ledger).is_approved
    record_command(ledger, "make test", code=2)
    judgement = checked_verdict(done(item("E2")), ledger)
    assert judgement.not_verified == (("it adds", "`make test` (E3): exit code 2"),)
    assert not judgement.is_approved


def test_citation_matching_several_commands_requires_all_to_pass() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "pytest tests/a", code=1)
    record_command(ledger, "pytest tests/b")
    assert not checked_verdict(done(item("pytest")), ledger).is_approved
    assert checked_verdict(done(item("pytest tests/b")), ledger).is_approved


def test_one_failed_citation_outweighs_passed_citations() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make lint", code=1)
    record_command(ledger, "make test")
    assert not checked_verdict(done(item("make test", "make lint")), ledger).is_approved
    assert checked_verdict(done(item("make test", "12 passed")), ledger).is_approved


def test_evidence_of_other_phases_reviews_or_file_states_does_not_count() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make a", phase="implement")
    record_command(ledger, "make b", step=2)
    record_command(ledger, "make c", tree="before")
    record_command(ledger, "make d", tree="")
    names = ["make a", "make b", "make c", "make d"]
    judgement = checked_verdict(done(*(item(name, requirement=name) for name in names)), ledger)
    assert not judgement.is_approved
    assert [why.partition(", but ")[2] for _, why in judgement.not_verified] == [
        "only the implementation ran it",
        "in an earlier review",
        "the files have changed since",
        "the files have changed since",
    ]


def test_command_of_implementation_counts_after_review_runs_it() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test", phase="implement")
    record_command(ledger, "make test")
    assert checked_verdict(done(item("E1")), ledger).is_approved


def test_verdict_on_unreadable_files_is_not_approved() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test", tree="")
    judgement = checked_verdict(done(item("make test")), ledger, tree="")
    assert not judgement.is_approved
    assert "cannot be read" in judgement.problem


@pytest.mark.parametrize("outcome", ["denied", "timeout", "stopped"])
def test_denied_or_stopped_command_makes_requirement_unverifiable(outcome: str) -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test", outcome=outcome)  # type: ignore[arg-type]
    record_command(ledger, "make lint")
    for verdict in (done(item("make test")), text("it adds: `make test`"), text("it adds")):
        judgement = checked_verdict(verdict, ledger)
        assert not judgement.is_approved
        assert [requirement[:7] for requirement, _ in judgement.cannot] == ["it adds"]


@pytest.mark.parametrize("verdict", [done(item("ls src")), text("it adds"), text("`ls src`")])
def test_read_only_command_is_no_evidence(verdict: ReviewVerdict) -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "ls src", is_look=True)
    judgement = checked_verdict(verdict, ledger)
    assert not judgement.is_approved
    assert "more than read" in judgement.problem


@pytest.mark.parametrize("command", ["pytest | tail -5", "make test || true", "pytest; echo ok"])
def test_command_that_hides_failures_is_no_evidence(command: str) -> None:
    ledger = EvidenceLedger()
    record_command(ledger, command)
    assert not checked_verdict(done(item("E1")), ledger).is_approved
    assert not checked_verdict(text("it adds"), ledger).is_approved
    record_command(ledger, "make check")
    assert checked_verdict(text("it adds"), ledger).is_approved


def test_checklist_items_not_verified_by_reviewer_are_not_approved() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    doubtful = ChecklistItem(
        requirement="b", status="not_verified", evidence=("make test",), note="no time"
    )
    closed = ChecklistItem(requirement="c", status="cannot_verify", note="no network")
    judgement = checked_verdict(done(item("make test"), doubtful, closed), ledger)
    assert judgement == CheckedVerdict(
        is_approved=False,
        verified=(("it adds", "`make test` (E1): exit code 0"),),
        not_verified=(("b", "no time"),),
        cannot=(("c", "no network"),),
        problem="2 of 3 requirements have no evidence that counts",
    )


def test_needs_fix_verdict_is_accepted_as_is() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    verdict = ReviewVerdict(is_done=False, checklist=(item("make test"),), missing="two cases")
    assert checked_verdict(verdict, ledger) == CheckedVerdict(
        is_approved=False,
        verified=(("it adds", "`make test` (E1): exit code 0"),),
        missing="two cases",
    )
    assert (
        "names nothing that is missing"
        in checked_verdict(ReviewVerdict(is_done=False), ledger).problem
    )


def test_done_requires_checklist_and_nothing_missing() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    assert not checked_verdict(done(), ledger).is_approved
    assert not checked_verdict(
        ReviewVerdict(is_done=True, checklist=(item("make test"),), missing="a"), ledger
    ).is_approved


# -- checklists in plain text


def test_plain_checklist_without_commands_requires_all_checks_to_pass() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make lint", code=1)
    record_command(ledger, "make lint")
    record_command(ledger, "make test")
    assert checked_verdict(text("it adds", "it subtracts"), ledger).is_approved
    record_command(ledger, "make bench", code=1)
    judgement = checked_verdict(text("it adds"), ledger)
    assert judgement.not_verified == (("it adds", "`make bench` (E4): exit code 1"),)


def test_plain_checklist_with_commands_must_name_one_for_each_item() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    assert checked_verdict(
        text("it adds: `make test`", "E1 shows that it subtracts"), ledger
    ).is_approved
    judgement = checked_verdict(text("it adds, make test passes", "it subtracts"), ledger)
    assert [why for _, why in judgement.not_verified] == ["no command that was run is named for it"]


def test_words_of_sentence_in_checklist_are_not_read_as_command() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make")
    record_command(ledger, "make test")
    judgement = checked_verdict(
        text("`make test`", "it can make dates", "make test-data works", "make test all day"),
        ledger,
    )
    assert len(judgement.verified) == 1


def test_plain_checklist_of_needs_fix_verifies_nothing() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make test")
    judgement = checked_verdict(text("it adds", is_done=False), ledger)
    assert judgement.verified == () and len(judgement.not_verified) == 1


# -- any ledger and any verdict

COMMANDS = ["make", "make test", "make test -B", "pytest | tail"]
TAKEN = st.builds(
    dict,
    command=st.sampled_from(COMMANDS),
    outcome=st.sampled_from(["passed", "passed", "failed", "denied", "timeout"]),
    phase=st.sampled_from(["review", "review", "review", "implement"]),
    step=st.sampled_from([1, 1, 1, 2]),
    tree=st.sampled_from(["now", "now", "now", "before", ""]),
    is_look=st.booleans(),
)
ITEMS = st.builds(
    ChecklistItem,
    requirement=st.sampled_from(["it adds", "`make test` shows it", "make test passes"]),
    status=st.sampled_from(["verified", "verified", "verified", "not_verified", "cannot_verify"]),
    evidence=st.lists(st.sampled_from([*COMMANDS, "E1", "E2", "test", "x"]), max_size=2).map(tuple),
)
VERDICTS = st.builds(
    ReviewVerdict,
    is_done=st.sampled_from([True, True, False]),
    checklist=st.lists(ITEMS, max_size=3).map(tuple),
    is_itemised=st.booleans(),
    missing=st.sampled_from(["", "", "two cases"]),
)


def ledger_of(taken: list[dict[str, object]]) -> EvidenceLedger:
    ledger = EvidenceLedger()
    for entry in taken:
        record_command(ledger, code=0 if entry["outcome"] == "passed" else 1, **entry)  # type: ignore[arg-type]
    return ledger


def counts(each: Evidence) -> bool:
    return (
        (each.phase, each.step, each.tree, each.exit_code) == ("review", 1, "now", 0)
        and each.outcome == "passed"
        and not each.is_look
    )


@given(st.lists(TAKEN, max_size=4), VERDICTS, st.sampled_from(["now", "now", ""]))
def test_approval_requires_passed_check_of_this_review_on_current_files(
    taken: list[dict[str, object]], verdict: ReviewVerdict, tree: str
) -> None:
    ledger = ledger_of(taken)
    judgement = checked_verdict(verdict, ledger, tree)
    if judgement.is_approved:
        assert tree and verdict.is_done and verdict.checklist and not verdict.missing
        assert any(counts(each) for each in ledger.items)
        assert not (judgement.problem or judgement.not_verified or judgement.cannot)
    assert len(judgement.verified + judgement.not_verified + judgement.cannot) == len(
        verdict.checklist
    )


@given(st.lists(TAKEN, min_size=1, max_size=4), VERDICTS, st.data())
def test_removing_evidence_never_leads_to_approval(
    taken: list[dict[str, object]], verdict: ReviewVerdict, data: st.DataObject
) -> None:
    """Removing a failed check would hide it, so only passed ones are removed.

    Plain checklists are left out: without the only command it names, a checklist names none.
    """
    ledger = ledger_of(taken)
    verdict = ReviewVerdict(
        is_done=verdict.is_done, checklist=verdict.checklist, missing=verdict.missing
    )
    passed = [each for each in ledger.items if each.has_passed]
    without = data.draw(st.sampled_from(passed)) if passed else None
    less = EvidenceLedger([each for each in ledger.items if each is not without])
    if not checked_verdict(verdict, ledger).is_approved:
        assert not checked_verdict(verdict, less).is_approved


@given(st.lists(TAKEN, max_size=4), VERDICTS, ITEMS, st.sampled_from(["", "two cases"]))
def test_adding_requirements_or_missing_work_never_leads_to_approval(
    taken: list[dict[str, object]], verdict: ReviewVerdict, more: ChecklistItem, missing: str
) -> None:
    ledger = ledger_of(taken)
    longer = ReviewVerdict(
        is_done=verdict.is_done,
        checklist=(*verdict.checklist, more) if verdict.checklist else (),
        is_itemised=verdict.is_itemised,
        missing=verdict.missing + missing,
    )
    if missing or not checked_verdict(verdict, ledger).is_approved:
        assert not checked_verdict(longer, ledger).is_approved
