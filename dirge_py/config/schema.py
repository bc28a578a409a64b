"""The settings that exist, with their defaults: a closed schema.

Every table here has something behind it. Key names carry their units (`_s`, `_usd`, `_bytes`), and
each field's description is what documentation and the JSON Schema say about it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from dirge_py.config.loop_tables import Context, Guardrail, Limits, Loop, Reminder
from dirge_py.config.plan_table import Plan, with_own_names
from dirge_py.config.provider_table import ModelEntry, ProviderEntry, Roles
from dirge_py.config.sources import Origin
from dirge_py.config.table import Positive, PositiveNumber, Table
from dirge_py.types.tools import Operation


class Tools(Table):
    """Which tools the model has, and how several calls run."""

    execution: Literal["parallel", "sequential"] = Field(
        default="parallel", description="Whether independent calls of one turn may overlap."
    )
    max_parallel: Annotated[int, Field(ge=1, le=64)] = Field(default=8, description="How many may.")
    enabled: list[str] | None = Field(default=None, description="Only these tools; absent: all.")
    disabled: list[str] = Field(default_factory=list, description="Not these.")
    result_budget_chars: Annotated[int, Field(ge=1000)] = Field(
        default=80_000, description="Characters of results sent for one batch of calls."
    )
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="Times a tool may ask the model to try again in one run."
    )
    environment: list[str] = Field(
        default_factory=list, description="Further variables that commands get; never keys."
    )


class PermissionRule(Table):
    """One rule. A matching deny always wins; of the others the last match does."""

    op: Literal[Operation, "*"] = Field(description="What the call would do.")
    match: Annotated[str, Field(min_length=1)] = Field(
        description="A path, command, host or name; `*` and `**` stand for anything."
    )
    effect: Literal["allow", "ask", "deny"] = Field(description="What happens then.")


class Permission(Table):
    """What may happen without asking."""

    mode: Literal["standard", "accept", "restrictive", "plan", "yolo"] = Field(
        default="standard", description="The preset that decides where no rule does."
    )
    rule: list[PermissionRule] = Field(default_factory=list, description="Rules, in order.")
    loop_guard: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="Denials of one call after which it is no longer asked about; 0: no."
    )
    judge: Literal["deny", "warn"] = Field(
        default="deny", description="What a no of [roles] approve does to a call that would ask."
    )
    remote: bool = Field(
        default=False, description="Whether `dirge signal` may answer what is asked."
    )


class Sandbox(Table):
    """What commands are shut into."""

    mode: Literal["off", "preferred", "required"] = Field(
        default="off", description="Whether commands run in a sandbox."
    )
    network: bool = Field(default=False, description="Let every command reach the network.")
    hosts: list[str] = Field(
        default_factory=list, description="Hosts that commands reach without it; `*.` is allowed."
    )
    writable: list[str] = Field(
        default_factory=list, description="Folders to write in besides the workspace."
    )
    readable: list[str] = Field(
        default_factory=list, description="Places below your home folder to show to commands."
    )


class Web(Table):
    """How `webfetch` and `websearch` reach the web."""

    search: Literal["duckduckgo", "searxng", "brave", "exa", "tavily"] | None = Field(
        default=None, description="Who answers `websearch`; absent: there is no such tool."
    )
    search_url: str | None = Field(
        default=None, description="Its address, where it is not the usual one."
    )
    search_key_env: str | None = Field(
        default=None, description="The environment variable with its key."
    )
    private_hosts: list[str] = Field(
        default_factory=list, description="Hosts of your own network that may be fetched from."
    )
    timeout_s: PositiveNumber = Field(default=15.0, description="For one page, in seconds.")
    max_bytes: Positive = Field(
        default=5 * 1024 * 1024, description="The most of one page, after unpacking."
    )
    proxy: str | None = Field(
        default=None, description="The proxy to use; those of the environment are not."
    )


class Timeouts(Table):
    """How long to wait, in seconds."""

    connect_s: PositiveNumber = Field(default=30.0, description="For a connection.")
    establish_s: PositiveNumber = Field(
        default=300.0, description="For the first byte of an answer."
    )
    chunk_s: PositiveNumber = Field(default=300.0, description="For the next piece of it.")
    tool_call_gap_s: PositiveNumber = Field(
        default=60.0, description="For the next piece of a half-written tool call."
    )
    bash_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=120.0, description="For a command, unless the call asks otherwise."
    )
    quiet_s: PositiveNumber = Field(
        default=60.0, description="Without output after which a command is said to be quiet."
    )
    tool_s: PositiveNumber = Field(default=300.0, description="For any other tool.")
    tools: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="For single tools, by name; 0 is no limit."
    )
    judge_s: PositiveNumber = Field(
        default=120.0, description="For a model that judges or summarises."
    )
    plugin_hook_s: PositiveNumber = Field(default=5.0, description="For one hook of a plugin.")


class Session(Table):
    """What is kept."""

    save: bool = Field(default=True, description="Keep sessions, so that they can be resumed.")
    segment_records: Annotated[int, Field(ge=1)] = Field(
        default=10_000, description="Records after which a session goes on in another file."
    )
    segment_mb: Annotated[int, Field(ge=1)] = Field(default=16, description="The same, by size.")
    snapshots: bool = Field(
        default=True, description="Keep the files as they were, for going back."
    )
    snapshot_file_mb: Annotated[int, Field(ge=1)] = Field(
        default=8, description="Larger files are left out of snapshots."
    )
    snapshot_days: Annotated[int, Field(ge=1)] = Field(
        default=30, description="How long snapshots are kept."
    )
    snapshot_max_mb: Annotated[int, Field(ge=1)] = Field(
        default=2_000, description="What the snapshots of one project may take."
    )


class Memory(Table):
    """What is remembered from one session to the next: MEMORY.md and USER.md."""

    enabled: bool = Field(default=True, description="Read them, and offer to write them.")
    max_chars: Annotated[int, Field(ge=1)] = Field(
        default=20_000, description="How much of each is sent: its end, if it is longer."
    )


class Ui(Table):
    """How the terminal UI looks."""

    theme: str = Field(default="phosphor", description="The name of a theme.")
    show_thinking: bool = Field(default=False, description="Show what models say to themselves.")
    keymap: Literal["default", "emacs", "vim"] = Field(
        default="default", description="How the input is edited; `[keys]` changes single keys."
    )
    enter: Literal["steer", "queue"] = Field(
        default="steer", description="What Enter does during a run; Tab does the other."
    )
    chord_timeout_ms: Annotated[int, Field(ge=100, le=10_000)] = Field(
        default=1_000, description="How long the second key of two may take."
    )
    mouse: bool = Field(default=True, description="Take the mouse: wheel, clicks and selecting.")
    clipboard: Literal["auto", "native", "tmux", "osc52"] = Field(
        default="auto", description="How text gets onto the clipboard."
    )
    notify: Literal["off", "bell", "desktop", "both"] = Field(
        default="bell", description="How to call when the terminal has not the focus."
    )
    reduced_motion: bool = Field(default=False, description="Nothing moves by itself.")
    avatar: bool = Field(default=True, description="A small face that shows what goes on.")
    panel: Literal["auto", "on", "off"] = Field(
        default="auto", description="The panels at the sides; auto: from 152 columns on."
    )
    display: list[Literal["left", "main", "right"]] = Field(
        default=["left", "main", "right"], description="Which panels there are."
    )
    diff: Literal["auto", "unified", "split"] = Field(
        default="auto", description="How changes are drawn; auto: side by side from 140 columns on."
    )
    editor_open_command: str = Field(
        default="", description="Run for each file the agent changed; `{path}` and `{line}`."
    )


class PluginEntry(Table):
    """One plugin, by the name of its file. What else stands here are settings of its own."""

    model_config = ConfigDict(extra="allow")

    enabled: bool = Field(default=True, description="Whether it is loaded.")

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.model_extra or {}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Keys = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]
SlashName = Annotated[str, Field(pattern=r"^/[A-Za-z0-9][A-Za-z0-9_-]*$")]

# Read with the whole: a table made alone would have pydantic build a validator for it alone.
_EMPTY: Any = Field(default_factory=dict, validate_default=True)


class Config(Table):
    """All settings of one start: file, environment and flags merged. See `load.load`."""

    provider: str | None = Field(default=None, description="The alias used when none is named.")
    providers: dict[str, ProviderEntry] = Field(
        default_factory=dict, description="Services by alias."
    )
    models: dict[str, ModelEntry] = Field(
        default_factory=dict,
        description="What you know better of single models, by id or alias/id.",
    )
    roles: Roles = _EMPTY
    tools: Tools = _EMPTY
    loop: Loop = _EMPTY
    plan: Plan = _EMPTY
    permission: Permission = _EMPTY
    limits: Limits = _EMPTY
    context: Context = _EMPTY
    timeouts: Timeouts = _EMPTY
    sandbox: Sandbox = _EMPTY
    web: Web = _EMPTY
    session: Session = _EMPTY
    memory: Memory = _EMPTY
    ui: Ui = _EMPTY
    guardrail: list[Guardrail] = Field(default_factory=list, description="Checks, all of them.")
    reminder: list[Reminder] = Field(default_factory=list, description="Things to tell again.")
    plugins: dict[str, PluginEntry] = Field(
        default_factory=dict, description="Plugins by file name: `enabled`, and their settings."
    )
    keys: dict[str, Keys] = Field(
        default_factory=dict, description='Action to key or keys; "none" frees it.'
    )
    aliases: dict[SlashName, str] = Field(
        default_factory=dict, description="Own names for slash commands."
    )

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @model_validator(mode="before")
    @classmethod
    def _has_our_names(cls, settings: Any) -> Any:
        return with_own_names(settings)

    @field_validator("providers")
    @classmethod
    def _aliases_can_be_named(cls, entries: dict[str, ProviderEntry]) -> dict[str, ProviderEntry]:
        for alias in entries:
            if not alias or any(char in "/:" or char.isspace() for char in alias):
                raise ValueError(f"alias `{alias}` may hold no `/`, no `:` and no blank")
        return entries

    @property
    def origin(self) -> Origin:
        """Where the values come from: the file, the environment and what flags chose."""
        return self._origin

    def with_origin(self, origin: Origin) -> "Config":
        """The same settings, with another record of what stands behind them."""
        copy = self.model_copy()
        copy._origin = origin
        return copy

    @property
    def provenance(self) -> Mapping[str, str]:
        """Dotted key → `file:line`, `env NAME` or a flag; a key that is absent has its default."""
        return MappingProxyType(self._origin.sources)
