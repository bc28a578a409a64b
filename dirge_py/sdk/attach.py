"""Attachments under the same rules as reading: what would ask, asks before it is sent."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from dirge_py.context.attachments import Attacher, mentions
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.engine import PermissionEngine, suggest_flags
from dirge_py.permission.questions import asked_claims
from dirge_py.types.errors import FileError
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import Asker, PermissionRequest
from dirge_py.types.tools import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedAttacher:
    """Reads what a prompt mentions as `@path`, as far as reading it is allowed."""

    attacher: Attacher
    gate: PermissionEngine
    asker: Asker

    async def attach(self, text: str, pictures: Mapping[str, bytes]) -> UserMessage:
        """`text` with its attachments; `pictures` are those that it names, by their names.

        Raises:
            FileError: one of them may not or cannot be read. Send nothing.
        """
        for written, path in mentions(text, self.attacher.cwd):
            await self._check(written, path)
        return await asyncio.to_thread(self.attacher.attach, text, pictures)

    async def _check(self, written: str, path: Path) -> None:
        claims = [Claim("read", str(path))]
        decision = self.gate.decide(claims, str(self.attacher.cwd))
        effect, policy = decision.effect, str(decision.policy)
        if effect == "ask":
            request = PermissionRequest(
                call_id="",
                tool_name="attach",
                claims=asked_claims(decision),
                cwd=str(self.attacher.cwd),
            )
            (answer,) = await self.asker.permission([request])
            effect, policy = ("allow" if answer.effect == "allow" else "deny"), "answer"
        self.gate.history.record(
            tool="attach",
            call_id="",
            decision=decision,
            effect="allow" if effect == "allow" else "deny",
            policy=policy,
            reason=decision.reason,
        )
        if effect == "allow":
            return
        flags = suggest_flags(decision)
        raise FileError(
            f"@{written} was not attached: {decision.reason}.",
            hint=f"{flags} would allow it. " * bool(flags) + "Without the @ it is only a name.",
        )
