"""Where settings come from: the flags of this start, and the source of each setting."""

from collections.abc import Mapping
from dataclasses import field

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import ThinkingLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The flags of this start. None (or False): the flag was not given."""

    provider: str | None = None
    model: str | None = None
    """`[alias/]id[:level]`."""
    source: str = ""
    """The flag or variable that names the model or provider; set in `Origin.chosen` only."""
    base_url: str | None = None
    thinking: ThinkingLevel | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_file: str | None = None
    permission_mode: str | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    timeout_s: float | None = None
    tools: tuple[str, ...] | None = None
    no_tools: bool = False
    no_context_files: bool = False
    no_session: bool = False
    sandbox: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A model server on this machine, with the ids that it lists, the best first."""

    type: str
    base_url: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The sources of a `Config`."""

    path: str | None = None
    """The settings file; None if there is none."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each setting that has one, by dotted key: `file:line`, a variable or a flag."""
    chosen: Overrides = Overrides()
    """The flags; the provider and the model may come from variables instead."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment variables of this start."""
    found: Mapping[str, LocalServer] | None = None
    """The local model servers by type; None if dirge didn't look for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDraft:
    """What the user entered in the setup: `key_env` or `key`, or neither of them."""

    type: str
    """The service, as in config/services.toml."""
    alias: str
    """Its name in the settings."""
    model: str = ""
    """The service's own id of the model; empty until it is chosen."""
    base_url: str = ""
    """Its address; empty: the usual one."""
    allow_insecure: bool = False
    """Whether http to another machine is accepted."""
    key_env: str = ""
    """The variable that holds the key."""
    key: str = field(default="", repr=False)
    """The key as the user typed it."""
