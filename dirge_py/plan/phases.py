"""The phases of a plan: the prompt and the tools of each, and what follows a review.

A phase of a plan in a fork: everything it says is reported, the main history stays as it is.
"""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dirge_py.context.prompt_text import quote_text
from dirge_py.conversation.deps import ForkOptions
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle, truncate
from dirge_py.plan.document import read_plan
from dirge_py.plan.verdict import CheckedVerdict
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ForkEvent, LoopEvent, PhaseName, PlanPhase, UsageReported
from dirge_py.types.hooks import Context, Hooks, TurnInfo
from dirge_py.types.messages import AssistantMessage, Message, UserMessage, user_text
from dirge_py.types.outcomes import Cancelled, Done, Failed, MaxTurns, NeedsMoreTurns, Outcome

if TYPE_CHECKING:
    from dirge_py.agent_loop.answer_schema import AnswerSchema
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run

_FOLDER = Path(__file__).parent / "prompts"
_LOOKING = ("read", "read_minified", "grep", "glob", "find_files", "list_dir", "lsp")
_SYMBOLS = ("list_symbols", "get_symbol_body", "find_definition", "find_callers", "find_callees")

# Names that no tool has are passed over. What `bash` may do is the room's to say.
EXPLORE_TOOLS: tuple[str, ...] = (*_LOOKING, "repo_overview", *_SYMBOLS, "bash")
PLAN_TOOLS: tuple[str, ...] = EXPLORE_TOOLS
REVIEW_TOOLS: tuple[str, ...] = (*_LOOKING, "bash")
_MAX_FINDINGS_CHARS = 60_000
_MAX_CHANGES_CHARS = 24_000
_MAX_CLAIMS_CHARS = 8_000
_MAX_FEEDBACK_CHARS = 24_000
"""Characters of what one phase hands to the next. Requests and plans are handed on whole."""
_CUT = "\n[… left out: it is too long …]\n"


@dataclass(frozen=True, slots=True)
class Approved:
    """The work is done, and was seen to be."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The work goes back to whoever implements it, with `feedback`."""

    feedback: str


@dataclass(frozen=True, slots=True)
class Exhausted:
    """It is not done, and no cycle is left."""


NextStep: TypeAlias = Approved | Retry | Exhausted


def next_review_step(judgement: CheckedVerdict, text: str, cycles_left: int) -> NextStep:
    """What follows on a review whose report was `text`. A retry is always told something."""
    if judgement.is_approved:
        return Approved()
    if cycles_left <= 0:
        return Exhausted()
    return Retry(_feedback(judgement, text))


def _feedback(judgement: CheckedVerdict, text: str) -> str:
    if judgement.missing.strip():
        return judgement.missing
    unmet = [f"- {requirement}: {why}" for requirement, why in judgement.not_verified]
    if judgement.has_verdict and judgement.problem and unmet:
        return "\n".join(["The review says DONE, but this was not shown to be met:", *unmet])
    return text if text.strip() else f"The review gave no reasons ({judgement.problem})."


def explore_prompt(request: str) -> str:
    return _prompt("explore", REQUEST=quote_text("request", request))


def plan_prompt(request: str, findings: str, *, previous: str = "", comment: str = "") -> str:
    """`previous` is a plan that was turned down, `comment` what the person said of it."""
    again = ""
    if previous.strip() or comment.strip():
        again = _prompt(
            "plan_again",
            PREVIOUS=quote_text("earlier plan", previous),
            COMMENT=quote_text("comment", comment),
        )
    return _prompt(
        "plan",
        REQUEST=quote_text("request", request),
        FINDINGS=quote_text("findings", _cut(findings, _MAX_FINDINGS_CHARS)),
        AGAIN=f"\n{again}\n" if again else "",
    )


def implement_prompt(request: str, plan: str) -> str:
    """Begins with the request as it was typed, for that is what lists of sessions show."""
    return _prompt("implement", REQUEST=request, PLAN=quote_text("plan", plan))


def carry_on_prompt(request: str, plan: str, *, missing: str = "") -> str:
    """For a run that cannot just be continued; what it was told before may be gone.

    `missing` is what the last review found, if there was one.
    """
    words = _prompt(
        "carry_on", REQUEST=quote_text("request", request), PLAN=quote_text("plan", plan)
    )
    return f"{words}\n\n{retry_prompt(missing)}" if missing.strip() else words


def retry_prompt(missing: str) -> str:
    return _prompt("retry", MISSING=quote_text("review", _cut(missing, _MAX_FEEDBACK_CHARS)))


def review_prompt(request: str, plan: str, *, claims: str, changes: str) -> str:
    """`claims`: the commands that the implementer ran. `changes`: a summary of the difference."""
    return _prompt(
        "review",
        REQUEST=quote_text("request", request),
        PLAN=quote_text("plan", plan),
        CLAIMS=quote_text("claims", _cut(claims, _MAX_CLAIMS_CHARS)),
        CHANGES=quote_text("changes", _cut(changes, _MAX_CHANGES_CHARS)),
    )


def verdict_again_prompt(problem: str) -> str:
    """Asks for the verdict alone; `problem` is what `parse_verdict` said of the last one."""
    return _prompt("verdict_again", PROBLEM=problem.rstrip("."))


def report_now_prompt(phase: PhaseName) -> str:
    """Asks a phase that has used up its turns for its report as things stand."""
    return _prompt(f"report_now_{phase}")


def _cut(text: str, most: int) -> str:
    return cut_middle(text, most, _CUT, tail=0.3)


def _prompt(name: str, **values: str) -> str:
    return fill_template(_text(name), values)


@functools.cache
def _text(name: str) -> str:
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


_PLACE = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{{NAME}}` replaced by its value, in one pass from left to right.

    What a value holds is never looked at again, so a request that speaks of `{{PLAN}}` stays as it
    was typed. Names that have no value, and places that are not closed, stay too.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


class PhaseEnded(Exception):
    """A phase came to an end that leaves nothing to go on with."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class PhaseFork:
    """One fork of `parent`, from its first word until it is closed."""

    def __init__(
        self,
        parent: "Conversation",
        spec: ForkOptions,
        *,
        phase: PhaseName,
        step: int,
        check: Callable[[], None],
        bundles: Sequence[Hooks] = (),
    ) -> None:
        """`check` is called before each question, and raises where there is to be none.

        `bundles` are hooks for all of its runs.
        """
        self._parent = parent
        self._spec = spec
        self._phase: PhaseName = phase
        self._step = step
        self._check = check
        self._bundles = bundles
        self._began = time.monotonic()
        self.run: Run | None = None
        self.conversation: Conversation | None = None
        self.has_ended = False

    async def open(self) -> None:
        """
        Raises:
            DirgeError: the fork cannot be made.
        """
        fork = await self._parent.fork(self._spec)
        fork.subscribe(self._tell)
        self.conversation = fork
        self._parent.report(
            PlanPhase(
                phase=self._phase,
                step=self._step,
                state="started",
                shut_in=fork.environment.isolation,
            )
        )

    async def close(self) -> None:
        """Let go of it, and tell that it has ended, if nobody did. Does nothing if it never was."""
        if self.conversation is None:
            return
        if not self.has_ended:
            self._parent.report(self.ended("It did not come to its end."))
        await self.conversation.close()

    async def tree(self) -> str:
        """The hash of the files that it works on; "" where they cannot be read."""
        read = self.opened.environment.read_tree
        try:
            return (await read()).sha256 if read is not None else ""
        except DirgeError:
            return ""

    @property
    def opened(self) -> "Conversation":
        assert self.conversation is not None
        return self.conversation

    async def ask(
        self, prompt: UserMessage, *, bundles: Sequence[Hooks] = (), can_act: bool = True
    ) -> str:
        """The last words of the answer; "" where there were none.

        One that uses up its turns, or has worked and says nothing, is asked once for what it has
        found by then. Without `can_act` it has no tools, and one turn.

        Raises:
            PhaseEnded: it did not come to its end.
        """
        outcome, said = await self._ask(prompt, bundles, can_act=can_act)
        is_silent = isinstance(outcome, Done) and not outcome.stopped_by and not _last_words(said)
        if isinstance(outcome, MaxTurns) or (is_silent and can_act and _has_worked(said)):
            late = user_text(report_now_prompt(self._phase), "harness")
            outcome, said = await self._ask(late, bundles, can_act=False)
        if isinstance(outcome, NeedsMoreTurns):
            return _last_words(said, acts=True)  # It wanted to act although it could not.
        if isinstance(outcome, Done) and outcome.stopped_by:
            words = "went round in circles and was stopped"
            raise phase_failed(self._phase, words, kind=outcome.stopped_by)
        if not isinstance(outcome, Done):
            raise PhaseEnded(outcome)
        return _last_words(said)

    async def ask_again(
        self,
        prompt: UserMessage,
        *,
        bundles: Sequence[Hooks] = (),
        can_act: bool = True,
        answer: "AnswerSchema | None" = None,
    ) -> str:
        """As `ask`; "" where no answer comes, and the one that there is has to do.

        The service is asked to hold the answer to `answer`, if it can.

        Raises:
            PhaseEnded: it was stopped from outside.
        """
        fork = self.opened
        fork.settings.answer_schema = answer if fork.settings.holds_schema else None
        try:
            return await self.ask(prompt, bundles=bundles, can_act=can_act)
        except PhaseEnded as ended:
            if isinstance(ended.outcome, Cancelled):
                raise
            return ""
        finally:
            fork.settings.answer_schema = None

    def ended(self, summary: str, text: str = "") -> PlanPhase:
        """The event for its end."""
        self.has_ended = True
        return PlanPhase(
            phase=self._phase,
            step=self._step,
            state="ended",
            summary=summary,
            text=text,
            shut_in=self.opened.environment.isolation,
            duration_ms=round((time.monotonic() - self._began) * 1000),
            usage=self.opened.usage,
            cost_usd=self.opened.cost_usd,
        )

    async def _ask(
        self, prompt: UserMessage, bundles: Sequence[Hooks], *, can_act: bool
    ) -> tuple[Outcome, Sequence[Message]]:
        self._check()
        fork = self.opened
        before = len(fork.messages)
        more = [*self._bundles, *bundles, *(() if can_act else (_without_tools(),))]
        self.run = fork.send(prompt, bundles=more, single_turn=not can_act)
        try:
            return await self.run, fork.messages[before:]
        finally:
            self.run = None

    def _tell(self, event: LoopEvent) -> None:
        self._parent.report(ForkEvent(phase=self._phase, step=self._step, event=event))
        if isinstance(event, UsageReported):
            self._parent.report(replace(event, role=event.role or self._phase))


_NAMES: dict[PhaseName, str] = {
    "explore": "The exploration",
    "plan": "The planning",
    "implement": "The implementation",
    "review": "The review",
}


def phase_failed(phase: PhaseName, words: str, *, kind: str = "plan") -> PhaseEnded:
    """For a phase that left nothing to go on with; `words` follow its name."""
    hint = "`/plan resume` tries it again; another model may do better."
    return PhaseEnded(Failed(kind=kind, message=f"{_NAMES[phase]} {words}.", hint=hint))


def summary_line(phase: PhaseName, text: str) -> str:
    """What a phase that looked came to: the name of its plan, else how its report begins."""
    if not text:
        return "It produced nothing."
    name = read_plan(text).name if phase == "plan" else ""
    lines = (line.strip("#*- \t") for line in text.splitlines())
    line = name or next((line for line in lines if line), "")
    return truncate(line, 100)


def _without_tools() -> Hooks:
    def transform(info: TurnInfo) -> Context:
        return replace(info.context, tools=())

    return Hooks(name="last words", transform_context=transform)


def _last_words(messages: Sequence[Message], *, acts: bool = False) -> str:
    """A fork is told nothing but what it is asked, so its last words are its report.

    What it said before a call is no report, except where it `acts` at its very end.
    """
    texts = (m.text.strip() for m in reversed(_answers(messages)) if acts or not m.calls)
    return next((text for text in texts if text), "")


def _has_worked(messages: Sequence[Message]) -> bool:
    return any(message.calls for message in _answers(messages))


def _answers(messages: Sequence[Message]) -> Sequence[AssistantMessage]:
    return [m for m in messages if isinstance(m, AssistantMessage) and m.origin == "model"]
