"""`Agent`: dirge as a library for programs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.agent_loop.history import open_calls
from dirge_py.config.load import load
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.durable import Engine
from dirge_py.conversation.run import Run
from dirge_py.guards.limits import Limits
from dirge_py.permission.project_trust import inspect_project
from dirge_py.permission.rules import Mode
from dirge_py.plan.approval import Accept, AutoApprove, DeferAll, PlanAnswer, PlanApprover, Reject
from dirge_py.plan.document import PlanDocument
from dirge_py.plan.runner import PlanResult, start_plan
from dirge_py.plan.state import terms_of
from dirge_py.sdk.agent_inputs import (
    AgentInput,
    Asking,
    Continue,
    Prompt,
    Resume,
    as_asker,
    as_message,
    awaited,
)
from dirge_py.sdk.assembly import (
    Blueprint,
    Checks,
    HookSource,
    ProgramHooks,
    assemble,
    bare_config,
    distinct,
    fatal_error_names,
    store_in,
)
from dirge_py.sdk.build import build
from dirge_py.sdk.guards import Clock, WallClock
from dirge_py.sdk.options import BuildOptions, SessionChoice, with_project
from dirge_py.sdk.outcome_text import why_not_done
from dirge_py.sdk.sessions import open_store
from dirge_py.sdk.steps import Steps
from dirge_py.sdk.structured import Output, OutputSchema
from dirge_py.sdk.threads import OpenThread, check_fits, read_resume, records_of
from dirge_py.sdk.tool_registry import ToolRegistry
from dirge_py.session.store import Store
from dirge_py.tools.base import Tool
from dirge_py.types.errors import ConfigError, LoopError, SessionError
from dirge_py.types.events import Sink
from dirge_py.types.extensions import Section
from dirge_py.types.hooks import CallDecision, Hooks
from dirge_py.types.llm import StreamFn, ThinkingLevel
from dirge_py.types.messages import Message
from dirge_py.types.outcomes import AgentResult, Done, Outcome
from dirge_py.types.sampling import Sampling
from dirge_py.types.tools import Interceptor, LoopTool

AcceptFunction: TypeAlias = Callable[
    [PlanDocument], bool | PlanAnswer | Awaitable[bool | PlanAnswer]
]
"""Decides about a plan before anything is changed: True runs it, False discards it;
`plan.approval` has more answers."""


def _approver(conversation: Conversation, accept: AcceptFunction | None) -> PlanApprover:
    """Return who decides about the plan. Raises ConfigError if no plan can run here."""
    table = terms_of(conversation).table
    if not table.enabled:
        raise ConfigError("Plans are off.", hint="Set `enabled` in [plan] to true.")
    if conversation.environment.read_tree is None:
        raise ConfigError(
            "This agent has no workspace for the phases of a plan.",
            hint="Use `Agent.from_config()`, which has one and the built-in tools.",
        )
    if accept is not None:
        return _FunctionApprover(accept)
    return DeferAll() if table.auto_accept is False else AutoApprove()


class _FunctionApprover:
    def __init__(self, function: AcceptFunction) -> None:
        self._function = function

    async def decide(self, plan: PlanDocument, _grants: Sequence[str]) -> PlanAnswer:
        answer = await awaited(self._function(plan))
        if isinstance(answer, PlanAnswer):
            return answer
        # Only True accepts, as with questions about calls.
        return Accept(plan.text) if answer is True else Reject()


class Agent:
    """A model with tools, ready to run.

    It reads no settings, has only the tools it is given, and keeps the history in memory. Calls are
    judged by the permission rules; a call that would need a question is denied, unless `asker`
    says otherwise. `Agent.from_config()` uses the settings, tools and journal of the program.

    * `model`: `provider/id[:level]`, its key in the provider's usual variable; or any name, with a
      `stream_fn` that answers instead of a provider.
    * `tools`: results of `@tool`, or any `LoopTool`; two of one name are a `ConfigError`.
    * `system_prompt`: a text, or sections that are sorted by their priority.
    * `bundles`: hooks, or functions that make them anew for each run; `interceptors` wrap tool
      calls; `guardrails` check texts (`extensions.guardrails.checks`).
    * `asker`: `deny`, `defer`, `abort`, a function asked about each call, or an `Asker`. `allow`
      and `deny` are rules (`op:pattern`), `mode` a preset.
    * `journal`: a folder, or a `Store`, that stores threads; see `run_turn`.
    * `clock`: seconds, with a `sleep`; for tests.
    * `sampling`: temperature, top_p, stop sequences, and further members of each request.
    * `max_turns`, `limits`: what one run may use.
    * `fatal_errors`: errors of tools that end a run as `Failed`: `error`, `failed_command`,
      `denied`, `timeout`, `invalid`, `unknown_tool`, and exceptions.
    * `app`: anything; tools get it as `ctx.app`.
    * `output_schema`: the schema of each run's answer, a JSON Schema or a pydantic class; the value
      is `result.structured`.

    Raises ConfigError: the output schema is invalid; with the first run, when the model can't be
    used or a rule is invalid.
    """

    def __init__(
        self,
        model: str = "",
        *,
        tools: Sequence[Tool[Any] | LoopTool] = (),
        system_prompt: str | Sequence[Section] = "",
        stream_fn: StreamFn | None = None,
        bundles: Sequence[HookSource] = (),
        interceptors: Sequence[Interceptor] = (),
        guardrails: Checks = (),
        asker: Asking = "deny",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        mode: Mode = "standard",
        journal: str | os.PathLike[str] | Store | None = None,
        clock: Clock | None = None,
        thinking: ThinkingLevel = "off",
        sampling: Sampling | None = None,
        max_turns: int | None = 100,
        limits: Limits | None = None,
        fatal_errors: Sequence[str | type[Exception]] = (),
        app: Any = None,
        cwd: str | os.PathLike[str] | None = None,
        output_schema: OutputSchema | None = None,
    ) -> None:
        store = store_in(journal)
        plan = Blueprint(
            model=model,
            stream_fn=stream_fn,
            thinking=thinking,
            tools=distinct(tools),
            system_prompt=system_prompt if isinstance(system_prompt, str) else tuple(system_prompt),
            hooks=ProgramHooks(bundles, interceptors),
            guardrails=guardrails,
            asker=asker,
            options=BuildOptions(
                allow=tuple(allow), deny=tuple(deny), sampling=sampling or Sampling()
            ),
            config=bare_config(
                mode=mode, max_turns=max_turns, fatal_errors=fatal_error_names(fatal_errors)
            ),
            store=store,
            clock=clock or WallClock(),
            limits=limits or Limits(),
            app=app,
            cwd=Path(cwd) if cwd is not None else Path.cwd(),
        )
        self._set_up(lambda thread: assemble(plan, thread), store, output_schema)

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        asker: Asking = "deny",
        options: BuildOptions | None = None,
        stream_fn: StreamFn | None = None,
        engine: Engine | None = None,
        output_schema: OutputSchema | None = None,
    ) -> "Agent":
        """Make an agent with the settings, built-in tools and journal of the current folder.

        `path` is a settings file instead of the usual one; `options` are what flags would say,
        `stream_fn` replaces the configured providers; none is needed then. `engine` gets the local
        durable context and returns the one that model and tool calls use. Raises ConfigError: the
        settings are invalid.
        """
        config = load(path=Path(path) if path is not None else None)
        given = options or BuildOptions()

        def open_thread(thread: str | None) -> Conversation:
            chosen = given.session
            if thread is not None and chosen.kind != "none":
                chosen = SessionChoice(kind="named", id=thread)
            wanted = replace(given, session=chosen)
            settings, wanted = with_project(config, wanted, inspect_project(Path.cwd()))
            return build(settings, as_asker(asker), wanted, stream_fn=stream_fn, engine=engine)

        is_kept = config.session.save and given.session.kind != "none"
        agent = cls.__new__(cls)
        store = open_store(config, Path.cwd()) if is_kept else None
        agent._set_up(open_thread, store, output_schema)
        return agent

    def _set_up(
        self, open_thread: OpenThread, store: Store | None, wanted: OutputSchema | None
    ) -> None:
        self._store = store
        self._output = Output(wanted) if wanted is not None else None
        self.tools = ToolRegistry(open_thread, are_shared=store is not None)
        """The tools; more can be registered, and called without a model."""
        self._threads = self.tools.threads

    # -- runs

    def start(
        self,
        given: str | AgentInput,
        *,
        thread: str | None = None,
        output_schema: OutputSchema | None = None,
    ) -> Run:
        """Start a run; watch it with `run.events()`, steer it, await `run.outcome`.

        With an output schema the outcome holds the answer as JSON, even for a pydantic class.
        Raises ConfigError: the output schema is invalid; DirgeError: the thread runs already, can't
        be opened, or can't continue like this.
        """
        return self._start(given, self._thread_of(given, thread), self._wanted(output_schema))

    async def run(
        self,
        given: str | AgentInput,
        *,
        thread: str | None = None,
        output_schema: OutputSchema | None = None,
    ) -> AgentResult:
        """Run to the end and return the result. Cancelling this aborts the run.

        `output_schema` replaces the agent's for this run. Raises ConfigError: the output schema is
        invalid; LoopError: the run ended in another way; `outcome` says how.
        """
        output, thread = self._wanted(output_schema), self._thread_of(given, thread)
        try:
            outcome = await _finish(self._start(given, thread, output), output)
        finally:
            await self._threads.wait_released(thread)
        if isinstance(outcome, Done) and outcome.result is not None:
            return outcome.result
        message, hint = why_not_done(outcome)
        raise LoopError(message, outcome=outcome, hint=hint)

    def steps(self, given: Prompt | Continue, *, thread: str | None = None) -> Steps:
        """A run in steps; it starts with the first step."""
        conversation = self._threads.open(thread)

        def start(bundles: Sequence[Hooks]) -> Run:
            return self._start(given, thread, self._output, bundles=bundles)

        return Steps(conversation, start)

    async def run_turn(self, given: AgentInput, *, thread: str | None = None) -> Outcome:
        """One turn of a thread: `NeedsMoreTurns`, or how the run ended.

        With a journal each turn may run in another process: the thread is in the store, and is open
        only during the turn. Continue with `Continue()`, or with `Resume(…)` after an
        `AwaitingConfirmation`, whose `continuation` is plain JSON. Raises DirgeError: the thread
        runs already, can't be opened, or can't continue like this.
        """
        thread = self._thread_of(given, thread)
        try:
            run = self._start(given, thread, self._output, single_turn=True)
            return await _finish(run, self._output)
        finally:
            await self._threads.wait_released(thread)

    async def plan(
        self,
        request: str,
        *,
        accept: AcceptFunction | None = None,
        on_event: Sink | None = None,
        thread: str | None = None,
    ) -> PlanResult:
        """Work through a request: explore, plan, implement, review. Only with `from_config`.

        `accept` is asked about the plan before anything is changed; without it `[plan] auto_accept`
        decides; if that is absent, the plan is run. `on_event` gets every event. The outcome is
        `Done` only if a review found all of it done, with evidence; else `NotVerified`, or the
        outcome of the phase that failed. Raises DirgeError: plans are switched off, the agent has
        no settings, or the thread is busy.
        """
        conversation = self._threads.open(thread)
        conversation.settings.answer_schema = None
        unsubscribe = conversation.subscribe(on_event) if on_event is not None else None
        try:
            return await start_plan(request, conversation, _approver(conversation, accept))
        finally:
            if unsubscribe is not None:
                unsubscribe()
            self._threads.release(thread)
            await self._threads.wait_released(thread)

    def messages(self, *, thread: str | None = None) -> Sequence[Message]:
        """The history of a thread; reading it does not open the thread."""
        if self._store is None or thread is None or self._threads.is_open(thread):
            return tuple(self._threads.open(thread).messages)
        if not records_of(self._store, thread):
            return ()
        return self._store.read(thread).messages

    async def close(self) -> None:
        """Stop all runs and close all threads."""
        await self._threads.close()

    async def __aenter__(self) -> "Agent":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    # -- inside

    def _thread_of(self, given: str | AgentInput, thread: str | None) -> str | None:
        """The thread to use: that of the continuation, if none is named."""
        if thread is None and self._store is not None and isinstance(given, Resume):
            return self._threads.name_of(read_resume(given).session_id)
        return thread

    def _wanted(self, schema: OutputSchema | None) -> Output | None:
        return Output(schema) if schema is not None else self._output

    def _start(
        self,
        given: str | AgentInput,
        thread: str | None,
        output: Output | None,
        *,
        single_turn: bool = False,
        bundles: Sequence[Hooks] = (),
    ) -> Run:
        continuation = read_resume(given) if isinstance(given, Resume) else None
        conversation = self._threads.open(thread)
        try:
            if continuation is not None:
                check_fits(continuation, conversation, thread, self._store)
            conversation.settings.answer_schema = output.schema if output is not None else None
            continue_run = partial(
                conversation.continue_run, single_turn=single_turn, bundles=bundles
            )
            match given:
                case Resume(tool_call_id=call_id, confirmed=allow, reason=reason):
                    decision = CallDecision(tool_call_id=call_id, allow=allow, reason=reason or "")
                    run = continue_run([decision])
                case Continue():
                    waiting = open_calls(conversation.messages)
                    if waiting is not None and conversation.interruption is None:
                        raise SessionError(
                            f"The thread waits for a decision about `{waiting.calls[0].name}`.",
                            hint="Continue with `Resume(…)` instead of `Continue()`.",
                        )
                    run = continue_run()
                case _:
                    message = as_message(given)
                    run = conversation.send(message, single_turn=single_turn, bundles=bundles)
        except BaseException:
            self._threads.release(thread)
            raise
        self._threads.release(thread, run)
        return run


async def _finish(run: Run, output: Output | None) -> Outcome:
    """Wait for the outcome of a run; if this wait is cancelled, the run is aborted."""
    try:
        outcome = await run
    except asyncio.CancelledError:
        run.abort("cancelled")
        await asyncio.wait([run.outcome])
        raise
    return outcome if output is None else output.delivered(outcome)
