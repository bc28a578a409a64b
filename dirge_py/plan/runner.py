"""`/plan`: explore → plan → implement → review, on the public interface of conversations.

Explore, plan and review run in forks; implement is an ordinary run of the main session.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any, Literal, TypeVar

from dirge_py.config.schema import LimitsTable
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ForkOptions
from dirge_py.conversation.run import Run
from dirge_py.extensions.todo.extension import Todo
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.plan import approval, phases
from dirge_py.plan.approval import AutoApprove, PlanApprover
from dirge_py.plan.document import PlanDocument, read_plan
from dirge_py.plan.evidence import EvidenceCollector, EvidenceLedger
from dirge_py.plan.phases import PhaseEnded, PhaseFork, phase_failed, summary_line
from dirge_py.plan.project_guard import ProjectChanges, ProjectGuard, ReviewerWrites
from dirge_py.plan.review import Review, Reviewer
from dirge_py.plan.state import NAME, PlanCycle, PlanState, load_state, terms_of
from dirge_py.tools.todo_list import TodoItem
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    LoopEvent,
    MessageEnd,
    PhaseName,
    PlanPhase,
    SystemNotice,
    UsageReported,
)
from dirge_py.types.hooks import Context, Hooks, StopRun, TurnInfo
from dirge_py.types.messages import TextBlock, Usage, UserBlock, UserMessage, user_text
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    LimitExceeded,
    NotVerified,
    Outcome,
)

_PHASE_LABELS: dict[PhaseName, str] = {
    "explore": "the plan's exploration is running",
    "plan": "a plan is being made",
    "implement": "a plan is being implemented",
    "review": "the plan's review is running",
}
_TIME = "time"
T = TypeVar("T")
_COST_DECIMALS = 9
"""The decimals to which costs are compared: 0.1 + 0.2 must not exceed 0.3."""
_LOCKED = (
    "In plan mode nothing can be changed, so the implementation will be denied its "
    "changes. /mode standard allows them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How a plan ended."""

    outcome: Outcome
    """The outcome; `Done` only for a verified plan."""
    report: str
    """The report of the last review, in Markdown for people."""
    plan: str = ""
    """The text of the plan."""


async def start_plan(
    request: str, conversation: Conversation, approver: PlanApprover
) -> PlanResult:
    """Work through a request. `approver` decides about the plan before anything is changed.

    Raises DirgeError if the request is empty, or the conversation is busy.
    """
    if not request.strip():
        raise DirgeError("there is nothing to plan: the request is empty.")
    terms = terms_of(conversation)
    state = PlanState(request=request, cycle=PlanCycle(cycles_left=terms.table.max_review_cycles))
    return await PlanRun(conversation, approver, state).execute()


async def resume_plan(
    conversation: Conversation, approver: PlanApprover, *, is_accepted: bool = False
) -> PlanResult:
    """Continue the session's plan; `is_accepted` accepts a waiting one as it is.

    Raises DirgeError if there is no plan to continue, or the conversation is busy.
    """
    state = load_state(conversation.session.metadata.get(NAME))
    if state is None or not state.is_resumable:
        raise DirgeError("there is no plan to continue.", hint="/plan REQUEST makes one.")
    if is_accepted:
        if not state.plan:
            raise DirgeError("there is no plan yet to accept.", hint="/plan resume continues it.")
        state, approver = replace(state, comment=""), AutoApprove()
    if state.status == "not_verified":
        # Resuming a plan that used up its cycles adds one.
        left = max(1, state.cycle.cycles_left)
        state = replace(state, cycle=replace(state.cycle, cycles_left=left).next())
    return await PlanRun(conversation, approver, replace(state, status="active")).execute()


class PlanBudget:
    """The limits for all runs of a plan together, its forks included.

    `stop` is called when the time is up; the clock runs from `begin` to `end`.
    """

    def __init__(self, limits: LimitsTable, stop: Callable[[], None]) -> None:
        self._limits = limits
        self._stop = stop
        self._usage = Usage()
        self._cost_usd = 0.0
        self._left_s = limits.time_s
        self._timer: asyncio.TimerHandle | None = None

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            self._usage += event.usage
            self._cost_usd += event.cost_usd or 0.0

    def bundle(self) -> Hooks:
        """Return a hook that ends a run before its next model call if a limit is exceeded."""

        def before_model(info: TurnInfo) -> Context:
            if limit := self.exceeded():
                raise StopRun(limit)
            return info.context

        return Hooks(name="allowance", transform_context=before_model)

    def exceeded(self) -> LimitExceeded | None:
        """Return the exceeded limit; None if all are kept."""
        limits, tokens = self._limits, self._usage.total
        cost_usd = round(self._cost_usd, _COST_DECIMALS)
        if limits.time_s is not None and self._left_s == 0:
            return LimitExceeded(name="time", used=limits.time_s, max=limits.time_s)
        if limits.cost_usd is not None and cost_usd > limits.cost_usd:
            return LimitExceeded(name="cost", used=cost_usd, max=limits.cost_usd)
        if limits.tokens is not None and tokens > limits.tokens:
            return LimitExceeded(name="tokens", used=tokens, max=limits.tokens)
        return None

    def begin(self) -> None:
        if self._left_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._left_s, self._expire)

    def end(self) -> None:
        if self._timer is not None and self._left_s is not None:
            left_s = self._timer.when() - asyncio.get_running_loop().time()
            self._left_s = min(self._left_s, max(left_s, 0.0))
            self._timer.cancel()
        self._timer = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock while the user decides."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    def _expire(self) -> None:
        self._left_s = 0.0
        self._timer = None
        self._stop()


class PlanInterrupted(Exception):
    """The plan was stopped."""


class PlanRun:
    """The run of one plan through its phases; meanwhile it owns the conversation exclusively."""

    def __init__(
        self, conversation: Conversation, approver: PlanApprover, state: PlanState
    ) -> None:
        self._conversation = conversation
        self._approver = approver
        self._terms = terms_of(conversation)
        self._state = state
        self._ledger = EvidenceLedger.load(state.evidence)
        self._attached: Sequence[UserBlock] = ()
        self._fork: PhaseFork | None = None
        self._reason = ""
        """Why the plan was stopped; "" if it wasn't."""
        self._pending: asyncio.Task[Any] | None = None
        self._budget = PlanBudget(self._terms.limits, stop=lambda: self.interrupt(_TIME))
        self._notes: list[str] = []
        self._report = ""

    # -- as the exclusive owner

    @property
    def description(self) -> str:
        return _PHASE_LABELS[self._state.phase]

    def interrupt(self, reason: str = "user") -> None:
        """Stop the run in progress, or what the plan waits for."""
        self._reason = self._reason or reason
        if self._conversation.run is not None:
            self._conversation.abort(reason)
        elif self._fork is not None and self._fork.run is not None:
            self._fork.run.abort(reason)
        elif self._pending is not None:
            self._pending.cancel()

    def _check(self) -> None:
        """Raise PlanInterrupted if the plan was stopped."""
        if self._reason:
            raise PlanInterrupted

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, or raise PlanInterrupted if the plan is stopped."""
        if self._reason:
            work.close()
            raise PlanInterrupted
        self._pending = task = asyncio.create_task(work)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._reason and not (current and current.cancelling()):
                raise PlanInterrupted from None
            raise
        finally:
            task.cancel()
            self._pending = None

    # -- the phases in order

    async def execute(self) -> PlanResult:
        """Run the plan until it is done or can't continue. The session stores every change."""
        conversation = self._conversation
        conversation.check_idle()
        conversation.exclusive_owner = self
        unsubscribe = conversation.subscribe(self._budget.sink)
        self._budget.begin()
        try:
            outcome = await self._outcome()
            if isinstance(outcome, Done | NotVerified):
                # The model gets the report with the next prompt.
                words = f"The plan was reviewed. The report:\n\n{clean(self._report)}"
                insertion = conversation.inserts.add(user_text(words, "harness"))
                with suppress(DirgeError, PlanInterrupted):
                    await self._wait(insertion)
        finally:
            self._budget.end()
            if conversation.run is not None:
                conversation.abort("cancelled")
            unsubscribe()
            self._fork = None
            if self._state.status == "active":
                why = f"It was stopped in the {self._state.phase} phase."
                self._update(status="stopped", why=why, evidence=self._ledger.stored())
            conversation.exclusive_owner = None
        return PlanResult(outcome=outcome, report=self._report, plan=self._state.plan)

    async def _outcome(self) -> Outcome:
        conversation = self._conversation
        outcome: Outcome
        try:
            conversation.session.metadata.begin(self._state.request)
            message = await self._wait(conversation.attach(self._state.request))
            self._attached = message.content[1:]
            outcome = await self._phases()
        except PlanInterrupted:
            outcome = Cancelled(reason=self._reason)
        except PhaseEnded as ended:
            outcome = ended.outcome
        except DirgeError as error:
            outcome = Failed(kind="plan", message=error.message, hint=error.hint)
        is_timeout = isinstance(outcome, Cancelled) and self._reason == _TIME
        return (self._budget.exceeded() if is_timeout else None) or outcome

    async def _phases(self) -> Outcome:
        if not self._state.findings:
            self._enter("explore")
            prompt = phases.phase_prompt("explore", REQUEST=self._state.request)
            findings = await self._look("frozen", phases.EXPLORE_TOOLS, prompt)
            self._update(findings=findings)
        if self._state.is_accepted and isinstance(self._approver, AutoApprove):
            # Grants for the session ended with the process that started the plan.
            self._grant_verifications(read_plan(self._state.plan))
        while not self._state.is_accepted:
            if not self._state.plan or self._state.comment:
                await self._plan()
            if (outcome := await self._decide()) is not None:
                return outcome
        while True:
            is_implemented = self._state.cycle.is_implemented
            if not is_implemented and (outcome := await self._implement()) is not None:
                return outcome
            review = await self._review()
            if review.is_outdated:
                review = await self._review()
            if review.judgement.is_approved:
                self._update(status="verified", why="")
                return Done()
            cycle = replace(self._state.cycle, feedback=review.feedback)
            # If no check could run, another cycle proves nothing either.
            if review.is_hopeless or cycle.cycles_left <= 0:
                self._update(status="not_verified", cycle=cycle)
                return NotVerified(reason=review.summary, report=review.report)
            self._update(cycle=cycle.next())

    async def _plan(self) -> None:
        self._enter("plan")
        state = self._state
        prompt = phases.plan_prompt(
            state.request, state.findings, previous=state.plan, comment=state.comment
        )
        plan = await self._look("empty", phases.PLAN_TOOLS, prompt)
        self._update(plan=plan, comment="")

    async def _look(
        self, history: Literal["frozen", "empty"], tools: Sequence[str], prompt: str
    ) -> str:
        """Return the report of a read-only fork. Raises PhaseEnded if it is empty."""
        phase = self._state.phase
        guard = ProjectGuard(self._conversation)
        await self._wait(guard.begin(needs_snapshot=False))
        async with self._opened(history, "read_only", tools) as fork:
            text = await fork.ask(UserMessage(content=(TextBlock(prompt), *self._attached)))
            self._note(await self._wait(guard.compare()))
            self._conversation.report(fork.ended(summary_line(phase, text), text))
        if not text:
            raise phase_failed(phase, "produced nothing")
        return text

    async def _decide(self) -> Outcome | None:
        """Ask the approver about the plan; return an outcome if the plan ends here."""
        plan = read_plan(self._state.plan)
        grants = self._verification_grants(plan)
        self._update(status="waiting")
        with self._budget.paused():
            answer = await self._wait(self._approver.decide(plan, grants))
        match answer:
            case approval.Accept(text=text) | approval.ReplacePlan(text=text) if not text.strip():
                raise DirgeError("an empty plan cannot be run.", hint="/plan drop discards it.")
            case approval.Accept(text=text):
                await self._wait(self._accept(text))
            case approval.ReplacePlan(text=text):
                self._update(plan=text)
            case approval.Revise(comment=comment):
                self._update(status="active", comment=comment)
            case approval.Reject():
                self._update(status="dropped", why="It was discarded before anything was changed.")
                return Cancelled(reason="dropped")
            case approval.DeferPlan():
                self._update(why="It waits to be accepted.")
                description = "The plan waits to be accepted."
                return AwaitingConfirmation(call_ids=(), description=description)
        return None

    async def _accept(self, text: str) -> None:
        conversation, plan = self._conversation, read_plan(text)
        snapshots = conversation.snapshots
        taken = await snapshots.take_snapshot() if snapshots is not None else None
        if conversation.settings.mode == "plan":
            conversation.report(SystemNotice(_LOCKED))
        self._grant_verifications(plan)
        if plan.steps and (todo := conversation.extension(Todo)) is not None:
            steps = enumerate(plan.steps, start=1)
            todo.list.give([TodoItem(id=str(number), text=step) for number, step in steps])
        base = taken.tree if taken is not None else ""
        self._update(status="active", plan=text, is_accepted=True, base_tree=base)

    def _verification_grants(self, plan: PlanDocument) -> Sequence[str]:
        """Return the rules that allow exactly the plan's verifications, where these would ask."""
        rules: list[str] = []
        for command in plan.verify:
            with suppress(DirgeError):
                decision = self._conversation.settings.why("bash", command)
                is_execute_only = all(rule.startswith("execute:") for rule in decision.grant)
                rules += decision.grant if decision.effect == "ask" and is_execute_only else ()
        return tuple(dict.fromkeys(rules))

    def _grant_verifications(self, plan: PlanDocument) -> None:
        for rule in self._verification_grants(plan):
            # If no rule can allow a command, the user is asked as usual.
            with suppress(DirgeError):
                self._conversation.settings.add_grant(rule)
                words = f"Allowed for this session, because the plan verifies with it: {rule}"
                self._conversation.report(SystemNotice(words))

    # -- implement

    async def _implement(self) -> Outcome | None:
        """Run the implementation in the main session; return an outcome unless it finished."""
        self._enter("implement")
        conversation, step = self._conversation, self._state.cycle.step
        prompt = self._implement_prompt()
        last = conversation.messages[-1] if conversation.messages else None
        is_sent = isinstance(last, UserMessage) and last.text == prompt.text
        if is_sent and not self._state.cycle.has_begun:
            # The program was killed right after the prompt was sent.
            self._mark_begun()
        began = time.monotonic()
        collector = EvidenceCollector(
            conversation, self._ledger, phase="implement", step=step, report=conversation.report
        )

        def watch(event: LoopEvent) -> None:
            # A prompt that is withheld never enters history, and starts nothing.
            if isinstance(event, MessageEnd) and event.message is prompt:
                self._mark_begun()

        conversation.report(PlanPhase(phase="implement", step=step, state="started"))
        run: Run | None = None
        outcome: Outcome | None = None
        try:
            with ExitStack() as subscriptions:
                subscriptions.callback(conversation.subscribe(collector.sink))
                subscriptions.callback(conversation.subscribe(watch))
                run = self._start_run(prompt, [collector.bundle(), self._budget.bundle()])
                outcome = await run
        finally:
            is_done = isinstance(outcome, Done)
            conversation.report(
                PlanPhase(
                    phase="implement",
                    step=step,
                    state="ended",
                    summary="" if is_done else "It did not finish, so it was not reviewed.",
                    duration_ms=round((time.monotonic() - began) * 1000),
                    usage=run.usage if run is not None else Usage(),
                    cost_usd=run.cost_usd if run is not None else 0.0,
                )
            )
        cycle = replace(self._state.cycle, is_implemented=is_done)
        self._update(evidence=self._ledger.stored(), cycle=cycle)
        return None if is_done else outcome

    def _mark_begun(self) -> None:
        self._update(cycle=replace(self._state.cycle, has_begun=True))

    def _implement_prompt(self) -> UserMessage:
        state = self._state
        if state.cycle.step > 1:
            return user_text(phases.phase_prompt("retry", MISSING=state.cycle.feedback), "harness")
        whole = phases.implement_prompt(state.request, state.plan)
        # The first block is the user's own text, and is shown as such.
        rest = whole.removeprefix(state.request).lstrip("\n")
        return UserMessage(content=(TextBlock(state.request), TextBlock(rest), *self._attached))

    def _start_run(self, prompt: UserMessage, bundles: Sequence[Hooks]) -> Run:
        """Start the implement run, or continue one that didn't finish.

        The model gets a new prompt if its last answer is complete, or the user sent other prompts.

        Raises DirgeError if it was cut off during calls that the user has to decide about.
        """
        conversation, state = self._conversation, self._state
        if not state.cycle.has_begun:
            return conversation.send(prompt, by=self, bundles=bundles)
        interruption = conversation.interruption
        if interruption is not None and interruption.undecided:
            raise DirgeError(
                "calls of the last run were cut off, so their outcome is unknown.",
                hint="/continue asks about them and continues; then use /plan resume.",
            )
        messages = (m for m in reversed(conversation.messages) if isinstance(m, UserMessage))
        last = next((m.content for m in messages if m.origin == "user"), ())
        # The user's last message is the request, with the plan after it.
        if len(last) > 1 and last[0] == TextBlock(state.request):
            with suppress(DirgeError):
                return conversation.continue_run(by=self, bundles=bundles)
        words = phases.carry_on_prompt(state.request, state.plan, missing=state.cycle.feedback)
        return conversation.send(user_text(words, "harness"), by=self, bundles=bundles)

    # -- review

    async def _review(self) -> Review:
        self._enter("review")
        guard = ProjectGuard(self._conversation)
        reviewer = Reviewer(self._conversation, self._ledger, self._state)
        # Whether there is a sandbox is known only once the fork exists.
        await self._wait(guard.begin(needs_snapshot=True))
        async with self._opened("empty", "copy", phases.REVIEW_TOOLS) as fork:
            reviewing = fork.conversation
            collector = EvidenceCollector(
                reviewing,
                self._ledger,
                phase="review",
                step=self._state.cycle.step,
                report=self._conversation.report,
                writes=ReviewerWrites(reviewing.cwd),
            )
            reviewing.subscribe(collector.sink)
            bundles = [collector.bundle()]
            if not reviewing.environment.sandbox:
                bundles.append(guard.bundle())
            prompt = await self._wait(reviewer.prompt(self._attached))
            try:
                text = await reviewer.ask(fork, prompt, bundles)
            except (PhaseEnded, PlanInterrupted):
                if not reviewing.environment.sandbox and reviewer.checks:
                    self._note(await guard.compare())
                raise
            changes = await self._wait(guard.compare())
            self._note(changes)
            review = reviewer.judge(text, changes, notes=self._notes)
            self._report = review.report
            self._update(evidence=self._ledger.stored(), report=review.report, why=review.summary)
            self._conversation.report(fork.ended(review.summary, review.report))
        return review

    # -- in every phase

    def _enter(self, phase: PhaseName) -> None:
        self._check()
        self._update(phase=phase)
        if limit := self._budget.exceeded():
            raise PhaseEnded(limit)

    @asynccontextmanager
    async def _opened(
        self,
        history: Literal["frozen", "empty"],
        workspace: Literal["read_only", "copy"],
        tools: Sequence[str],
    ) -> AsyncIterator[PhaseFork]:
        phase, terms = self._state.phase, self._terms
        model, max_turns = terms.models.get(phase), terms.table.max_turns
        options = ForkOptions(
            history=history, workspace=workspace, tools=tools, model=model, max_turns=max_turns
        )
        began = time.monotonic()
        self._fork = fork = PhaseFork(
            self._conversation,
            await self._wait(self._conversation.fork(options)),
            phase=phase,
            step=self._state.cycle.step,
            check=self._check,
            bundles=[self._budget.bundle()],
            began=began,
        )
        try:
            yield fork
        finally:
            self._fork = None
            await fork.close()

    def _note(self, changes: ProjectChanges) -> None:
        if changes.words:
            self._notes.append(changes.words)
            self._conversation.report(SystemNotice(changes.words))

    def _update(self, **changes: Any) -> None:
        """Change the state, and store it with the session."""
        self._state = replace(self._state, **changes)
        self._conversation.session.metadata.put(NAME, self._state.stored())
