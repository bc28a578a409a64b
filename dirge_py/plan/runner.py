"""`/plan`: explore → plan → implement → review, over what every conversation offers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.errors import DirgeError
from dirge_py.events import SystemNotice
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import TextBlock, UserBlock, UserMessage, user_text
from dirge_py.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    NotVerified,
    Outcome,
)
from dirge_py.parts import ChildSpec
from dirge_py.plan import acceptance, phases
from dirge_py.plan.allowance import Allowance
from dirge_py.plan.desk import Accept, AcceptsAll, Drop, Later, PlanAgain, PlanDesk
from dirge_py.plan.document import read_plan
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.forked import PhaseEnded, PhaseFork, name_of
from dirge_py.plan.implementing import implement
from dirge_py.plan.interruption import Interrupted, Interruption
from dirge_py.plan.recording import Recording
from dirge_py.plan.reviewing import Review, Reviewer
from dirge_py.plan.state import NAME, PlanState, load_state
from dirge_py.plan.untouched import Touched, Untouched
from dirge_py.plan_events import EvidenceTaken, PhaseName, PlanPhase

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation

_DOING: dict[PhaseName, str] = {
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


async def start(request: str, conversation: "Conversation", desk: PlanDesk) -> PlanResult:
    """Work through a request. `desk` is asked about the plan before anything is changed.

    Raises:
        DirgeError: the conversation is busy, or what the request attaches cannot be read.
    """
    terms = conversation.plan_terms
    state = PlanState(request=request, cycles_left=terms.review_cycles)
    return await PlanRun(conversation, desk, state).to_its_end()


async def go_on(
    conversation: "Conversation", desk: PlanDesk, *, is_accepted: bool = False
) -> PlanResult:
    """Go on with the plan that the session keeps; `is_accepted` takes a waiting one as it is.

    Raises:
        DirgeError: there is none to go on with, or the conversation is busy.
    """
    state = load_state(conversation.kept.get(NAME))
    if state is None or not state.is_resumable:
        raise DirgeError("there is no plan to go on with.", hint="/plan REQUEST makes one.")
    if is_accepted and not state.plan:
        raise DirgeError("there is no plan yet to accept.", hint="/plan resume goes on with it.")
    if state.status == "not_verified":
        # Whoever goes on with one that used up its cycles means one more.
        left = max(1, state.cycles_left)
        state = replace(state, step=state.step + 1, cycles_left=left - 1)
        state = replace(state, has_begun=False, is_implemented=False)
    desk = AcceptsAll() if is_accepted else desk
    return await PlanRun(conversation, desk, replace(state, status="active")).to_its_end()


class PlanRun:
    """One request on its way through the phases. The conversation's occupant meanwhile."""

    def __init__(self, conversation: "Conversation", desk: PlanDesk, state: PlanState) -> None:
        self._conversation = conversation
        self._desk = desk
        self._terms = conversation.plan_terms
        self._state = state
        self._ledger = EvidenceLedger()
        self._ledger.load(state.evidence)
        self._attached: Sequence[UserBlock] = ()
        self._fork: PhaseFork | None = None
        self._interruption = Interruption(self._stop_run)
        self._allowance = Allowance(conversation.plan_terms)
        self._notes: list[str] = []

    # -- as the occupant

    @property
    def doing(self) -> str:
        return _DOING[self._state.phase]

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

    async def to_its_end(self) -> PlanResult:
        """Work until it is done, or cannot go on. What it changed is kept with the session."""
        conversation = self._conversation
        conversation.check_idle()
        conversation.occupant = self
        forget = conversation.subscribe(self._allowance.sink)
        forget_time = self._allowance.when_time_is_up(lambda: self.interrupt(_TIME))
        outcome: Outcome = Cancelled(reason="cancelled")
        try:
            conversation.kept.begin(" ".join(self._state.request.split())[:80])
            message = await self._interruption.wait(conversation.attach(self._state.request))
            self._attached = message.content[1:]
            outcome = await self._phases()
        except Interrupted:
            outcome = Cancelled(reason=self._interruption.reason)
        except PhaseEnded as ended:
            outcome = ended.outcome
        except DirgeError as error:
            outcome = Failed(kind="plan", message=error.message, hint=error.hint)
        finally:
            forget_time()
            if conversation.run is not None:
                conversation.abort("cancelled")
            forget()
            self._close()
            conversation.occupant = None
        if isinstance(outcome, Cancelled) and self._interruption.reason == _TIME:
            outcome = self._allowance.exceeded() or outcome
        await self._tell_model()
        return PlanResult(outcome=outcome, report=self._state.report, plan=self._state.plan)

    async def _phases(self) -> Outcome:
        if not self._state.findings:
            await self._explore()
        while not self._state.is_accepted:
            if not self._state.plan:
                await self._plan()
            left = await self._decide()
            if left is not None:
                return left
        while True:
            if not self._state.is_implemented:
                ended = await self._implement()
                if ended is not None:
                    return ended
            review = await self._review()
            if review.is_outdated:
                review = await self._review()
            # What nothing could show here, no further cycle would show either.
            cycles = 0 if review.is_hopeless else self._state.cycles_left
            step = phases.next_review_step(review.judgement, review.text, cycles)
            match step:
                case phases.Approved():
                    self._keep(status="verified", why="")
                    return Done()
                case phases.Exhausted():
                    self._keep(status="not_verified", feedback=review.feedback)
                    return NotVerified(reason=review.summary, report=review.report)
                case phases.Retry():
                    self._keep(
                        feedback=review.feedback,
                        cycles_left=self._state.cycles_left - 1,
                        step=self._state.step + 1,
                        has_begun=False,
                        is_implemented=False,
                    )

    async def _explore(self) -> None:
        self._enter("explore")
        prompt = phases.explore_prompt(self._state.request)
        findings = await self._looked("frozen", phases.EXPLORE_TOOLS, prompt)
        self._keep(findings=findings)

    async def _plan(self, previous: str = "", comment: str = "") -> None:
        self._enter("plan")
        state = self._state
        prompt = phases.plan_prompt(
            state.request, state.findings, previous=previous, comment=comment
        )
        plan = await self._looked("empty", phases.PLAN_TOOLS, prompt)
        self._keep(plan=plan)

    async def _looked(self, history: str, tools: Sequence[str], prompt: str) -> str:
        """What a fork that can only look has to say. Raises PhaseEnded where that is nothing."""
        phase = self._state.phase
        watch = Untouched(self._conversation)
        await self._interruption.wait(watch.look(needs_way_back=False))
        spec = ChildSpec(
            history="frozen" if history == "frozen" else "empty",
            room="read_only",
            tools=tools,
            model=self._terms.models.get(phase),
            max_turns=self._terms.max_turns,
        )
        async with self._opened(spec) as fork:
            text = await fork.ask(UserMessage(content=self._with_attached(prompt)))
            self._note(await self._interruption.wait(watch.compare(can_be_its_own=False)))
            self._tell(fork.ended(_in_a_line(phase, text), text))
        if not text:
            raise PhaseEnded(
                Failed(
                    kind="plan",
                    message=f"{name_of(phase)} produced nothing.",
                    hint="`/plan resume` tries it again; another model may do better.",
                )
            )
        return text

    async def _decide(self) -> Outcome | None:
        """Put the plan to whoever decides; an outcome where it goes no further."""
        plan = read_plan(self._state.plan)
        grants = acceptance.grants_for(plan, self._conversation)
        self._keep(status="waiting")
        answer = await self._interruption.wait(self._desk.decide(plan, grants))
        self._keep(status="active")
        match answer:
            case Accept(text=text):
                self._keep(plan=text, is_accepted=True)
                await self._interruption.wait(self._accept())
            case PlanAgain(comment=comment):
                await self._plan(previous=self._state.plan, comment=comment)
            case Drop():
                self._keep(status="dropped", why="It was dropped before anything was changed.")
                return Cancelled(reason="dropped")
            case Later():
                self._keep(status="waiting", why="It waits to be accepted.")
                return AwaitingConfirmation(call_ids=(), description="The plan waits for a yes.")
        return None

    async def _accept(self) -> None:
        words = acceptance.take_up(read_plan(self._state.plan), self._conversation)
        for line in words:
            self._conversation.report(SystemNotice(line))
        snapshots = self._conversation.snapshots
        taken = await snapshots.take() if snapshots is not None else None
        self._keep(base_tree=taken.tree if taken is not None else "")

    async def _implement(self) -> Outcome | None:
        """Have it done; an outcome where that came to no good end."""
        self._enter("implement")
        outcome = await implement(
            self._state,
            conversation=self._conversation,
            ledger=self._ledger,
            attached=self._attached,
            by=self,
            on_begun=lambda: self._keep(has_begun=True),
        )
        self._keep(evidence=self._ledger.stored(), is_implemented=isinstance(outcome, Done))
        return None if isinstance(outcome, Done) else outcome

    async def _review(self) -> Review:
        self._enter("review")
        state = self._state
        watch = Untouched(self._conversation)
        reviewer = Reviewer(self._conversation, self._ledger, state)
        # Which sandbox there is, if any, is known only once the fork is there.
        await self._interruption.wait(watch.look(needs_way_back=True))
        spec = ChildSpec(
            history="empty",
            room="copy",
            tools=phases.REVIEW_TOOLS,
            model=self._terms.models.get("review"),
            max_turns=self._terms.max_turns,
        )
        async with self._opened(spec) as fork:
            recording = self._recording(fork.opened, "review")
            fork.opened.subscribe(recording.sink)
            prompt = await self._interruption.wait(reviewer.prompt(self._attached))
            text = await reviewer.ask(fork, prompt, recording.bundle())
            ran = any(not taken.is_look for taken in self._ledger.of("review", state.step))
            is_confined = bool(fork.opened.sandbox)
            touched = await self._interruption.wait(
                watch.compare(can_be_its_own=ran and not is_confined)
            )
            self._note(touched)
            review = reviewer.judge(text, touched, notes=self._notes)
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
    async def _opened(self, spec: ChildSpec) -> AsyncIterator[PhaseFork]:
        phase, step = self._state.phase, self._state.step
        fork = PhaseFork(
            self._conversation, spec, phase=phase, step=step, check=self._interruption.check
        )
        await self._interruption.wait(fork.open())
        self._fork = fork
        try:
            yield fork
        finally:
            self._fork = None
            if not fork.has_ended:
                self._tell(fork.ended("It did not come to its end."))
            await fork.close()

    def _recording(self, of: "Conversation", phase: PhaseName) -> Recording:
        return Recording(of, self._ledger, phase=phase, step=self._state.step, tell=self._tell)

    def _with_attached(self, prompt: str) -> tuple[UserBlock, ...]:
        return (TextBlock(prompt), *self._attached)

    def _tell(self, event: PlanPhase | EvidenceTaken) -> None:
        self._conversation.report(event)

    def _note(self, touched: Touched) -> None:
        if touched.words:
            self._notes.append(touched.words)
            self._conversation.report(SystemNotice(touched.words))

    def _keep(self, **changes: object) -> None:
        """Have the session know, whenever something changed."""
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
        self._conversation.kept.put(NAME, self._state.stored())

    def _close(self) -> None:
        """Nothing of it is left armed: it goes on only when somebody says so."""
        self._fork = None
        if self._state.status == "active":
            why = f"It was stopped in the {self._state.phase} phase."
            self._keep(status="stopped", why=why)

    async def _tell_model(self) -> None:
        """Have the model know of the report with the next prompt, once something was done."""
        if not self._state.report or not self._state.has_begun:
            return
        with suppress(DirgeError):
            words = f"The plan was reviewed. The report:\n\n{clean(self._state.report)}"
            await self._conversation.inserts.put_in(user_text(words, "harness"))


def _in_a_line(phase: PhaseName, text: str) -> str:
    """What a phase that looked came to: the name of its plan, else how its report begins."""
    if not text:
        return "It produced nothing."
    name = read_plan(text).name if phase == "plan" else ""
    lines = (line.strip("#*- \t") for line in text.splitlines())
    line = name or next((line for line in lines if line), "")
    return line if len(line) <= 100 else line[:99] + "…"
