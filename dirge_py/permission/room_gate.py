"""The gate of a fork that works in a room of its own: its parent's rules, and never more."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dirge_py.claims import Claim
from dirge_py.files.workspace import Workspace
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate, Trial
from dirge_py.permission.rules import PolicySet, Rule

LOOKING = (
    "only commands that look may be run here, one after the other and without redirections: "
    "`ls`, `cat`, `wc`, `git log`, `git diff`, `git show` and the like; "
    "reading and searching have tools of their own"
)


class RoomGate(Gate):
    """Judges as `parent` does at that moment, in another workspace.

    `first` are rules that stand before all others. What is granted here is put into `granted`, and
    holds wherever that list is used, but not for the parent. With `only_looks` nothing is granted
    but reading: it is the mode "plan", whatever the parent's, and what would ask about a command
    denies it. Without, no network is opened.
    """

    def __init__(
        self,
        workspace: Workspace,
        policy: PolicySet,
        *,
        parent: Gate,
        granted: list[Rule],
        only_looks: bool,
        first: Sequence[Rule] = (),
        **places: Any,
    ) -> None:
        super().__init__(workspace, policy, **places)
        self._parent = parent
        self._granted = granted
        self._only_looks = only_looks
        self._first = tuple(first)
        self.history = parent.history
        self._follow()

    @property
    def opens_network(self) -> bool:
        return False

    def add_grant(self, rule: str) -> Rule:
        grant = super().add_grant(rule)
        if grant not in self._granted:
            self._granted.append(grant)
        return grant

    def decide(
        self, claims: Sequence[Claim], cwd: str | None = None, *, tool: str = ""
    ) -> Decision:
        self._follow()
        decision = super().decide(claims, cwd, tool=tool)
        is_command = any(claim.op == "execute" for claim in claims)
        if not self._only_looks or decision.effect == "allow" or not is_command:
            return decision
        return replace(
            decision,
            effect="deny",
            reason=f"{decision.reason}: {LOOKING}",
            grant=(),
            wider=(),
            wanted=(),
        )

    def trial(self, claims: Sequence[Claim], cwd: str, *, tool: str = "") -> Trial | None:
        self._follow()
        return super().trial(claims, cwd, tool=tool)

    def withholds(self, real: str) -> bool:
        self._follow()
        return super().withholds(real)

    def _follow(self) -> None:
        parent, is_shut = self._parent, self._only_looks
        self.denied_tools = parent.denied_tools
        self._policy = replace(
            self._policy,
            rules=(*self._first, *parent.rules),
            mode="plan" if is_shut else parent.mode,
            grants=(*(() if is_shut else parent.grants), *self._granted),
        )
