"""The phases of a plan: the prompt and the tools of each, and the forks that they run in."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from dirge_py.agent_loop.answer_schema import AnswerSchema
from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.guards.broken_answers import EMPTY_KIND
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle, truncate
from dirge_py.plan.document import read_plan
from dirge_py.plan.project_guard import read_tree
from dirge_py.types.events import ForkEvent, LoopEvent, PhaseName, PlanPhase, UsageReported
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import AssistantMessage, UserMessage, user_text
from dirge_py.types.outcomes import Cancelled, Done, Failed, MaxTurns, NeedsMoreTurns, Outcome

_FOLDER = Path(__file__).parent / "prompts"
_LOOKING = ("read", "read_minified", "grep", "glob", "find_files", "list_dir", "lsp")
_SYMBOLS = ("list_symbols", "get_symbol_body", "find_definition", "find_callers", "find_callees")

# Names that no tool has are ignored. What `bash` may do depends on the fork's workspace.
EXPLORE_TOOLS: tuple[str, ...] = (*_LOOKING, "repo_overview", *_SYMBOLS, "bash")
PLAN_TOOLS: tuple[str, ...] = EXPLORE_TOOLS
REVIEW_TOOLS: tuple[str, ...] = (*_LOOKING, "bash")
_QUOTES: Mapping[str, tuple[str, int | None]] = {
    "REQUEST": ("request", None),
    "PLAN": ("plan", None),
    "PREVIOUS": ("earlier plan", None),
    "COMMENT": ("comment", None),
    "FINDINGS": ("findings", 60_000),
    "CLAIMS": ("claims", 8_000),
    "CHANGES": ("changes", 24_000),
    "MISSING": ("review", 24_000),
}
"""Texts that are quoted in prompts: how they are called, and the most characters of them."""
_CUT = "\n[… left out: it is too long …]\n"


def phase_prompt(name: str, **values: str) -> str:
    """Return the prompt of this name with the values; those in `_QUOTES` are cut and quoted."""
    for key in values.keys() & _QUOTES.keys():
        label, most = _QUOTES[key]
        text = values[key] if most is None else cut_middle(values[key], most, _CUT, tail=0.3)
        values[key] = quote_text(label, text)
    return fill_template(prompt_text(name, _FOLDER), values)


def plan_prompt(request: str, findings: str, *, previous: str = "", comment: str = "") -> str:
    """Return the prompt of the plan phase; `previous` was rejected with `comment`."""
    again = ""
    if previous.strip() or comment.strip():
        again = f"\n{phase_prompt('plan_again', PREVIOUS=previous, COMMENT=comment)}\n"
    return phase_prompt("plan", REQUEST=request, FINDINGS=findings, AGAIN=again)


def implement_prompt(request: str, plan: str) -> str:
    """Return the prompt of the implement phase, which begins with the request."""
    values = {"REQUEST": request, "PLAN": quote_text("plan", plan)}
    return fill_template(prompt_text("implement", _FOLDER), values)


def carry_on_prompt(request: str, plan: str, *, missing: str = "") -> str:
    """Return the prompt for an implement run that can't be continued, with the last review."""
    words = phase_prompt("carry_on", REQUEST=request, PLAN=plan)
    return f"{words}\n\n{phase_prompt('retry', MISSING=missing)}" if missing.strip() else words


_PLACE = late_pattern(r"\{\{([A-Z][A-Z0-9_]*)\}\}")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return `template` with each `{{NAME}}` replaced by its value. Values are not searched."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


class PhaseEnded(Exception):
    """Raised when a phase ends the whole plan."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


@dataclass(slots=True)
class PhaseFork:
    """A phase in a fork of `parent`, which reports the fork's events and keeps its history."""

    parent: Conversation
    conversation: Conversation
    """The fork."""
    phase: PhaseName
    step: int
    check: Callable[[], None]
    """Called before each run; raises if the plan was stopped."""
    bundles: Sequence[Hooks] = ()
    """Hooks for all of its runs."""
    run: Run | None = None
    """The run in progress."""
    has_ended: bool = False
    """Whether its end was reported."""
    began: float = field(default_factory=time.monotonic)
    """When the phase began, in seconds as `time.monotonic`."""

    def __post_init__(self) -> None:
        self.conversation.subscribe(self._forward)
        self.parent.report(self._event(state="started"))

    async def close(self) -> None:
        """Close the fork, and report its end once."""
        if not self.has_ended:
            self.parent.report(self.ended("It did not finish."))
        await self.conversation.close()

    async def tree(self) -> str:
        """Return the hash of the files that it works on; "" if they can't be read."""
        tree = await read_tree(self.conversation)
        return tree.sha256 if tree is not None else ""

    async def ask(
        self, prompt: UserMessage, *, bundles: Sequence[Hooks] = (), can_act: bool = True
    ) -> str:
        """Return the final text of the answer; "" if there is none.

        A model that uses up its turns, or stops without text, is asked once for its report so far.
        Without `can_act` it has no tools, and one turn.

        Raises PhaseEnded if the run did not finish.
        """
        outcome, answers = await self._ask(prompt, bundles, can_act=can_act)
        has_worked = any(message.calls for message in answers)
        is_silent = _is_silent(outcome, answers) and can_act and has_worked
        if is_silent or isinstance(outcome, MaxTurns):
            report_now = user_text(phase_prompt(f"report_now_{self.phase}"), "harness")
            outcome, answers = await self._ask(report_now, bundles, can_act=False)
        if isinstance(outcome, NeedsMoreTurns):
            # It called a tool although it had none.
            return _final_text(answers, with_calls=True)
        if isinstance(outcome, Done) and outcome.stopped_by:
            problem = "repeated itself and was stopped"
            raise phase_failed(self.phase, problem, kind=outcome.stopped_by)
        if not isinstance(outcome, Done) and not _is_silent(outcome, answers):
            raise PhaseEnded(outcome)
        return _final_text(answers)

    async def ask_again(
        self,
        prompt: UserMessage,
        *,
        bundles: Sequence[Hooks] = (),
        can_act: bool = True,
        answer: AnswerSchema | None = None,
    ) -> str:
        """Ask like `ask`, but return "" if the run fails.

        `answer` is the schema for the answer, if the service supports that.

        Raises PhaseEnded if the run was stopped from outside.
        """
        fork = self.conversation
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
        """Return the event for the end of the phase."""
        self.has_ended = True
        return self._event(
            state="ended",
            summary=summary,
            text=text,
            duration_ms=round((time.monotonic() - self.began) * 1000),
            usage=self.conversation.usage,
            cost_usd=self.conversation.cost_usd,
        )

    def _event(self, **members: Any) -> PlanPhase:
        isolation = self.conversation.environment.isolation
        return PlanPhase(phase=self.phase, step=self.step, shut_in=isolation, **members)

    async def _ask(
        self, prompt: UserMessage, bundles: Sequence[Hooks], *, can_act: bool
    ) -> tuple[Outcome, Sequence[AssistantMessage]]:
        """Run a prompt; return its outcome and the model's messages."""
        self.check()
        fork = self.conversation
        before = len(fork.messages)
        more = [*self.bundles, *bundles, *(() if can_act else (_WITHOUT_TOOLS,))]
        self.run = fork.send(prompt, bundles=more, single_turn=not can_act)
        try:
            outcome = await self.run
        finally:
            self.run = None
        answers = (m for m in fork.messages[before:] if isinstance(m, AssistantMessage))
        return outcome, [message for message in answers if message.origin == "model"]

    def _forward(self, event: LoopEvent) -> None:
        self.parent.report(ForkEvent(phase=self.phase, step=self.step, event=event))
        if isinstance(event, UsageReported):
            self.parent.report(replace(event, role=event.role or self.phase))


_NAMES: dict[PhaseName, str] = {
    "explore": "The exploration",
    "plan": "The planning",
    "implement": "The implementation",
    "review": "The review",
}


def phase_failed(phase: PhaseName, words: str, *, kind: str = "plan") -> PhaseEnded:
    """Return the exception for a phase that failed; `words` follow its name."""
    hint = "`/plan resume` tries it again; another model may do better."
    return PhaseEnded(Failed(kind=kind, message=f"{_NAMES[phase]} {words}.", hint=hint))


def summary_line(phase: PhaseName, text: str) -> str:
    """Return the result of a read-only phase in one line: its plan's name, or its first line."""
    if not text:
        return "It produced nothing."
    name = read_plan(text).name if phase == "plan" else ""
    lines = (line.strip("#*- \t") for line in text.splitlines())
    return truncate(name or next(filter(None, lines), ""), 100)


_WITHOUT_TOOLS = Hooks(
    name="last words", transform_context=lambda info: replace(info.context, tools=())
)


def _is_silent(outcome: Outcome, answers: Sequence[AssistantMessage]) -> bool:
    """Whether the run ended by itself, but without text."""
    if isinstance(outcome, Failed):
        return outcome.kind == EMPTY_KIND
    return isinstance(outcome, Done) and not (outcome.stopped_by or _final_text(answers))


def _final_text(answers: Sequence[AssistantMessage], *, with_calls: bool = False) -> str:
    """Return the last text of an answer without calls; "" if there is none."""
    texts = (m.text.strip() for m in reversed(answers) if with_calls or not m.calls)
    return next(filter(None, texts), "")
