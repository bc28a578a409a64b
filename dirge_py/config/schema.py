"""All settings with their defaults, as a closed schema.

Key names carry their units (`_s`, `_usd`, `_bytes`). The description of a field is part of the JSON
Schema.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
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

from dirge_py.config.provider_schema import (
    Bound,
    ModelEntry,
    Positive,
    PositiveNumber,
    ProviderEntry,
    RolesTable,
    Table,
)
from dirge_py.config.services import SERVICES
from dirge_py.config.sources import Origin
from dirge_py.types.errors import ConfigError
from dirge_py.types.tools import Operation

SEED_NAMES: Mapping[str, str] = {
    "phased_workflow_enabled": "enabled",
    "phased_workflow_max_review_cycles": "max_review_cycles",
}
"""Alternative names of `[plan]` settings, valid in that table and at the top level."""

Delivery = Literal["all", "one-at-a-time"]
GuardrailPlace = Literal["input", "output", "tool_result"]
SlashName = Annotated[str, Field(pattern=r"^/[A-Za-z0-9][A-Za-z0-9_-]*$")]

# Validated with the whole file: pydantic would build another validator for a single table.
_EMPTY: Any = Field(default_factory=dict, validate_default=True)


class PlanTable(Table):
    """How `/plan` works through a request."""

    enabled: bool = Field(default=True, description="Whether there is `/plan`.")
    max_review_cycles: Annotated[int, Field(ge=0, le=100)] = Field(
        default=2, description="How often the findings of a review are fixed and reviewed again."
    )
    auto_accept: bool | None = Field(
        default=None,
        description="Run a plan without asking; absent: only where no one can be asked (`-p`).",
    )
    max_turns: Positive = Field(
        default=40, description="The most turns of exploring, of planning and of each review."
    )
    sandbox: Literal["preferred", "off"] = Field(
        default="preferred",
        description="Run the commands of these phases in a sandbox, if one works.",
    )


class StormTable(Table):
    """The guard against calls that repeat without progress."""

    enabled: bool = Field(default=True, description="Whether it is on.")
    window: Annotated[int, Field(ge=2, le=100)] = Field(
        default=6, description="How many recent calls are compared."
    )
    threshold: Annotated[int, Field(ge=2, le=100)] = Field(
        default=3, description="The repetition that is answered instead of run."
    )
    exempt: list[str] = Field(default_factory=list, description="Further tools that may repeat.")
    mutating: list[str] = Field(
        default_factory=list, description="Further tools that change something."
    )

    @model_validator(mode="after")
    def _can_be_reached(self) -> "StormTable":
        if self.window < self.threshold:
            raise ValueError("`window` must be at least `threshold`")
        return self


class GatesTable(Table):
    """Reminders in the loop and before the agent stops. 0 turns one off."""

    failures: Bound = Field(default=3, description="Failures in a row before a reminder.")
    depth: Bound = Field(default=0, description="Calls about the same files before a reminder.")
    resume: Bound = Field(
        default=3, description="How often a run that stopped right after a failure continues."
    )
    verifier: Bound = Field(
        default=1, description="How often a run continues because its edits were not tested."
    )
    critic: Literal["off", "advisory", "blocking"] = Field(
        default="advisory", description="How the model of `[roles] critic`, if set, judges a run."
    )
    goal: str | None = Field(
        default=None, description="What a run must reach before it ends; the critic judges it."
    )
    goal_checks: Bound = Field(default=12, description="How often a run continues for its goal.")
    todo: Bound = Field(default=3, description="How often a run with open todo items continues.")


class LoopTable(Table):
    """How a run continues and ends."""

    max_turns: Positive = Field(default=100, description="Turns after which a run ends.")
    steering: Delivery = Field(
        default="all",
        description="How many queued inputs enter before a turn: all, or one at a time.",
    )
    follow_up: Delivery = Field(
        default="one-at-a-time", description="How many are delivered when the agent would stop."
    )
    recoveries: Bound = Field(
        default=3, description="How often in a row a run continues after an incomplete answer."
    )
    escalations: Bound = Field(
        default=3, description="The most turns of the model of `[roles] escalate`."
    )
    scavenge: bool = Field(
        default=False, description="Look for tool calls that a model wrote into its thinking."
    )
    storm: StormTable = Field(default_factory=dict, validate_default=True)
    gates: GatesTable = Field(default_factory=dict, validate_default=True)


class LimitsTable(Table):
    """Limits of one run. Absent: no limit."""

    cost_usd: PositiveNumber | None = Field(default=None, description="USD, if prices are known.")
    input_tokens: Positive | None = Field(default=None, description="Tokens sent.")
    output_tokens: Positive | None = Field(default=None, description="Tokens received.")
    tokens: Positive | None = Field(default=None, description="Tokens, in and out.")
    time_s: PositiveNumber | None = Field(default=None, description="Seconds.")
    requests: Positive | None = Field(default=None, description="Model calls.")
    tool_calls: Positive | None = Field(default=None, description="Tool calls.")


class ContextTable(Table):
    """What is sent to the model besides the conversation, and how history is shortened."""

    project_files: bool = Field(
        default=True, description="Send AGENTS.md and CLAUDE.md, from here up to the git root."
    )
    project_file_max_bytes: Annotated[int, Field(ge=1024, le=1024 * 1024)] = Field(
        default=32 * 1024, description="The most bytes of each such file."
    )
    compact: bool = Field(default=True, description="Shorten old history before it fills up.")
    window_tokens: Positive | None = Field(
        default=None, description="The model's window; absent: as the catalogue says."
    )
    target_tokens: Annotated[int, Field(ge=16_000)] = Field(
        default=250_000, description="The most tokens that are used of a larger window."
    )
    fold_at: Annotated[float, Field(ge=0.3, le=0.75)] = Field(
        default=0.75, description="The share of the window from which old history is compacted."
    )
    strategies: list[Literal["clear_results", "summarize", "window"]] = Field(
        default=["clear_results", "summarize", "window"],
        description="How history is shortened, in this order, until it fits.",
    )
    keep_results: Bound = Field(
        default=5, description="The newest tool results that `clear_results` keeps."
    )
    keep_messages: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=20, description="The newest messages that `window` keeps."
    )
    restore_files: Annotated[int, Field(ge=0, le=20)] = Field(
        default=5, description="Files that are shown again after a compaction."
    )


class ReminderTable(Table):
    """A text that is repeated in requests, but never becomes history."""

    every_turns: Positive | None = Field(default=None, description="Send it in every n-th turn.")
    at_tokens: Positive | None = Field(
        default=None, description="Send it in every turn from this many tokens of context on."
    )
    text: Annotated[str, Field(min_length=1)] = Field(description="The text.")

    @model_validator(mode="after")
    def _has_one_occasion(self) -> "ReminderTable":
        if (self.every_turns is None) == (self.at_tokens is None):
            raise ValueError("give one of `every_turns` and `at_tokens`")
        return self


class GuardrailTable(Table):
    """A check of inputs or outputs: by a pattern, or built in."""

    on: GuardrailPlace | list[GuardrailPlace] = Field(description="What is checked.")
    pattern: str | None = Field(default=None, description="A regular expression to look for.")
    builtin: Literal["secrets"] | None = Field(
        default=None, description="`secrets`: keys, tokens and passwords."
    )
    action: Literal["warn", "trip"] = Field(
        default="trip", description="Notify the user, or stop what is checked."
    )
    name: str = Field(default="", description="Its name in messages.")

    @model_validator(mode="after")
    def _checks_one_thing(self) -> "GuardrailTable":
        if (self.pattern is None) == (self.builtin is None):
            raise ValueError("give one of `pattern` and `builtin`")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"`pattern` is no regular expression: {error}") from None
        return self


class ToolsTable(Table):
    """Which tools the model has, and how several calls run."""

    execution: Literal["parallel", "sequential"] = Field(
        default="parallel", description="Whether independent calls of one turn may overlap."
    )
    max_parallel: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8, description="At most this many."
    )
    enabled: list[str] | None = Field(default=None, description="Only these tools; absent: all.")
    disabled: list[str] = Field(default_factory=list, description="Not these.")
    result_budget_chars: Annotated[int, Field(ge=1000)] = Field(
        default=80_000, description="Characters of results sent for one batch of calls."
    )
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="How often a tool may ask the model to try again in one run."
    )
    environment: list[str] = Field(
        default_factory=list, description="Further variables for commands; never keys."
    )


class PermissionRule(Table):
    """A rule. A matching deny always wins; of the others the last match does."""

    op: Literal[Operation, "*"] = Field(description="What the call would do.")
    match: Annotated[str, Field(min_length=1)] = Field(
        description="A path, command, host or name; `*` and `**` stand for anything."
    )
    effect: Literal["allow", "ask", "deny"] = Field(description="What happens then.")


class PermissionTable(Table):
    """What is allowed without asking."""

    mode: Literal["standard", "accept", "restrictive", "plan", "yolo"] = Field(
        default="standard", description="The preset that decides where no rule does."
    )
    rule: list[PermissionRule] = Field(default_factory=list, description="Rules, in order.")
    loop_guard: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="Denials of one call after which it is no longer asked about; 0: no."
    )
    judge: Literal["deny", "warn"] = Field(
        default="deny",
        description="The effect of a no of [roles] approve on a call that would ask.",
    )
    remote: bool = Field(default=False, description="Whether `dirge signal` may answer questions.")


class SandboxTable(Table):
    """The sandbox of commands."""

    mode: Literal["off", "preferred", "required"] = Field(
        default="off", description="Whether commands run in a sandbox."
    )
    network: bool = Field(default=False, description="Let every command reach the network.")
    hosts: list[str] = Field(
        default_factory=list,
        description="Hosts that commands may reach anyway; `*.` is allowed.",
    )
    writable: list[str] = Field(
        default_factory=list,
        description="Folders to write to, besides the workspace.",
    )
    readable: list[str] = Field(
        default_factory=list, description="Paths below your home folder that commands may read."
    )


class WebTable(Table):
    """How `webfetch` and `websearch` reach the web."""

    search: Literal["duckduckgo", "searxng", "brave", "exa", "tavily"] | None = Field(
        default=None, description="The service behind `websearch`; absent: there is no such tool."
    )
    search_url: str | None = Field(
        default=None, description="Its address, if it isn't the usual one."
    )
    search_key_env: str | None = Field(
        default=None, description="The environment variable with its key."
    )
    private_hosts: list[str] = Field(
        default_factory=list, description="Hosts of your own network that may be fetched."
    )
    timeout_s: PositiveNumber = Field(default=15.0, description="For one page, in seconds.")
    max_bytes: Positive = Field(
        default=5 * 1024 * 1024, description="The most bytes of a page, decompressed."
    )
    proxy: str | None = Field(
        default=None, description="The proxy; those of the environment are not used."
    )


class TimeoutsTable(Table):
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
        default=60.0, description="Without output before a notice about a command."
    )
    tool_s: PositiveNumber = Field(default=300.0, description="For any other tool.")
    tools: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="For single tools, by name; 0 is no limit."
    )
    judge_s: PositiveNumber = Field(
        default=120.0, description="For a model that judges or summarises."
    )
    plugin_hook_s: PositiveNumber = Field(default=5.0, description="For one hook of a plugin.")


class SessionTable(Table):
    """Which parts of a session are stored."""

    save: bool = Field(default=True, description="Store sessions, so that they can be resumed.")
    segment_records: Annotated[int, Field(ge=1)] = Field(
        default=10_000, description="Records after which a session continues in another file."
    )
    segment_mb: Annotated[int, Field(ge=1)] = Field(default=16, description="The same, by size.")
    snapshots: bool = Field(default=True, description="Store files as they were, for rewinding.")
    snapshot_file_mb: Annotated[int, Field(ge=1)] = Field(
        default=8, description="Larger files are not stored."
    )
    snapshot_days: Annotated[int, Field(ge=1)] = Field(
        default=30, description="How long snapshots are kept."
    )
    snapshot_max_mb: Annotated[int, Field(ge=1)] = Field(
        default=2_000, description="The most space for the snapshots of a project."
    )


class MemoryTable(Table):
    """The notes that are kept between sessions: MEMORY.md and USER.md."""

    enabled: bool = Field(default=True, description="Read them, and offer to write them.")
    max_chars: Annotated[int, Field(ge=1)] = Field(
        default=20_000,
        description="The most characters of each that are sent, from its end.",
    )


class UiTable(Table):
    """How the terminal UI looks."""

    theme: str = Field(default="phosphor", description="The name of a theme.")
    show_thinking: bool = Field(default=False, description="Show the thinking of models.")
    keymap: Literal["default", "emacs", "vim"] = Field(
        default="default", description="How the input is edited; `[keys]` changes single keys."
    )
    enter: Literal["steer", "queue"] = Field(
        default="steer", description="What Enter does during a run; Tab does the other."
    )
    chord_timeout_ms: Annotated[int, Field(ge=100, le=10_000)] = Field(
        default=1_000, description="How long the second key of a chord may take."
    )
    mouse: bool = Field(default=True, description="Take the mouse: wheel, clicks and selecting.")
    clipboard: Literal["auto", "native", "tmux", "osc52"] = Field(
        default="auto", description="How text gets onto the clipboard."
    )
    notify: Literal["off", "bell", "desktop", "both"] = Field(
        default="bell", description="How to notify you while the terminal isn't focused."
    )
    reduced_motion: bool = Field(default=False, description="No animations.")
    avatar: bool = Field(default=True, description="A small face that shows the state.")
    panel: Literal["auto", "on", "off"] = Field(
        default="auto", description="The panels at the sides; auto: from 152 columns on."
    )
    display: list[Literal["left", "main", "right"]] = Field(
        default=["left", "main", "right"], description="The panels that are shown."
    )
    diff: Literal["auto", "unified", "split"] = Field(
        default="auto", description="How changes are drawn; auto: side by side from 140 columns on."
    )
    editor_open_command: str = Field(
        default="", description="Run for each file the agent changed; `{path}` and `{line}`."
    )


class PluginEntry(Table):
    """A plugin, by the name of its file. All other keys are settings of the plugin."""

    model_config = ConfigDict(extra="allow")

    enabled: bool = Field(default=True, description="Whether it is loaded.")

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.model_extra or {}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Keys = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]


class Config(Table):
    """All settings of one start: file, environment and flags merged. See `load.load`."""

    provider: str | None = Field(default=None, description="The alias used when none is named.")
    providers: dict[str, ProviderEntry] = Field(
        default_factory=dict, description="Services by alias."
    )
    models: dict[str, ModelEntry] = Field(
        default_factory=dict,
        description="Corrections for models, by id or alias/id.",
    )
    roles: RolesTable = _EMPTY
    tools: ToolsTable = _EMPTY
    loop: LoopTable = _EMPTY
    plan: PlanTable = _EMPTY
    permission: PermissionTable = _EMPTY
    limits: LimitsTable = _EMPTY
    context: ContextTable = _EMPTY
    timeouts: TimeoutsTable = _EMPTY
    sandbox: SandboxTable = _EMPTY
    web: WebTable = _EMPTY
    session: SessionTable = _EMPTY
    memory: MemoryTable = _EMPTY
    ui: UiTable = _EMPTY
    guardrail: list[GuardrailTable] = Field(
        default_factory=list, description="Checks of inputs and outputs."
    )
    reminder: list[ReminderTable] = Field(default_factory=list, description="Repeated texts.")
    plugins: dict[str, PluginEntry] = Field(
        default_factory=dict, description="Plugins by file name: `enabled`, and their settings."
    )
    keys: dict[str, Keys] = Field(
        default_factory=dict, description='Action to key or keys; "none" frees it.'
    )
    aliases: dict[SlashName, str] = Field(
        default_factory=dict, description="Your names for slash commands."
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
        """Where the values come from: the file, the environment and the flags."""
        return self._origin

    def with_origin(self, origin: Origin) -> "Config":
        """The same settings with another origin."""
        copy = self.model_copy()
        copy._origin = origin
        return copy

    @property
    def provenance(self) -> Mapping[str, str]:
        """Dotted key → `file:line`, `env NAME` or a flag; a key that is absent has its default."""
        return MappingProxyType(self._origin.sources)


def all_entries(config: Config) -> dict[str, ProviderEntry]:
    """All provider entries by alias: first the file's, then the built-in ones."""
    return {**config.providers, **_built_in(), **config.providers}


def entry_of(config: Config, alias: str) -> ProviderEntry:
    """The entry of `alias`.

    Raises:
        ConfigError: there is none.
    """
    entry = config.providers.get(alias) or _built_in().get(alias)
    if entry is None:
        raise ConfigError(f"There is no provider `{alias}`.")
    return entry


@cache
def _built_in() -> Mapping[str, ProviderEntry]:
    return {
        service.type: ProviderEntry.model_validate({"type": service.type}) for service in SERVICES
    }


def with_own_names(settings: Any) -> Any:
    """`settings`, as read from the file, with the values of `SEED_NAMES` in `[plan]`.

    Raises:
        ValueError: two names of one setting have different values.
    """
    if not isinstance(settings, Mapping):
        return settings
    plan = settings.get("plan", {})
    if not isinstance(plan, Mapping):
        return settings
    given = [*_seed_values(settings, ""), *_seed_values(plan, "[plan] ")]
    if not given:
        return settings
    own = {key: value for key, value in plan.items() if key not in SEED_NAMES}
    said = {key: f"[plan] {key}" for key in own}
    for shown, key, value in given:
        if key in own and (own[key], type(own[key])) != (value, type(value)):
            raise ValueError(f"`{shown}` and `{said[key]}` are one setting with two values")
        own[key] = value
        said.setdefault(key, shown)
    rest = {key: value for key, value in settings.items() if key not in SEED_NAMES}
    return {**rest, "plan": own}


def _seed_values(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    """(shown name, key, value) of each of `SEED_NAMES` in this table."""
    for name, key in SEED_NAMES.items():
        if name in table:
            yield f"{prefix}{name}", key, table[name]
