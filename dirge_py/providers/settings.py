"""The settings of one provider: address, key, time limits, and the quirks of its service."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelProfile, find_model_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """The rows of known services hold these; None and empty: as the format's own service does.

    `thinking` gives members of the request's body by thinking level, `off` among them; a level that
    is missing adds nothing. `body_of` are members of requests to models whose id begins as it says.
    `thinking_back`: the name under which the model's thinking is sent back to it with its calls,
    where the service wants it.
    `call_id_chars`: the length that ids of calls must have, made of letters and digits.
    `structured`: how an answer after a schema is asked for; "none": in words only.
    `thinks_when_forced`: False where a model cannot think in a turn in which it must call a tool.
    `cache_key`: requests say which of them begin alike, as they do to OpenAI itself.
    `tells_cost`: its usage has a `cost` in US dollars.
    """

    system_role: Literal["system", "developer", "user"] | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    stream_usage: bool = True
    thinking: Mapping[str, Mapping[str, Any]] | None = None
    body_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    call_id_chars: int | None = None
    structured: Literal["json_schema", "json_object", "none"] | None = None
    thinks_when_forced: bool = True
    cache_key: bool = False
    tells_cost: bool = False


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
    """How long each silence may last, in seconds.

    `establish_s` runs from the request to the first byte of the answer, `chunk_s` between two
    pieces of it, `tool_call_gap_s` between two pieces while a tool call is half-written: a model
    that stops there is stuck, not thinking. `connect_s` is the share of `establish_s` that a
    connection may take.
    """

    establish_s: float = 300.0
    chunk_s: float = 300.0
    tool_call_gap_s: float = 60.0
    connect_s: float = 30.0

    def silent_for(self, chunk_s: float | None) -> "StreamTimeouts":
        """The same with another `chunk_s`; None: the very same."""
        return self if chunk_s is None else replace(self, chunk_s=chunk_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[providers.<alias>]` entry, resolved. The key is in no repr.

    `key_place` says where the key came from, for people: a variable's name, or a file. `card_of`
    tells of a model by its id; None: the catalogue does, for this type. `keep_alive` is for
    Ollama, `cache_ttl` for Anthropic. `script` is the file of a scripted provider, or the recording
    of a replayed one; `redact` is asked besides the key itself.
    """

    alias: str
    type: str
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    key_place: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_insecure: bool = False
    max_output_tokens: int | None = None
    timeouts: StreamTimeouts = field(default_factory=StreamTimeouts)
    dialect: Quirks = field(default_factory=Quirks)
    card_of: ModelProfileOf | None = None
    keep_alive: str | None = None
    cache_ttl: str | None = None
    script: str | None = None
    redact: Redact = field(default=_redact_nothing, repr=False)

    def card(self, model: str) -> ModelProfile:
        """What is known of the model with this id."""
        return (
            self.card_of(model)
            if self.card_of is not None
            else find_model_profile(self.type, model)
        )


def model_id(model: str) -> str:
    """The service's own name of `alias/id`; an id may hold slashes itself (`or/qwen/q3`)."""
    alias, slash, name = model.partition("/")
    return name if slash else alias
