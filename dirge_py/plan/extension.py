"""The extension of `/plan`, with the settings that hold for plans."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.extensions import Extension, ExtensionHost

if TYPE_CHECKING:
    from dirge_py.config.models import role_choice
    from dirge_py.config.schema import Config
    from dirge_py.conversation.conversation import Conversation
else:
    # `/plan` is loaded before the first frame; the settings schema is not.
    role_choice = late("dirge_py.config.models", "role_choice")

_PHASES_WITH_ROLES = ("explore", "plan", "review")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """The settings that hold for plans."""

    is_enabled: bool = True
    """Whether `/plan` can be used."""
    review_cycles: int = 2
    """How often a review may send the implementation back."""
    auto_accept: bool | None = None
    """Accept plans without asking; None: only if nobody can be asked."""
    max_turns: int = 40
    """The most turns of one phase."""
    models: Mapping[str, str] = field(default_factory=dict)
    """The model of each phase by its name; the main model for others."""
    cost_usd: float | None = None
    """What the whole plan may cost; None: no limit."""
    tokens: int | None = None
    """How many tokens the whole plan may use; None: no limit."""
    time_s: float | None = None
    """How long the whole plan may take; None: no limit."""


class Plan(Extension):
    """Explore, plan, implement and review, in forks."""

    name = "plan"
    summary = "works through a request in phases: explore, plan, implement, review"

    def __init__(self, terms: PlanTerms) -> None:
        self.terms = terms
        """What `[plan]`, `[roles]` and `[limits]` say."""


def make(host: ExtensionHost) -> Plan:
    return Plan(PlanTerms() if host.settings is None else plan_terms(host.settings))


def terms_of(conversation: "Conversation") -> PlanTerms:
    """The terms of plans in this conversation."""
    plan = conversation.extension(Plan)
    return plan.terms if plan is not None else PlanTerms()


def plan_terms(config: "Config") -> PlanTerms:
    """The terms of `[plan]`, with the models of `[roles]` for its phases, and `[limits]`.

    A role whose model can't be used is left out; the start reports that.
    """
    table = config.plan
    choices = {phase: role_choice(config, phase) for phase in _PHASES_WITH_ROLES}
    return PlanTerms(
        is_enabled=table.enabled,
        review_cycles=table.max_review_cycles,
        auto_accept=table.auto_accept,
        max_turns=table.max_turns,
        models={name: f"{c.name}:{c.level}" for name, c in choices.items() if c is not None},
        cost_usd=config.limits.cost_usd,
        tokens=config.limits.tokens,
        time_s=config.limits.time_s,
    )
