"""The settings of one provider: address, key, time limits, the quirks of its service, its setup."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelProfile, find_model_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """How a service differs from its wire format. The values are in config/services.toml."""

    system_role: Literal["system", "developer", "user"] | None = None
    """The role of the system prompt; None: the format's usual one."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The member of the request that limits the answer; None: the usual one."""
    stream_usage: bool = True
    """Whether the service accepts a request for token counts in a stream."""
    thinking: Mapping[str, Mapping[str, Any]] | None = None
    """Members of the body by thinking level, also for `off`; a missing level adds nothing."""
    body_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Members of requests to models whose id begins like the key."""
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    """The member in which thinking is sent back with its calls; empty: it isn't sent back."""
    call_id_chars: int | None = None
    """The length of call ids, which then are letters and digits; None: any."""
    structured: Literal["json_schema", "json_object", "none"] | None = None
    """How an answer that follows a schema is requested; "none": only in a message."""
    thinks_when_forced: bool = True
    """False where a model cannot think in a turn in which it must call a tool."""
    cache_key: bool = False
    """Whether requests have a `prompt_cache_key`, as those to OpenAI itself do."""
    tells_cost: bool = False
    """Whether its usage has a `cost` in US dollars."""


def merge_bodies(body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`body` with the members of `more`, which wins; objects that both have are merged."""
    both = dict(body)
    for name, value in more.items():
        here = both.get(name)
        if isinstance(here, Mapping) and isinstance(value, Mapping):
            value = merge_bodies(here, value)
        both[name] = value
    return both


Redact: TypeAlias = Callable[[str], str]
"""Replaces every secret in a text; applied to everything a service says before it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeouts:
    """How long each silence may last, in seconds."""

    establish_s: float = 300.0
    """From the request to the first byte of the answer."""
    chunk_s: float = 300.0
    """Between two pieces of the answer."""
    tool_call_gap_s: float = 60.0
    """Between two pieces of a tool call: a model that stops there is stuck."""
    connect_s: float = 30.0
    """Until the connection is made; a part of `establish_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[providers.<alias>]` entry, resolved. No repr shows the key."""

    alias: str
    """Its name in the settings."""
    type: str
    """The service, as in config/services.toml."""
    base_url: str = ""
    """Its address; empty: that of its wire format."""
    api_key: str | None = field(default=None, repr=False)
    """The key; None for none. A call may bring its own."""
    key_place: str = ""
    """Where the key came from, for messages: a variable, or a file."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request; they replace those of the format."""
    allow_insecure: bool = False
    """Whether http to another machine is accepted."""
    max_output_tokens: int | None = None
    """The limit of calls that don't have their own."""
    timeouts: StreamTimeouts = field(default_factory=StreamTimeouts)
    """How long each silence may last."""
    quirks: Quirks = field(default_factory=Quirks)
    """How the service differs from its wire format."""
    profile_of: Callable[[str], ModelProfile] | None = None
    """The profile of a model by its id; None: the one in the catalogue."""
    keep_alive: str | None = None
    """For Ollama: how long a model stays loaded."""
    cache_ttl: str | None = None
    """For Anthropic: how long prompts stay in the cache."""
    script: str | None = None
    """The file of a scripted provider, or the recording of a replayed one."""
    redact: Redact = field(default=lambda text: text, repr=False)
    """Removes secrets from text, besides the key itself."""

    def profile(self, model: str) -> ModelProfile:
        """The profile of the model with this id."""
        if self.profile_of is not None:
            return self.profile_of(model)
        return find_model_profile(self.type, model)


def model_id(model: str) -> str:
    """The service's own id in `alias/id`; ids may hold slashes (`or/qwen/q3`)."""
    alias, slash, name = model.partition("/")
    return name if slash else alias


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A provider that the setup offers."""

    type: str
    """The service, as in config/services.toml."""
    label: str
    """Its name for people."""
    standing: Literal["found", "key", "known"] = "known"
    """`found` on this machine, with its `key` in the environment, or only `known`."""
    base_url: str = ""
    """Its address; empty: the user enters it."""
    key_env: tuple[str, ...] = ()
    """Variables that usually hold its key."""
    needs_key: bool = True
    """Whether it needs a key."""
    model: str = ""
    """The suggested model; empty: none."""
    models: tuple[str, ...] = ()
    """The models of a server on this machine."""
    is_own: bool = False
    """Only its wire format is known: the user enters its address, key and name."""
