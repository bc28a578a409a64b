"""The permission hook: claims judged, questions asked, and what was judged handed on."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Literal

from dirge_py.agent_loop.hooks import Answer, BeforeToolCallResult, Bundle, Defer, StopRun, TurnInfo
from dirge_py.calls import Preview, Previews, ToolCall
from dirge_py.errors import DirgeError
from dirge_py.events import PermissionAnswered, PermissionAsked
from dirge_py.files.resolve import is_beneath
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.outcomes import Cancelled
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate, suggest
from dirge_py.permission.git_config import GIT_HARDENING
from dirge_py.processes.runner import Runner
from dirge_py.questions import AskedClaim, Asker, PermissionAnswer, PermissionRequest

DENIED = "Permission denied"
Effect = Literal["allow", "deny", "defer", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorizer:
    """Judges calls for one conversation.

    What was judged is what may be done: the physical paths of an allowed call are handed to the
    workspace, its environment to the runner, and both refuse anything else.
    """

    gate: Gate
    asker: Asker
    workspace: Workspace
    runner: Runner
    cwd: str
    on_grant: Callable[[str], None]

    def bundle(self) -> Bundle:
        return Bundle(name="permission", before_tool_call=self._before)

    async def _before(self, info: TurnInfo, call: ToolCall) -> BeforeToolCallResult | None:
        if call.tool is None or call.problem is not None:
            return None
        decision = self.gate.decide(call.tool.claims(call.arguments), self.cwd)
        if decision.effect == "allow":
            self._hand_on(call, decision)
            return None
        if decision.effect == "deny":
            self._report(info, call, decision, "deny", decision.policy)
            return _denied(decision.reason)
        answer = await self._answer(info, call, decision)
        self._report(info, call, decision, answer.effect, "answer", answer.comment)
        return self._follow(call, decision, answer)

    async def _answer(self, info: TurnInfo, call: ToolCall, decision: Decision) -> PermissionAnswer:
        """What was decided while the run was down, else what the asker says now."""
        earlier = info.decisions.get(call.id)
        if earlier is None:
            return await self._ask(info, call, decision)
        effect: Literal["allow", "deny"] = "allow" if earlier.allow else "deny"
        return PermissionAnswer(effect=effect, comment=earlier.reason)

    async def _ask(self, info: TurnInfo, call: ToolCall, decision: Decision) -> PermissionAnswer:
        request = PermissionRequest(
            call_id=call.id,
            tool_name=call.name,
            claims=asked_claims(decision),
            grant=decision.grant,
            suggestion=suggest(decision),
            preview=await asyncio.to_thread(_preview, call),
            cwd=self.cwd,
        )
        asked = tuple(f"{claim.op}:{claim.resource}" for claim in decision.claims)
        info.emit(
            PermissionAsked(
                tool_call_id=call.id, tool_name=call.name, claims=asked, reason=decision.reason
            )
        )
        return (await self.asker.permission([request]))[0]

    def _follow(
        self, call: ToolCall, decision: Decision, answer: PermissionAnswer
    ) -> BeforeToolCallResult | None:
        match answer.effect:
            case "allow":
                if answer.remember == "session" and decision.grant:
                    for rule in decision.grant:
                        self.gate.add_grant(rule)
                        self.on_grant(rule)
                self._hand_on(call, decision)
                return None
            case "defer":
                return Defer(f"{call.name}: {decision.reason}")
            case "abort":
                raise StopRun(Cancelled(reason="on-ask"))
            case "deny":
                return _denied(answer.comment or decision.reason)

    def _hand_on(self, call: ToolCall, decision: Decision) -> None:
        reals = [claim.real for claim in decision.claims if claim.real is not None]
        if reals:
            self.workspace.approve(call.id, reals)
        if decision.plan is not None:
            # It was judged by the names of its programs: none may be found in the workspace.
            path = outside(os.environ.get("PATH", os.defpath), self.workspace.roots)
            self.runner.prepare(call.id, {**GIT_HARDENING, "PATH": path})

    def _report(
        self,
        info: TurnInfo,
        call: ToolCall,
        decision: Decision,
        effect: Effect,
        policy: str,
        comment: str = "",
    ) -> None:
        suggestion = suggest(decision) if effect == "deny" else ""
        info.emit(
            PermissionAnswered(
                tool_call_id=call.id,
                tool_name=call.name,
                effect=effect,
                policy=policy,
                reason=comment or decision.reason,
                suggestion=suggestion,
                tool_input=call.arguments,
            )
        )


def asked_claims(decision: Decision) -> tuple[AskedClaim, ...]:
    """The claims as a question shows them."""
    return tuple(
        AskedClaim(
            op=claim.op,
            resource=claim.resource,
            effect=claim.effect,
            policy=claim.policy,
            reason=claim.reason,
        )
        for claim in decision.claims
    )


SYSTEM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")


def outside(path: str, roots: Sequence[str]) -> str:
    """The folders of a `PATH` that do not lie in the workspace; never empty.

    An empty `PATH` means the current folder to a shell, so where the workspace holds them all the
    system's own are left.
    """
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    kept = [folder for folder in folders if not is_beneath(os.path.realpath(folder), roots)]
    return os.pathsep.join(kept or SYSTEM_FOLDERS)


def _denied(reason: str) -> Answer:
    text = (
        f"{DENIED}: {reason.rstrip('.')}. Do not look for another way to do the same. "
        "Go on without it, or say what you would need and why."
    )
    return Answer(text, details={"outcome": "denied"})


def _preview(call: ToolCall) -> Preview | None:
    if not isinstance(call.tool, Previews):
        return None
    try:
        return call.tool.preview(call.arguments)
    except DirgeError:
        # What cannot be shown, because it will fail, is asked about without a picture.
        return None
