"""Takes down which commands were run for a plan, how they ended, and on which files."""

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    EvidenceOutcome,
    EvidenceTaken,
    LoopEvent,
    PhaseName,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import Command, LoopToolResult, ToolCall

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.plan.evidence import EvidenceLedger
    from dirge_py.plan.strays import Strays

_COMMANDS = "bash"
_OUTCOMES: dict[str, EvidenceOutcome] = {
    "denied": "denied",
    "suppressed": "denied",
    "timeout": "timeout",
    "aborted": "stopped",
}


class Recording:
    """Records the commands of one conversation during one phase."""

    def __init__(
        self,
        conversation: "Conversation",
        ledger: "EvidenceLedger",
        *,
        phase: PhaseName,
        step: int,
        tell: Callable[[EvidenceTaken], None],
        strays: "Strays | None" = None,
    ) -> None:
        """While there are `strays`, nothing that is run is evidence."""
        self._conversation = conversation
        self._ledger = ledger
        self._phase: PhaseName = phase
        self._step = step
        self._tell = tell
        self._strays = strays
        self._pending: dict[str, tuple[str, str]] = {}
        self._unasked: set[str] = set()

    def bundle(self) -> Hooks:
        return Hooks(
            name="evidence",
            only_watches=True,
            before_tool_call=self._before,
            after_tool_call=self._after,
        )

    def sink(self, event: LoopEvent) -> None:
        """Take down the end of a command, also of one that was not allowed to run."""
        if isinstance(event, ToolExecutionStart) and event.tool_name == _COMMANDS:
            self._begin(event)
        if not isinstance(event, ToolExecutionEnd) or event.deferred:
            return
        command, tree = self._pending.pop(event.tool_call_id, ("", ""))
        details = event.result.details
        outcome = str(details.get("outcome", ""))
        if not command or (event.tool_call_id in self._unasked and outcome != "denied"):
            return
        if "shell_id" in details:
            return  # One that goes on in the background has not shown anything yet.
        code = details.get("exit_code")
        printed = "".join(b.text for b in event.result.content if isinstance(b, TextBlock))
        taken = self._ledger.add(
            phase=self._phase,
            step=self._step,
            command=command,
            outcome=_outcome(outcome, code),
            exit_code=code if isinstance(code, int) else None,
            output_sha256=hashlib.sha256(printed.encode("utf-8", "surrogatepass")).hexdigest(),
            tree=tree,
            is_look=self._is_look(command),
        )
        self._tell(taken.event)

    def _begin(self, event: ToolExecutionStart) -> None:
        """A plugin may deny it before this is asked."""
        command = event.args.get("command") if isinstance(event.args, Mapping) else None
        if isinstance(command, str) and command.strip():
            self._pending[event.tool_call_id] = (command, "")
            self._unasked.add(event.tool_call_id)

    async def _before(self, _info: TurnInfo, call: ToolCall) -> None:
        command = _command_of(call)
        if call.name != _COMMANDS or not command.strip():
            return
        if self._strays is not None:
            await self._strays.begin(call.id, command)
        self._unasked.discard(call.id)
        self._pending[call.id] = (command, await self._tree())

    async def _after(self, _info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        """What changed the files while it ran says nothing about the files that there are now."""
        if self._strays is not None:
            await self._strays.end(call.id)
        command, tree = self._pending.get(call.id, ("", ""))
        if tree and await self._tree() != tree:
            self._pending[call.id] = (command, "")

    async def _tree(self) -> str:
        if self._strays is not None and self._strays.are_there:
            return ""
        read = self._conversation.environment.read_tree
        try:
            return (await read()).sha256 if read is not None else ""
        except DirgeError:
            return ""  # Evidence that is about no known state of the files proves nothing.

    def _is_look(self, command: str) -> bool:
        try:
            return self._conversation.settings.why(_COMMANDS, command).only_looks
        except DirgeError:
            return True  # What nobody knows proves nothing.


def _command_of(call: ToolCall) -> str:
    """The command with the `cd` to its folder, for what passes in one folder may fail in another.

    Empty if there is none.
    """
    command = call.arguments.get("command")
    if not isinstance(command, str):
        return ""
    if call.tool is None or not call.arguments.get("workdir"):
        return command
    resources = (claim.resource for claim in call.tool.claims(call.arguments))
    return next((one.text for one in resources if isinstance(one, Command)), command)


def _outcome(outcome: str, code: object) -> EvidenceOutcome:
    if outcome in _OUTCOMES:
        return _OUTCOMES[outcome]
    return "passed" if code == 0 else "failed"
