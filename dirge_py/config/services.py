"""The services that work without a `[providers]` entry, as data."""

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A provider type with its usual variables. Its name is also its alias when none is written."""

    type: str
    key_env: str
    base_url_env: str
    default_model: str


SERVICES: tuple[Service, ...] = (
    Service(
        type="openai",
        key_env="OPENAI_API_KEY",
        base_url_env="OPENAI_BASE_URL",
        default_model="gpt-5.5",
    ),
    Service(
        type="anthropic",
        key_env="ANTHROPIC_API_KEY",
        base_url_env="ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5",
    ),
)
"""In the order in which one is chosen when nothing is configured and several keys are set."""

SERVICE_OF = {service.type: service for service in SERVICES}
