"""The implement phase: an ordinary run of the main session.

Accepting a plan also adds rules for its verifications and makes its steps the todo list.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.extensions.todo.extension import Todo
from dirge_py.plan import phases
from dirge_py.plan.evidence import EvidenceCollector
from dirge_py.plan.phases import carry_on_prompt
from dirge_py.tools.todo_list import TodoItem
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageEnd, PlanPhase
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import Message, TextBlock, UserBlock, UserMessage, user_text
from dirge_py.types.outcomes import Done, Outcome

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation, ExclusiveOwner
    from dirge_py.conversation.run import Run
    from dirge_py.plan.document import PlanDocument
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
    if not state.cycle.has_begun and _is_last_prompt(prompt, conversation.messages):
        # It was the last thing that a program did before it was killed.
        state = replace(state, cycle=replace(state.cycle, has_begun=True))
        on_begun()
    recording = EvidenceCollector(
        conversation, ledger, phase="implement", step=state.cycle.step, tell=conversation.report
    )
    conversation.report(PlanPhase(phase="implement", step=state.cycle.step, state="started"))
    run: Run | None = None
    outcome: Outcome | None = None
    try:
        with ExitStack() as heard:
            heard.callback(conversation.subscribe(recording.sink))
            heard.callback(conversation.subscribe(_on_beginning(prompt, on_begun)))
            run = start_or_continue(
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
            step=state.cycle.step,
            state="ended",
            summary="" if is_done else "It did not come to its end, and is not reviewed.",
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        if run is not None:
            ended = replace(ended, usage=run.usage, cost_usd=run.cost_usd)
        conversation.report(ended)
    return outcome


def _is_last_prompt(prompt: UserMessage, messages: Sequence[Message]) -> bool:
    last = messages[-1] if messages else None
    return isinstance(last, UserMessage) and last.text == prompt.text


def _on_beginning(prompt: UserMessage, on_begun: Callable[[], None]) -> Callable[[LoopEvent], None]:
    """A sink that hears of the prompt in the history: one that was held back begins nothing."""

    def sink(event: LoopEvent) -> None:
        if isinstance(event, MessageEnd) and event.message is prompt:
            on_begun()

    return sink


def _prompt(state: "PlanState", attached: Sequence[UserBlock]) -> UserMessage:
    if state.cycle.step > 1:
        return user_text(phases.retry_prompt(state.cycle.feedback), "harness")
    whole = phases.implement_prompt(state.request, state.plan)
    # The first block is what the person said, and is shown as that.
    rest = whole.removeprefix(state.request).lstrip("\n")
    return UserMessage(content=(TextBlock(state.request), TextBlock(rest), *attached))


_LOCKED = (
    "The mode is plan, in which nothing can be changed: the implementation will be denied what it "
    "needs. /mode standard lets it work."
)


def verification_grants(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """The rules that would let the plan's verifications run: exactly those commands, no others.

    What is allowed already needs none, and what is denied, or can only be allowed once, gets none.
    """
    rules: list[str] = []
    for command in plan.verify:
        try:
            decision = conversation.settings.why("bash", command)
        except DirgeError:
            continue
        if decision.effect == "ask" and all(r.startswith("execute:") for r in decision.grant):
            rules += decision.grant
    return tuple(dict.fromkeys(rules))


def grant_verifications(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """Grant the plan's verifications; returns what to tell."""
    told = []
    for rule in verification_grants(plan, conversation):
        try:
            conversation.settings.add_grant(rule)
        except DirgeError:
            continue  # What no rule can open is asked about, as always.
        told.append(f"Allowed for this session, as the plan verifies with it: {rule}")
    return told


def prepare_implementation(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """Make the plan's steps the todo list and grant its verifications; returns what to tell."""
    told = [_LOCKED] if conversation.settings.mode == "plan" else []
    told += grant_verifications(plan, conversation)
    todo = conversation.extension(Todo)
    if todo is not None and plan.steps:
        todo.list.give(
            [TodoItem(id=str(at), text=step) for at, step in enumerate(plan.steps, start=1)]
        )
    return told


def start_or_continue(
    conversation: "Conversation",
    prompt: UserMessage,
    state: "PlanState",
    *,
    by: "ExclusiveOwner",
    bundles: Sequence[Hooks],
) -> "Run":
    """Begin the implement run, or go on with one that began and did not come to its end.

    It is told where it stands if its last answer is whole, or somebody talked of other things.

    Raises:
        DirgeError: it was cut off in the middle of calls whose fate somebody has to tell.
    """
    if not state.cycle.has_begun:
        return conversation.send(prompt, by=by, bundles=bundles)
    interruption = conversation.interruption
    if interruption is not None and interruption.undecided:
        raise DirgeError(
            "calls of the run before were cut off, and nobody knows how far they came.",
            hint="/continue asks about them and goes on; then /plan resume reviews the result.",
        )
    if _is_about(conversation.messages, state.request):
        with suppress(DirgeError):
            return conversation.continue_run(by=by, bundles=bundles)
    words = carry_on_prompt(state.request, state.plan, missing=state.cycle.feedback)
    return conversation.send(user_text(words, "harness"), by=by, bundles=bundles)


def _is_about(messages: Sequence[Message], request: str) -> bool:
    """Whether what a person said last is the request, with the plan behind it."""
    said = (m for m in reversed(messages) if isinstance(m, UserMessage) and m.origin == "user")
    last = next(said, None)
    blocks = last.content if last is not None else ()
    return len(blocks) > 1 and isinstance(blocks[0], TextBlock) and blocks[0].text == request
