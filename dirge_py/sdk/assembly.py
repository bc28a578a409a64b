"""From what an `Agent` was given to a conversation: its parts, without any settings file."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dirge_py.agent_loop.merge import compose
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.agent_loop.timeouts import timeout_interceptor
from dirge_py.config.services import SERVICES
from dirge_py.conversation.broadcaster import Patience
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import Parts, Pictures, Relay, RunSettings
from dirge_py.files.log.log_records import keep_off_the_screen
from dirge_py.files.workspace import Workspace
from dirge_py.guards.limits import Limits, Spending, limits
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redactor import Redactor
from dirge_py.lib.secret_environment import secret_values
from dirge_py.lib.version import __version__
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.gate import Gate
from dirge_py.permission.rules import Mode, PolicySet, parse_rule
from dirge_py.permission.settings import settings_folders, state_folders
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelDirectory
from dirge_py.sdk.asking import Asking, as_asker
from dirge_py.sdk.checks import Checks, OwnGuardrails
from dirge_py.sdk.guarding import OwnGuards
from dirge_py.sdk.models import OwnModels, bare_config
from dirge_py.sdk.waiting import Waiting
from dirge_py.session.continuations import continuations
from dirge_py.session.history import Loaded
from dirge_py.session.originals import NOTHING_KEPT
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.tools.base import Services, Tool
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.errors import ConfigError
from dirge_py.types.hooks import Bundle, LoopConfig
from dirge_py.types.llm import Models, StreamFn, ThinkingLevel
from dirge_py.types.messages import UserMessage, user_text
from dirge_py.types.tools import Interceptor, LoopTool

Hooks = Bundle | Callable[[], Bundle]
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
class Blueprint:
    """What an `Agent` was given; see there."""

    model: str = ""
    tools: Sequence[Tool[Any] | LoopTool] = ()
    system_prompt: str = ""
    stream_fn: StreamFn | None = None
    bundles: Sequence[Hooks] = ()
    interceptors: Sequence[Interceptor] = ()
    guardrails: Checks = ()
    asker: Asking = "deny"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    mode: Mode = "standard"
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
    waiting = Waiting(thread)
    with ExitStack() as undo:
        conversation = Conversation(_Assembly(plan, undo).parts(thread, waiting))
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
        self.spending = Spending()

    def parts(self, thread: str | None, waiting: Waiting) -> Parts:
        plan = self.plan
        models, model, level, inner = self._models()
        gate = self._gate()
        recorder = self._recorder(thread)
        loaded = recorder.load() if recorder is not None else Loaded()
        services = Services(files=self.workspace, processes=self.runner, app=plan.app)

        def bind(tools: Sequence[Tool[Any] | LoopTool]) -> Sequence[LoopTool]:
            return bound(tools, services, str(plan.cwd))

        guardrails = OwnGuardrails(plan.guardrails, self.late_notices.append)
        asset_dir = _asset_dir(plan.store, recorder)
        retrying = retrying_stream_fn(inner, RecoveryPolicy(), sleep=plan.clock.sleep)
        relay = Relay()
        guards = OwnGuards(
            retrying,
            models,
            model,
            recorder=recorder,
            loaded=loaded,
            relay=relay,
            spending=self.spending,
        )
        return Parts(
            cwd=plan.cwd,
            model=model,
            thinking=level or plan.thinking,
            models=models,
            tools=bind(plan.tools),
            bind_tools=bind,
            stream_fn=guardrails.around_model(retrying),
            configure=self._configure(gate, recorder, guardrails, guards, models, asset_dir),
            compact=partial(guards.context.compact, emit=relay),
            context_report=guards.context.report,
            relay=relay,
            sinks=(guards.context.sink,),
            system_prompt=lambda names: plan.system_prompt,
            attach=_as_it_is,
            gate=gate,
            recorder=recorder,
            late_notices=self.late_notices,
            history=loaded.messages,
            usage=loaded.usage,
            cost_usd=loaded.cost_usd,
            max_turns=plan.max_turns,
            time_limit_s=plan.limits.time_s,
            prompt_checks=guardrails.prompt_checks,
            on_waiting=continuations(plan.store, recorder.session_id)
            if plan.store is not None and recorder is not None
            else waiting.continuation,
            patience=Patience(clock=plan.clock, sleep=plan.clock.sleep),
            on_close=(guards.context.close, self._let_go(recorder)),
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

    def _gate(self) -> Gate:
        plan = self.plan
        rules = [parse_rule(rule, "allow", source="allow") for rule in plan.allow]
        rules += [parse_rule(rule, "deny", source="deny") for rule in plan.deny]
        gate = Gate(
            self.workspace,
            PolicySet(rules=tuple(rules), mode=plan.mode),
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
        gate: Gate,
        recorder: Recorder | None,
        guardrails: OwnGuardrails,
        guards: OwnGuards,
        models: Models,
        asset_dir: str | None,
    ) -> Callable[[RunSettings], LoopConfig]:
        plan = self.plan
        authorizer = Authorizer(
            gate=gate,
            asker=as_asker(plan.asker),
            workspace=self.workspace,
            runner=self.runner,
            cwd=str(plan.cwd),
            on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
        )

        validate = Toolbox((), Services(files=self.workspace), str(plan.cwd)).validate

        def configure(run: RunSettings) -> LoopConfig:
            written = [recorder.interceptor] if recorder is not None and run.is_recorded else []
            return compose(
                run.bundle,
                limits(
                    _most(plan.limits, run.max_turns),
                    cost_of=lambda usage, model: models.cost_usd(model, usage),
                    clock=plan.clock,
                    spending=self.spending,
                ),
                *guards.bundles(run.model),
                *(hooks if isinstance(hooks, Bundle) else hooks() for hooks in plan.bundles),
                guardrails.bundle(),
                *run.further,
                authorizer.bundle(),
                config=LoopConfig(
                    model=run.model,
                    provider=run.model.partition("/")[0],
                    thinking_level=run.thinking,
                    validate=validate,
                    check_aborted=guardrails.check_aborted,
                    asset_dir=asset_dir,
                    # What an embedder does around a call happens after the call was written down.
                    # No limit but a tool's own: how long others may take nobody has said.
                    interceptors=[
                        *written,
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
    tools: Sequence[Tool[Any] | LoopTool], services: Services, cwd: str
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
