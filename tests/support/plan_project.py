"""A project whose check fails, a scripted model, and a scripted approver of plans."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dirge_py.conversation.conversation import Conversation
from dirge_py.plan.approval import Accept, PlanAnswer
from dirge_py.plan.document import PlanDocument
from dirge_py.plan.runner import PlanResult, start_plan
from dirge_py.plan.state import NAME, PlanState, load_state
from dirge_py.types.events import EvidenceTaken, LoopEvent, PhaseName, PlanPhase
from tests.support.project import ScriptedProject

CHECK = "sh check.sh"
REQUEST = "Write `yes` into answer.txt."
PLAN = f"""\
## Name
Answer yes

## Context
The answer is missing.

## Files
- answer.txt (new)

## Steps
1. Write `yes` into answer.txt.
2. Verify: run `{CHECK}`.

## Verify
```sh
{CHECK}
```
"""


def verdict(
    word: str = "DONE", *, missing: object = "", cited: Sequence[str] = (CHECK,), **item: object
) -> str:
    """A reviewer's final message, with its verdict."""
    one = {"requirement": "answer.txt says yes", "status": "verified", "evidence": list(cited)}
    block = {"verdict": word, "checklist": [{**one, **item}], "missing": missing}
    return f"I looked at it.\n\n```json\n{json.dumps(block)}\n```"


@dataclass
class ScriptedApprover:
    """Gives these answers to plans, one after the other, then accepts."""

    answers: list[PlanAnswer] = field(default_factory=list)
    shown: list[tuple[PlanDocument, Sequence[str]]] = field(default_factory=list)

    async def decide(self, plan: PlanDocument, grants: Sequence[str]) -> PlanAnswer:
        self.shown.append((plan, grants))
        return self.answers.pop(0) if self.answers else Accept(plan.text)


class PlanProject(ScriptedProject):
    """A project with a check that wants `yes` in answer.txt."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        (self.folder / "check.sh").write_text("grep -qx yes answer.txt\n")
        self.approver = ScriptedApprover()
        self.events: list[LoopEvent] = []

    def configure(self, more: str = "", *, alias: str = "fake", sandbox: str = "off") -> None:
        """Settings without a sandbox, because each fork would probe for one."""
        kept = more if "[plan]" in more else f"{more}\n[plan]\n"
        plan = f'[plan]\nsandbox = "{sandbox}"\n'
        super().configure(kept.replace("[plan]\n", plan), alias=alias)

    def set_variable(self, name: str, value: str) -> None:
        self._environment[name] = value

    def plugin(self, source: str) -> None:
        """Write a plugin to the user's plugin folder."""
        folder = self.folder.parent / "config" / "plugins"
        folder.mkdir(exist_ok=True)
        (folder / "own.py").write_text(source)

    def will_look(self, plan: str = PLAN) -> None:
        """Script explore and plan."""
        self.model.will_say("check.sh:1 wants `yes` in answer.txt").will_say(plan)

    def will_write(self, answer: str) -> None:
        """Script implement: write an answer, and report it."""
        # The file may be there already, of an earlier cycle.
        self.model.will_call("bash", command=f"echo {answer} > answer.txt").will_say("Written.")

    def will_review(self, words: str, command: str = CHECK) -> None:
        self.model.will_call("bash", command=command).will_say(words)

    async def plan(self, conversation: Conversation, request: str = REQUEST) -> PlanResult:
        conversation.subscribe(self.events.append)
        return await start_plan(request, conversation, self.approver)

    @property
    def phases(self) -> list[tuple[PhaseName, int, str]]:
        """(phase, step, state) of each phase event."""
        return [(e.phase, e.step, e.state) for e in self.events if isinstance(e, PlanPhase)]

    @property
    def evidence(self) -> list[EvidenceTaken]:
        return [event for event in self.events if isinstance(event, EvidenceTaken)]


def stored_plan(conversation: Conversation) -> PlanState:
    """The plan state in the session's metadata."""
    state = load_state(conversation.session.metadata.get(NAME))
    assert state is not None
    return state
