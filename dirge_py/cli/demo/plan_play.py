"""`dirge demo --plan`: a request in four phases, whose review finds what was forgotten."""

from typing import ClassVar

from dirge_py.cli.demo.plan_script import QUICK_CHECK, REQUEST, PlanScript
from dirge_py.cli.demo.play import Demo
from dirge_py.cli.demo.printed import say
from dirge_py.cli.demo.script import TEST_COMMAND
from dirge_py.conversation.conversation import Conversation
from dirge_py.plan.approval import AutoApprove
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.runner import start_plan
from dirge_py.plan.state import NAME, load_state
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Asker


class PlanDemo(Demo):
    """The same for a plan."""

    scenario: ClassVar[str] = "plan"
    prompt: ClassVar[str] = f"/plan {REQUEST}"
    rule: ClassVar[str] = f"execute:{QUICK_CHECK}"
    notices: ClassVar[tuple[str, ...]] = (
        "A demo: the model is a script; phases, tools, permissions and test runs are real.",
        f"It works in a copy and starts with one rule: --allow '{rule}'",
        f"Accepting its plan adds the one for all tests: execute:{TEST_COMMAND}",
    )

    def conversation(self, asker: Asker, *, paced: bool) -> Conversation:
        script = PlanScript(is_paced=paced)
        conversation = self._built(asker, script.stream)
        conversation.subscribe(script.sink)
        return conversation

    @property
    def has_passed(self) -> bool:
        """Whether the plan ended verified, by tests that really passed in its last review."""
        if self._conversation is None:
            return False
        state = load_state(self._conversation.session.metadata.get(NAME))
        if state is None or state.status != "verified":
            return False
        ledger = EvidenceLedger.load(state.evidence)
        tests = [e for e in ledger.of("review", state.step) if e.command == TEST_COMMAND]
        return bool(tests) and tests[-1].has_passed

    async def play(self, conversation: Conversation) -> bool:
        result = await start_plan(REQUEST, conversation, AutoApprove())
        say(f"\n{result.report}")
        return isinstance(result.outcome, Done)
