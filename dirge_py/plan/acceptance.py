"""What accepting a plan brings about: rules for its verifications, a todo list, and the work."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.agent_loop.hooks import Bundle
from dirge_py.errors import DirgeError
from dirge_py.messages import UserMessage, user_text
from dirge_py.tools.planning.todo_list import TodoItem

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.occupancy import Occupant
    from dirge_py.plan.document import PlanDocument
    from dirge_py.runs import Run

_CARRY_ON = (
    "Carry on with the plan where you left it. Look at the todo list and the files first: part of "
    "it is done. Verify as its last step says."
)


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
            decision = conversation.why("bash", command)
        except DirgeError:
            continue
        if decision.effect == "ask" and all(r.startswith("execute:") for r in decision.grant):
            rules += decision.grant
    return tuple(dict.fromkeys(rules))


def take_up(plan: "PlanDocument", conversation: "Conversation") -> Sequence[str]:
    """Make the plan's steps the todo list and grant its verifications; returns what to tell."""
    told = [_LOCKED] if conversation.mode == "plan" else []
    for rule in grants_for(plan, conversation):
        conversation.add_grant(rule)
        told.append(f"Allowed for this session, as the plan verifies with it: {rule}")
    if conversation.todo is not None and plan.steps:
        conversation.todo.give(
            [TodoItem(id=str(at), text=step) for at, step in enumerate(plan.steps, start=1)]
        )
    return told


def carry_on(
    conversation: "Conversation",
    prompt: UserMessage,
    *,
    has_begun: bool,
    by: "Occupant",
    bundles: Sequence[Bundle],
) -> "Run":
    """Begin the implement run, or go on with the one that `has_begun` and did not come to its end.

    Raises:
        DirgeError: it was cut off in the middle of calls whose fate somebody has to tell.
    """
    if not has_begun:
        return conversation.send(prompt, by=by, bundles=bundles)
    interruption = conversation.interruption
    if interruption is not None and interruption.undecided:
        raise DirgeError(
            "calls of the run before were cut off, and nobody knows how far they came.",
            hint="/continue asks about them and goes on; then /plan resume reviews the result.",
        )
    try:
        return conversation.continue_run(by=by, bundles=bundles)
    except DirgeError:
        # Its last answer is whole, or a person went on meanwhile.
        return conversation.send(user_text(_CARRY_ON, "harness"), by=by, bundles=bundles)
