"""A plan worked through for an embedder: who accepts it, and what has to be there for it."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import PlanTerms
from dirge_py.plan.desk import Accept, AcceptsAll, Drop, KeepsAll, PlanAnswer, PlanDesk
from dirge_py.plan.document import PlanDocument
from dirge_py.plan.runner import PlanResult, start
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import Sink

AcceptFunction: TypeAlias = Callable[
    [PlanDocument], bool | PlanAnswer | Awaitable[bool | PlanAnswer]
]
"""Gets a plan before anything is changed: True has it carried out, False drops it; `plan.desk` has
further answers."""


async def work_through(
    conversation: Conversation,
    request: str,
    *,
    accept: AcceptFunction | None,
    on_event: Sink | None,
) -> PlanResult:
    """What came of the request.

    Raises:
        ConfigError: plans are switched off, or the conversation has no rooms for their phases.
        DirgeError: it is busy.
    """
    terms = conversation.plan_terms
    if not terms.is_enabled:
        raise ConfigError("Plans are switched off.", hint="Set `enabled` in [plan] to true.")
    if conversation.read_tree is None:
        raise ConfigError(
            "This agent has no place where the phases of a plan could work.",
            hint="`Agent.from_config()` has; it brings the built-in tools along.",
        )
    forget = conversation.subscribe(on_event) if on_event is not None else None
    try:
        return await start(request, conversation, _desk(accept, terms))
    finally:
        if forget is not None:
            forget()


def _desk(accept: AcceptFunction | None, terms: PlanTerms) -> PlanDesk:
    if accept is not None:
        return _Asked(accept)
    return KeepsAll() if terms.auto_accept is False else AcceptsAll()


class _Asked:
    def __init__(self, function: AcceptFunction) -> None:
        self._function = function

    async def decide(self, plan: PlanDocument, _grants: Sequence[str]) -> PlanAnswer:
        said = self._function(plan)
        answer = await said if inspect.isawaitable(said) else said
        if isinstance(answer, PlanAnswer):
            return answer
        # Nothing but a plain True is a yes, as with questions about calls.
        return Accept(plan.text) if answer is True else Drop()
