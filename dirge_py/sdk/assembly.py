"""From what an `Agent` was given to a conversation: its parts, without any settings file.

Guardrails that an embedder brings: functions that judge a text.

The guards of an agent that reads no settings: the loop's own, as they are by default.

The models of an agent that reads no settings.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

from dirge_py.agent_loop.cancellation import timeout_interceptor
from dirge_py.agent_loop.merge import compose
from dirge_py.agent_loop.model_call import complete
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.config.models import THINKING_LEVELS
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES
from dirge_py.config.sources import Origin, RequestedModel
from dirge_py.context.hooks import ContextHooks, ContextParts, summarise_with
from dirge_py.conversation.broadcaster import BackpressurePolicy
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import (
    ConversationDeps,
    EventForwarder,
    Pictures,
    RunDeps,
    RunSettings,
    SessionDeps,
    WorkEnvironment,
)
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.guardrails.checks import Guardrail, Verdict
from dirge_py.extensions.guardrails.extension import Guardrails
from dirge_py.files.log_file import keep_off_the_screen
from dirge_py.files.workspace import Workspace
from dirge_py.guards.limits import Limits, SideUsage, limit_hooks
from dirge_py.guards.recovery import (
    announce_server_compaction,
    resume_broken_answers,
    shrink_on_overflow,
)
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.tool_hooks import hide_unavailable_tools, limit_tool_retries
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.version import __version__
from dirge_py.permission.authorizer import Authorizer
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
from dirge_py.providers.models import ModelDirectory
from dirge_py.sdk.agent_inputs import Asking, as_asker
from dirge_py.sdk.extensions import BuildHost, load_extensions
from dirge_py.sdk.waiting import ThreadState
from dirge_py.session.history import LoadedSession
from dirge_py.session.recorder import Recorder
from dirge_py.session.snapshots.originals import NOTHING_KEPT
from dirge_py.session.store import Store, continuation_reader
from dirge_py.tools.base import Tool, ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import UsageReported
from dirge_py.types.extensions import RunContext, Section
from dirge_py.types.hooks import Hooks, LoopConfig
from dirge_py.types.llm import (
    LlmContext,
    ModelOption,
    Models,
    StreamFn,
    StreamOptions,
    ThinkingLevel,
)
from dirge_py.types.messages import Usage, UserMessage, user_text
from dirge_py.types.tools import Interceptor, LoopTool

_RECOVERIES = 3
_RETRIES = 3


class OwnGuards:
    """Repeated calls, answers that break off, and histories that grow too long.

    What the model is sent on with at the end of a run (tests, todo items) is left to the product.
    """

    def __init__(
        self,
        stream_fn: StreamFn,
        models: Models,
        model: str,
        *,
        recorder: Recorder | None,
        loaded: LoadedSession,
        relay: EventForwarder,
        spending: SideUsage,
    ) -> None:
        async def ask(_role: str, system: str, prompt: str) -> str:
            context = LlmContext(system_prompt=system, messages=(user_text(prompt, "harness"),))
            answer = await complete(stream_fn, context, StreamOptions(model=model), AbortSignal())
            if answer.usage:
                spending.add(answer.usage, model)
                relay(UsageReported(usage=answer.usage, model=model, role="summarize"))
            return answer.text

        self._storm = StormBreaker()
        self.context = ContextHooks(
            ContextParts(
                window_of=models.window_tokens,
                summarise=summarise_with(ask),
                summary_model=model,
                save=recorder.note_compaction if recorder is not None else lambda record: None,
                on_compacted=self._storm.note_compaction,
                records=loaded.compactions,
            ),
            model=model,
        )

    def bundles(self, model: str) -> Sequence[Hooks]:
        """Fresh hooks for one run with `model`."""
        return [
            hide_unavailable_tools(),
            self._storm.bundle(),
            limit_tool_retries(_RETRIES),
            self.context.bundle(model),
            resume_broken_answers(_RECOVERIES),
            shrink_on_overflow(self.context.shrink),
            announce_server_compaction(),
        ]


Place = Literal["input", "output", "tool_result"]
Check: TypeAlias = Guardrail | Callable[[str], Verdict | Awaitable[Verdict]]
Checks: TypeAlias = Sequence[Check] | Mapping[Place, Sequence[Check]]
"""A sequence looks at all three places: prompts, answers, results of tools."""


class OwnGuardrails(Guardrails):
    """The checks of one agent at work, as those of the settings are."""

    def __init__(self, checks: Checks, notice: Callable[[str], None]) -> None:
        super().__init__((), redact=lambda text: text, notice=notice)
        by_place = checks if isinstance(checks, Mapping) else dict.fromkeys(get_args(Place), checks)
        self._checks = {
            place: [_as_guardrail(check) for check in by_place.get(place, ())]
            for place in get_args(Place)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    name: str
    check: Callable[[str], Verdict | Awaitable[Verdict]]


def _as_guardrail(check: Check) -> Guardrail:
    if callable(check):
        return _Function(name=getattr(check, "__name__", "check"), check=check)
    return check


HookSource = Hooks | Callable[[], Hooks]
"""A bundle, or what makes a fresh one for each run: guards count, so they are made anew."""


class Clock(Protocol):
    """Seconds since some start, and a way to let them pass."""

    def __call__(self) -> float: ...
    async def sleep(self, delay_s: float, /) -> None: ...


class WallClock:
    """The time there is."""

    def __call__(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float, /) -> None:
        await asyncio.sleep(delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPermission:
    """What the calls of an `Agent` may do."""

    asker: Asking = "deny"
    """Who decides about calls that ask."""
    allow: Sequence[str] = ()
    """Rules of calls that need no question, as `op:pattern`."""
    deny: Sequence[str] = ()
    """Rules of calls that never run."""
    mode: Mode = "standard"
    """The permission mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What an `Agent` was given; see there."""

    model: str = ""
    tools: Sequence[Tool[Any] | LoopTool] = ()
    system_prompt: str = ""
    stream_fn: StreamFn | None = None
    bundles: Sequence[HookSource] = ()
    interceptors: Sequence[Interceptor] = ()
    guardrails: Checks = ()
    permission: AgentPermission = AgentPermission()
    store: Store | None = None
    clock: Clock = field(default_factory=WallClock)
    thinking: ThinkingLevel = "off"
    max_turns: int | None = 100
    limits: Limits = field(default_factory=Limits)
    app: Any = None
    cwd: Path = field(default_factory=Path.cwd)


def assemble(plan: Blueprint, thread: str | None) -> Conversation:
    """The conversation of a thread; without a store it begins empty.

    Raises:
        ConfigError: the model cannot be used, or a rule is none.
        SessionError: the thread cannot be opened.
    """
    keep_off_the_screen()
    waiting = ThreadState(thread)
    with ExitStack() as undo:
        assembly = _Assembly(plan, undo)
        conversation = Conversation(assembly.parts(thread, waiting))
        assembly.host.conversation = conversation
        undo.pop_all()
    waiting.look_at(conversation)
    return conversation


class _Assembly:
    """One conversation under construction. `undo` is for when that fails."""

    def __init__(self, plan: Blueprint, undo: ExitStack) -> None:
        self.plan = plan
        usual = [name for service in SERVICES for name in service.key_env]
        self.redactor = Redactor(secret_values(os.environ, usual))
        self.client = HttpClient()
        self.undo = undo
        self.workspace = Workspace([plan.cwd], plan.cwd)
        undo.callback(self.workspace.close)
        self.workspace.originals.unkept = lambda _real: NOTHING_KEPT
        self.read_only = ReadOnlyProfile(lambda: self.workspace.roots, str(Path.home()))
        undo.callback(self.read_only.close)
        self.runner = Runner(EnvironmentPolicy(), read_only=self.read_only)
        self.late_notices: list[str] = []
        self.spending = SideUsage()
        self.host = BuildHost(
            settings=None,
            cwd=plan.cwd,
            workspace=self.workspace,
            runner=self.runner,
            notify=self.late_notices.append,
            redactor=self.redactor,
        )
        guardrails = OwnGuardrails(plan.guardrails, self.late_notices.append)
        self.extensions = load_extensions(self.host, [guardrails])

    def parts(self, thread: str | None, waiting: ThreadState) -> ConversationDeps:
        plan = self.plan
        models, model, level, inner = self._models()
        gate = self._gate()
        recorder = self._recorder(thread)
        loaded = recorder.load() if recorder is not None else LoadedSession()
        services = ToolServices(files=self.workspace, processes=self.runner, app=plan.app)

        def bind(tools: Sequence[Tool[Any] | LoopTool]) -> Sequence[LoopTool]:
            return bound(tools, services, str(plan.cwd))

        asset_dir = _asset_dir(plan.store, recorder)
        retrying = retrying_stream_fn(inner, RecoveryPolicy(), sleep=plan.clock.sleep)
        relay = EventForwarder()
        guards = OwnGuards(
            retrying,
            models,
            model,
            recorder=recorder,
            loaded=loaded,
            relay=relay,
            spending=self.spending,
        )
        return ConversationDeps(
            environment=WorkEnvironment(
                cwd=plan.cwd,
                system_prompt=lambda names: join_prompt(plan.system_prompt, self.extensions),
                attach=_as_it_is,
                gate=gate,
            ),
            run=RunDeps(
                tools=bind((*plan.tools, *self.extensions.tools())),
                stream_fn=self.extensions.around_model(retrying),
                configure=self._configure(gate, recorder, guards, models, asset_dir),
                bind_tools=bind,
                prompt_checks=self.extensions.prompt_checks(),
                on_waiting=continuation_reader(plan.store, recorder.session_id)
                if plan.store is not None and recorder is not None
                else waiting.continuation,
                max_turns=plan.max_turns,
                time_limit_s=plan.limits.time_s,
                backpressure=BackpressurePolicy(clock=plan.clock, sleep=plan.clock.sleep),
            ),
            session=_session_deps(recorder, loaded, guards, relay),
            models=models,
            model=model,
            thinking=level or plan.thinking,
            late_notices=self.late_notices,
            relay=relay,
            extensions=self.extensions,
            sinks=(guards.context.sink, *self.extensions.sinks()),
            on_close=(self.extensions.close, guards.context.close, self._let_go(recorder)),
        )

    def _models(self) -> tuple[Models, str, ThinkingLevel | None, StreamFn]:
        plan = self.plan
        if plan.stream_fn is not None:
            own = OwnModels(plan.model or "own/model")
            return own, *own.resolve(own.first), plan.stream_fn
        if not plan.model:
            raise ConfigError(
                "This agent has no model.",
                hint='Name one, as `model="anthropic/claude-sonnet-5"`, or give a `stream_fn`.',
            )
        directory = ModelDirectory(bare_config(plan.model), self.client, self.redactor)
        return directory, *directory.resolve(plan.model), directory.stream

    def _gate(self) -> PermissionEngine:
        plan = self.plan
        rules = [parse_rule(rule, "allow", source="allow") for rule in plan.permission.allow]
        rules += [parse_rule(rule, "deny", source="deny") for rule in plan.permission.deny]
        gate = PermissionEngine(
            self.workspace,
            PolicySet(rules=tuple(rules), mode=plan.permission.mode),
            state_dirs=[
                *state_folders(os.environ),
                *([plan.store.folder] if plan.store is not None else []),
            ],
            settings=settings_folders(os.environ),
        )
        self.workspace.withheld = gate.withholds
        return gate

    def _recorder(self, thread: str | None) -> Recorder | None:
        store = self.plan.store
        if store is None:
            return None
        journal = store.create() if thread is None else store.open_or_create(thread)
        recorder = Recorder(
            journal, redact=self.redactor.redact_known, on_notice=self.late_notices.append
        )
        self.undo.callback(recorder.close)
        return recorder

    def _configure(
        self,
        gate: PermissionEngine,
        recorder: Recorder | None,
        guards: OwnGuards,
        models: Models,
        asset_dir: str | None,
    ) -> Callable[[RunSettings], LoopConfig]:
        plan = self.plan
        authorizer = Authorizer(
            gate=gate,
            asker=as_asker(plan.permission.asker),
            workspace=self.workspace,
            runner=self.runner,
            cwd=str(plan.cwd),
            on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
        )

        validate = Toolbox((), ToolServices(files=self.workspace), str(plan.cwd)).validate

        def configure(run: RunSettings) -> LoopConfig:
            extensions, context = (
                self.extensions,
                RunContext(model=run.model, is_recorded=run.is_recorded),
            )
            written = [recorder.interceptor] if recorder is not None and run.is_recorded else []
            return compose(
                run.bundle,
                *extensions.hooks(context, "first"),
                limit_hooks(
                    _most(plan.limits, run.max_turns),
                    cost_of=lambda usage, model: models.cost_usd(model, usage),
                    clock=plan.clock,
                    spending=self.spending,
                ),
                *guards.bundles(run.model),
                *(hooks if isinstance(hooks, Hooks) else hooks() for hooks in plan.bundles),
                *extensions.hooks(context, "usual"),
                *extensions.hooks(context, "last"),
                *run.further,
                authorizer.bundle(),
                config=LoopConfig(
                    model=run.model,
                    provider=run.model.partition("/")[0],
                    thinking_level=run.thinking,
                    validate=validate,
                    check_aborted=extensions.check_aborted(),
                    asset_dir=asset_dir,
                    # What an embedder does around a call happens after the call was written down.
                    # No limit but a tool's own: how long others may take nobody has said.
                    interceptors=[
                        *extensions.around_tool(context, is_first=True),
                        *written,
                        *extensions.around_tool(context, is_first=False),
                        *plan.interceptors,
                        authorizer.at_start,
                        timeout_interceptor(0, {}),
                    ],
                    clock=plan.clock,
                ),
            )

        return configure

    def _let_go(self, recorder: Recorder | None) -> Callable[[], Awaitable[None]]:
        async def let_go() -> None:
            await self.runner.shutdown()
            self.read_only.close()
            await self.client.aclose()
            if recorder is not None:
                recorder.close()
            self.workspace.close()

        return let_go


def _session_deps(
    recorder: Recorder | None, loaded: LoadedSession, guards: OwnGuards, relay: EventForwarder
) -> SessionDeps:
    return SessionDeps(
        recorder=recorder,
        history=loaded.messages,
        usage=loaded.usage,
        cost_usd=loaded.cost_usd,
        compact=partial(guards.context.compact, emit=relay),
        context_report=guards.context.report,
    )


def store_in(journal: str | os.PathLike[str] | Store | None) -> Store | None:
    """Where threads are kept: a store, or one in this folder."""
    if journal is None or isinstance(journal, Store):
        return journal
    folder = Path(journal).absolute()
    return Store(folder, folder, app_version=__version__)


def distinct(tools: Sequence[Tool[Any] | LoopTool]) -> tuple[Tool[Any] | LoopTool, ...]:
    """The same tools.

    Raises:
        ConfigError: two of them have one name.
    """
    names = [tool.name for tool in tools]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ConfigError(f"Two tools are named `{name}`.", hint="Give one another name.")
    return tuple(tools)


def bound(
    tools: Sequence[Tool[Any] | LoopTool], services: ToolServices, cwd: str
) -> Sequence[LoopTool]:
    """The tools ready for the loop, in their order; the last of a name counts."""
    named = {tool.name: tool for tool in tools}
    own = [tool for tool in named.values() if isinstance(tool, Tool)]
    ready = {tool.name: tool for tool in Toolbox(own, services, cwd).loop_tools}
    others = {name: tool for name, tool in named.items() if not isinstance(tool, Tool)}
    return tuple({**ready, **others}[name] for name in named if name in ready or name in others)


def _most(given: Limits, max_turns: int | None) -> Limits:
    return given if given.turns is not None else replace(given, turns=max_turns)


def _asset_dir(store: Store | None, recorder: Recorder | None) -> str | None:
    if store is None or recorder is None:
        return None
    return str(store.folder / recorder.session_id / "assets")


async def _as_it_is(text: str, _pictures: Pictures) -> UserMessage:
    return user_text(text)


def bare_config(model: str) -> Config:
    """Settings as if no file existed: defaults, the usual variables, and this model."""
    config = Config()
    config._origin = Origin(chosen=RequestedModel(model=model), environment=dict(os.environ))
    return config


@dataclass(frozen=True, slots=True)
class OwnModels:
    """Models behind a stream function of the embedder's; implements `types.llm.Models`.

    Any name will do; those that the catalogue knows (`anthropic/…`) have a window and a price.
    """

    first: str

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        name, _, last = spec.rpartition(":")
        level = next((level for level in THINKING_LEVELS if level == last), None)
        return (name, level) if name and level else (spec, None)

    def choices(self) -> Sequence[ModelOption]:
        return [ModelOption(spec=self.first, window_tokens=self.window_tokens(self.first))]

    def services(self) -> Sequence[str]:
        return ()

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        raise ConfigError(f"Whoever answers for {alias} has no list of models.")

    def window_tokens(self, model: str) -> int:
        return self._card(model).window_tokens or ASSUMED_WINDOW_TOKENS

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return cost_usd(self._card(model), usage)

    def holds_schema(self, model: str) -> bool:
        # What answers here is the embedder's: it takes a tool, and may know nothing of schemas.
        return False

    def sees_pictures(self, model: str) -> bool | None:
        return self._card(model).sees_pictures

    def _card(self, model: str) -> ModelProfile:
        provider, _, model_id = model.partition("/")
        return find_model_profile(provider, model_id)


def join_prompt(text: str, extensions: ExtensionSet) -> str:
    """The system prompt of a program, with the sections of extensions after it."""
    own = Section(name="program", priority=0, text=text)
    sections = sorted((own, *extensions.prompt_sections()), key=lambda section: section.priority)
    return "\n\n".join(each.text for each in extensions.edit_prompt(sections) if each.text)
