"""Where settings come from: the flags of this start, and a record of who set what."""

from collections.abc import Mapping
from dataclasses import field

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import ThinkingLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What flags say. None (or False): the flag was not given."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    thinking: str | None = None
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
class RequestedModel:
    """The model this start asks for, before it is matched with the providers there are.

    `source` is the flag or variable that said so, empty if none did.
    """

    provider: str | None = None
    model: str | None = None
    source: str = ""
    thinking: ThinkingLevel | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A server on this machine that answered. `models`: the ids it lists, the best first."""

    type: str
    base_url: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What stood behind a Config. `path` is None when there was no file.

    `found` are the local services that answered, by type, where nothing else could be used; None:
    nobody has asked.
    """

    path: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    chosen: RequestedModel = RequestedModel()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    found: Mapping[str, LocalServer] | None = None
