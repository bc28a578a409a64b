"""`/plan`: a big request in four phases, with a review that trusts only commands it ran itself."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late, late_pattern
from dirge_py.lib.paths import from_home
from dirge_py.lib.text import clean, one_line
from dirge_py.plan.approval import (
    Accept,
    AutoApprove,
    DeferPlan,
    PlanAnswer,
    PlanApprover,
    Reject,
    ReplacePlan,
    Revise,
)
from dirge_py.plan.state import NAME, PlanStatus, load_state, notice_at_start, terms_of
from dirge_py.sdk.outcome_text import plan_outcome_text
from dirge_py.session.import_export.export import write_new_file
from dirge_py.slash.base import FrontEnd, ReceivesOutcome, Unsupported, command
from dirge_py.types.errors import UsageError
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import Question, QuestionOption

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.plan.document import PlanDocument
    from dirge_py.plan.runner import PlanResult, resume_plan, start_plan
else:
    resume_plan = late("dirge_py.plan.runner", "resume_plan")
    start_plan = late("dirge_py.plan.runner", "start_plan")

_VERBS = ("status", "stop", "resume", "accept", "drop", "save")
_SAVE = late_pattern(r"save(?:\s+\S+)?")
_OFF = "Plans are off: `[plan] enabled` is false in the settings."
_STATUS_TEXTS: dict[PlanStatus, str] = {
    "active": "It is running.",
    "waiting": "It waits to be accepted.",
    "stopped": "It was stopped.",
    "verified": "It is done, and verified.",
    "not_verified": "It ended without being verified.",
    "dropped": "It was discarded.",
}
_ACCEPT, _EDIT, _DROP = "accept", "edit", "drop"


class FrontEndApprover:
    """Asks the user of a front end about plans. If it can't ask, the plans wait."""

    def __init__(self, front: FrontEnd, *, accepts_alone: bool) -> None:
        """With `accepts_alone`, a front end that can't ask accepts plans."""
        self._front = front
        self._accepts_alone = accepts_alone
        self._edited = ""

    async def decide(self, plan: "PlanDocument", grants: Sequence[str]) -> PlanAnswer:
        question = _question(plan, grants, is_edited=plan.text == self._edited)
        while True:
            try:
                answers = await self._front.form([question])
            except Unsupported:
                return Accept(plan.text) if self._accepts_alone else DeferPlan()
            chosen = "".join(answers[0].chosen[:1]) if answers else ""
            comment = answers[0].text.strip() if answers else ""
            if chosen == _ACCEPT:
                return Accept(plan.text)
            if chosen == _DROP:
                return Reject()
            if chosen == _EDIT:
                edited = await self._edit(plan.text)
                if edited != plan.text:
                    return ReplacePlan(edited)
                continue
            return Revise(comment) if comment else DeferPlan()

    async def _edit(self, text: str) -> str:
        """The text as the user edited it; unchanged if they can't edit it, or emptied it."""
        try:
            edited = await self._front.edit_text(text)
        except Unsupported as error:
            self._front.show(error.in_one_line(), tone="warning")
            return text
        if edited is None:
            return text
        if not edited.strip():
            self._front.show("The plan is unchanged: an empty plan cannot run.")
            return text
        self._edited = edited
        return edited


@command(
    "plan",
    "handle a big request: explore, plan, implement, review; save [PATH] writes the plan to a file",
    usage="REQUEST | status | stop | resume | accept | drop",
    headless=True,
    complete=lambda conversation: _VERBS,
)
async def plan(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not terms_of(conversation).table.enabled:
        raise UsageError(_OFF, hint="Set it to true, or send the request as an ordinary prompt.")
    verb = args.strip()
    if not verb:
        raise UsageError("Plan what?", hint=f"/plan REQUEST, or /plan {'|'.join(_VERBS)}.")
    if verb == "status":
        front.show(_status_text(conversation))
    elif verb == "stop":
        if conversation.exclusive_owner is None:
            raise UsageError("No plan is running.", hint="/plan status shows the last one.")
        conversation.exclusive_owner.interrupt("user")
        front.show("Stopping the plan.")
    elif verb == "drop":
        _drop(conversation, front)
    elif _SAVE.fullmatch(verb):
        _save(verb.removeprefix("save").strip(), conversation, front)
    else:
        approver = _approver(conversation, front)
        if verb in ("resume", "accept"):
            result = await resume_plan(conversation, approver, is_accepted=verb == "accept")
        else:
            conversation.check_idle()
            if left := notice_at_start(conversation.session.metadata.get(NAME)):
                front.show(f"{left.partition(':')[0]}; this request replaces it.")
            result = await start_plan(verb, conversation, approver)
        _show_result(result, conversation, front)


def _approver(conversation: "Conversation", front: FrontEnd) -> PlanApprover:
    accept = terms_of(conversation).table.auto_accept
    if accept is None and isinstance(front, ReceivesOutcome):
        accept = True  # Without a terminal there is no one to ask.
    return AutoApprove() if accept else FrontEndApprover(front, accepts_alone=accept is None)


def _question(plan: "PlanDocument", grants: Sequence[str], *, is_edited: bool) -> Question:
    name = f" ({clean(plan.name)})" if plan.name else ""
    lines = [f"Run this plan{name}{', as you edited it' if is_edited else ''}?"]
    if grants:
        lines.append("Accepting it also allows, for this session:")
        lines += [f"  {clean(rule)}" for rule in grants]
    return Question(
        header="Plan",
        question="\n".join(lines),
        options=(
            QuestionOption(label=_ACCEPT, description="run it now"),
            QuestionOption(label=_EDIT, description="change it in your editor first"),
            QuestionOption(label=_DROP, description="discard it; nothing has changed"),
        ),
        text_label="say what to plan differently",
    )


def _show_result(result: "PlanResult", conversation: "Conversation", front: FrontEnd) -> None:
    waits = isinstance(result.outcome, AwaitingConfirmation) and not result.outcome.call_ids
    if isinstance(front, ReceivesOutcome):
        front.set_outcome(result.outcome, result.plan if waits else result.report)
        return
    words, tone = plan_outcome_text(result.outcome)
    state = load_state(conversation.session.metadata.get(NAME))
    if state is not None and state.is_resumable and not (waits or isinstance(result.outcome, Done)):
        words += " /plan resume continues it."
    front.show(words, tone=tone)


def _status_text(conversation: "Conversation") -> str:
    state = load_state(conversation.session.metadata.get(NAME))
    if state is None:
        return "There is no plan in this session."
    status = _STATUS_TEXTS[state.status]
    if state.status == "active" and conversation.exclusive_owner is None:
        status = f"It was cut off in its {state.phase} phase."
    why = "" if state.status == "waiting" else state.why
    lines = [f"Plan: {clean(one_line(state.request, 100))}", f"{status} {why}".strip()]
    if state.status == "active":
        lines.append(
            f"Phase: {state.phase}, cycle {state.cycle.step}, {state.cycle.cycles_left} left."
        )
    if conversation.exclusive_owner is None and state.is_resumable:
        lines.append("/plan resume continues it, /plan drop discards it.")
    for text in filter(None, (state.plan, state.report)):
        lines += ["", text]
    return "\n".join(lines)


def _save(name: str, conversation: "Conversation", front: FrontEnd) -> None:
    """Write the plan, and the report if there is one, to a new Markdown file."""
    state = load_state(conversation.session.metadata.get(NAME))
    if state is None or not state.plan:
        raise UsageError("There is no plan to save.", hint="/plan REQUEST makes one.")
    path = conversation.cwd / from_home(name) if name else None
    if path is None or path.is_dir():
        words = re.sub(r"[^a-z0-9]+", "-", state.request.lower())[:40].strip("-")
        path = (path or conversation.cwd) / "-".join(filter(None, ("plan", words)))
    path = path if path.suffix else path.with_name(f"{path.name}.md")
    parts = [f"# {one_line(state.request, 100)}", state.plan.strip()]
    if state.report:
        parts += ["## Report", state.report.strip()]
    written = write_new_file(path, "\n\n".join(parts) + "\n", other_name=not name)
    front.show(f"The plan is in {written}.", tone="good")


def _drop(conversation: "Conversation", front: FrontEnd) -> None:
    state = load_state(conversation.session.metadata.get(NAME))
    if conversation.exclusive_owner is not None:
        hint = "/plan stop stops it first."
        raise UsageError(f"{conversation.exclusive_owner.description}.", hint=hint)
    if state is None or not state.is_resumable:
        raise UsageError("There is no plan to discard.")
    conversation.session.metadata.put(NAME, replace(state, status="dropped", why="").stored())
    front.show("The plan is discarded. Its changes stay; /rewind reverses them.")
