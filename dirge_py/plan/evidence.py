"""The evidence of a plan: which commands were run to verify it, on which files, and how they ended.

`EvidenceCollector` records it while the runs of the plan go on, `EvidenceLedger` keeps it.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line
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
from dirge_py.types.tools import LoopToolResult, ShellCommand, ToolCall

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.plan.project_guard import ReviewerWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One command that was run, or was to be run, as `EvidenceTaken` describes it.

    `is_look`: it only shows something, so that its success proves nothing about how a program runs.
    """

    id: str
    phase: PhaseName
    step: int
    command: str
    outcome: EvidenceOutcome
    exit_code: int | None
    output_sha256: str
    tree: str
    is_look: bool = False

    @property
    def has_passed(self) -> bool:
        return self.outcome == "passed" and self.exit_code == 0

    @property
    def event(self) -> EvidenceTaken:
        """What is told of it when it is taken."""
        return EvidenceTaken(
            **{field.name: getattr(self, field.name) for field in fields(EvidenceTaken)}
        )

    def stored(self) -> dict[str, Any]:
        """As a JSON object."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_ENDINGS: dict[EvidenceOutcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "denied": "was not allowed to run",
    "timeout": "took too long and was stopped",
    "stopped": "was stopped",
}
_MAX_COMMAND_CHARS = 200


def describe_ending(item: Evidence) -> str:
    """How it ended, for people, as `` `make test` (E3): exit code 2``."""
    code = item.exit_code
    how = _ENDINGS[item.outcome] if code is None or item.outcome in _UNFINISHED else ""
    return f"{code_span(item.command)} ({item.id}): {how or f'exit code {code}'}"


_UNFINISHED = ("denied", "timeout", "stopped")


def code_span(command: str) -> str:
    """A command in Markdown, in one line and between as many backticks as it takes."""
    text = one_line(command, _MAX_COMMAND_CHARS)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


class EvidenceLedger:
    """All evidence of one plan, in the order it was taken."""

    def __init__(self, items: Sequence[Evidence] = ()) -> None:
        self._items = list(items)

    @property
    def items(self) -> tuple[Evidence, ...]:
        return tuple(self._items)

    def of(self, phase: PhaseName, step: int) -> tuple[Evidence, ...]:
        """What was taken in this phase of this step."""
        return tuple(item for item in self._items if (item.phase, item.step) == (phase, step))

    def add(
        self,
        *,
        phase: PhaseName,
        step: int,
        command: str,
        outcome: EvidenceOutcome,
        exit_code: int | None,
        output_sha256: str,
        tree: str,
        is_look: bool,
    ) -> Evidence:
        """Record one more, and give it an id.

        `tree` is the hash of the files that it was run on, "" where they could not be read: such
        evidence never counts.
        """
        taken = Evidence(
            id=f"E{self._last_number() + 1}",
            phase=phase,
            step=step,
            command=command,
            outcome=outcome,
            exit_code=exit_code,
            output_sha256=output_sha256,
            tree=tree,
            is_look=is_look,
        )
        self._items.append(taken)
        return taken

    def stored(self) -> list[dict[str, Any]]:
        """As JSON objects, for `load`."""
        return [item.stored() for item in self._items]

    @classmethod
    def load(cls, stored: object) -> "EvidenceLedger":
        """The ledger that was stored; what cannot be read of it is left out."""
        entries = stored if isinstance(stored, list | tuple) else ()
        return cls([item for entry in entries if (item := _load_item(entry))])

    def _last_number(self) -> int:
        return max((int(item.id[1:]) for item in self._items), default=0)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "phase": str,
    "step": int,
    "command": str,
    "outcome": str,
    "exit_code": (int, type(None)),
    "output_sha256": str,
    "tree": str,
    "is_look": bool,
}


def _load_item(entry: object) -> Evidence | None:
    if not isinstance(entry, Mapping) or entry.keys() != _TYPES.keys():
        return None
    if not all(isinstance(entry[name], kind) for name, kind in _TYPES.items()):
        return None
    number = entry["id"][1:]
    is_known = entry["phase"] in get_args(PhaseName) and entry["outcome"] in get_args(
        EvidenceOutcome
    )
    if not (is_known and entry["id"][:1] == "E" and number.isascii() and number.isdigit()):
        return None
    return Evidence(**entry) if len(number) < 10 else None


_COMMANDS = "bash"
_OUTCOMES: dict[str, EvidenceOutcome] = {
    "denied": "denied",
    "suppressed": "denied",
    "timeout": "timeout",
    "aborted": "stopped",
}


class EvidenceCollector:
    """Records the commands of one conversation during one phase."""

    def __init__(
        self,
        conversation: "Conversation",
        ledger: "EvidenceLedger",
        *,
        phase: PhaseName,
        step: int,
        tell: Callable[[EvidenceTaken], None],
        strays: "ReviewerWrites | None" = None,
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
    return next((one.text for one in resources if isinstance(one, ShellCommand)), command)


def _outcome(outcome: str, code: object) -> EvidenceOutcome:
    if outcome in _OUTCOMES:
        return _OUTCOMES[outcome]
    return "passed" if code == 0 else "failed"
