"""The services that work without a `[providers]` entry. The data is services.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import ThinkingLevel

OFFLINE = ("scripted", "replay")
"""Types that talk to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A provider type with its usual variables. Its name is also its alias when none is written.

    The fields are those of a row in services.toml, which explains them.
    """

    type: str
    speaks: str
    label: str
    base_url: str | None = None
    key_env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    default_model: str | None = None
    thinking: ThinkingLevel = "off"
    families: tuple[str, ...] = ()
    local: bool = False
    only_at_home: bool = False
    dialect: Mapping[str, Any] = field(default_factory=dict)

    def named_url(self, environment: Mapping[str, str]) -> tuple[str, str]:
        """The address that a variable names, and that variable; both empty where none does."""
        named = ((environment.get(name, ""), name) for name in self.base_url_env)
        return next((pair for pair in named if pair[0]), ("", ""))


def _read() -> tuple[Service, ...]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return tuple(_service(name, row) for name, row in rows.items())


def _service(name: str, row: Mapping[str, Any]) -> Service:
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    return Service(type=name, **fields)


SERVICES: tuple[Service, ...] = _read()
"""In the order in which one is chosen when nothing is configured and several keys are set."""

SERVICE_OF = {service.type: service for service in SERVICES}

PROVIDER_TYPES = (*SERVICE_OF, *OFFLINE)


def wire_of(provider_type: str) -> str:
    """The format that a provider type speaks: its own name, but for services that follow others."""
    service = SERVICE_OF.get(provider_type)
    return service.speaks if service else provider_type
