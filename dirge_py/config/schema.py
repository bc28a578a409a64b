"""All settings with their defaults, as a closed schema. Names end in units (`_s`, `_usd`)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from typing import Annotated, Any, Literal

from dirge_py.config.services import (
    OFFLINE,
    PROVIDER_TYPES,
    SERVICES,
    base_url_problem,
    installed_providers,
)
from dirge_py.config.sources import Origin
from dirge_py.config.table import (
    Check,
    Convert,
    InvalidSettings,
    Pattern,
    Problem,
    Range,
    Table,
    other_settings,
    read_table,
    required,
    setting,
)
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.modes import mode_named
from dirge_py.types.sampling import Sampling
from dirge_py.types.tools import Operation, fatal_error_problem

SEED_NAMES: Mapping[str, str] = {
    "phased_workflow_enabled": "enabled",
    "phased_workflow_max_review_cycles": "max_review_cycles",
}
"""Alternative names of `[plan]` settings, valid in that table and at the top level."""

Delivery = Literal["all", "one-at-a-time"]
GuardrailPlace = Literal["input", "output", "tool_result"]
SlashName = Annotated[
    str, Pattern("/[A-Za-z0-9][A-Za-z0-9_-]*", "must be a slash and one word, as in `/name`")
]

Positive = Annotated[int, Range(gt=0)]
PositiveNumber = Annotated[float, Range(gt=0)]
Bound = Annotated[int, Range(ge=0, le=1000)]
NotNegative = Annotated[float, Range(ge=0)]
Text = Annotated[str, Pattern("(?s).+", "must not be empty")]
Variable = Annotated[
    str,
    Pattern(
        r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
        'must be written as "${VARIABLE}"',
        "Don't write keys into this file: name a variable, or use `api_key_file`.",
    ),
]


def _mode(name: Any) -> Any:
    return mode_named(name) if isinstance(name, str) else name


def _unknown_type(name: str) -> str | None:
    if name in PROVIDER_TYPES:
        return None
    types = (*PROVIDER_TYPES, *installed_providers())
    if name in types:
        return None
    near = nearest(name, types)
    fix = f"did you mean `{near}`?" if near else f"there are: {', '.join(types)}"
    return f"no provider type `{name}` ({fix})"


class SamplingTable(Table):
    """How a model chooses its words, in the tables of providers and of models."""

    temperature: float | None = setting(None, "The sampling temperature, from 0 to 2.")
    top_p: float | None = setting(
        None, "Nucleus sampling: the most probable tokens up to this total."
    )
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

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if problem := self.sampling.problem():
            yield "", problem


class ProviderEntry(SamplingTable):
    """One service under the name (alias) that models are chosen by."""

    type: Annotated[str, Check(_unknown_type)] = required(
        description="A known service, or the wire format that it speaks."
    )
    allow_insecure: bool = setting(False, "Allow http to another machine.")
    base_url: str | None = setting(
        None,
        "Its address; openai and openai-responses with the version (`…/v1`), the others "
        "the host only. http only to this machine, or with `allow_insecure`.",
    )
    model: str | None = setting(None, "The model used when only the alias is named.")
    models: list[str] = setting(list, "Further models to offer.")
    api_key_env: str | None = setting(None, "The environment variable with the key.")
    api_key: Variable | None = setting(None, 'This variable, as "${VARIABLE}".')
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

    def contradictions(self) -> Iterator[tuple[str, str]]:
        yield from super().contradictions()
        url = self.base_url
        if problem := base_url_problem(url, self.allow_insecure) if url else None:
            yield "base_url", problem
        keys = [self.api_key_env, self.api_key, self.api_key_file]
        if sum(key is not None for key in keys) > 1:
            yield "", "give one of `api_key_env`, `api_key` and `api_key_file`"
        if (self.type in OFFLINE) != (self.script is not None):
            types = " and ".join(f'`type = "{name}"`' for name in OFFLINE)
            yield "", f"`script` belongs to {types}, which need one"


class ModelEntry(SamplingTable):
    """Corrections of the catalogue for one model. Prices are USD per million tokens."""

    window_tokens: Positive | None = setting(None, "Its context window.")
    max_output_tokens: Positive | None = setting(None, "Its longest answer.")
    price_in: NotNegative | None = setting(None, "A million input tokens, in USD.")
    price_out: NotNegative | None = setting(None, "A million output tokens.")
    price_cache_read: NotNegative | None = setting(None, "A million cached tokens.")
    price_cache_write: NotNegative | None = setting(None, "A million tokens written to the cache.")
    thinking: bool | None = setting(None, "Whether it can think.")
    images: bool | None = setting(None, "Whether it accepts images.")
    structured: bool | None = setting(None, "Whether its service enforces a JSON Schema.")


PROFILE_FIELDS = ModelEntry.settings_of_class.keys() - SamplingTable.settings_of_class.keys()
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
    fallback: str | list[str] = setting(list, "Used in this order if a model cannot be reached.")

    def named(self) -> Iterator[tuple[str, str]]:
        """Each role that is set, with its model; `fallback` once for each of its models."""
        for role in self.settings_of_class:
            spec = getattr(self, role)
            for model in [spec] if isinstance(spec, str) else spec or ():
                yield role, model


class PlanTable(Table):
    """How `/plan` works through a request."""

    enabled: bool = setting(True, "Whether there is `/plan`.")
    max_review_cycles: int = setting(2, "How often findings of a review are fixed.", ge=0, le=100)
    auto_accept: bool | None = setting(
        None, "Run a plan without asking; absent: only where no one can be asked (`-p`)."
    )
    max_turns: Positive = setting(40, "The most turns of exploring, planning and each review.")
    sandbox: Literal["preferred", "off"] = setting(
        "preferred", "Run the commands of these phases in a sandbox, if one works."
    )


class StormTable(Table):
    """The guard against calls that repeat without progress."""

    enabled: bool = setting(True, "Whether it is on.")
    window: int = setting(6, "How many recent calls are compared.", ge=2, le=100)
    threshold: int = setting(3, "The repetition at which a call is refused.", ge=2, le=100)
    exempt: list[str] = setting(list, "Further tools that may repeat.")
    mutating: list[str] = setting(list, "Further tools that change something.")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.window < self.threshold:
            yield "", "`window` must be at least `threshold`"


class GatesTable(Table):
    """Reminders in the loop and before the agent stops. 0 turns one off.

    Of `resume`, `verifier` and `todo` at most one speaks in a run, once; more than 1 means 1.
    """

    failures: Bound = setting(3, "Failures in a row before a reminder; the third ends the run.")
    depth: Bound = setting(0, "Calls about the same files before a reminder.")
    resume: Bound = setting(1, "Whether a run that stopped right after a failed call continues.")
    verifier: Bound = setting(1, "Whether a run continues because its edits were not tested.")
    critic: Literal["off", "advisory", "blocking"] = setting(
        "advisory", "How the model of `[roles] critic`, if set, judges a run."
    )
    goal: str | None = setting(None, "What a run must reach before it ends; the critic judges it.")
    goal_checks: Bound = setting(12, "How often a run continues for its goal.")
    todo: Bound = setting(1, "Whether a run that left its todo items open continues.")


class LoopTable(Table):
    """How a run continues and ends."""

    max_turns: Positive = setting(100, "Turns after which a run ends.")
    steering: Delivery = setting("all", "How many queued inputs enter before a turn.")
    follow_up: Delivery = setting("one-at-a-time", "How many of them when the agent would stop.")
    recoveries: Bound = setting(3, "How often in a row a run continues after an incomplete answer.")
    escalations: Bound = setting(3, "The most turns of the model of `[roles] escalate`.")
    scavenge: bool = setting(False, "Run calls that a model wrote as text, if they only read.")
    storm: StormTable = setting(StormTable)
    gates: GatesTable = setting(GatesTable)


class LimitsTable(Table):
    """Limits of one run, and of all runs of a session. Absent: no limit."""

    cost_usd: PositiveNumber | None = setting(None, "USD, if prices are known.")
    input_tokens: Positive | None = setting(None, "Tokens sent.")
    output_tokens: Positive | None = setting(None, "Tokens received.")
    tokens: Positive | None = setting(None, "Tokens, in and out.")
    time_s: PositiveNumber | None = setting(None, "Seconds.")
    requests: Positive | None = setting(None, "Model calls.")
    tool_calls: Positive | None = setting(None, "Tool calls.")
    session_cost_usd: PositiveNumber | None = setting(None, "USD, for all runs of a session.")
    session_tokens: Positive | None = setting(None, "Tokens, in and out, of all its runs.")


class ContextTable(Table):
    """What is sent to the model besides the conversation, and how history is shortened."""

    project_files: bool = setting(True, "Send AGENTS.md and CLAUDE.md, up to the git root.")
    project_file_max_bytes: int = setting(
        32 * 1024, "The most bytes of each such file.", ge=1024, le=1024 * 1024
    )
    compact: bool = setting(True, "Shorten old history before it fills up.")
    window_tokens: Positive | None = setting(None, "The model's window; absent: the catalog's.")
    target_tokens: int = setting(250_000, "The most tokens to use of a larger window.", ge=16_000)
    fold_at: float = setting(0.75, "How full the window gets before compaction.", ge=0.3, le=0.75)
    strategies: list[Literal["clear_results", "summarize", "window"]] = setting(
        ["clear_results", "summarize", "window"],
        "How history is shortened, in this order, until it fits.",
    )
    keep_results: Bound = setting(5, "The newest tool results that `clear_results` keeps.")
    keep_messages: int = setting(20, "The newest messages that `window` keeps.", ge=2, le=1000)
    restore_files: int = setting(5, "Files that are shown again after a compaction.", ge=0, le=20)


class ReminderTable(Table):
    """A text that is repeated in requests, but never becomes history."""

    every_turns: Positive | None = setting(None, "Send it in every n-th turn.")
    at_tokens: Positive | None = setting(None, "Send it once the context has this many tokens.")
    text: Text = required(description="The text.")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if (self.every_turns is None) == (self.at_tokens is None):
            yield "", "give one of `every_turns` and `at_tokens`"


class GuardrailTable(Table):
    """A check of inputs or outputs: by a pattern, or built in."""

    on: GuardrailPlace | list[GuardrailPlace] = required(description="What is checked.")
    pattern: str | None = setting(None, "A regular expression to look for.")
    builtin: Literal["secrets"] | None = setting(None, "`secrets`: keys, tokens and passwords.")
    action: Literal["warn", "trip"] = setting("trip", "Notify the user, or stop what is checked.")
    name: str = setting("", "Its name in messages.")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if (self.pattern is None) == (self.builtin is None):
            yield "", "give one of `pattern` and `builtin`"
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            yield "", f"`pattern` isn't a regular expression: {error}"


def _no_error(names: list[str]) -> str | None:
    return next(filter(None, map(fatal_error_problem, names)), None)


class ToolsTable(Table):
    """Which tools the model has, and how several calls run."""

    execution: Literal["parallel", "sequential"] = setting(
        "parallel", "Whether calls of a turn that only read may overlap."
    )
    max_parallel: int = setting(8, "How many of them may run at once.", ge=1, le=64)
    enabled: list[str] | None = setting(None, "The only tools of the model; absent: all.")
    disabled: list[str] = setting(list, "Tools that the model does not have.")
    result_budget_chars: int = setting(80_000, "The most characters of a batch's results.", ge=1000)
    retries: int = setting(3, "How often a tool may ask for another try in one run.", ge=0, le=100)
    fatal_errors: Annotated[list[str], Check(_no_error)] = setting(
        list, "Errors of tools that end the run: kinds, or names of exceptions."
    )
    most_calls: dict[str, Positive] = setting(dict, "The most calls of tools by name, in one run.")
    environment: list[str] = setting(list, "Further variables for commands; never keys.")


class PermissionRule(Table):
    """A rule. A matching deny always wins; of the others the last match does."""

    op: Literal[Operation, "*"] = required(description="What the call would do.")
    match: Text = required(
        description="A path, command, host or name; `*` and `**` match anything."
    )
    effect: Literal["allow", "ask", "deny"] = required(description="What happens then.")


class PermissionTable(Table):
    """What is allowed without asking."""

    mode: Annotated[
        Literal["standard", "accept", "restrictive", "plan", "yolo"], Convert(_mode)
    ] = setting("standard", "The preset that decides where no rule does.")
    rule: list[PermissionRule] = setting(list, "Rules, in order.")
    loop_guard: int = setting(
        3, "Denials of a call after which dirge stops asking; 0: never.", ge=0, le=100
    )
    judge: Literal["deny", "warn"] = setting(
        "deny", "What happens when [roles] approve rejects a call that would ask."
    )
    remote: bool = setting(False, "Whether `dirge signal` may answer questions.")


class SandboxTable(Table):
    """The sandbox of commands."""

    mode: Literal["off", "preferred", "required"] = setting(
        "off", "Whether commands are sandboxed."
    )
    network: bool = setting(False, "Let every command reach the network.")
    hosts: list[str] = setting(list, "Hosts that commands may reach anyway; `*.` is allowed.")
    writable: list[str] = setting(list, "Folders to write to, besides the workspace.")
    readable: list[str] = setting(list, "Paths below your home folder that commands may read.")


class WebTable(Table):
    """How `webfetch` and `websearch` reach the web."""

    search: Literal["duckduckgo", "searxng", "brave", "exa", "tavily"] | None = setting(
        None, "The service behind `websearch`; absent: there is no such tool."
    )
    search_url: str | None = setting(None, "Its address, if it isn't the usual one.")
    search_key_env: str | None = setting(None, "The environment variable with its key.")
    private_hosts: list[str] = setting(list, "Hosts of your own network that may be fetched.")
    timeout_s: PositiveNumber = setting(15.0, "For one page, in seconds.")
    max_bytes: Positive = setting(5 * 1024 * 1024, "The most bytes of a page, decompressed.")
    proxy: str | None = setting(None, "The proxy; those of the environment are not used.")


class TimeoutsTable(Table):
    """How long to wait, in seconds."""

    connect_s: PositiveNumber = setting(30.0, "For a connection.")
    establish_s: PositiveNumber = setting(300.0, "For the first byte of an answer.")
    chunk_s: PositiveNumber = setting(300.0, "For the next piece of it.")
    tool_call_gap_s: PositiveNumber = setting(60.0, "For the next piece of a tool call.")
    bash_s: float = setting(120.0, "For a command, unless the call asks otherwise.", gt=0, le=3600)
    quiet_s: PositiveNumber = setting(60.0, "Without output before a notice about a command.")
    tool_s: PositiveNumber = setting(300.0, "For any other tool.")
    tools: dict[str, NotNegative] = setting(dict, "For tools by name; 0: no limit.")
    judge_s: PositiveNumber = setting(120.0, "For a model that judges or summarizes.")
    plugin_hook_s: PositiveNumber = setting(5.0, "For one hook of a plugin.")


class SessionTable(Table):
    """Which parts of a session are stored."""

    save: bool = setting(True, "Store sessions, so that they can be resumed.")
    segment_records: int = setting(10_000, "Records after which a session starts a new file.", ge=1)
    segment_mb: int = setting(16, "Megabytes after which it does so.", ge=1)
    keep_days: int | None = setting(
        None,
        "Days after which sessions that nobody used are deleted; absent: never.",
        ge=1,
        le=36_500,
    )
    snapshots: bool = setting(True, "Store files before they change, for rewinding.")
    snapshot_file_mb: int = setting(8, "Larger files are not stored.", ge=1)
    snapshot_days: int = setting(30, "How long snapshots are kept.", ge=1)
    snapshot_max_mb: int = setting(2_000, "The most space for the snapshots of a project.", ge=1)


class MemoryTable(Table):
    """The notes that are kept between sessions: MEMORY.md and USER.md."""

    enabled: bool = setting(True, "Read them, and offer to write them.")
    max_chars: int = setting(20_000, "The most characters of each to send, from its end.", ge=1)


class UiTable(Table):
    """How the terminal UI looks."""

    theme: str = setting("auto", "The name of a theme; auto: dark or light, like the terminal.")
    show_thinking: bool = setting(False, "Show the thinking of models.")
    keymap: Literal["default", "emacs", "vim"] = setting(
        "default", "How the input is edited; `[keys]` changes single keys."
    )
    enter: Literal["steer", "queue"] = setting("steer", "What Enter does in a run; Tab: the other.")
    chord_timeout_ms: int = setting(1_000, "The longest pause in a chord.", ge=100, le=10_000)
    mouse: bool = setting(True, "Use the mouse: wheel, clicks and selecting.")
    clipboard: Literal["auto", "native", "tmux", "osc52"] = setting("auto", "How text is copied.")
    notify: Literal["off", "bell", "desktop", "both"] = setting(
        "bell", "How to notify you when the terminal isn't focused."
    )
    terminal_status: bool = setting(True, "State in the terminal's title; progress in its tab.")
    reduced_motion: bool = setting(False, "No animations.")
    avatar: bool = setting(True, "A small face that shows the state.")
    panel: Literal["auto", "on", "off"] = setting("auto", "Side panels; auto: from 152 columns.")
    display: list[Literal["left", "main", "right"]] = setting(
        ["left", "main", "right"], "The panels that are shown."
    )
    diff: Literal["auto", "unified", "split"] = setting(
        "auto", "How changes are drawn; auto: side by side from 140 columns on."
    )
    status_command: str = setting("", "A command whose first line of output is in the status line.")
    editor_open_command: str = setting("", "Run for each changed file; `{path}` and `{line}`.")


class UpdateTable(Table):
    """The notice about new versions of dirge."""

    check: bool = setting(True, "Ask once a day whether there is a new version; never with `-p`.")
    index_url: str = setting(
        "https://pypi.org/pypi/dirge-py/json", "The package index, in the form of PyPI's JSON API."
    )


class AfterEditTable(Table):
    """A command that runs after the model has edited a file, such as a formatter."""

    match: str | list[str] = required(description="The files it is for, as in .gitignore: `*.py`.")
    command: Text = required(description="The command line; `{path}` is the file.")
    timeout_s: PositiveNumber = setting(30, "Seconds it may take.")


class PluginEntry(Table):
    """A plugin, by the name of its file. All other keys are settings of the plugin."""

    enabled: bool = setting(True, "Whether it is loaded.")
    settings: Mapping[str, Any] = other_settings()


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Keys = Annotated[list[str], Convert(_as_list)]


def _unusable_alias(entries: Mapping[str, ProviderEntry]) -> str | None:
    for alias in entries:
        if not alias or any(char in "/:" or char.isspace() for char in alias):
            return f"alias `{alias}` must not contain `/`, `:` or a space"
    return None


class Config(Table):
    """All settings of one start: file, environment and flags merged. See `load.load`."""

    provider: str | None = setting(None, "The alias used when none is named.")
    providers: Annotated[dict[str, ProviderEntry], Check(_unusable_alias)] = setting(
        dict, "Services by alias."
    )
    models: dict[str, ModelEntry] = setting(dict, "Corrections for models, by id or alias/id.")
    roles: RolesTable = setting(RolesTable)
    tools: ToolsTable = setting(ToolsTable)
    loop: LoopTable = setting(LoopTable)
    plan: PlanTable = setting(PlanTable)
    permission: PermissionTable = setting(PermissionTable)
    limits: LimitsTable = setting(LimitsTable)
    context: ContextTable = setting(ContextTable)
    timeouts: TimeoutsTable = setting(TimeoutsTable)
    sandbox: SandboxTable = setting(SandboxTable)
    web: WebTable = setting(WebTable)
    session: SessionTable = setting(SessionTable)
    memory: MemoryTable = setting(MemoryTable)
    ui: UiTable = setting(UiTable)
    guardrail: list[GuardrailTable] = setting(list, "Checks of inputs and outputs.")
    reminder: list[ReminderTable] = setting(list, "Repeated texts.")
    update: UpdateTable = setting(UpdateTable)
    after_edit: list[AfterEditTable] = setting(list, "Commands after edits of the model.")
    plugins: dict[str, PluginEntry] = setting(dict, "Plugins by file name, and their settings.")
    keys: dict[str, Keys] = setting(dict, 'Action to key or keys; "none" frees it.')
    aliases: dict[SlashName, str] = setting(dict, "Your names for slash commands.")

    origin: Origin = field(default_factory=Origin, repr=False)
    """Where the values come from: the file, the environment and the flags."""

    def with_origin(self, origin: Origin) -> "Config":
        """The same settings with another origin."""
        return replace(self, origin=origin)


def config_from(settings: Mapping[str, Any]) -> Config:
    """The settings that TOML's `settings` mean. Raises InvalidSettings with all problems."""
    try:
        named = with_own_names(settings)
    except ValueError as error:
        raise InvalidSettings([Problem(path=(), text=f": {error}")]) from None
    return read_table(Config, named)


def all_entries(config: Config) -> dict[str, ProviderEntry]:
    """All provider entries by alias: first the file's, then the built-in ones."""
    return {**config.providers, **_built_in(), **config.providers}


def entry_of(config: Config, alias: str) -> ProviderEntry:
    """The entry of `alias`. Raises ConfigError: there is none."""
    entry = config.providers.get(alias) or _built_in().get(alias)
    if entry is None:
        raise ConfigError(f"There is no provider `{alias}`.")
    return entry


@cache
def _built_in() -> Mapping[str, ProviderEntry]:
    return {row.type: ProviderEntry(type=row.type) for row in SERVICES}


def with_own_names(settings: Any) -> Any:
    """`settings` with `SEED_NAMES` in `[plan]`. Raises ValueError: names of one setting differ."""
    plan = settings.get("plan", {}) if isinstance(settings, Mapping) else None
    if not isinstance(plan, Mapping):
        return settings
    own = {key: value for key, value in plan.items() if key not in SEED_NAMES}
    names = {key: f"[plan] {key}" for key in own}
    for prefix, table in (("", settings), ("[plan] ", plan)):
        for seed_name in SEED_NAMES.keys() & table.keys():
            key, value, shown = SEED_NAMES[seed_name], table[seed_name], f"{prefix}{seed_name}"
            if key in own and (own[key], type(own[key])) != (value, type(value)):
                raise ValueError(f"`{shown}` and `{names[key]}` are one setting with two values")
            own[key] = value
            names.setdefault(key, shown)
    if not own:
        return settings
    rest = {key: value for key, value in settings.items() if key not in SEED_NAMES}
    return {**rest, "plan": own}
