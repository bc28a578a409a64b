"""The implement phase: an ordinary run of the main session."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.plan import phases
from dirge_py.plan.acceptance import carry_on
from dirge_py.plan.recording import Recording
from dirge_py.types.events import LoopEvent, MessageEnd, PlanPhase
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import Message, TextBlock, UserBlock, UserMessage, user_text
from dirge_py.types.outcomes import Done, Outcome

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation, ExclusiveOwner
    from dirge_py.conversation.run import Run
    from dirge_py.plan.evidence import EvidenceLedger
    from dirge_py.plan.state import PlanState


async def implement(
    state: "PlanState",
    *,
    conversation: "Conversation",
    ledger: "EvidenceLedger",
    attached: Sequence[UserBlock],
    by: "ExclusiveOwner",
    bundles: Sequence[Hooks],
    on_begun: Callable[[], None],
) -> Outcome:
    """Have this step of the plan done; returns how the run ended.

    `on_begun` is called once it is part of the session.

    Raises:
        DirgeError: it cannot begin, or go on.
    """
    began = time.monotonic()
    prompt = _prompt(state, attached)
    if not state.has_begun and _is_last(prompt, conversation.messages):
        # It was the last thing that a program did before it was killed.
        state = replace(state, has_begun=True)
        on_begun()
    recording = Recording(
        conversation, ledger, phase="implement", step=state.step, tell=conversation.report
    )
    conversation.report(PlanPhase(phase="implement", step=state.step, state="started"))
    run: Run | None = None
    outcome: Outcome | None = None
    try:
        with ExitStack() as heard:
            heard.callback(conversation.subscribe(recording.sink))
            heard.callback(conversation.subscribe(_beginning(prompt, on_begun)))
            run = carry_on(
                conversation,
                prompt,
                state,
                by=by,
                bundles=[recording.bundle(), *bundles],
            )
            outcome = await run
    finally:
        is_done = isinstance(outcome, Done)
        ended = PlanPhase(
            phase="implement",
            step=state.step,
            state="ended",
            summary="" if is_done else "It did not come to its end, and is not reviewed.",
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        if run is not None:
            ended = replace(ended, usage=run.usage, cost_usd=run.cost_usd)
        conversation.report(ended)
    return outcome


def _is_last(prompt: UserMessage, messages: Sequence[Message]) -> bool:
    last = messages[-1] if messages else None
    return isinstance(last, UserMessage) and last.text == prompt.text


def _beginning(prompt: UserMessage, on_begun: Callable[[], None]) -> Callable[[LoopEvent], None]:
    """A sink that hears of the prompt in the history: one that was held back begins nothing."""

    def sink(event: LoopEvent) -> None:
        if isinstance(event, MessageEnd) and event.message is prompt:
            on_begun()

    return sink


def _prompt(state: "PlanState", attached: Sequence[UserBlock]) -> UserMessage:
    if state.step > 1:
        return user_text(phases.retry_prompt(state.feedback), "harness")
    whole = phases.implement_prompt(state.request, state.plan)
    # The first block is what the person said, and is shown as that.
    rest = whole.removeprefix(state.request).lstrip("\n")
    return UserMessage(content=(TextBlock(state.request), TextBlock(rest), *attached))
