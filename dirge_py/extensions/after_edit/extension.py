"""The `[[after_edit]]` tables: formatters and linters that run after the model has edited a file.

They run like commands of the model: only if the permission rules allow them, in the same sandbox.
What fails or changes the file is added to the result of the edit.
"""

import asyncio
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dirge_py.config.schema import AfterEditTable
from dirge_py.files.walk import IgnoreRules, ignored_by, parse_ignore_file
from dirge_py.lib.paths import is_below
from dirge_py.lib.text import cut_middle
from dirge_py.processes.output import excerpt
from dirge_py.tools.file_edits.diff import diff_of_texts
from dirge_py.types.errors import DirgeError
from dirge_py.types.extensions import Extension, ExtensionHost, RunContext
from dirge_py.types.hooks import AfterToolCallResult, Hooks, TurnInfo
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import LoopToolResult, ToolCall

_MOST_CHARS = 4_000
"""The most characters of one command's output, or of what it changed, in the result."""


class AfterEdit(Extension):
    """Runs the commands of the tables in their order for each file that a call has edited."""

    name = "after_edit"
    summary = "formatters and linters after edits"

    def __init__(self, tables: Sequence[AfterEditTable], host: ExtensionHost) -> None:
        self._tables: list[tuple[AfterEditTable, IgnoreRules]] = []
        for table in tables:
            patterns = [table.match] if isinstance(table.match, str) else table.match
            rules = parse_ignore_file(os.path.realpath(host.cwd), "\n".join(patterns).encode())
            self._tables.append((table, rules))
        self._host = host
        self._noticed: set[str] = set()

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        return [Hooks(name="after_edit", after_tool_call=self._after)]

    def for_fork(self, options: Any) -> None:
        """Return None: a fork may work in another folder, with other permissions."""

    async def _after(
        self, info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        if result.is_error or all(claim.op != "edit" for claim in call.claims or ()):
            return None
        notes = []
        for path in _edited_paths(result.details):
            for table, rules in self._tables:
                if is_below(path, rules.base) and ignored_by([rules], path, is_folder=False):
                    notes += await self._run(table, path, info, f"{call.id}-after")
        if not notes:
            return None
        return AfterToolCallResult(content=(*result.content, TextBlock("\n\n".join(notes))))

    async def _run(
        self, table: AfterEditTable, path: str, info: TurnInfo, call_id: str
    ) -> list[str]:
        """Run one command for one file; return notes for the model."""
        shown = os.path.relpath(path, self._host.cwd)
        # A name that begins with a hyphen must not become an option.
        shown = os.path.join(os.curdir, shown) if shown.startswith("-") else shown
        command = table.command.replace("{path}", shlex.quote(shown))
        before = await asyncio.to_thread(_bytes_of, path)
        if not self._may_run(command, table, call_id):
            return []
        try:
            ended = await self._host.runner.run(
                command,
                cwd=str(self._host.cwd),
                timeout_s=table.timeout_s,
                call_id=call_id,
                signal=info.signal,
            )
        except DirgeError as error:
            return [f"[After the edit, `{command}` could not be started: {error.message}]"]
        notes = []
        if ended.timed_out or ended.exit_code or ended.signal is not None:
            how = f"exit {ended.exit_code}"
            if ended.timed_out:
                how = f"stopped after {table.timeout_s:g} s"
            elif ended.signal is not None:
                how = f"signal {ended.signal}"
            output = cut_middle(excerpt(ended.output).strip(), _MOST_CHARS, "\n[…]\n", tail=0.5)
            notes.append(f"[After the edit, `{command}` failed ({how}).]\n{output}".rstrip())
        after = await asyncio.to_thread(_bytes_of, path)
        if before is not None and after is not None and after != before:
            diff = diff_of_texts(before, after, path=shown).text
            diff = cut_middle(diff, _MOST_CHARS, "\n[…]\n", tail=0.5)
            notes.append(f"[After the edit, `{command}` changed the file:]\n{diff}".rstrip())
            await asyncio.to_thread(self._remember, path)
        return notes

    def _may_run(self, command: str, table: AfterEditTable, call_id: str) -> bool:
        """Whether the rules allow the command; otherwise the user is told once why not."""
        decision = self._host.conversation.settings.why("bash", json.dumps({"command": command}))
        if decision.effect == "allow":
            is_read_only = decision.is_read_only
            self._host.runner.prepare(call_id, {}, frozenset(), is_read_only=is_read_only)
            return True
        if table.command not in self._noticed:
            self._noticed.add(table.command)
            rule = table.command.replace("{path}", "*").strip()
            self._host.notify(
                f"[[after_edit]] `{command}` was not run: {decision.reason}. "
                f"`/allow add execute:{rule}` allows it for this session."
            )
        return False

    def _remember(self, path: str) -> None:
        """Count the new version as read: the model gets the change."""
        try:
            found = self._host.workspace.for_person().read(path)
        except DirgeError:
            return
        self._host.workspace.ledger.remember(found.real, found.identity)


def make(host: ExtensionHost) -> AfterEdit | None:
    """Return the extension; None without `[[after_edit]]` tables."""
    return AfterEdit(host.settings.after_edit, host) if host.settings.after_edit else None


def _edited_paths(details: Mapping[str, Any]) -> list[str]:
    several = details.get("paths")
    named = several if isinstance(several, list | tuple) else [details.get("path")]
    real = [os.path.realpath(path) for path in named if isinstance(path, str)]
    return [path for path in dict.fromkeys(real) if os.path.isfile(path)]


def _bytes_of(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
