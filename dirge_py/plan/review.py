"""One review of a plan: the reviewer's prompt, the check of its answer, and the report."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line, plural, truncate
from dirge_py.plan.evidence import UNFINISHED, Evidence, EvidenceLedger, describe_ending
from dirge_py.plan.phases import PhaseFork, fill_template, phase_prompt
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

_MAX_CHANGES_CHARS = 20_000
_PROVE_IT = """Your verdict says DONE, but the commands that you ran do not show this:

{{WHY}}

For each of these, run a command that fails if the requirement is not met, and cite it. Remove \
files that you wrote into the copy, because no command counts while one is there; write to /tmp \
instead. Then write your report again, with the verdict block at its end. A check that cannot be \
run here is "cannot_verify"; one that fails makes the verdict NEEDS_FIX."""
_MAX_SUMMARY_CHARS = 200
_CHANGED_IT = "a command of the review changed the project, so the review does not count"


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
        """Return all evidence, without that of an earlier review of this step."""
        items = self._whole_ledger.items
        earlier, step = items[: self._earlier], self._state.cycle.step
        known = [item for item in earlier if (item.phase, item.step) != ("review", step)]
        return EvidenceLedger([*known, *items[self._earlier :]])

    @property
    def checks(self) -> list[Evidence]:
        """Return the commands of this review that do more than read."""
        ran = self._ledger.of("review", self._state.cycle.step)
        return [item for item in ran if not item.is_look]

    async def prompt(self, attached: Sequence[UserBlock]) -> UserMessage:
        """Return the prompt: the request, the plan, the changes and the implementer's commands."""
        state = self._state
        claims = [
            f"{item.id}: `{item.command}` -> "
            + (item.outcome if item.exit_code is None else f"exit {item.exit_code}")
            for item in self._ledger.of("implement", state.cycle.step)
            if not item.is_look
        ]
        text = phase_prompt(
            "review",
            REQUEST=state.request,
            PLAN=state.plan,
            CLAIMS="\n".join(claims) or "(The implementer ran no command that verifies anything.)",
            CHANGES=await self._changes(),
        )
        return UserMessage(content=(TextBlock(text), *attached))

    async def ask(self, fork: PhaseFork, prompt: UserMessage, bundles: Sequence[Hooks]) -> str:
        """Return the reviewer's report; ask again if it has no verdict, or an unproved one."""
        text = await fork.ask(prompt, bundles=bundles)
        verdict = parse_verdict(text)
        if isinstance(verdict, str):
            again = user_text(phase_prompt("verdict_again", PROBLEM=verdict.rstrip(".")), "harness")
            answer = await fork.ask_again(again, can_act=False, answer=verdict_answer_schema())
            text = as_json_block(answer) or text
        if proof := self._proof_request(text, await fork.tree()):
            text = await fork.ask_again(proof, bundles=bundles) or text
        return text

    def _proof_request(self, text: str, tree: str) -> UserMessage | None:
        """Return the prompt for a reviewer whose DONE isn't proved; None if none is needed."""
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
        summary, request, tree = _summary(judgement), self._state.request, changes.tree
        is_rejected = not judgement.is_approved
        return Review(
            judgement=judgement,
            summary=summary,
            report=final_report(
                judgement, self._ledger, request=request, ended=summary, tree=tree, notes=notes
            ),
            feedback=feedback_for(judgement, text),
            is_hopeless=is_rejected and self._is_hopeless(),
            is_outdated=is_rejected and bool(changes.paths) and not changes.is_left,
        )

    def _judged(self, verdict: ReviewVerdict | str, tree: str) -> CheckedVerdict:
        return check_verdict(verdict, self._ledger, tree=tree, step=self._state.cycle.step)

    def _is_hopeless(self) -> bool:
        """Whether the reviewer tried to verify, and every command was denied."""
        return bool(self.checks) and all(item.outcome == "denied" for item in self.checks)

    async def _changes(self) -> str:
        snapshots, base = self._conversation.snapshots, self._state.base_tree
        with suppress(DirgeError):
            if snapshots is not None and base and (now := await snapshots.take_snapshot()):
                diff = await snapshots.difference(base, now.tree)
                if len(diff) <= _MAX_CHANGES_CHARS:
                    return diff or "(No file was changed.)"
                changes = await snapshots.changes(base, now.tree)
                listed = "\n".join(f"{change.kind}: {change.path}" for change in changes)
                return f"{listed[:_MAX_CHANGES_CHARS]}\n(The whole difference is too long to show.)"
        return "(The changes were not recorded: look at the files.)"


def _why_not_verified(judgement: CheckedVerdict) -> str:
    lines = [judgement.problem] if judgement.problem else []
    lines += [f"- {requirement}: {why}" for requirement, why in judgement.not_verified]
    return "\n".join(lines) or "No command of yours that passed shows it."


def feedback_for(judgement: CheckedVerdict, text: str) -> str:
    """Return the feedback of a review, with the report `text`, for the implementer."""
    missing = judgement.missing if judgement.missing.strip() else text
    why = f"\n\nNot verified:\n{_why_not_verified(judgement)}" if judgement.problem else ""
    return missing + why


def _summary(judgement: CheckedVerdict) -> str:
    if judgement.is_approved:
        return f"Verified: {plural(len(judgement.verified), 'requirement')}."
    if not judgement.has_verdict:
        return "The review has no verdict that can be read."
    parts = []
    if judgement.not_verified:
        parts.append(f"{len(judgement.not_verified)} not verified")
    if judgement.cannot:
        parts.append(f"{len(judgement.cannot)} cannot be verified here")
    words = ", ".join(parts) or judgement.problem or judgement.missing.strip().splitlines()[0]
    return f"Not done: {truncate(words, _MAX_SUMMARY_CHARS)}."


_MAX_LINE_CHARS = 300
_MAX_LINES = 40
_CHANGED_SINCE = "The files have changed since the review, so its results may be outdated."


def final_report(
    judgement: CheckedVerdict,
    ledger: EvidenceLedger,
    *,
    request: str,
    ended: str,
    tree: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the report in Markdown. `ended` is a sentence about how the plan ended.

    `tree` is the hash of the current files, "" if they can't be read; evidence about other files is
    marked.
    """
    blocks = [f"**Plan:** {_one_line(request)}", ended.strip()]
    if judgement.verified and not any(_is_about(e, tree) for e in ledger.items):
        blocks.append(_CHANGED_SINCE)
    sections = dict(_findings(judgement, ledger))
    if last := _last_checks(ledger):
        title = "Run by the implementation, not reviewed"
        if last[0].phase == "review":
            title = f"Run by review {last[0].step}"
        sections[title] = [_check_line(item, tree) for item in last]
    for title, lines in sections.items():
        shown = [f"- {line}" for line in lines[:_MAX_LINES]]
        if len(lines) > _MAX_LINES:
            shown.append(f"- … and {len(lines) - _MAX_LINES} more")
        blocks.append("\n".join([f"### {title}", "", *shown]) if lines else "")
    blocks.append("\n".join(f"- {_one_line(note)}" for note in notes))
    return "\n\n".join(block for block in blocks if block)


def _findings(judgement: CheckedVerdict, ledger: EvidenceLedger) -> Iterator[tuple[str, list[str]]]:
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
    """Return the last run of each check of the last review, or else of the last implementation."""
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
        is_known = tree and item.tree
        remarks += "; the files have changed since" if is_known else "; on unknown files"
    return f"{mark} {describe_ending(item)}{remarks}"


def _is_about(item: Evidence, tree: str) -> bool:
    return bool(tree) and item.tree == tree


def _one_line(text: str) -> str:
    return one_line(text, _MAX_LINE_CHARS)
