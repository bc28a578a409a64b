"""Evidence for tests of plans."""

from dirge_py.plan.evidence import Evidence, EvidenceLedger
from dirge_py.types.events import EvidenceOutcome, PhaseName


def record_command(
    ledger: EvidenceLedger,
    command: str,
    *,
    code: int | None = 0,
    outcome: EvidenceOutcome | None = None,
    phase: PhaseName = "review",
    step: int = 1,
    tree: str = "now",
    is_look: bool = False,
) -> Evidence:
    """Record that the review of the first step ran `command` on the current files."""
    if outcome in ("denied", "timeout", "stopped"):
        code = None
    return ledger.add(
        Evidence(
            phase=phase,
            step=step,
            command=command,
            outcome=outcome or ("passed" if code == 0 else "failed"),
            exit_code=code,
            output_sha256="ab",
            tree=tree,
            is_look=is_look,
        )
    )
