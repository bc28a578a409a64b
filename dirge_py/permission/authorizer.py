"""The permission hook: judges the claims of each call, asks the user, and approves the call."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal

from dirge_py.files.workspace import Workspace
from dirge_py.lib.text import visible
from dirge_py.permission.decision import Result
from dirge_py.permission.engine import PermissionEngine, suggest_flags
from dirge_py.permission.git.repository import GIT_HARDENING
from dirge_py.permission.questions import (
    AnsweredCall,
    JudgedCall,
    PermissionJudge,
    answered_family,
    batch_questions,
    describe_changes,
    editable_command,
    files_of,
    judge_call,
    objection_to,
    request_for,
    rules_to_store,
    stored_rules_notice,
    verdict_on,
)
from dirge_py.processes.programs import closed_folders, search_path
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.profile import Permit
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import PermissionAnswered, PermissionAsked, SystemNotice
from dirge_py.types.hooks import (
    BeforeToolCallResult,
    Defer,
    EditArgs,
    Hooks,
    StopRun,
    ToolOverride,
    TurnInfo,
)
from dirge_py.types.outcomes import Cancelled
from dirge_py.types.questions import Asker, PermissionAnswer, SupportsForms
from dirge_py.types.tools import (
    Claim,
    LoopToolResult,
    Proceed,
    ShellCommand,
    ToolCall,
    text_result,
)

DENIED = "Permission denied"
_MOST_ATTEMPTS = 3
_MOST_HELD = 256
_MOST_DENIALS = 4096


class Authorizer:
    """Judges the calls of one conversation and its forks.

    It passes the physical paths of an allowed call to the workspace and its environment to the
    runner, and both refuse anything else. `on_grant` is called with every rule allowed for the
    session; `keep_rules` stores rules in the user's settings (None: they cannot be stored). `judge`
    sees a call before the user is asked, and can only tighten; when it says no, `judge_effect`
    decides whether the call is denied or the user is warned.
    """

    def __init__(
        self,
        *,
        engine: PermissionEngine,
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
        self._engine = engine
        self._asker = asker
        self._workspace = workspace
        self._runner = runner
        self._cwd = cwd
        self._on_grant = on_grant
        self._keep_rules = keep_rules
        self._judge = judge
        self._judge_effect = judge_effect
        self._guard = RefusalLoopGuard(loop_guard)
        self._held: dict[tuple[str, int, str], AnsweredCall] = {}
        self._allowed: dict[tuple[str, str], tuple[JudgedCall, Mapping[str, str], str]] = {}
        """The calls that may start, each with its files (`files_of`) and its folder."""
        self._distrusted: Sequence[str] = ()

    def for_fork(
        self,
        engine: PermissionEngine,
        workspace: Workspace,
        runner: Runner,
        *,
        cwd: str,
        distrusted: Sequence[str],
    ) -> "Authorizer":
        """Return an authorizer for a fork in another folder; only its own engine keeps its grants.

        It also refuses programs from the folders `distrusted` in calls that run without a question.
        """
        own = copy(self)
        own._engine, own._workspace, own._runner, own._cwd = engine, workspace, runner, cwd
        own._on_grant, own._keep_rules = lambda rule: None, None
        own._held, own._distrusted = {}, tuple(distrusted)
        return own

    async def at_start(self, call: ToolCall, proceed: Proceed) -> LoopToolResult:
        """Prevent a command from starting if its files changed after it was allowed, also in forks.

        Hooks, a snapshot and a write to disk leave a parallel process enough time to change them.
        """
        held = self._allowed.pop(_start_key(call), None)
        if held is None:
            return await proceed()
        judged, files, cwd = held
        changed = describe_changes(files, await files_of(judged), cwd)
        if not changed:
            return await proceed()
        return text_result(
            f"Not run: {changed} after the user was asked. Call it again: the user is then "
            "asked about the current files.",
            outcome="denied",
            is_error=True,
        )

    def only_reads(self, command: ShellCommand) -> bool:
        """Whether the command is read-only, so that others may run at the same time."""
        return self._engine.only_reads(command)

    def bundle(self) -> Hooks:
        return Hooks(name="permission", before_tool_call=self._before)

    def _before(
        self, info: TurnInfo, call: ToolCall
    ) -> BeforeToolCallResult | Awaitable[BeforeToolCallResult | None] | None:
        judged = judge_call(self._engine, call, self._cwd)
        if judged is None:
            return None
        decision = judged.decision
        held = self._held.pop((info.run_id, info.turn, call.id), None)
        if decision.effect == "deny":
            return self._refuse(info, judged, decision.policy, decision.reason)
        # A call that was refused as it stands stays refused, whatever rules were added since.
        is_denied = held is not None and held.answer.effect == "deny"
        if held is not None and is_denied and held.judged.call.arguments == call.arguments:
            return self._apply_answer(info, self._held_answer(info, held))
        if decision.effect == "allow" and not (held is not None and held.answer.command):
            self._report(info, judged, "allow", decision.policy, decision.reason)
            self._approve(judged)
            return None
        return self._decided(info, judged, held)

    async def _decided(
        self, info: TurnInfo, judged: JudgedCall, held: AnsweredCall | None
    ) -> BeforeToolCallResult | None:
        """Apply the decision of the user or of the asker."""
        answered = await self._answered(info, judged, held)
        if answered.answer.effect == "allow" and answered.answer.command:
            return await self._run_instead(info, answered)
        return self._apply_answer(info, answered)

    async def _run_instead(self, info: TurnInfo, answered: AnsweredCall) -> BeforeToolCallResult:
        """Let the command run that the user wrote in place of the model's, unless it is denied."""
        judged, command = answered.judged, answered.answer.command
        name, _ = editable_command(judged)
        arguments = {**judged.call.arguments, name: command}
        edited = judge_call(self._engine, replace(judged.call, arguments=arguments), self._cwd)
        if not name or edited is None:
            return self._refuse(info, judged, "failure", "its command cannot be changed")
        decision = edited.decision
        if decision.effect == "deny":
            reason = f"the user changed the command to `{command}`, and {decision.reason}"
            return self._refuse(info, edited, decision.policy, reason)
        # The user wrote this command, so it isn't asked about again.
        files = await files_of(edited)
        own = replace(answered, judged=edited, files=files)
        self._report(info, edited, "allow", "answer", "the user changed the command", own)
        self._guard.record_approval(info.run_id, judged)
        self._approve(edited)
        self._hold_files(own)
        info.emit(SystemNotice(f"You changed the command. Running: {visible(command)}"))
        note = f"The user changed the command before allowing it. This ran instead: {command}"
        return EditArgs(arguments, note)

    async def _answered(
        self, info: TurnInfo, judged: JudgedCall, held: AnsweredCall | None
    ) -> AnsweredCall:
        """Return a decision made while the run was stopped, else the asker's answer."""
        earlier = info.decisions.get(judged.call.id)
        changed = ""
        if earlier is not None:
            files = await files_of(judged) if earlier.allow else {}
            changed = self._changed_since_wait(info, judged, files) if earlier.allow else ""
            if not changed:
                effect: Literal["allow", "deny"] = "allow" if earlier.allow else "deny"
                answer = PermissionAnswer(effect=effect, comment=earlier.reason)
                return AnsweredCall(judged=judged, answer=answer, by="earlier", files=files)
        if stopped := self._guard.why_stopped(info.run_id, judged):
            return _denied(judged, "loop-guard", stopped)
        if held is not None:
            changed = await objection_to(held, judged, self._cwd)
            if not changed:
                return self._held_answer(info, held)
        answered = await self._ask(info, judged, changed)
        if earlier is None or answered.answer.effect not in ("defer", "deny"):
            return answered
        # The earlier decision was about another call: deferring again would count as approval.
        comment = answered.answer.comment or f"{changed} after it was allowed"
        return replace(answered, answer=PermissionAnswer(effect="deny", comment=comment))

    def _held_answer(self, info: TurnInfo, held: AnsweredCall) -> AnsweredCall:
        """Return an answer given in advance; emit its question now that its call begins."""
        if held.by == "answer":
            self._emit_asked(info, held.judged)
        return held

    def _changed_since_wait(
        self, info: TurnInfo, judged: JudgedCall, files: Mapping[str, str]
    ) -> str:
        """Return what changed in the call since it was deferred, or ""."""
        decided = info.decisions[judged.call.id]
        waited = self._engine.history.of_call(judged.call.id)
        waited = waited if waited is not None and waited.effect == "defer" else None
        if decided.arguments is None and waited is not None:
            is_same = waited.digest == judged.digest
        else:
            written = next((call for call in info.calls if call.id == judged.call.id), None)
            is_same = written is None or written.arguments == judged.call.arguments
        if not is_same:
            return "its arguments were changed"
        if waited is None or waited.files is None or decided.arguments is not None:
            return ""
        return describe_changes(waited.files, files, self._cwd)

    async def _ask(self, info: TurnInfo, judged: JudgedCall, changed: str = "") -> AnsweredCall:
        """Ask until the allowed call is the current one; `changed` says why it is asked again."""
        for attempt in range(_MOST_ATTEMPTS):
            answered = await self._ask_once(info, judged, changed, is_first=attempt == 0)
            if answered.by != "answer" or answered.answer.effect != "allow":
                return answered
            changed = describe_changes(answered.files, await files_of(judged), self._cwd)
            if not changed:
                return answered
            judged = judge_call(self._engine, judged.call, self._cwd) or judged
            if judged.decision.effect == "deny":
                changed = judged.decision.reason
                break
        else:
            changed += " each time the user was asked"
        return _denied(judged, "changed", changed)

    async def _ask_once(
        self, info: TurnInfo, judged: JudgedCall, changed: str, *, is_first: bool
    ) -> AnsweredCall:
        """Ask about this call, together with the later calls of its batch that need a question."""
        try:
            question = await self._question(judged, changed)
        except DirgeError as error:
            return _denied(judged, "failure", error.in_one_line())
        if question.by != "answer":
            return question
        if is_first:
            self._emit_asked(info, judged)
        later = [
            one
            for one in batch_questions(info, judged, self._engine, self._cwd)
            if (info.run_id, info.turn, one.call.id) not in self._held
            and not self._guard.why_stopped(info.run_id, one)
        ]
        questions = await asyncio.gather(*map(self._question, later), return_exceptions=True)
        # A failure is reported or raised in its call's own turn.
        prepared = [one for one in questions if isinstance(one, AnsweredCall)]
        pending = [question, *(one for one in prepared if one.by == "answer")]
        requests = [one.request for one in pending if one.request is not None]
        answers = await self._asker.permission(requests)
        first, *others = (
            replace(one, answer=answer) for one, answer in zip(pending, answers, strict=True)
        )
        for answered in (*(one for one in prepared if one.by != "answer"), *others):
            _make_room(self._held, _MOST_HELD)
            self._held[info.run_id, info.turn, answered.judged.call.id] = answered
        return first

    async def _question(self, judged: JudgedCall, changed: str = "") -> AnsweredCall:
        """Return the question about a call, not answered yet, or the judge's refusal.

        Raises DirgeError.
        """
        can_keep = self._keep_rules is not None
        # First, so that changes while the rest is prepared count as made after the question.
        files = await files_of(judged)
        request = await request_for(judged, self._engine, self._cwd, can_keep=can_keep)
        verdict = await verdict_on(request, judged, self._judge)
        if verdict.kind == "deny" and self._judge_effect == "deny":
            comment = f"the judge model rejected it: {verdict.reason}"
            return _denied(judged, "judge", comment)
        warnings = [f"{changed} after you were asked"] if changed else []
        warnings += [] if verdict.kind == "allow" else [verdict.reason]
        request = replace(request, warning="; ".join(warnings))
        return AnsweredCall(judged=judged, request=request, by="answer", files=files)

    def _apply_answer(self, info: TurnInfo, answered: AnsweredCall) -> BeforeToolCallResult | None:
        judged, answer = answered.judged, answered.answer
        call, reason = judged.call, answer.comment or judged.decision.reason
        if answered.by == "failure":
            # Nothing was asked or decided.
            return ToolOverride(answer.comment, details={"outcome": "error"})
        if answer.effect == "deny":
            if answered.by == "answer" and isinstance(self._asker, SupportsForms):
                reason = answer.comment or "the user said no"
            if answered.by != "loop-guard":
                self._guard.record_denial(info.run_id, judged)
            return self._refuse(info, judged, answered.by, reason, answered)
        self._report(info, judged, answer.effect, answered.by, reason, answered)
        match answer.effect:
            case "allow":
                self._guard.record_approval(info.run_id, judged)
                self._remember(info, answered)
                self._approve(judged)
                if answered.shown:
                    # Only the shown changes are allowed, and of them the hunks that the user kept.
                    self._workspace.hold_to(call.id, answered.shown, answer.changes)
                self._hold_files(answered)
                return None
            case "defer":
                return Defer(f"{call.name}: {judged.decision.reason}")
            case "abort":
                raise StopRun(Cancelled(reason="on-ask"))

    def _hold_files(self, answered: AnsweredCall) -> None:
        """Keep the files of an allowed call, to compare them before it starts."""
        if answered.files:
            _make_room(self._allowed, _MOST_HELD)
            key = _start_key(answered.judged.call)
            self._allowed[key] = answered.judged, answered.files, self._cwd

    def _remember(self, info: TurnInfo, answered: AnsweredCall) -> None:
        rules = rules_to_store(answered)
        if answered.answer.remember == "always" and rules and self._keep_rules is not None:
            try:
                where = self._keep_rules(rules)
            except (DirgeError, OSError) as error:
                problem = f"{error} {getattr(error, 'hint', '')}".strip()
                info.emit(SystemNotice(f"Allowed for this session only: {problem}"))
            else:
                for rule in rules:
                    self._engine.add_rule(rule, where)
                info.emit(SystemNotice(stored_rules_notice(rules, where)))
                return
        for rule in rules:
            self._engine.add_grant(rule)
            self._on_grant(rule)
        if rules:
            info.emit(SystemNotice(stored_rules_notice(rules)))

    def _approve(self, judged: JudgedCall) -> None:
        """Approve the judged paths, and tell the runner how to start the judged commands."""
        call_id, decision = judged.call.id, judged.decision
        if reals := [claim.real for claim in decision.claims if claim.real is not None]:
            self._workspace.approve(call_id, reals)
        if all(claim.op != "execute" for claim in decision.claims):
            return
        environment: Mapping[str, str] = {}
        if decision.needs_hardening:
            # It was judged by the names of its programs, so none may come from the workspace.
            closed: Sequence[str] = (*self._workspace.roots, *self._distrusted)
            if decision.is_read_only:
                closed = closed_folders(closed, self._engine.home)
            path = search_path(os.environ.get("PATH", os.defpath), closed)
            environment = {**GIT_HARDENING, "PATH": path}
        permits: set[Permit] = {"git"} if decision.changes_git else set()
        if self._engine.opens_network:
            permits.add("network")
        self._runner.prepare(
            call_id, environment, frozenset(permits), is_read_only=decision.is_read_only
        )

    def _refuse(
        self,
        info: TurnInfo,
        judged: JudgedCall,
        policy: str,
        reason: str,
        answered: AnsweredCall | None = None,
    ) -> ToolOverride:
        self._report(info, judged, "deny", policy, reason, answered)
        text = (
            f"{DENIED}: {reason.rstrip('.')}. Do not try to get around this. If it names another "
            "way, use that. Otherwise continue without it, or say what you need and why."
        )
        return ToolOverride(text, details={"outcome": "denied"})

    def _emit_asked(self, info: TurnInfo, judged: JudgedCall) -> None:
        decision = judged.decision
        info.emit(
            PermissionAsked(
                tool_call_id=judged.call.id,
                tool_name=judged.call.name,
                claims=tuple(f"{claim.op}:{claim.resource}" for claim in decision.claims),
                reason=decision.reason,
            )
        )

    def _report(
        self,
        info: TurnInfo,
        judged: JudgedCall,
        effect: Result,
        policy: str,
        reason: str,
        answered: AnsweredCall | None = None,
    ) -> None:
        """Record the outcome of a call, and emit it, except if the rules allowed it."""
        self._engine.history.record(
            tool=judged.call.name,
            call_id=judged.call.id,
            digest=judged.digest,
            claims=judged.claims,
            decision=judged.decision,
            effect=effect,
            policy=policy,
            reason=reason,
            family=answered_family(answered) if answered else (),
            files=answered.files if answered and effect == "defer" else None,
        )
        if effect == "allow" and answered is None:
            return
        info.emit(
            PermissionAnswered(
                tool_call_id=judged.call.id,
                tool_name=judged.call.name,
                effect=effect,
                policy=policy,
                reason=reason,
                suggestion=suggest_flags(judged.decision) if effect == "deny" else "",
                tool_input=judged.call.arguments,
            )
        )


def _denied(
    judged: JudgedCall, by: Literal["judge", "loop-guard", "failure", "changed"], comment: str
) -> AnsweredCall:
    answer = PermissionAnswer(effect="deny", comment=comment)
    return AnsweredCall(judged=judged, answer=answer, by=by)


class RefusalLoopGuard:
    """Counts how often a tool was denied the same claims in one run.

    After `most` denials without an approval in between it stops the questions; 0 turns it off.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # A forked run and its parent run at the same time.
        self._denials: Counter[tuple[str, str, tuple[Claim, ...]]] = Counter()

    def why_stopped(self, run_id: str, judged: JudgedCall) -> str:
        """Return why the user is not asked again, or ""."""
        count = self._denials[run_id, judged.call.name, judged.claims]
        if not self._most or count < self._most:
            return ""
        return f"this exact call was denied {count} times, so dirge doesn't ask again in this run"

    def record_denial(self, run_id: str, judged: JudgedCall) -> None:
        _make_room(self._denials, _MOST_DENIALS)
        self._denials[run_id, judged.call.name, judged.claims] += 1

    def record_approval(self, run_id: str, judged: JudgedCall) -> None:
        self._denials.pop((run_id, judged.call.name, judged.claims), None)


def _make_room(held: dict[Any, Any], most: int) -> None:
    """Forget the oldest entries, so that with a new one there are at most `most`."""
    while len(held) >= most:
        del held[next(iter(held))]


def _start_key(call: ToolCall) -> tuple[str, str]:
    # Forks number their calls from the start, so an id alone may name two of them.
    return call.id, repr((call.name, call.arguments))
