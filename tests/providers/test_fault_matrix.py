"""Every fault in every wire format ends as docs/faults.md says."""

from pathlib import Path

import pytest

from dirge_py.types.errors import RETRYABLE_KINDS
from tests.providers.fault_matrix import Outcome, try_all_faults
from tests.providers.faults import FAULTS, Fault
from tests.support.provider_client import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_fault_ends_as_expected_and_as_documented(kind: str) -> None:
    outcomes = await try_all_faults(kind)

    wrong = [
        f"{fault.name}: {complaint}"
        for fault, outcome in zip(FAULTS, outcomes, strict=True)
        for complaint in wrong_with(fault, outcome)
    ]
    assert wrong == []
    assert {
        fault.name: outcome.description for fault, outcome in zip(FAULTS, outcomes, strict=True)
    } == (column(kind))


def wrong_with(fault: Fault, outcome: Outcome) -> list[str]:
    expected = {
        "kind": (outcome.kind, fault.expects),
        "tries": (outcome.tries, fault.tries),
        "kept": (outcome.kept, fault.keeps),
        "recovers once the fault has passed": (outcome.recovers, fault.expects in RETRYABLE_KINDS),
    }
    wrong = [f"{name}: {is_!r}, not {due!r}" for name, (is_, due) in expected.items() if is_ != due]
    if fault.wait_s is not None and min(outcome.waits) < fault.wait_s:
        wrong.append(f"it waited {outcome.waits}")
    return [*wrong, *outcome.complaints]


def column(kind: str) -> dict[str, str]:
    """Fault -> cell of one adapter, as the page has it."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    head, _, *table = ([cell.strip() for cell in row.strip("|").split(" | ")] for row in rows)
    place = head.index(kind)
    return {cells[0].strip(): cells[place].strip() for cells in table}
