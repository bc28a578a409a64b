"""The implement phase: an ordinary run of the main session."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dirge_py.messages import TextBlock, UserBlock, UserMessage, user_text
from dirge_py.outcomes import Done, Outcome
from dirge_py.plan import phases
from dirge_py.plan.acceptance import carry_on
from dirge_py.plan.recording import Recording
from dirge_py.plan_events import EvidenceTaken, PlanPhase

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.occupancy import Occupant
    from dirge_py.plan.evidence import EvidenceLedger
    from dirge_py.plan.state import PlanState


async def implement(
    state: "PlanState",
    *,
    conversation: "Conversation",
    ledger: "EvidenceLedger",
    attached: Sequence[UserBlock],
    by: "Occupant",
    on_begun: Callable[[], None],
) -> Outcome:
    """Have this step of the plan done; returns how the run ended.

    Raises:
        DirgeError: it cannot begin, or go on.
    """
    tell: Callable[[PlanPhase | EvidenceTaken], None] = conversation.report
    began = time.monotonic()
    recording = Recording(conversation, ledger, phase="implement", step=state.step, tell=tell)
    tell(PlanPhase(phase="implement", step=state.step, state="started"))
    forget = conversation.subscribe(recording.sink)
    try:
        run = carry_on(
            conversation,
            _prompt(state, attached),
            has_begun=state.has_begun,
            by=by,
            bundles=[recording.bundle()],
        )
        on_begun()
        outcome = await run
    finally:
        forget()
    is_done = isinstance(outcome, Done)
    tell(
        PlanPhase(
            phase="implement",
            step=state.step,
            state="ended",
            summary="" if is_done else "It did not come to its end, and is not reviewed.",
            duration_ms=round((time.monotonic() - began) * 1000),
            usage=run.usage,
            cost_usd=run.cost_usd,
        )
    )
    return outcome


def _prompt(state: "PlanState", attached: Sequence[UserBlock]) -> UserMessage:
    if state.step > 1:
        return user_text(phases.retry_prompt(state.feedback), "harness")
    whole = phases.implement_prompt(state.request, state.plan)
    # The first block is what the person said, and is shown as that.
    rest = whole.removeprefix(state.request).lstrip("\n")
    return UserMessage(content=(TextBlock(state.request), TextBlock(rest), *attached))
