"""The settings of providers, of single models and of the roles that models play.

`Table` is what every table of the settings is: closed, frozen, strict.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from dirge_py.config.services import OFFLINE, PROVIDER_TYPES, base_url_problem
from dirge_py.lib.nearest import nearest
from dirge_py.types.llm import ThinkingLevel

Positive = Annotated[int, Field(gt=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
Bound = Annotated[int, Field(ge=0, le=1000)]


class Table(BaseModel):
    """A table of the file. `strict`: `max_turns = "5"` is a mistake worth naming."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
Price = Annotated[float, Field(ge=0)]


def _known_type(name: str) -> str:
    if name in PROVIDER_TYPES:
        return name
    near = nearest(name, PROVIDER_TYPES)
    fix = f"did you mean `{near}`?" if near else f"there are: {', '.join(PROVIDER_TYPES)}"
    raise ValueError(f"no provider type `{name}`; {fix}")


ProviderType = Annotated[
    str,
    AfterValidator(_known_type),
    WithJsonSchema({"type": "string", "enum": list(PROVIDER_TYPES)}),
]


class ProviderEntry(Table):
    """One service under the name (alias) that models are chosen by."""

    type: ProviderType = Field(
        description="The wire format the service speaks, or the name of a service that is known."
    )
    allow_insecure: bool = Field(default=False, description="Allow http to another machine.")
    base_url: str | None = Field(
        default=None,
        description="Where it answers; openai and openai-responses with the version (`…/v1`), the "
        "others the host only. http only to this machine, or with `allow_insecure`.",
    )
    model: str | None = Field(
        default=None, description="The model used when only the alias is named."
    )
    models: list[str] = Field(default_factory=list, description="Further models to offer.")
    api_key_env: str | None = Field(
        default=None, description="The environment variable with the key."
    )
    api_key: str | None = Field(
        default=None, pattern=f"^{VARIABLE}$", description='The same, written as "${VARIABLE}".'
    )
    api_key_file: str | None = Field(
        default=None,
        description="A file that holds the key and nothing else, readable by you alone.",
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description='Sent with every request; "${VARIABLE}" is filled in.'
    )
    max_output_tokens: Positive | None = Field(
        default=None, description="The longest answer to ask for."
    )
    thinking: ThinkingLevel | None = Field(default=None, description="How much its models think.")
    chunk_s: PositiveNumber | None = Field(
        default=None, description="The same as in [timeouts], for this service."
    )
    system_role: Literal["system", "developer", "user"] | None = Field(
        default=None, description="Who says the system prompt, in Chat Completions."
    )
    keep_alive: str | None = Field(
        default=None, description='How long Ollama keeps a model loaded: "5m"; "0" unloads it.'
    )
    cache_ttl: Literal["5m", "1h"] | None = Field(
        default=None, description="How long Anthropic keeps the cached beginning; absent: 5m."
    )
    script: str | None = Field(
        default=None,
        description="The script of a scripted provider (TOML or JSON), or the recording that a "
        "replay provider plays.",
    )

    @field_validator("base_url")
    @classmethod
    def _keys_travel_safely(cls, url: str | None, others: ValidationInfo) -> str | None:
        problem = base_url_problem(url, others.data.get("allow_insecure", False)) if url else None
        if problem:
            raise ValueError(problem)
        return url

    @model_validator(mode="after")
    def _fits_together(self) -> "ProviderEntry":
        keys = [self.api_key_env, self.api_key, self.api_key_file]
        if sum(key is not None for key in keys) > 1:
            raise ValueError("give one of `api_key_env`, `api_key` and `api_key_file`")
        if (self.type in OFFLINE) != (self.script is not None):
            types = " and ".join(f'`type = "{name}"`' for name in OFFLINE)
            raise ValueError(f"`script` belongs to {types}, which need one")
        return self


class ModelEntry(Table):
    """One model, where the catalogue is silent or wrong. Prices are USD per million tokens."""

    window_tokens: Positive | None = Field(default=None, description="How much it takes in.")
    max_output_tokens: Positive | None = Field(default=None, description="Its longest answer.")
    price_in: Price | None = Field(default=None, description="A million tokens in, in USD.")
    price_out: Price | None = Field(default=None, description="A million tokens out.")
    price_cache_read: Price | None = Field(default=None, description="A million from the cache.")
    price_cache_write: Price | None = Field(default=None, description="A million into it.")
    thinking: bool | None = Field(default=None, description="Whether it can think.")
    images: bool | None = Field(default=None, description="Whether it can look at pictures.")
    structured: bool | None = Field(
        default=None, description="Whether its service holds answers to a JSON Schema."
    )


class RolesTable(Table):
    """Which model does what: an alias, or `alias/model`, each with `:level` if wanted."""

    main: str | None = Field(default=None, description="Does the work.")
    subagent: str | None = Field(default=None, description="Does work that was handed on.")
    summarize: str | None = Field(default=None, description="Shortens what is old.")
    explore: str | None = Field(default=None, description="Explores the project for a plan.")
    plan: str | None = Field(default=None, description="Writes plans.")
    review: str | None = Field(default=None, description="Reads changes before they count as done.")
    escalate: str | None = Field(
        default=None, description="Takes over when the main model is stuck."
    )
    critic: str | None = Field(default=None, description="Checks answers.")
    approve: str | None = Field(default=None, description="Judges calls before a person is asked.")
    fallback: str | list[str] = Field(
        default_factory=list,
        description="Asked, in this order, where another model's service is out of reach.",
    )

    def named(self) -> Iterator[tuple[str, str]]:
        """Each role that is set, and the model that has it; `fallback` once for each of its own."""
        for role, spec in self:
            for one in [spec] if isinstance(spec, str) else spec or ():
                yield role, one
