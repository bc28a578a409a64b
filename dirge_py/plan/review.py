"""One review of a plan: the reviewer's prompt, the check of its answer, and the report."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line, truncate
from dirge_py.plan.evidence import UNFINISHED, Evidence, EvidenceLedger, describe_ending
from dirge_py.plan.phases import PhaseFork, fill_template, review_prompt, verdict_again_prompt
from dirge_py.plan.project_guard import ProjectChanges
from dirge_py.plan.state import PlanState
from dirge_py.plan.verdict import (
    CheckedVerdict,
    Finding,
    ReviewVerdict,
    as_json_block,
    check_verdict,
    hides_failures,
    parse_verdict,
    verdict_answer_schema,
)
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import TextBlock, UserBlock, UserMessage, user_text

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
    """The result of one review."""

    judgement: CheckedVerdict
    """The verdict, checked against the evidence."""
    summary: str
    """The result in one line, for people."""
    report: str
    """The whole report, for people."""
    feedback: str
    """What the implementer gets."""
    is_hopeless: bool
    """Whether none of the reviewer's commands could run, so that another cycle is useless."""
    is_outdated: bool
    """Whether it rejected files that have changed since, or were restored."""


class Reviewer:
    """Reviews one step of a plan that was implemented in `conversation`."""

    def __init__(
        self, conversation: Conversation, ledger: EvidenceLedger, state: PlanState
    ) -> None:
        self._conversation = conversation
        self._whole_ledger = ledger
        self._earlier = len(ledger.items)
        self._state = state

    @property
    def _ledger(self) -> EvidenceLedger:
        """All evidence, without that of an earlier review of this step."""
        items = self._whole_ledger.items
        earlier, step = items[: self._earlier], self._state.cycle.step
        known = [item for item in earlier if (item.phase, item.step) != ("review", step)]
        return EvidenceLedger([*known, *items[self._earlier :]])

    @property
    def _checks(self) -> list[Evidence]:
        """The commands of this review that do more than look."""
        ran = self._ledger.of("review", self._state.cycle.step)
        return [item for item in ran if not item.is_look]

    @property
    def has_acted(self) -> bool:
        """Whether it ran any command that does more than read."""
        return bool(self._checks)

    async def prompt(self, attached: Sequence[UserBlock]) -> UserMessage:
        """The request, the plan, what was changed, and what the implementer ran."""
        state = self._state
        claims = [
            f"{item.id}: `{item.command}` -> "
            + (item.outcome if item.exit_code is None else f"exit {item.exit_code}")
            for item in self._ledger.of("implement", state.cycle.step)
            if not item.is_look
        ]
        text = review_prompt(
            state.request,
            state.plan,
            claims="\n".join(claims) or "(The implementer ran nothing that could show anything.)",
            changes=await self._changes(),
        )
        return UserMessage(content=(TextBlock(text), *attached))

    async def ask(self, fork: PhaseFork, prompt: UserMessage, bundles: Sequence[Hooks]) -> str:
        """The reviewer's report; asks again if it has no verdict, or an unproved one.

        Raises:
            PhaseEnded: it gave no report.
        """
        text = await fork.ask(prompt, bundles=bundles)
        verdict = parse_verdict(text)
        if isinstance(verdict, str):
            again = user_text(verdict_again_prompt(verdict), "harness")
            answer = await fork.ask_again(again, can_act=False, answer=verdict_answer_schema())
            text = as_json_block(answer) or text
        if proof := self._proof_request(text, await fork.tree()):
            text = await fork.ask_again(proof, bundles=bundles) or text
        return text

    def _proof_request(self, text: str, tree: str) -> UserMessage | None:
        """The prompt for a reviewer whose DONE isn't proved; None if it is."""
        verdict = parse_verdict(text)
        if not isinstance(verdict, ReviewVerdict) or not verdict.is_done:
            return None
        judgement = self._judged(verdict, tree)
        if judgement.is_approved or self._is_hopeless():
            return None
        return user_text(fill_template(_PROVE_IT, {"WHY": _why_not_verified(judgement)}), "harness")

    def judge(self, text: str, changes: ProjectChanges, *, notes: Sequence[str]) -> Review:
        """Check the reviewer's report against the evidence and the files as they are now."""
        judgement = self._judged(parse_verdict(text), changes.tree)
        if changes.is_its_own:
            judgement = replace(judgement, is_approved=False, problem=_CHANGED_IT)
        summary = _summary(judgement)
        report = final_report(
            judgement,
            self._ledger,
            request=self._state.request,
            ended=summary,
            tree=changes.tree,
            notes=notes,
        )
        return Review(
            judgement=judgement,
            summary=summary,
            report=report,
            feedback=feedback_for(judgement, text),
            is_hopeless=not judgement.is_approved and self._is_hopeless(),
            is_outdated=not judgement.is_approved and bool(changes.paths) and not changes.is_left,
        )

    def _judged(self, verdict: ReviewVerdict | str, tree: str) -> CheckedVerdict:
        return check_verdict(verdict, self._ledger, tree=tree, step=self._state.cycle.step)

    def _is_hopeless(self) -> bool:
        """Whether the reviewer tried to verify, and every command was denied."""
        return self.has_acted and all(item.outcome == "denied" for item in self._checks)

    async def _changes(self) -> str:
        snapshots, base = self._conversation.snapshots, self._state.base_tree
        if snapshots is None or not base:
            return _NO_CHANGES
        try:
            now = await snapshots.take_snapshot()
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


def _why_not_verified(judgement: CheckedVerdict) -> str:
    lines = [judgement.problem] if judgement.problem else []
    lines += [f"- {requirement}: {why}" for requirement, why in judgement.not_verified]
    return "\n".join(lines) or "No command of yours that passed shows it."


def feedback_for(judgement: CheckedVerdict, text: str) -> str:
    """What the implementer gets of a review whose report is `text`; never empty."""
    missing = judgement.missing if judgement.missing.strip() else text
    if not judgement.problem:
        return missing
    return f"{missing}\n\nNot shown to hold:\n{_why_not_verified(judgement)}"


def _summary(judgement: CheckedVerdict) -> str:
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
    words = ", ".join(parts) or judgement.problem or judgement.missing.strip().splitlines()[0]
    return f"Not done: {truncate(words, _MOST_OF_SUMMARY)}."


_MOST_OF_LINE = 300
_MOST_LINES = 40
_CHANGED_SINCE = "The files have changed since the review: what it verified may hold no longer."


def final_report(
    judgement: CheckedVerdict | None,
    ledger: EvidenceLedger,
    *,
    request: str,
    ended: str,
    tree: str,
    notes: Sequence[str] = (),
) -> str:
    """The report in Markdown.

    `judgement` is that of the last review; None if there was none. `ended` is a sentence about how
    the plan ended; `tree` is the hash of the files as they are now, "" if they can't be read:
    evidence about other files is marked.
    """
    blocks = [f"**Plan:** {_one_line(request)}", ended.strip()]
    if judgement and judgement.verified and not any(_is_about(e, tree) for e in ledger.items):
        blocks.append(_CHANGED_SINCE)
    sections = dict(_findings(judgement, ledger))
    if last := _last_checks(ledger):
        title = "Run by the implementation, and reviewed by nobody"
        if last[0].phase == "review":
            title = f"Run by review {last[0].step}"
        sections[title] = [_check_line(item, tree) for item in last]
    blocks += [_section(title, lines) for title, lines in sections.items() if lines]
    blocks.append("\n".join(f"- {_one_line(note)}" for note in notes))
    return "\n\n".join(block for block in blocks if block)


def _findings(
    judgement: CheckedVerdict | None, ledger: EvidenceLedger
) -> Iterator[tuple[str, list[str]]]:
    if judgement is None:
        return
    yield "Verified", _finding_lines(judgement.verified)
    not_verified = _finding_lines(judgement.not_verified)
    problem = judgement.problem.rstrip(".")
    if problem and not judgement.is_approved:
        kind = "The verdict does not count" if judgement.has_verdict else "There is no verdict"
        not_verified.append(f"{kind}: {_one_line(problem)}.")
    not_verified += [
        f"Missing: {_one_line(line.lstrip('-* '))}"
        for line in judgement.missing.splitlines()
        if line.strip("-* ")
    ]
    yield "Not verified", not_verified
    # Commands of the last review that never came to an end, unless a finding names them.
    named = "\n".join(why for _, why in judgement.cannot)
    not_run = [
        ("a check of the review", ending)
        for item in _last_checks(ledger)
        if item.phase == "review" and item.outcome in UNFINISHED
        if (ending := describe_ending(item)) not in named
    ]
    yield "Cannot be verified here", _finding_lines([*judgement.cannot, *not_run])


def _finding_lines(findings: Sequence[Finding]) -> list[str]:
    return [f"{_one_line(requirement)}: {_one_line(why)}" for requirement, why in findings]


def _last_checks(ledger: EvidenceLedger) -> list[Evidence]:
    """The last run of each check of the last review, or else of the last implementation."""
    for phase in ("review", "implement"):
        items = [item for item in ledger.items if item.phase == phase and not item.is_look]
        if items:
            last = {item.command: item for item in items if item.step == items[-1].step}
            return list(last.values())
    return []


def _check_line(item: Evidence, tree: str) -> str:
    mark = "✓" if item.has_passed else "✗"
    remarks = ""
    if item.has_passed and hides_failures(item.command):
        remarks += "; that is not the exit code of every check in it"
    if not _is_about(item, tree):
        remarks += (
            "; the files are no longer those it was run on"
            if tree and item.tree
            else "; on which files is not known"
        )
    return f"{mark} {describe_ending(item)}{remarks}"


def _is_about(item: Evidence, tree: str) -> bool:
    return bool(tree) and item.tree == tree


def _section(title: str, lines: Sequence[str]) -> str:
    shown = [f"- {line}" for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"- … and {len(lines) - _MOST_LINES} more")
    return "\n".join([f"### {title}", "", *shown])


def _one_line(text: str) -> str:
    """The text on one line, without line separators of any kind."""
    return one_line(text, _MOST_OF_LINE)
