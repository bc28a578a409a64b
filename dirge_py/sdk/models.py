"""The models of an agent that reads no settings."""

import os
from collections.abc import Sequence

from dirge_py.config.model_spec import THINKING_LEVELS
from dirge_py.config.schema import Config
from dirge_py.config.sources import Chosen, Origin
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ASSUMED_WINDOW_TOKENS, ModelCard, cost_usd, lookup
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import ModelOption, ThinkingLevel
from dirge_py.types.messages import Usage


def bare_config(model: str) -> Config:
    """Settings as if no file existed: defaults, the usual variables, and this model."""
    config = Config()
    config._origin = Origin(chosen=Chosen(model=model), environment=dict(os.environ))
    return config


@dataclass(frozen=True, slots=True)
class OwnModels:
    """Models behind a stream function of the embedder's; implements `parts.Models`.

    Any name will do; those that the catalogue knows (`anthropic/…`) have a window and a price.
    """

    first: str

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        name, _, last = spec.rpartition(":")
        level = next((level for level in THINKING_LEVELS if level == last), None)
        return (name, level) if name and level else (spec, None)

    def choices(self) -> Sequence[ModelOption]:
        return [ModelOption(spec=self.first, window_tokens=self.window_tokens(self.first))]

    def services(self) -> Sequence[str]:
        return ()

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        raise ConfigError(f"Whoever answers for {alias} has no list of models.")

    def window_tokens(self, model: str) -> int:
        return self._card(model).window_tokens or ASSUMED_WINDOW_TOKENS

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return cost_usd(self._card(model), usage)

    def holds_schema(self, model: str) -> bool:
        # What answers here is the embedder's: it takes a tool, and may know nothing of schemas.
        return False

    def sees_pictures(self, model: str) -> bool | None:
        return self._card(model).sees_pictures

    def _card(self, model: str) -> ModelCard:
        provider, _, model_id = model.partition("/")
        return lookup(provider, model_id)
