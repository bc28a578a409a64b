"""One review of a plan: what the reviewer is given, and what of its answer is believed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.judgement import Judgement, judge
from dirge_py.plan.phases import review_prompt, verdict_again_prompt
from dirge_py.plan.report import final_report
from dirge_py.plan.template import fill
from dirge_py.plan.verdict import Verdict, parse_verdict
from dirge_py.plan.verdict_schema import as_block, verdict_answer
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import TextBlock, UserBlock, UserMessage, user_text

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.plan.forked import PhaseFork
    from dirge_py.plan.state import PlanState
    from dirge_py.plan.untouched import Touched

_MOST_OF_CHANGES = 20_000
_PROVE_IT = """Your verdict says DONE, but this is not shown by what you ran:

{{WHY}}

Run, for each of these, a command that fails where the requirement is not met, and cite it. Files \
of your own do not belong into the copy: as long as one is there, nothing that you run counts; \
remove them, and write to /tmp. Then write your report again, with the verdict block at its end. \
What cannot be run here is "cannot_verify"; what fails makes the verdict NEEDS_FIX."""
_MOST_OF_SUMMARY = 200
_CHANGED_IT = "a command of the review changed the project, so that nothing of it counts"
_NO_CHANGES = "(Nothing recorded what was changed: look at the files.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """`text` are the reviewer's words, `summary` a line and `report` all of it, for people.

    `feedback` is for whoever implements. `is_hopeless`: nothing that the reviewer wanted to run
    could run here, so that no further cycle would show more. `is_outdated`: it did not approve, but
    of files that somebody has changed since, or as it changed them itself, which is undone.
    """

    judgement: Judgement
    text: str
    summary: str
    report: str
    feedback: str
    is_hopeless: bool
    is_outdated: bool


class Reviewer:
    """Reviews one step of a plan that was implemented in `conversation`."""

    def __init__(
        self, conversation: "Conversation", ledger: "EvidenceLedger", state: "PlanState"
    ) -> None:
        self._conversation = conversation
        self._whole_ledger = ledger
        self._earlier = len(ledger.items)
        self._state = state

    @property
    def _ledger(self) -> EvidenceLedger:
        """Without what an earlier review of this step ran: this one has not seen it."""
        mine = ("review", self._state.step)
        return EvidenceLedger(
            [
                each
                for at, each in enumerate(self._whole_ledger.items)
                if at >= self._earlier or (each.phase, each.step) != mine
            ]
        )

    @property
    def has_acted(self) -> bool:
        """Whether it ran anything that does more than look."""
        return any(not each.is_look for each in self._ledger.of("review", self._state.step))

    async def prompt(self, attached: Sequence[UserBlock]) -> UserMessage:
        """The request, the plan, what was changed, and what the implementer ran."""
        state = self._state
        text = review_prompt(
            state.request, state.plan, claims=self._claims(), changes=await self._changes()
        )
        return UserMessage(content=(TextBlock(text), *attached))

    async def ask(self, fork: "PhaseFork", prompt: UserMessage, bundles: Sequence[Hooks]) -> str:
        """The reviewer's last words; it is asked again where they are no verdict, or unproved.

        Raises:
            PhaseEnded: it gave none.
        """
        text = await fork.ask(prompt, bundles=bundles)
        if again := self._asks_for_verdict(text):
            answer = await fork.ask_again(again, can_act=False, answer=verdict_answer())
            text = as_block(answer) or text
        if proof := self._asks_for_proof(text, await fork.tree()):
            text = await fork.ask_again(proof, bundles=bundles) or text
        return text

    def _asks_for_verdict(self, text: str) -> UserMessage | None:
        """What to ask a reviewer whose verdict cannot be read; None where it can."""
        verdict = parse_verdict(text)
        if not isinstance(verdict, str):
            return None
        return user_text(verdict_again_prompt(verdict), "harness")

    def _asks_for_proof(self, text: str, tree: str) -> UserMessage | None:
        """What to ask a reviewer who says that all is done and has not shown it; else None."""
        verdict = parse_verdict(text)
        if not isinstance(verdict, Verdict) or not verdict.is_done:
            return None
        judgement = self._judged(verdict, tree)
        if judgement.is_approved or self._is_hopeless():
            return None
        return user_text(fill(_PROVE_IT, {"WHY": _why(judgement)}), "harness")

    def judge(self, text: str, touched: "Touched", *, notes: Sequence[str]) -> Review:
        """What is believed of the reviewer's last words, given the files as they are now."""
        judgement = self._judged(parse_verdict(text), touched.tree)
        if touched.is_its_own:
            judgement = replace(judgement, is_approved=False, problem=_CHANGED_IT)
        summary = _summary(judgement)
        report = final_report(
            judgement,
            self._ledger,
            request=self._state.request,
            ended=summary,
            tree=touched.tree,
            notes=notes,
        )
        return Review(
            judgement=judgement,
            text=text,
            summary=summary,
            report=report,
            feedback=_feedback(judgement, text),
            is_hopeless=not judgement.is_approved and self._is_hopeless(),
            is_outdated=not judgement.is_approved and bool(touched.paths) and not touched.is_left,
        )

    def _judged(self, verdict: Verdict | str, tree: str) -> Judgement:
        return judge(verdict, self._ledger, tree=tree, step=self._state.step)

    def _is_hopeless(self) -> bool:
        """Whether the reviewer tried to verify, and nothing of it was let run."""
        tried = [e for e in self._ledger.of("review", self._state.step) if not e.is_look]
        return bool(tried) and all(each.outcome == "denied" for each in tried)

    def _claims(self) -> str:
        lines = [
            f"{each.id}: `{each.command}` -> {_ending(each.outcome, each.exit_code)}"
            for each in self._ledger.of("implement", self._state.step)
            if not each.is_look
        ]
        return "\n".join(lines) or "(The implementer ran nothing that could show anything.)"

    async def _changes(self) -> str:
        snapshots, base = self._conversation.session.snapshots, self._state.base_tree
        if snapshots is None or not base:
            return _NO_CHANGES
        try:
            now = await snapshots.take()
            if now is None:
                return _NO_CHANGES
            diff = await snapshots.difference(base, now.tree)
        except DirgeError:
            return _NO_CHANGES
        if len(diff) <= _MOST_OF_CHANGES:
            return diff or "(No file was changed.)"
        changes = await snapshots.changes(base, now.tree)
        listed = "\n".join(f"{change.kind}: {change.path}" for change in changes)
        return f"{listed[:_MOST_OF_CHANGES]}\n(The whole difference is too long to show.)"


def _ending(outcome: str, exit_code: int | None) -> str:
    return outcome if exit_code is None else f"exit {exit_code}"


def _why(judgement: Judgement) -> str:
    lines = [judgement.problem] if judgement.problem else []
    lines += [f"- {requirement}: {why}" for requirement, why in judgement.not_verified]
    return "\n".join(lines) or "No command of yours that passed shows it."


def _feedback(judgement: Judgement, text: str) -> str:
    asked = judgement.missing if judgement.missing.strip() else text
    return f"{asked}\n\nNot shown to hold:\n{_why(judgement)}" if judgement.problem else asked


def _summary(judgement: Judgement) -> str:
    if judgement.is_approved:
        count = len(judgement.verified)
        return f"Verified: {count} requirement{'s' * (count != 1)}."
    if not judgement.has_verdict:
        return "The review came to no verdict that can be read."
    parts = []
    if judgement.not_verified:
        parts.append(f"{len(judgement.not_verified)} not verified")
    if judgement.cannot:
        parts.append(f"{len(judgement.cannot)} cannot be verified here")
    told = ", ".join(parts) or judgement.problem or judgement.missing.strip().splitlines()[0]
    if len(told) > _MOST_OF_SUMMARY:
        told = f"{told[: _MOST_OF_SUMMARY - 1]}…"
    return f"Not done: {told}."
