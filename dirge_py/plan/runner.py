"""`/plan`: explore → plan → implement → review, over what every conversation offers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from dirge_py.conversation.deps import ForkOptions
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.plan import implementation, phases
from dirge_py.plan.approval import Accept, AutoApprove, DeferPlan, PlanApprover, Reject, ReplacePlan, Revise
from dirge_py.plan.budget import PlanBudget, PlanInterrupted, PlanInterruption
from dirge_py.plan.document import read_plan
from dirge_py.plan.evidence import EvidenceCollector, EvidenceLedger
from dirge_py.plan.extension import terms_of
from dirge_py.plan.implementation import implement
from dirge_py.plan.phases import PhaseEnded, PhaseFork, phase_failed, summary_line
from dirge_py.plan.project_guard import ProjectChanges, ProjectGuard, ReviewerWrites
from dirge_py.plan.review import Review, Reviewer
from dirge_py.plan.state import NAME, PlanCycle, PlanState, load_state
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import EvidenceTaken, PhaseName, PlanPhase, SystemNotice
from dirge_py.types.messages import TextBlock, UserBlock, UserMessage, user_text
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, Failed, NotVerified, Outcome
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation




_PHASE_LABELS: dict[PhaseName, str] = {
    "explore": "the plan's exploration is going on",
    "plan": "a plan is being made",
    "implement": "a plan is being implemented",
    "review": "the plan's review is going on",
}


_TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of a request. `report` is Markdown for people, `plan` the text that was made."""

    outcome: Outcome
    report: str
    plan: str = ""


async def start_plan(request: str, conversation: "Conversation", desk: PlanApprover) -> PlanResult:
    """Work through a request. `desk` is asked about the plan before anything is changed.

    Raises:
        DirgeError: the request is empty, or the conversation is busy.
    """
    if not request.strip():
        raise DirgeError("there is nothing to plan: the request is empty.")
    terms = terms_of(conversation)
    state = PlanState(request=request, cycle=PlanCycle(cycles_left=terms.review_cycles))
    return await PlanRun(conversation, desk, state).execute()


async def resume_plan(
    conversation: "Conversation", desk: PlanApprover, *, is_accepted: bool = False
) -> PlanResult:
    """Go on with the plan that the session keeps; `is_accepted` takes a waiting one as it is.

    Raises:
        DirgeError: there is none to go on with, or the conversation is busy.
    """
    state = load_state(conversation.session.metadata.get(NAME))
    if state is None or not state.is_resumable:
        raise DirgeError("there is no plan to go on with.", hint="/plan REQUEST makes one.")
    if is_accepted and not state.plan:
        raise DirgeError("there is no plan yet to accept.", hint="/plan resume goes on with it.")
    if is_accepted:
        state = replace(state, comment="")
    if state.status == "not_verified":
        # Whoever goes on with one that used up its cycles means one more.
        left = max(1, state.cycle.cycles_left)
        state = replace(state, cycle=replace(state.cycle, cycles_left=left).next())
    desk = AutoApprove() if is_accepted else desk
    return await PlanRun(conversation, desk, replace(state, status="active")).execute()


class PlanRun:
    """One request on its way through the phases. The conversation's occupant meanwhile."""

    def __init__(self, conversation: "Conversation", desk: PlanApprover, state: PlanState) -> None:
        self._conversation = conversation
        self._desk = desk
        self._terms = terms_of(conversation)
        self._state = state
        self._ledger = EvidenceLedger.load(state.evidence)
        self._attached: Sequence[UserBlock] = ()
        self._fork: PhaseFork | None = None
        self._interruption = PlanInterruption(self._stop_run)
        self._allowance = PlanBudget(self._terms, stop=lambda: self.interrupt(_TIME))
        self._notes: list[str] = []
        self._report = ""

    # -- as the occupant

    @property
    def description(self) -> str:
        return _PHASE_LABELS[self._state.phase]

    def interrupt(self, reason: str = "user") -> None:
        self._interruption(reason)

    def _stop_run(self, reason: str) -> bool:
        if self._conversation.run is not None:
            self._conversation.abort(reason)
            return True
        if self._fork is not None and self._fork.run is not None:
            self._fork.run.abort(reason)
            return True
        return False

    # -- the way through

    async def execute(self) -> PlanResult:
        """Work until it is done, or cannot go on. What it changed is kept with the session."""
        conversation = self._conversation
        conversation.check_idle()
        conversation.exclusive_owner = self
        forget = conversation.subscribe(self._allowance.sink)
        self._allowance.begin()
        try:
            outcome = await self._outcome()
            if isinstance(outcome, Done | NotVerified):
                await self._tell_model()
        finally:
            self._allowance.end()
            if conversation.run is not None:
                conversation.abort("cancelled")
            forget()
            self._close()
            conversation.exclusive_owner = None
        return PlanResult(outcome=outcome, report=self._report, plan=self._state.plan)

    async def _outcome(self) -> Outcome:
        conversation = self._conversation
        outcome: Outcome
        try:
            conversation.session.metadata.begin(self._state.request)
            message = await self._interruption.wait(conversation.attach(self._state.request))
            self._attached = message.content[1:]
            outcome = await self._phases()
        except PlanInterrupted:
            outcome = Cancelled(reason=self._interruption.reason)
        except PhaseEnded as ended:
            outcome = ended.outcome
        except DirgeError as error:
            outcome = Failed(kind="plan", message=error.message, hint=error.hint)
        if isinstance(outcome, Cancelled) and self._interruption.reason == _TIME:
            return self._allowance.exceeded() or outcome
        return outcome

    async def _phases(self) -> Outcome:
        if not self._state.findings:
            await self._explore()
        if self._state.is_accepted and isinstance(self._desk, AutoApprove):
            # What was allowed for the session has ended with the program that began it.
            self._say(
                implementation.grant_verifications(read_plan(self._state.plan), self._conversation)
            )
        while not self._state.is_accepted:
            if not self._state.plan or self._state.comment:
                await self._plan()
            left = await self._decide()
            if left is not None:
                return left
        while True:
            if not self._state.cycle.is_implemented:
                ended = await self._implement()
                if ended is not None:
                    return ended
            review = await self._review()
            if review.is_outdated:
                review = await self._review()
            # What nothing could show here, no further cycle would show either.
            cycles = 0 if review.is_hopeless else self._state.cycle.cycles_left
            step = phases.next_review_step(review.judgement, review.text, cycles)
            match step:
                case phases.Approved():
                    self._keep(status="verified", why="")
                    return Done()
                case phases.Exhausted():
                    cycle = replace(self._state.cycle, feedback=review.feedback)
                    self._keep(status="not_verified", cycle=cycle)
                    return NotVerified(reason=review.summary, report=review.report)
                case phases.Retry():
                    cycle = replace(self._state.cycle, feedback=review.feedback)
                    self._keep(cycle=cycle.next())

    async def _explore(self) -> None:
        self._enter("explore")
        prompt = phases.explore_prompt(self._state.request)
        findings = await self._looked("frozen", phases.EXPLORE_TOOLS, prompt)
        self._keep(findings=findings)

    async def _plan(self) -> None:
        self._enter("plan")
        state = self._state
        prompt = phases.plan_prompt(
            state.request, state.findings, previous=state.plan, comment=state.comment
        )
        plan = await self._looked("empty", phases.PLAN_TOOLS, prompt)
        self._keep(plan=plan, comment="")

    async def _looked(self, history: str, tools: Sequence[str], prompt: str) -> str:
        """What a fork that can only look has to say. Raises PhaseEnded where that is nothing."""
        phase = self._state.phase
        watch = ProjectGuard(self._conversation)
        await self._interruption.wait(watch.look(needs_way_back=False))
        spec = ForkOptions(
            history="frozen" if history == "frozen" else "empty",
            workspace="read_only",
            tools=tools,
            model=self._terms.models.get(phase),
            max_turns=self._terms.max_turns,
        )
        async with self._opened(spec) as fork:
            text = await fork.ask(UserMessage(content=self._with_attached(prompt)))
            self._note(await self._interruption.wait(watch.compare()))
            self._tell(fork.ended(summary_line(phase, text), text))
        if not text:
            raise phase_failed(phase, "produced nothing")
        return text

    async def _decide(self) -> Outcome | None:
        """Put the plan to whoever decides; an outcome where it goes no further."""
        plan = read_plan(self._state.plan)
        grants = implementation.verification_grants(plan, self._conversation)
        self._keep(status="waiting")
        with self._allowance.paused():
            answer = await self._interruption.wait(self._desk.decide(plan, grants))
        match answer:
            case Accept(text=text) | ReplacePlan(text=text) if not text.strip():
                raise DirgeError("an empty plan cannot be carried out.", hint="/plan drop ends it.")
            case Accept(text=text):
                await self._interruption.wait(self._accept(text))
            case ReplacePlan(text=text):
                self._keep(plan=text)
            case Revise(comment=comment):
                self._keep(status="active", comment=comment)
            case Reject():
                self._keep(status="dropped", why="It was dropped before anything was changed.")
                return Cancelled(reason="dropped")
            case DeferPlan():
                self._keep(status="waiting", why="It waits to be accepted.")
                return AwaitingConfirmation(call_ids=(), description="The plan waits for a yes.")
        return None

    async def _accept(self, text: str) -> None:
        snapshots = self._conversation.snapshots
        taken = await snapshots.take_snapshot() if snapshots is not None else None
        self._say(implementation.prepare_implementation(read_plan(text), self._conversation))
        base = taken.tree if taken is not None else ""
        self._keep(status="active", plan=text, is_accepted=True, base_tree=base)

    async def _implement(self) -> Outcome | None:
        """Have it done; an outcome where that came to no good end."""
        self._enter("implement")
        outcome = await implement(
            self._state,
            conversation=self._conversation,
            ledger=self._ledger,
            attached=self._attached,
            by=self,
            bundles=[self._allowance.bundle()],
            on_begun=lambda: self._keep(cycle=replace(self._state.cycle, has_begun=True)),
        )
        cycle = replace(self._state.cycle, is_implemented=isinstance(outcome, Done))
        self._keep(evidence=self._ledger.stored(), cycle=cycle)
        return None if isinstance(outcome, Done) else outcome

    async def _review(self) -> Review:
        self._enter("review")
        watch = ProjectGuard(self._conversation)
        reviewer = Reviewer(self._conversation, self._ledger, self._state)
        # Which sandbox there is, if any, is known only once the fork is there.
        await self._interruption.wait(watch.look(needs_way_back=True))
        spec = ForkOptions(
            history="empty",
            workspace="copy",
            tools=phases.REVIEW_TOOLS,
            model=self._terms.models.get("review"),
            max_turns=self._terms.max_turns,
        )
        async with self._opened(spec) as fork:
            recording = self._recording(fork.opened)
            fork.opened.subscribe(recording.sink)
            bundles = [recording.bundle()]
            if not fork.opened.environment.sandbox:
                bundles.append(watch.bundle())
            prompt = await self._interruption.wait(reviewer.prompt(self._attached))
            try:
                text = await reviewer.ask(fork, prompt, bundles)
            except (PhaseEnded, PlanInterrupted):
                if not fork.opened.environment.sandbox and reviewer.has_acted:
                    self._note(await watch.compare())
                raise
            touched = await self._interruption.wait(watch.compare())
            self._note(touched)
            review = reviewer.judge(text, touched, notes=self._notes)
            self._report = review.report
            self._keep(evidence=self._ledger.stored(), report=review.report, why=review.summary)
            self._tell(fork.ended(review.summary, review.report))
        return review

    # -- small steps

    def _enter(self, phase: PhaseName) -> None:
        self._interruption.check()
        self._keep(phase=phase)
        limit = self._allowance.exceeded()
        if limit is not None:
            raise PhaseEnded(limit)

    @asynccontextmanager
    async def _opened(self, spec: ForkOptions) -> AsyncIterator[PhaseFork]:
        phase, step = self._state.phase, self._state.cycle.step
        fork = PhaseFork(
            self._conversation,
            spec,
            phase=phase,
            step=step,
            check=self._interruption.check,
            bundles=[self._allowance.bundle()],
        )
        try:
            await self._interruption.wait(fork.open())
            self._fork = fork
            yield fork
        finally:
            self._fork = None
            await fork.close()

    def _recording(self, of: "Conversation") -> EvidenceCollector:
        return EvidenceCollector(
            of,
            self._ledger,
            phase="review",
            step=self._state.cycle.step,
            tell=self._tell,
            strays=ReviewerWrites(of.cwd),
        )

    def _with_attached(self, prompt: str) -> tuple[UserBlock, ...]:
        return (TextBlock(prompt), *self._attached)

    def _tell(self, event: PlanPhase | EvidenceTaken) -> None:
        self._conversation.report(event)

    def _say(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._conversation.report(SystemNotice(line))

    def _note(self, touched: ProjectChanges) -> None:
        if touched.words:
            self._notes.append(touched.words)
            self._say([touched.words])

    def _keep(self, **changes: Any) -> None:
        """Have the session know, whenever something changed."""
        self._state = replace(self._state, **changes)
        self._conversation.session.metadata.put(NAME, self._state.stored())

    def _close(self) -> None:
        """Nothing of it is left armed: it goes on only when somebody says so."""
        self._fork = None
        if self._state.status == "active":
            why = f"It was stopped in the {self._state.phase} phase."
            self._keep(status="stopped", why=why, evidence=self._ledger.stored())

    async def _tell_model(self) -> None:
        """Have the model know of the report with the next prompt."""
        words = f"The plan was reviewed. The report:\n\n{clean(self._report)}"
        telling = self._conversation.inserts.add(user_text(words, "harness"))
        with suppress(DirgeError, PlanInterrupted):
            await self._interruption.wait(telling)
