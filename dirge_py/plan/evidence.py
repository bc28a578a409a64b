"""The evidence of a plan: the commands that verified it, their files and their results.

`EvidenceCollector` records it during the runs of the plan, `EvidenceLedger` holds it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, fields, replace
from typing import Any

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line
from dirge_py.plan.project_guard import ReviewerWrites, read_tree
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One command that was run, or was to be run; `EvidenceTaken` documents its members."""

    id: str = ""
    """`E1` and so on; empty until it is in a ledger."""
    phase: PhaseName
    step: int
    command: str
    outcome: EvidenceOutcome
    exit_code: int | None
    output_sha256: str
    tree: str
    is_look: bool = False
    """Whether it only reads, so that its success proves nothing about the program."""

    @property
    def has_passed(self) -> bool:
        return self.outcome == "passed" and self.exit_code == 0

    @property
    def event(self) -> EvidenceTaken:
        """Return the event that reports it."""
        return EvidenceTaken(
            **{each.name: getattr(self, each.name) for each in fields(EvidenceTaken)}
        )


_ENDINGS: dict[EvidenceOutcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "denied": "was not allowed to run",
    "timeout": "took too long and was stopped",
    "stopped": "was stopped",
}
UNFINISHED = ("denied", "timeout", "stopped")
"""The outcomes of commands that didn't finish."""
_MAX_COMMAND_CHARS = 200


def describe_ending(item: Evidence) -> str:
    """Return the command and how it ended, for people: `` `make test` (E3): exit code 2``."""
    ending = f"exit code {item.exit_code}"
    if item.exit_code is None or item.outcome in UNFINISHED:
        ending = _ENDINGS[item.outcome]
    return f"{code_span(item.command)} ({item.id}): {ending}"


def code_span(command: str) -> str:
    """Return a command as Markdown on one line, between as many backticks as needed."""
    text = one_line(command, _MAX_COMMAND_CHARS)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, blank = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{blank}{text}{blank}{fence}"


class EvidenceLedger:
    """All evidence of one plan, in the order it was taken."""

    def __init__(self, items: Sequence[Evidence] = ()) -> None:
        self.items = tuple(items)

    def of(self, phase: PhaseName, step: int) -> tuple[Evidence, ...]:
        """Return the evidence of this phase in this step."""
        return tuple(item for item in self.items if (item.phase, item.step) == (phase, step))

    def add(self, item: Evidence) -> Evidence:
        """Record `item` with the next id. Without a `tree` it never counts."""
        number = max((int(known.id[1:]) for known in self.items), default=0) + 1
        item = replace(item, id=f"E{number}")
        self.items = (*self.items, item)
        return item

    def stored(self) -> list[dict[str, Any]]:
        """Return the items as JSON objects, for `load`."""
        return [asdict(item) for item in self.items]

    @classmethod
    def load(cls, stored: object) -> "EvidenceLedger":
        """Return the ledger that was stored, without invalid entries."""
        if not isinstance(stored, list | tuple) or not stored:
            return cls()
        from pydantic import TypeAdapter, ValidationError

        adapter, items = TypeAdapter(Evidence), []
        names = {each.name for each in fields(Evidence)}
        for entry in stored:
            if isinstance(entry, Mapping) and entry.keys() == names:
                with suppress(ValidationError):
                    items.append(adapter.validate_json(json.dumps(entry), strict=True))
        return cls([item for item in items if re.fullmatch(r"E[0-9]{1,9}", item.id)])


_COMMANDS = "bash"
_OUTCOMES: dict[str, EvidenceOutcome] = {
    "denied": "denied",
    "suppressed": "denied",
    "timeout": "timeout",
    "aborted": "stopped",
}


@dataclass(frozen=True, slots=True)
class EvidenceCollector:
    """Records the commands of one conversation during one phase."""

    conversation: Conversation
    ledger: EvidenceLedger
    phase: PhaseName
    step: int
    report: Callable[[EvidenceTaken], None]
    writes: ReviewerWrites | None = None
    """While a file of these exists, no command is evidence."""
    _pending: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Each call's command, and the tree it is run on; None until the hook before it has run."""

    def bundle(self) -> Hooks:
        return Hooks(
            name="evidence",
            only_watches=True,
            before_tool_call=self._before,
            after_tool_call=self._after,
        )

    def sink(self, event: LoopEvent) -> None:
        """Record the end of a command, also of one that was not allowed to run."""
        if isinstance(event, ToolExecutionStart) and event.tool_name == _COMMANDS:
            # A plugin may deny it before this collector's hook runs.
            command = event.args.get("command") if isinstance(event.args, Mapping) else None
            if isinstance(command, str) and command.strip():
                self._pending[event.tool_call_id] = (command, None)
        if not isinstance(event, ToolExecutionEnd) or event.deferred:
            return
        command, tree = self._pending.pop(event.tool_call_id, ("", None))
        details = event.result.details
        outcome = str(details.get("outcome", ""))
        if not command or (tree is None and outcome != "denied"):
            return
        if "shell_id" in details:
            return  # A command in the background has no result yet.
        code = details.get("exit_code")
        output = "".join(b.text for b in event.result.content if isinstance(b, TextBlock))
        item = Evidence(
            phase=self.phase,
            step=self.step,
            command=command,
            outcome=_OUTCOMES.get(outcome, "passed" if code == 0 else "failed"),
            exit_code=code if isinstance(code, int) else None,
            output_sha256=hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest(),
            tree=tree or "",
            is_look=self._is_look(command),
        )
        self.report(self.ledger.add(item).event)

    async def _before(self, _info: TurnInfo, call: ToolCall) -> None:
        command = _command_of(call)
        if call.name != _COMMANDS or not command.strip():
            return
        if self.writes is not None:
            await self.writes.begin(call.id, command)
        self._pending[call.id] = (command, await self._tree())

    async def _after(self, _info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        """Forget the tree if the files changed: the command then proves nothing about them."""
        if self.writes is not None:
            await self.writes.end(call.id)
        command, tree = self._pending.get(call.id, ("", ""))
        if tree and await self._tree() != tree:
            self._pending[call.id] = (command, "")

    async def _tree(self) -> str:
        if self.writes is not None and self.writes.are_there:
            return ""
        tree = await read_tree(self.conversation)
        return tree.sha256 if tree is not None else ""

    def _is_look(self, command: str) -> bool:
        try:
            return self.conversation.settings.why(_COMMANDS, command).only_looks
        except DirgeError:
            return True  # An unknown command proves nothing.


def _command_of(call: ToolCall) -> str:
    """Return the command line, with a `cd` to its `workdir`; "" if the call has none."""
    command = call.arguments.get("command")
    if not isinstance(command, str):
        return ""
    if not call.arguments.get("workdir"):
        return command
    resources = (claim.resource for claim in call.claims or ())
    return next((each.text for each in resources if isinstance(each, ShellCommand)), command)
