"""Which model `[roles]` names for a role, and whether it can be used."""

from dirge_py.config.access import provider_access
from dirge_py.config.models import ModelChoice, main_model, resolve_model
from dirge_py.config.schema import Config
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import ThinkingLevel


def unusable_roles(config: Config) -> list[str]:
    """What to tell the person of roles that name no model, or one which cannot be used."""
    notices = []
    if config.loop.gates.goal and not config.roles.critic:
        notices.append("[loop.gates] goal: nobody judges it. Name a model as [roles] critic.")
    for role, spec in config.roles.named():
        if not spec or role == "main":
            continue
        try:
            usable_choice(config, spec)
        except ConfigError as error:
            notices.append(f"[roles] {role}: {error.message} {error.hint}".strip())
    return notices


def role_choice(config: Config, role: str) -> ModelChoice | None:
    """The model that `[roles]` names for a role; None where it names none that can be used."""
    spec = getattr(config.roles, role)
    if not spec:
        return None
    try:
        return usable_choice(config, spec)
    except ConfigError:
        return None  # the person was told at the start: `unusable_roles`


def usable_model(config: Config, role: str) -> str:
    """`alias/id` of the model that a role stands for; empty where that cannot be used."""
    if not getattr(config.roles, role):
        return main_model(config).name
    choice = role_choice(config, role)
    return choice.name if choice is not None else ""


def level_of(choice: ModelChoice, spec: str) -> ThinkingLevel | None:
    """How much the model of `spec` is to think; None where nobody said."""
    return choice.level if choice.level != "off" or spec.endswith(":off") else None


def usable_choice(config: Config, spec: str) -> ModelChoice:
    """Raises ConfigError: it names no model, or one whose provider lacks its key or address."""
    choice = resolve_model(config, spec)
    provider_access(config, choice.alias, is_main=choice.alias == main_model(config).alias)
    return choice
