"""The settings of providers, models and roles, and `Table`, the base of all tables."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

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

from dirge_py.config.installed import installed_providers
from dirge_py.config.services import OFFLINE, PROVIDER_TYPES, base_url_problem
from dirge_py.lib.nearest import nearest
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.sampling import Sampling

Positive = Annotated[int, Field(gt=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
Bound = Annotated[int, Field(ge=0, le=1000)]


# Validated with the whole file: pydantic would build another validator for a single table.
EMPTY_TABLE: Any = Field(default_factory=dict, validate_default=True)


def setting(default: Any, description: str, **limits: Any) -> Any:
    """A field with a default; the class `list` or `dict` stands for an empty one."""
    if isinstance(default, type):
        return Field(default_factory=default, description=description, **limits)
    return Field(default=default, description=description, **limits)


class Table(BaseModel):
    """A table of the file. Strict, so that `max_turns = "5"` is reported as a mistake."""

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
    types = (*PROVIDER_TYPES, *installed_providers())
    if name in types:
        return name
    near = nearest(name, types)
    fix = f"did you mean `{near}`?" if near else f"there are: {', '.join(types)}"
    raise ValueError(f"no provider type `{name}`; {fix}")


ProviderType = Annotated[
    str,
    AfterValidator(_known_type),
    WithJsonSchema({"type": "string", "examples": list(PROVIDER_TYPES)}),
]


class SamplingTable(Table):
    """How a model chooses its words, in the tables of providers and of models."""

    temperature: float | None = setting(None, "How much chance decides, from 0 to 2.")
    top_p: float | None = setting(None, "Choose among the most probable tokens up to this total.")
    stop_sequences: list[str] = setting(list, "Texts at which an answer ends.")
    options: dict[str, Any] = setting(dict, "Further members of each request, merged last.")

    @property
    def sampling(self) -> Sampling:
        """These settings as requests have them."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            stop_sequences=tuple(self.stop_sequences),
            extra=self.options,
        )

    @model_validator(mode="after")
    def _can_be_sent(self) -> "SamplingTable":
        if problem := self.sampling.problem():
            raise ValueError(problem)
        return self


class ProviderEntry(SamplingTable):
    """One service under the name (alias) that models are chosen by."""

    type: ProviderType = Field(description="A known service, or the wire format that it speaks.")
    allow_insecure: bool = setting(False, "Allow http to another machine.")
    base_url: str | None = setting(
        None,
        "Its address; openai and openai-responses with the version (`…/v1`), the others "
        "the host only. http only to this machine, or with `allow_insecure`.",
    )
    model: str | None = setting(None, "The model used when only the alias is named.")
    models: list[str] = setting(list, "Further models to offer.")
    api_key_env: str | None = setting(None, "The environment variable with the key.")
    api_key: str | None = setting(None, 'This variable, as "${VARIABLE}".', pattern=f"^{VARIABLE}$")
    api_key_file: str | None = setting(None, "A file with only the key, readable by you alone.")
    headers: dict[str, str] = setting(dict, 'Sent with every request; "${VARIABLE}" is filled in.')
    max_output_tokens: Positive | None = setting(None, "The longest answer to ask for.")
    thinking: ThinkingLevel | None = setting(None, "The thinking level of its models.")
    chunk_s: PositiveNumber | None = setting(None, "Replaces `chunk_s` of [timeouts].")
    system_role: Literal["system", "developer", "user"] | None = setting(
        None, "The role of the system prompt, in Chat Completions."
    )
    keep_alive: str | None = setting(None, 'How long Ollama keeps a model loaded: "5m", "0".')
    cache_ttl: Literal["5m", "1h"] | None = setting(None, "How long Anthropic caches prompts.")
    script: str | None = setting(None, "The file of a scripted or replay provider.")

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


class ModelEntry(SamplingTable):
    """Corrections of the catalogue for one model. Prices are USD per million tokens."""

    window_tokens: Positive | None = setting(None, "Its context window.")
    max_output_tokens: Positive | None = setting(None, "Its longest answer.")
    price_in: Price | None = setting(None, "A million input tokens, in USD.")
    price_out: Price | None = setting(None, "A million output tokens.")
    price_cache_read: Price | None = setting(None, "A million cached tokens.")
    price_cache_write: Price | None = setting(None, "A million tokens written to the cache.")
    thinking: bool | None = setting(None, "Whether it can think.")
    images: bool | None = setting(None, "Whether it accepts images.")
    structured: bool | None = setting(None, "Whether its service holds answers to a JSON Schema.")


PROFILE_FIELDS = frozenset(ModelEntry.model_fields) - SamplingTable.model_fields.keys()
"""The settings of a model that are part of its profile."""


class RolesTable(Table):
    """The model of each role: an alias, or `alias/model`, each with an optional `:level`."""

    main: str | None = setting(None, "Does the work.")
    subagent: str | None = setting(None, "Works on delegated tasks.")
    summarize: str | None = setting(None, "Summarizes old history.")
    explore: str | None = setting(None, "Explores the project for a plan.")
    plan: str | None = setting(None, "Writes plans.")
    review: str | None = setting(None, "Reviews changes when they are done.")
    escalate: str | None = setting(None, "Takes over when the main model is stuck.")
    critic: str | None = setting(None, "Checks answers.")
    approve: str | None = setting(None, "Judges tool calls before you are asked.")
    fallback: str | list[str] = setting(list, "Used in this order if a model can't be reached.")

    def named(self) -> Iterator[tuple[str, str]]:
        """Each role that is set, with its model; `fallback` once for each of its models."""
        for role, spec in self:
            for model in [spec] if isinstance(spec, str) else spec or ():
                yield role, model
