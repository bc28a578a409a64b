"""The extension of `/plan`, made of the settings."""

from dirge_py.config.models import role_choice
from dirge_py.config.schema import Config
from dirge_py.plan.state import Plan, PlanTerms
from dirge_py.types.extensions import ExtensionHost

_PHASES_WITH_ROLES = ("explore", "plan", "review")


def make(host: ExtensionHost) -> Plan:
    return Plan(PlanTerms() if host.settings is None else plan_terms(host.settings))


def plan_terms(config: Config) -> PlanTerms:
    """Return the terms of `[plan]`, with the models of `[roles]` for its phases, and `[limits]`.

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
