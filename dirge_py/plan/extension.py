"""The extension of `/plan`, made of the settings."""

from dirge_py.config.models import role_choice
from dirge_py.config.schema import Config
from dirge_py.plan.state import Plan, default_plan
from dirge_py.types.extensions import ExtensionHost

_PHASES_WITH_ROLES = ("explore", "plan", "review")


def make(host: ExtensionHost) -> Plan:
    return default_plan() if host.settings is None else plan_terms(host.settings)


def plan_terms(config: Config) -> Plan:
    """Return the extension with `[plan]`, the models of `[roles]` for its phases, and `[limits]`.

    A role whose model can't be used is left out; the start reports that.
    """
    choices = {phase: role_choice(config, phase) for phase in _PHASES_WITH_ROLES}
    models = {name: f"{c.name}:{c.level}" for name, c in choices.items() if c is not None}
    return Plan(config.plan, config.limits, models)
