"""What `/plan` may do, from the settings."""

from dirge_py.config.roles import role_choice
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import PlanTerms
from dirge_py.plan.state import NAME, standing
from dirge_py.session.kept import Kept
from dirge_py.tools.planning.todo_list import TodoList

_PHASES_WITH_ROLES = ("explore", "plan", "review")


def plan_terms(config: Config) -> PlanTerms:
    """The terms of `[plan]`, with the models of `[roles]` for its phases, and `[limits]`.

    A role whose model cannot be used is left out; the person was told at the start.
    """
    table = config.plan
    models = {phase: _spec(config, phase) for phase in _PHASES_WITH_ROLES}
    return PlanTerms(
        is_enabled=table.enabled,
        review_cycles=table.max_review_cycles,
        auto_accept=table.auto_accept,
        max_turns=table.max_turns,
        models={phase: spec for phase, spec in models.items() if spec},
        cost_usd=config.limits.cost_usd,
        tokens=config.limits.tokens,
        time_s=config.limits.time_s,
    )


def stands(todo: TodoList, kept: Kept) -> str:
    """What a model whose context was folded must not have forgotten: its plan, and what is to do.

    The plan itself comes first, as the list was made of its steps.
    """
    return "\n\n".join(part for part in (standing(kept.get(NAME)), todo.as_text()) if part)


def _spec(config: Config, role: str) -> str:
    """`alias/id:level` of the model, empty where the role has none that can be used."""
    choice = role_choice(config, role)
    return f"{choice.name}:{choice.level}" if choice is not None else ""
