"""Builds the conversations of an `Agent`, without any settings file."""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

from dirge_py.agent_loop.model_call import complete
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.config.models import THINKING_LEVELS
from dirge_py.config.schema import Config, GuardrailPlace
from dirge_py.config.services import SERVICES
from dirge_py.config.sources import Origin, Overrides
from dirge_py.conversation.broadcaster import BackpressurePolicy
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import Pictures, WorkEnvironment
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.guardrails.checks import Guardrail, NamedCheck, Verdict
from dirge_py.extensions.guardrails.extension import Guardrails
from dirge_py.files.log_file import keep_off_the_screen
from dirge_py.files.workspace import Workspace
from dirge_py.guards.limits import Limits, LimitsInForce
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.version import __version__
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode, PolicySet, parse_rule
from dirge_py.permission.settings import settings_folders, state_folders
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.providers.catalog import (
    ASSUMED_WINDOW_TOKENS,
    ModelProfile,
    cost_usd,
    find_model_profile,
)
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelDirectory, with_sampling
from dirge_py.sdk.agent_inputs import Asking, as_asker
from dirge_py.sdk.build import ConversationBuilder
from dirge_py.sdk.extensions import load_extensions
from dirge_py.sdk.guards import Clock, WallClock
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.sdk.threads import continue_in_memory
from dirge_py.session.snapshots.originals import NOTHING_KEPT
from dirge_py.session.store import Store
from dirge_py.tools.base import Tool, ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import UsageReported
from dirge_py.types.extensions import Extension, RunContext, Section
from dirge_py.types.hooks import Hooks
from dirge_py.types.llm import LlmContext, ModelOption, StreamFn, StreamOptions, ThinkingLevel
from dirge_py.types.messages import Usage, UserMessage, user_text
from dirge_py.types.tools import Interceptor, LoopTool, fatal_error_problem


class ProgramHooks(Extension):
    """The hooks and interceptors that a program gave its `Agent`."""

    name = "program"

    def __init__(
        self, hooks: "Sequence[HookSource]" = (), interceptors: Sequence[Interceptor] = ()
    ) -> None:
        self._hooks = tuple(hooks)
        self._interceptors = tuple(interceptors)

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        return [source if isinstance(source, Hooks) else source() for source in self._hooks]

    def around_tool(self, run: RunContext) -> Sequence[Interceptor]:
        return self._interceptors


Check: TypeAlias = Guardrail | Callable[[str], Verdict | Awaitable[Verdict]]
Checks: TypeAlias = Sequence[Check] | Mapping[GuardrailPlace, Sequence[Check]]
"""Checks by place; a sequence applies to all three: prompts, answers and tool results."""


def _guardrails(checks: Checks, notice: Callable[[str], None]) -> Guardrails:
    """The checks that a program gave its `Agent`."""
    places: tuple[GuardrailPlace, ...] = get_args(GuardrailPlace)
    given = checks if isinstance(checks, Mapping) else dict.fromkeys(places, checks)
    by_place = {
        place: [
            NamedCheck(getattr(each, "__name__", "check"), each) if callable(each) else each
            for each in given.get(place, ())
        ]
        for place in places
    }
    return Guardrails(by_place, notice)


HookSource = Hooks | Callable[[], Hooks]
"""Hooks, or a function that makes new ones for each run, which hooks with state need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """The arguments of an `Agent`."""

    model: str = ""
    """`provider/id[:level]`, or any name with a `stream_fn`."""
    stream_fn: StreamFn | None = None
    """Answers instead of a provider."""
    thinking: ThinkingLevel = "off"
    """The thinking level, unless `model` says one."""
    tools: Sequence[Tool[Any] | LoopTool] = ()
    """The tools; their names differ."""
    system_prompt: str | Sequence[Section] = ""
    """The system prompt; a text comes before the sections of extensions."""
    hooks: ProgramHooks = field(default_factory=ProgramHooks)
    """Hooks of each run, and interceptors."""
    guardrails: Checks = ()
    """Check texts."""
    asker: Asking = "deny"
    """Who decides about calls that ask."""
    options: BuildOptions = BuildOptions()
    """The rules that allow and deny, and the sampling."""
    config: Config = field(default_factory=Config)
    """The mode, the most turns and the fatal errors; see `bare_config`."""
    store: Store | None = None
    """Stores the threads; None: they are kept in memory."""
    clock: Clock = field(default_factory=WallClock)
    """The clock of limits, retries and slow readers."""
    limits: Limits = field(default_factory=Limits)
    """The further limits of a run."""
    app: Any = None
    """The program's own object; tools get it as `ctx.app`."""
    cwd: Path = field(default_factory=Path.cwd)
    """The working folder."""


def assemble(plan: Blueprint, thread: str | None) -> Conversation:
    """Build the conversation of a thread; without a store it starts empty.

    Raises ConfigError: the model can't be used, or a rule is invalid; SessionError: it can't be
    opened.
    """
    keep_off_the_screen()
    with ExitStack() as undo:
        conversation = _ProgramBuilder(plan, thread, undo).make(thread)
        undo.pop_all()
    return conversation


class _ProgramBuilder(ConversationBuilder):
    """Builds a conversation from what an `Agent` was given, without any settings file."""

    def __init__(self, plan: Blueprint, thread: str | None, undo: ExitStack) -> None:
        keys = [name for service in SERVICES for name in service.key_env]
        redactor = Redactor(secret_values(os.environ, keys))
        origin = Origin(chosen=Overrides(model=plan.model), environment=dict(os.environ))
        config = plan.config.with_origin(origin)
        super().__init__(config, cwd=plan.cwd, redactor=redactor, undo=undo)
        self.plan = plan
        self.client = HttpClient()
        self.sessions = plan.store
        self.workspace = Workspace([plan.cwd], plan.cwd)
        self.resources.callback(self.workspace.close)
        self.workspace.originals.unkept = lambda _real: NOTHING_KEPT
        read_only = ReadOnlyProfile(lambda: self.workspace.roots, str(Path.home()))
        self.resources.callback(read_only.close)
        self.runner = Runner(EnvironmentPolicy(), read_only=read_only)
        # Check the arguments before a session is created on disk.
        self.stream_fn = self._open_models()
        self.limits = LimitsInForce(plan.limits)
        self.gate = self._make_gate()
        if plan.store is not None:
            choice = SessionChoice(kind="new" if thread is None else "named", id=thread or "")
            self.open_session(plan.store, choice)
        given = [plan.hooks, _guardrails(plan.guardrails, self.notify)]
        self.extensions = load_extensions(self, given)

    def make(self, thread: str | None) -> Conversation:
        plan = self.plan
        services = ToolServices(
            files=self.workspace, processes=self.runner, session_id=self.session_id, app=plan.app
        )
        toolbox = Toolbox((), services, str(plan.cwd))
        self.authorize(as_asker(plan.asker))
        # All guards but the stop checks, which belong to the product.
        self.guard(
            self.context(self._ask, self.model),
            plan.store.folder / self.session_id / "assets" if plan.store is not None else None,
            validate=toolbox.validate,
            clock=plan.clock,
        )
        environment = WorkEnvironment(
            cwd=plan.cwd,
            system_prompt=lambda names: join_prompt(plan.system_prompt, self.extensions),
            attach=_as_it_is,
            gate=self.gate,
        )
        tools = toolbox.bind_tools((*plan.tools, *self.extensions.tools()))
        deps = self.deps(environment, self.stream_fn, tools, toolbox.bind_tools)
        run = replace(
            deps.run,
            on_waiting=deps.run.on_waiting
            or (lambda outcome: continue_in_memory(conversation, thread, outcome)),
            backpressure=BackpressurePolicy(clock=plan.clock, sleep=plan.clock.sleep),
        )
        self.conversation = conversation = Conversation(replace(deps, run=run))
        return conversation

    def _open_models(self) -> StreamFn:
        """Choose the model; returns what calls it."""
        plan = self.plan
        if plan.stream_fn is None and not plan.model:
            raise ConfigError(
                "This agent has no model.",
                hint='Pass one, as `model="anthropic/claude-sonnet-5"`, or a `stream_fn`.',
            )
        name = plan.model or "own/model"
        if plan.stream_fn is not None:
            self.models, stream_fn = ProgramModels(name), plan.stream_fn
        else:
            directory = ModelDirectory(
                self.config, self.client, self.redactor, notify=self.show_notice
            )
            self.models, stream_fn = directory, directory.stream
        self.model, level = self.models.resolve(name)
        self.thinking = level or plan.thinking
        stream_fn = with_sampling(stream_fn, plan.options.sampling)
        return retrying_stream_fn(stream_fn, RecoveryPolicy(), sleep=plan.clock.sleep)

    def _make_gate(self) -> PermissionEngine:
        plan, environment = self.plan, self.config.origin.environment
        rules = [parse_rule(rule, "allow", source="allow") for rule in plan.options.allow]
        rules += [parse_rule(rule, "deny", source="deny") for rule in plan.options.deny]
        own = [plan.store.folder] if plan.store is not None else []
        gate = PermissionEngine(
            self.workspace,
            PolicySet(rules=tuple(rules), mode=plan.config.permission.mode),
            state_dirs=[*state_folders(environment), *own],
            settings=settings_folders(environment),
        )
        self.workspace.withheld = gate.withholds
        return gate

    async def _ask(self, _role: str, system: str, prompt: str) -> str:
        """Ask the model for a summary."""
        context = LlmContext(system_prompt=system, messages=(user_text(prompt, "harness"),))
        options = StreamOptions(model=self.model)
        answer = await complete(self.stream_fn, context, options, AbortSignal())
        if answer.usage:
            self.spending.add(answer.usage, self.model)
            self.relay(UsageReported(usage=answer.usage, model=self.model, role="summarize"))
        return answer.text

    async def close(self) -> None:
        try:
            await self.runner.shutdown()
        finally:
            await super().close()


def store_in(journal: str | os.PathLike[str] | Store | None) -> Store | None:
    """Return the store of threads: the given one, or a new one in this folder."""
    if journal is None or isinstance(journal, Store):
        return journal
    folder = Path(journal).absolute()
    return Store(folder, folder, app_version=__version__)


def distinct(tools: Sequence[Tool[Any] | LoopTool]) -> tuple[Tool[Any] | LoopTool, ...]:
    """Return the same tools. Raises ConfigError: two of them have the same name."""
    for name, count in Counter(tool.name for tool in tools).items():
        if count > 1:
            raise ConfigError(f"Two tools are named `{name}`.", hint="Give one another name.")
    return tuple(tools)


async def _as_it_is(text: str, _pictures: Pictures) -> UserMessage:
    return user_text(text)


def fatal_error_names(errors: Sequence[str | type[Exception]]) -> tuple[str, ...]:
    """The names of errors that end a run. Raises ConfigError: one is no error."""
    names = tuple(each if isinstance(each, str) else each.__name__ for each in errors)
    if problem := next(filter(None, map(fatal_error_problem, names)), ""):
        raise ConfigError(f"fatal_errors: {problem}.")
    return names


def bare_config(*, mode: Mode, max_turns: int | None, fatal_errors: Sequence[str]) -> Config:
    """The default settings with these ones.

    Calls have no time limit but a tool's own: others are up to the program.
    """
    config = Config()
    changes: dict[str, dict[str, Any]] = {
        "loop": {"max_turns": max_turns},
        "permission": {"mode": mode},
        "timeouts": {"tool_s": 0},
        "tools": {"fatal_errors": list(fatal_errors)},
    }
    tables = {name: replace(getattr(config, name), **c) for name, c in changes.items()}
    return replace(config, **tables)


@dataclass(frozen=True, slots=True)
class ProgramModels:
    """The models behind a program's stream function; implements `types.llm.Models`.

    Any name is valid; those in the catalogue (`anthropic/…`) have a window and a price.
    """

    first: str
    """The model that the program named."""

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        name, _, last = spec.rpartition(":")
        level = next((level for level in THINKING_LEVELS if level == last), None)
        return (name, level) if name and level else (spec, None)

    def choices(self) -> Sequence[ModelOption]:
        return [ModelOption(spec=self.first, window_tokens=self.window_tokens(self.first))]

    def services(self) -> Sequence[str]:
        return ()

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        raise ConfigError(f"The stream function behind {alias} has no list of models.")

    def window_tokens(self, model: str) -> int:
        return self._card(model).window_tokens or ASSUMED_WINDOW_TOKENS

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return cost_usd(self._card(model), usage)

    def holds_schema(self, model: str) -> bool:
        # The program's function gets a tool for the answer; it may not know schemas.
        return False

    def sees_pictures(self, model: str) -> bool | None:
        return self._card(model).sees_pictures

    def _card(self, model: str) -> ModelProfile:
        provider, _, model_id = model.partition("/")
        return find_model_profile(provider, model_id)


def join_prompt(prompt: str | Sequence[Section], extensions: ExtensionSet) -> str:
    """The system prompt of a program and the sections of extensions, by priority."""
    if isinstance(prompt, str):
        prompt = [Section(name="program", priority=0, text=prompt)]
    sections = sorted((*prompt, *extensions.prompt_sections()), key=lambda each: each.priority)
    return "\n\n".join(each.text for each in extensions.edit_prompt(sections) if each.text)
