"""What accepting a plan brings about: rules for its verifications, a todo list, and the work."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dirge_py.plan.phases import carry_on_prompt
from dirge_py.tools.todo_list import TodoItem
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import Message, TextBlock, UserMessage, user_text

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation, ExclusiveOwner
    from dirge_py.conversation.run import Run
    from dirge_py.plan.document import PlanDocument
    from dirge_py.plan.state import PlanState

_LOCKED = (
    "The mode is plan, in which nothing can be changed: the implementation will be denied what it "
    "needs. /mode standard lets it work."
)


def grants_for(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
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


def allow_checks(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """Grant the plan's verifications; returns what to tell."""
    told = []
    for rule in grants_for(plan, conversation):
        try:
            conversation.settings.add_grant(rule)
        except DirgeError:
            continue  # What no rule can open is asked about, as always.
        told.append(f"Allowed for this session, as the plan verifies with it: {rule}")
    return told


def take_up(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """Make the plan's steps the todo list and grant its verifications; returns what to tell."""
    told = [_LOCKED] if conversation.settings.mode == "plan" else []
    told += allow_checks(plan, conversation)
    if conversation.todo is not None and plan.steps:
        conversation.todo.give(
            [TodoItem(id=str(at), text=step) for at, step in enumerate(plan.steps, start=1)]
        )
    return told


def carry_on(
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
    if not state.has_begun:
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
    words = carry_on_prompt(state.request, state.plan, missing=state.feedback)
    return conversation.send(user_text(words, "harness"), by=by, bundles=bundles)


def _is_about(messages: Sequence[Message], request: str) -> bool:
    """Whether what a person said last is the request, with the plan behind it."""
    said = (m for m in reversed(messages) if isinstance(m, UserMessage) and m.origin == "user")
    last = next(said, None)
    blocks = last.content if last is not None else ()
    return len(blocks) > 1 and isinstance(blocks[0], TextBlock) and blocks[0].text == request
