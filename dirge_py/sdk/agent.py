"""`Agent`: what an embedder holds.

A plan worked through for an embedder: who accepts it, and what has to be there for it.

Why a run that was awaited for its answer has none, in words.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
from dirge_py.plan.state import PlanTerms, terms_of
from dirge_py.sdk.agent_inputs import AgentInput, Asking, Continue, Prompt, Resume, as_asker, as_message
from dirge_py.sdk.assembly import AgentPermission, Blueprint, Checks, Clock, HookSource, WallClock, assemble, distinct, store_in
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice, with_project
from dirge_py.sdk.outcome_text import why_not_done
from dirge_py.sdk.sessions import open_store
from dirge_py.sdk.steps import Steps
from dirge_py.sdk.structured import Output, OutputSchema
from dirge_py.sdk.threads import Open, Threads, check_fits, read_resume, records_of
from dirge_py.session.store import Store
from dirge_py.tools.base import Tool
from dirge_py.types.errors import ConfigError, LoopError, SessionError
from dirge_py.types.events import Sink
from dirge_py.types.hooks import CallDecision, Hooks
from dirge_py.types.llm import StreamFn, ThinkingLevel
from dirge_py.types.messages import Message
from dirge_py.types.outcomes import AgentResult, Done, Outcome
from dirge_py.types.tools import Interceptor, LoopTool
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias


AcceptFunction: TypeAlias = Callable[
    [PlanDocument], bool | PlanAnswer | Awaitable[bool | PlanAnswer]
]
"""Gets a plan before anything is changed: True has it carried out, False drops it; `plan.approval`
has further answers."""


async def work_through(
    conversation: Conversation,
    request: str,
    *,
    accept: AcceptFunction | None,
    on_event: Sink | None,
) -> PlanResult:
    """What came of the request.

    Raises:
        ConfigError: plans are switched off, or the conversation has no rooms for their phases.
        DirgeError: it is busy.
    """
    terms = terms_of(conversation)
    if not terms.is_enabled:
        raise ConfigError("Plans are switched off.", hint="Set `enabled` in [plan] to true.")
    if conversation.environment.read_tree is None:
        raise ConfigError(
            "This agent has no place where the phases of a plan could work.",
            hint="`Agent.from_config()` has; it brings the built-in tools along.",
        )
    forget = conversation.subscribe(on_event) if on_event is not None else None
    try:
        return await start_plan(request, conversation, _desk(accept, terms))
    finally:
        if forget is not None:
            forget()


def _desk(accept: AcceptFunction | None, terms: PlanTerms) -> PlanApprover:
    if accept is not None:
        return _Asked(accept)
    return DeferAll() if terms.auto_accept is False else AutoApprove()


class _Asked:
    def __init__(self, function: AcceptFunction) -> None:
        self._function = function

    async def decide(self, plan: PlanDocument, _grants: Sequence[str]) -> PlanAnswer:
        said = self._function(plan)
        answer = await said if inspect.isawaitable(said) else said
        if isinstance(answer, PlanAnswer):
            return answer
        # Nothing but a plain True is a yes, as with questions about calls.
        return Accept(plan.text) if answer is True else Reject()


class Agent:
    """A model with tools, ready to run.

    It reads no settings, has no tools but those it is given, and keeps what is said in memory.
    Calls are judged as everywhere in dirge; what would be asked is denied, unless `asker` says
    otherwise. `Agent.from_config()` is the product instead.

    * `model`: `provider/id[:level]`, its key in the provider's usual variable; or any name, with a
      `stream_fn` that answers instead of a provider.
    * `tools`: what `@tool` makes, or any `LoopTool`; two of one name are a `ConfigError`.
    * `bundles`: hooks, or functions that make them anew for each run; `interceptors` go around tool
      calls; `guardrails` judge texts (see `sdk.checks`).
    * `asker`: `deny`, `defer`, `abort`, a function asked about each call, or an `Asker`. `allow`
      and `deny` are rules (`op:pattern`), `mode` a preset.
    * `journal`: a folder, or a `Store`, in which threads are kept; see `run_turn`.
    * `clock`: seconds, with a `sleep`; for tests.
    * `max_turns`, `limits`: what one run may use.
    * `app`: anything; tools get it as `ctx.app`.
    * `output_schema`: what each run's answer has to be, a JSON Schema or a pydantic class; the
      value is `result.structured`.

    Raises:
        ConfigError: the output schema is none; with the first run, when the model cannot be used or
            a rule is none.
    """

    def __init__(
        self,
        model: str = "",
        *,
        tools: Sequence[Tool[Any] | LoopTool] = (),
        system_prompt: str = "",
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
        max_turns: int | None = 100,
        limits: Limits | None = None,
        app: Any = None,
        cwd: str | os.PathLike[str] | None = None,
        output_schema: OutputSchema | None = None,
    ) -> None:
        store = store_in(journal)
        plan = Blueprint(
            model=model,
            tools=distinct(tools),
            system_prompt=system_prompt,
            stream_fn=stream_fn,
            bundles=tuple(bundles),
            interceptors=tuple(interceptors),
            guardrails=guardrails,
            permission=AgentPermission(
                asker=asker, allow=tuple(allow), deny=tuple(deny), mode=mode
            ),
            store=store,
            clock=clock or WallClock(),
            thinking=thinking,
            max_turns=max_turns,
            limits=limits or Limits(),
            app=app,
            cwd=Path(cwd) if cwd is not None else Path.cwd(),
        )
        self._keep(lambda thread: assemble(plan, thread), store, output_schema)

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
        """The product: settings, built-in tools, journal, in the current folder.

        `path` is a settings file instead of the usual one; `options` are what flags would say,
        `stream_fn` stands in for the configured providers. `engine` is given the durable context
        there is and returns the one that model and tool calls go through.

        Raises:
            ConfigError: the settings do not hold.
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
        agent._keep(open_thread, store, output_schema)
        return agent

    def _keep(self, open_thread: Open, store: Store | None, wanted: OutputSchema | None) -> None:
        self._store = store
        self._output = Output(wanted) if wanted is not None else None
        self._threads = Threads(open_thread, are_shared=store is not None)

    # -- runs

    def start(
        self,
        given: str | AgentInput,
        *,
        thread: str | None = None,
        output_schema: OutputSchema | None = None,
    ) -> Run:
        """Begin a run; watch it with `run.events()`, steer it, await `run.outcome`.

        With an output schema the outcome holds the answer as JSON, also where that is a class.

        Raises:
            ConfigError: the output schema is none.
            DirgeError: the thread runs already, cannot be opened, or cannot go on like this.
        """
        output = self._wanted(output_schema)
        return self._started(given, thread, single_turn=False, output=output)

    async def run(
        self,
        given: str | AgentInput,
        *,
        thread: str | None = None,
        output_schema: OutputSchema | None = None,
    ) -> AgentResult:
        """The result of a whole run. Cancel this, and the run is aborted, its calls answered.

        `output_schema` is for this run, in the place of the agent's.

        Raises:
            ConfigError: the output schema is none.
            LoopError: it ended in any other way; `outcome` says how.
        """
        output = self._wanted(output_schema)
        try:
            run = self._started(given, thread, single_turn=False, output=output)
            outcome = _delivered(await _owned(run), output)
        finally:
            await self._threads.settle(thread)
        if isinstance(outcome, Done) and outcome.result is not None:
            return outcome.result
        message, hint = why_not_done(outcome)
        raise LoopError(message, outcome=outcome, hint=hint)

    def steps(self, given: Prompt | Continue, *, thread: str | None = None) -> Steps:
        """A run taken step by step; it begins with the first."""
        conversation = self._threads.take(thread)

        def start(bundles: Sequence[Hooks]) -> Run:
            return self._started(
                given, thread, single_turn=False, bundles=bundles, output=self._output
            )

        return Steps(conversation, start)

    async def run_turn(self, given: AgentInput, *, thread: str | None = None) -> Outcome:
        """One turn of a thread: `NeedsMoreTurns`, or how the run ended.

        With a journal every turn may be taken by another process: the thread is in the store, and
        is held only meanwhile. Go on with `Continue()`, or with `Resume(…)` after an
        `AwaitingConfirmation`, whose `continuation` is plain JSON.

        Raises:
            DirgeError: the thread runs already, cannot be opened, or cannot go on like this.
        """
        try:
            run = self._started(given, thread, single_turn=True, output=self._output)
            return _delivered(await _owned(run), self._output)
        finally:
            await self._threads.settle(thread)

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
        decides, and carries it out if it is absent. `on_event` hears everything. The outcome is
        `Done` only if a review found all of it done, and showed it; else `NotVerified`, or how a
        phase ended that did not come to its end.

        Raises:
            DirgeError: plans are switched off, the agent has no settings, or the thread is busy.
        """
        conversation = self._threads.take(thread)
        conversation.settings.answer_schema = None
        try:
            return await work_through(conversation, request, accept=accept, on_event=on_event)
        finally:
            self._threads.let_go(thread)
            await self._threads.settle(thread)

    def messages(self, *, thread: str | None = None) -> Sequence[Message]:
        """The history of a thread. Looking at it holds up nobody."""
        if self._store is None or thread is None or self._threads.holds(thread):
            return tuple(self._threads.take(thread).messages)
        if not records_of(self._store, thread):
            return ()
        return self._store.read(thread).messages

    async def close(self) -> None:
        """Stop what runs, and let everything go."""
        await self._threads.close()

    async def __aenter__(self) -> "Agent":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- inside

    def _wanted(self, schema: OutputSchema | None) -> Output | None:
        return Output(schema) if schema is not None else self._output

    def _started(
        self,
        given: str | AgentInput,
        thread: str | None,
        *,
        single_turn: bool,
        output: Output | None,
        bundles: Sequence[Hooks] = (),
    ) -> Run:
        continuation = read_resume(given) if isinstance(given, Resume) else None
        if continuation is not None and thread is None and self._store is not None:
            thread = self._threads.holding(continuation.session_id)
        conversation = self._threads.take(thread)
        try:
            if continuation is not None:
                check_fits(continuation, conversation, thread, self._store)
            conversation.settings.answer_schema = output.schema if output is not None else None
            run = _begun(conversation, given, single_turn=single_turn, bundles=bundles)
        except BaseException:
            self._threads.let_go(thread)
            raise
        self._threads.watch(thread, run)
        return run


def _delivered(outcome: Outcome, output: Output | None) -> Outcome:
    return outcome if output is None else output.delivered(outcome)


async def _owned(run: Run) -> Outcome:
    """How a run ended that nobody else has in hand: without whoever waits for it, it stops."""
    try:
        return await run
    except asyncio.CancelledError:
        run.abort("cancelled")
        await asyncio.wait([run.outcome])
        raise


def _begun(
    conversation: Conversation,
    given: str | AgentInput,
    *,
    single_turn: bool,
    bundles: Sequence[Hooks],
) -> Run:
    match given:
        case Resume():
            decision = CallDecision(
                tool_call_id=given.tool_call_id, allow=given.confirmed, reason=given.reason or ""
            )
            return conversation.continue_run([decision], single_turn=single_turn, bundles=bundles)
        case Continue():
            _check_can_go_on(conversation)
            return conversation.continue_run(single_turn=single_turn, bundles=bundles)
        case _:
            message = as_message(given)
            return conversation.send(message, single_turn=single_turn, bundles=bundles)


def _check_can_go_on(conversation: Conversation) -> None:
    waiting = open_calls(conversation.messages)
    if waiting is not None and conversation.interruption is None:
        raise SessionError(
            f"The thread waits for a decision about `{waiting.calls[0].name}`.",
            hint="Go on with `Resume(…)` instead of `Continue()`.",
        )
