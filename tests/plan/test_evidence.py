"""The evidence ledger of a plan."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.evidence import Evidence, EvidenceLedger, code_span, describe_ending
from dirge_py.types.events import EvidenceTaken
from tests.support.plan_evidence import record_command


def test_evidence_ids_stay_unique_after_restart() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make")
    record_command(ledger, "make")
    again = EvidenceLedger.load(json.loads(json.dumps(ledger.stored())))
    assert again.items == ledger.items
    assert record_command(again, "make").id == "E3"
    assert [item.id for item in again.items] == ["E1", "E2", "E3"]


def test_evidence_is_found_by_phase_and_step() -> None:
    ledger = EvidenceLedger()
    record_command(ledger, "make", phase="implement")
    record_command(ledger, "make test", step=2)
    assert [item.command for item in ledger.of("review", 2)] == ["make test"]
    assert ledger.of("review", 1) == ()


def test_evidence_event_matches_ledger_entry() -> None:
    taken = record_command(EvidenceLedger(), "make", code=2)
    assert taken.event == EvidenceTaken(
        id="E1",
        phase="review",
        step=1,
        command="make",
        outcome="failed",
        exit_code=2,
        output_sha256="ab",
        tree="now",
    )


GOOD = asdict(record_command(EvidenceLedger(), "make"))


@pytest.mark.parametrize(
    "damage",
    [
        {"id": 1},
        {"id": "1"},
        {"id": "E"},
        {"id": "E²"},
        {"id": "E" + "9" * 5_000},
        {"phase": "lunch"},
        {"step": "1"},
        {"command": None},
        {"outcome": "fine"},
        {"exit_code": "0"},
        {"is_look": None},
        {"more": 1},
    ],
)
def test_damaged_ledger_entry_is_left_out(damage: dict[str, object]) -> None:
    stored = [GOOD | damage, GOOD]
    assert EvidenceLedger.load(stored).stored() == [GOOD]


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=4) | st.just({"id": 1}))
def test_any_stored_value_is_loaded_as_ledger_without_error(stored: object) -> None:
    assert EvidenceLedger.load(stored).items == ()


@pytest.mark.parametrize(
    ("changes", "has_passed"),
    [
        ({}, True),
        ({"exit_code": 1}, False),
        ({"exit_code": None}, False),
        ({"outcome": "failed"}, False),
        ({"outcome": "denied"}, False),
    ],
)
def test_only_exit_code_0_counts_as_passed(changes: dict[str, object], has_passed: bool) -> None:
    assert Evidence(**(GOOD | changes)).has_passed is has_passed


def test_describe_ending_shows_exit_code_or_outcome() -> None:
    ledger = EvidenceLedger()
    assert describe_ending(record_command(ledger, "make", code=2)) == "`make` (E1): exit code 2"
    assert (
        describe_ending(record_command(ledger, "make", outcome="denied"))
        == "`make` (E2): was not allowed to run"
    )


def test_command_cannot_end_its_own_code_span() -> None:
    assert code_span("echo `date`\n  now") == "`` echo `date` now ``"
    assert len(code_span("x" * 1_000)) < 210
