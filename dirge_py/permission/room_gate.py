"""The gate of a fork that works in a room of its own: its parent's rules, and never more."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dirge_py.files.workspace import Workspace
from dirge_py.permission.decide import decide
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate, Trial
from dirge_py.permission.patterns import quoted_path
from dirge_py.permission.rules import PolicySet, Rule
from dirge_py.types.tools import Claim

LOOKING = (
    "only commands that look may be run here, one after the other and without redirections: "
    "`ls`, `cat`, `wc`, `git log`, `git diff`, `git show` and the like; "
    "reading and searching have tools of their own"
)
WORKING = (
    "it would change the project itself, which has to stay as it is here: "
    "do it in the copy, by a path relative to the current folder"
)


class RoomGate(Gate):
    """Judges as `parent` does at that moment, in another workspace.

    `first` are rules that stand before all others. What is granted here is put into `granted`, and
    holds wherever that list is used, but not for the parent. With `only_looks` nothing is granted
    but reading: it is the mode "plan", whatever the parent's, and what would ask about a command
    denies it. Without, no network is opened. What a call would change below the physical folders
    `kept` denies it, whatever the mode.
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
        kept: Sequence[str] = (),
        **places: Any,
    ) -> None:
        super().__init__(workspace, policy, **places)
        self._parent = parent
        self._granted = granted
        self._only_looks = only_looks
        self._first = tuple(first)
        self._kept = _keeping(kept)
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
        if decision.effect != "deny" and self._would_change_kept(claims, cwd):
            return replace(decision, effect="deny", policy="default", reason=WORKING, grant=())
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

    def _would_change_kept(self, claims: Sequence[Claim], cwd: str | None) -> bool:
        if not self._kept.rules:
            return False
        try:
            return (
                decide(self._request(claims, cwd or self._workspace.cwd), self._kept).effect
                == "deny"
            )
        except Exception:
            return False  # Then it was not judged above either, and asks.

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


def _keeping(folders: Sequence[str]) -> PolicySet:
    patterns = [each for one in folders for each in (quoted_path(one), f"{quoted_path(one)}/**")]
    rules = tuple(Rule("edit", pattern, "deny") for pattern in patterns)
    return PolicySet(rules=rules, mode="yolo")
