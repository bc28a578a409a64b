"""The settings of one provider: address, key, time limits, and the quirks of its service."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelProfile, find_model_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """How a service departs from the wire format it speaks; the defaults are the format's own ways.

    The rows of known services (config/services.toml) hold these.
    """

    system_role: Literal["system", "developer", "user"] | None = None
    """The role of the system prompt; None: the format's usual one."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The member of the request that limits the answer; None: the usual one."""
    stream_usage: bool = True
    """Whether the service accepts a request for token counts in a stream."""
    thinking: Mapping[str, Mapping[str, Any]] | None = None
    """Members of the body by thinking level, `off` among them; a missing level adds nothing."""
    body_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Members of requests to models whose id begins like the key."""
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    """The name under which the model's thinking is sent back with its calls, where it must be."""
    call_id_chars: int | None = None
    """The length that ids of calls must have, made of letters and digits; None: any."""
    structured: Literal["json_schema", "json_object", "none"] | None = None
    """How an answer after a schema is asked for; "none": in words only."""
    thinks_when_forced: bool = True
    """False where a model cannot think in a turn in which it must call a tool."""
    cache_key: bool = False
    """Whether requests say which of them begin alike, as they do to OpenAI itself."""
    tells_cost: bool = False
    """Whether its usage has a `cost` in US dollars."""


def merge_bodies(body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`body` with the members of `more`; tables that both have are merged, `more` wins else."""
    both = dict(body)
    for name, value in more.items():
        here = both.get(name)
        if isinstance(here, Mapping) and isinstance(value, Mapping):
            value = merge_bodies(here, value)
        both[name] = value
    return both


Redact: TypeAlias = Callable[[str], str]
"""Text with every secret in it replaced; applied to whatever a service says before it is shown."""


ModelProfileOf: TypeAlias = Callable[[str], ModelProfile]
"""What is known of a model, by its id."""


def _redact_nothing(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeouts:
    """How long each silence may last, in seconds."""

    establish_s: float = 300.0
    """From the request to the first byte of the answer."""
    chunk_s: float = 300.0
    """Between two pieces of the answer."""
    tool_call_gap_s: float = 60.0
    """Between two pieces while a tool call is half-written: a model that stops there is stuck."""
    connect_s: float = 30.0
    """The share of `establish_s` that a connection may take."""

    def silent_for(self, chunk_s: float | None) -> "StreamTimeouts":
        """The same with another `chunk_s`; None: the very same."""
        return self if chunk_s is None else replace(self, chunk_s=chunk_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[providers.<alias>]` entry, resolved. The key is in no repr."""

    alias: str
    """Its name in the settings."""
    type: str
    """The service, as in config/services.toml."""
    base_url: str = ""
    """Empty: that of its wire format."""
    api_key: str | None = field(default=None, repr=False)
    """None: there is none; a call may bring its own."""
    key_place: str = ""
    """Where the key came from, for people: a variable's name, or a file."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request, over those of the format."""
    allow_insecure: bool = False
    """Whether http to another machine is accepted."""
    max_output_tokens: int | None = None
    """For calls that name no limit of their own."""
    timeouts: StreamTimeouts = field(default_factory=StreamTimeouts)
    """How long each silence may last."""
    quirks: Quirks = field(default_factory=Quirks)
    """How the service departs from its wire format."""
    profile_of: ModelProfileOf | None = None
    """What is known of a model, by its id; None: the catalogue knows, for this `type`."""
    keep_alive: str | None = None
    """For Ollama: how long a model stays loaded."""
    cache_ttl: str | None = None
    """For Anthropic: how long what is cached is kept."""
    script: str | None = None
    """The file of a scripted provider, or the recording of a replayed one."""
    redact: Redact = field(default=_redact_nothing, repr=False)
    """Removes secrets from text, besides the key itself."""

    def profile(self, model: str) -> ModelProfile:
        """What is known of the model with this id."""
        return (
            self.profile_of(model)
            if self.profile_of is not None
            else find_model_profile(self.type, model)
        )


def model_id(model: str) -> str:
    """The service's own name of `alias/id`; an id may hold slashes itself (`or/qwen/q3`)."""
    alias, slash, name = model.partition("/")
    return name if slash else alias
