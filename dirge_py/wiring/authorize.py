"""The permission hook: claims judged, questions asked, and what was judged handed on."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Literal

from dirge_py.agent_loop.hooks import Answer, BeforeToolCallResult, Bundle, Defer, StopRun, TurnInfo
from dirge_py.calls import ToolCall
from dirge_py.errors import DirgeError
from dirge_py.events import PermissionAnswered, PermissionAsked, SystemNotice
from dirge_py.files.workspace import Workspace
from dirge_py.outcomes import Cancelled
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate, suggest
from dirge_py.permission.git_config import GIT_HARDENING
from dirge_py.permission.judging import JudgeInput, PermissionJudge, Verdict
from dirge_py.permission.loop_guard import LoopGuard
from dirge_py.processes.launch import Permit
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.programs import closed_folders, search_path
from dirge_py.questions import AnswersForms, Asker, PermissionAnswer, PermissionRequest
from dirge_py.tools.toolbox import with_hint
from dirge_py.wiring.asking import (
    Answered,
    Held,
    Judged,
    family_of,
    hold_to,
    judge_call,
    later_questions,
    preview_of,
    remembered,
    request_for,
)

DENIED = "Permission denied"
Effect = Literal["allow", "deny", "defer", "abort"]
_LOG = logging.getLogger(__name__)


class Authorizer:
    """Judges calls for one conversation, and for what is forked off it.

    What was judged is what may be done: the physical paths of an allowed call are handed to the
    workspace, its environment to the runner, and both refuse anything else. `on_grant` hears of
    every rule allowed for the session; `keep_rules` writes rules into the person's own settings
    (None: they cannot be kept). `judge` looks at a call before a person is asked, and can only
    tighten; `judge_effect` is what its no does.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        asker: Asker,
        workspace: Workspace,
        runner: Runner,
        cwd: str,
        on_grant: Callable[[str], None],
        keep_rules: Callable[[Sequence[str]], str] | None = None,
        loop_guard: int = 3,
        judge: PermissionJudge | None = None,
        judge_effect: Literal["deny", "warn"] = "deny",
    ) -> None:
        self._gate = gate
        self._asker = asker
        self._workspace = workspace
        self._runner = runner
        self._cwd = cwd
        self._on_grant = on_grant
        self._keep_rules = keep_rules
        self._judge = judge
        self._judge_effect = judge_effect
        self._guard = LoopGuard(loop_guard)
        self._held = Held()
        self._distrusted: Sequence[str] = ()

    def elsewhere(
        self,
        gate: Gate,
        workspace: Workspace,
        runner: Runner,
        *,
        cwd: str,
        distrusted: Sequence[str],
    ) -> "Authorizer":
        """One for a fork that works elsewhere; what is granted there is kept by its gate alone.

        Programs are not taken from the folders `distrusted` either, when nobody was asked.
        """
        own = copy(self)
        own._gate, own._workspace, own._runner, own._cwd = gate, workspace, runner, cwd
        own._on_grant, own._keep_rules = lambda rule: None, None
        own._held, own._distrusted = Held(), tuple(distrusted)
        return own

    def bundle(self) -> Bundle:
        return Bundle(name="permission", before_tool_call=self._before)

    async def _before(self, info: TurnInfo, call: ToolCall) -> BeforeToolCallResult | None:
        judged = judge_call(self._gate, call, self._cwd)
        if judged is None:
            return None
        decision = judged.decision
        held = self._held.take(info, call)
        if decision.effect == "deny":
            return self._refuse(info, judged, decision.policy, decision.reason)
        if held is not None and _is_no_to(held, judged):
            return self._follow(info, self._taken(info, held))
        if decision.effect == "allow":
            self._note(judged, "allow", decision.policy, decision.reason)
            self._hand_on(judged)
            return None
        return self._follow(info, await self._answered(info, judged, held))

    async def _answered(self, info: TurnInfo, judged: Judged, held: Answered | None) -> Answered:
        """What was decided while the run was down, else what the asker said or says now."""
        earlier = info.decisions.get(judged.call.id)
        if earlier is not None and (not earlier.allow or self._is_as_decided(info, judged)):
            effect: Literal["allow", "deny"] = "allow" if earlier.allow else "deny"
            answer = PermissionAnswer(effect=effect, comment=earlier.reason)
            return Answered(judged=judged, request=None, answer=answer, by="earlier")
        stopped = self._guard.stops(info.run_id, judged.call.name, judged.claims)
        if stopped:
            answer = PermissionAnswer(effect="deny", comment=stopped)
            return Answered(judged=judged, request=None, answer=answer, by="loop-guard")
        if held is not None and await _still_shows(held, judged):
            return self._taken(info, held)
        held = await self._ask(info, judged)
        if earlier is not None and held.answer.effect == "defer":
            # Decided already, but about other arguments: a second wait would be taken for a yes.
            answer = PermissionAnswer(
                effect="deny", comment="its arguments changed after it was allowed"
            )
            return replace(held, answer=answer)
        return held

    def _taken(self, info: TurnInfo, held: Answered) -> Answered:
        """An answer that was given beforehand, its question told where its call begins."""
        if held.by == "answer":
            self._tell_asked(info, held.judged)
        return held

    def _is_as_decided(self, info: TurnInfo, judged: Judged) -> bool:
        """Whether it is the call that waited: a plugin may have made another one of it since."""
        decided = info.decisions[judged.call.id]
        waited = self._gate.history.of_call(judged.call.id)
        if decided.arguments is None and waited is not None and waited.effect == "defer":
            return waited.digest == judged.digest
        written = next((call for call in info.calls if call.id == judged.call.id), None)
        return written is None or written.arguments == judged.call.arguments

    async def _ask(self, info: TurnInfo, judged: Judged) -> Answered:
        """Ask about this call, and in the same breath about those after it that would ask too."""
        try:
            request, refused = await self._question(judged)
        except DirgeError as error:
            answer = PermissionAnswer(effect="deny", comment=with_hint(error))
            return Answered(judged=judged, request=None, answer=answer, by="failure")
        if refused is not None:
            return refused
        self._tell_asked(info, judged)
        later = [
            one
            for one in later_questions(info, judged, self._gate, self._cwd)
            if not self._held.has(info, one.call)
            and not self._guard.stops(info.run_id, one.call.name, one.claims)
        ]
        questions = await asyncio.gather(*map(self._question, later), return_exceptions=True)
        asked = [(judged, request)]
        for one, question in zip(later, questions, strict=True):
            if isinstance(question, BaseException):
                continue  # it is told, or raised, when its own turn comes
            its_request, its_refusal = question
            if its_refusal is not None:
                self._held.put(info, its_refusal)
            else:
                asked.append((one, its_request))
        answers = await self._asker.permission([its_request for _, its_request in asked])
        results = [
            Answered(judged=one, request=its_request, answer=answer, by="answer")
            for (one, its_request), answer in zip(asked, answers, strict=True)
        ]
        for result in results[1:]:
            self._held.put(info, result)
        return results[0]

    async def _question(self, judged: Judged) -> tuple[PermissionRequest, Answered | None]:
        """The question about a call, or its refusal. Raises DirgeError: the call can only fail."""
        can_keep = self._keep_rules is not None
        request = await request_for(judged, self._gate, self._cwd, can_keep=can_keep)
        return await self._weighed(request, judged)

    async def _weighed(
        self, request: PermissionRequest, judged: Judged
    ) -> tuple[PermissionRequest, Answered | None]:
        """The question with what the judge has against the call, or the judge's own no."""
        verdict = await self._verdict(request, judged)
        if verdict.kind == "allow":
            return request, None
        if verdict.kind == "deny" and self._judge_effect == "deny":
            words = f"the model that judges calls refused it: {verdict.reason}"
            answer = PermissionAnswer(effect="deny", comment=words)
            return request, Answered(judged=judged, request=request, answer=answer, by="judge")
        return replace(request, warning=verdict.reason), None

    async def _verdict(self, request: PermissionRequest, judged: Judged) -> Verdict:
        if self._judge is None:
            return Verdict("allow")
        call = JudgeInput(
            tool_name=request.tool_name,
            claims=tuple(f"{one.op}:{one.resource}" for one in request.claims),
            reason=judged.decision.reason,
            cwd=self._cwd,
            shown=request.preview.text if request.preview else "",
        )
        try:
            return await self._judge(call)
        except Exception as error:
            # Whoever would have been asked without a judge is asked.
            _LOG.warning("the permission judge failed", exc_info=error)
            return Verdict("allow")

    def _follow(self, info: TurnInfo, answered: Answered) -> BeforeToolCallResult | None:
        judged, answer = answered.judged, answered.answer
        call, reason = judged.call, answer.comment or judged.decision.reason
        if answered.by == "failure":
            # Nobody was asked, and nothing decided.
            return Answer(answer.comment, details={"outcome": "error"})
        if answer.effect == "deny":
            if answered.by == "answer" and isinstance(self._asker, AnswersForms):
                reason = answer.comment or "the user said no"
            if answered.by != "loop-guard":
                self._guard.note_denial(info.run_id, call.name, judged.claims)
            return self._refuse(info, judged, answered.by, reason, family_of(answered))
        self._report(info, judged, answer.effect, answered.by, reason, family_of(answered))
        match answer.effect:
            case "allow":
                self._guard.note_approval(info.run_id, call.name, judged.claims)
                self._remember(info, answered)
                self._hand_on(judged)
                hold_to(self._workspace, answered)
                return None
            case "defer":
                return Defer(f"{call.name}: {judged.decision.reason}")
            case "abort":
                raise StopRun(Cancelled(reason="on-ask"))

    def _remember(self, info: TurnInfo, answered: Answered) -> None:
        rules = remembered(answered)
        if answered.answer.remember == "always" and rules and self._keep_rules is not None:
            try:
                where = self._keep_rules(rules)
            except (DirgeError, OSError) as error:
                words = f"{error} {getattr(error, 'hint', '')}".strip()
                info.emit(SystemNotice(f"Allowed for this session only: {words}"))
            else:
                for rule in rules:
                    self._gate.add_rule(rule, where)
                return
        for rule in rules:
            self._gate.add_grant(rule)
            self._on_grant(rule)

    def _hand_on(self, judged: Judged) -> None:
        call_id, decision = judged.call.id, judged.decision
        reals = [claim.real for claim in decision.claims if claim.real is not None]
        if reals:
            self._workspace.approve(call_id, reals)
        if all(claim.op != "execute" for claim in decision.claims):
            return
        environment: Mapping[str, str] = {}
        if decision.plan is not None:
            # It was judged by the names of its programs: none may be found in the workspace.
            closed: Sequence[str] = (*self._workspace.roots, *self._distrusted)
            if decision.is_read_only:
                closed = closed_folders(closed, self._gate.home)
            path = search_path(os.environ.get("PATH", os.defpath), closed)
            environment = {**GIT_HARDENING, "PATH": path}
        self._runner.prepare(
            call_id,
            environment,
            self._permits(decision),
            is_read_only=decision.is_read_only,
        )

    def _permits(self, decision: Decision) -> frozenset[Permit]:
        permits: set[Permit] = set()
        if decision.changes_git:
            permits.add("git")
        if self._gate.opens_network:
            permits.add("network")
        return frozenset(permits)

    def _refuse(
        self,
        info: TurnInfo,
        judged: Judged,
        policy: str,
        reason: str,
        family: Sequence[str] = (),
    ) -> Answer:
        self._report(info, judged, "deny", policy, reason, family)
        return _denied(reason)

    def _tell_asked(self, info: TurnInfo, judged: Judged) -> None:
        decision = judged.decision
        asked = tuple(f"{claim.op}:{claim.resource}" for claim in decision.claims)
        info.emit(
            PermissionAsked(
                tool_call_id=judged.call.id,
                tool_name=judged.call.name,
                claims=asked,
                reason=decision.reason,
            )
        )

    def _note(
        self,
        judged: Judged,
        effect: Effect,
        policy: str,
        reason: str,
        family: Sequence[str] = (),
    ) -> None:
        self._gate.history.note(
            tool=judged.call.name,
            call_id=judged.call.id,
            digest=judged.digest,
            claims=judged.claims,
            decision=judged.decision,
            effect=effect,
            policy=policy,
            reason=reason,
            family=family,
        )

    def _report(
        self,
        info: TurnInfo,
        judged: Judged,
        effect: Effect,
        policy: str,
        reason: str,
        family: Sequence[str] = (),
    ) -> None:
        self._note(judged, effect, policy, reason, family)
        info.emit(
            PermissionAnswered(
                tool_call_id=judged.call.id,
                tool_name=judged.call.name,
                effect=effect,
                policy=policy,
                reason=reason,
                suggestion=suggest(judged.decision) if effect == "deny" else "",
                tool_input=judged.call.arguments,
            )
        )


def _is_no_to(held: Answered, judged: Judged) -> bool:
    """Whether it was refused as it stands: then no rule that came about since allows it."""
    return held.answer.effect == "deny" and held.judged.call.arguments == judged.call.arguments


async def _still_shows(held: Answered, judged: Judged) -> bool:
    """Whether what was asked about is what would be done now."""
    if not held.is_about(judged):
        return False
    if not held.shown:
        return True
    try:
        now = await preview_of(judged.call)
    except DirgeError:
        return False
    return now is not None and now.changes == held.shown


def _denied(reason: str) -> Answer:
    text = (
        f"{DENIED}: {reason.rstrip('.')}. Do not look for another way to do the same. "
        "Go on without it, or say what you would need and why."
    )
    return Answer(text, details={"outcome": "denied"})
