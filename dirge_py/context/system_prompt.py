"""The system prompt of a conversation: its sections, in a fixed order, built anew for every run.

Nothing here may change between turns, because providers cache the common prefix of requests.
"""

import datetime
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import takewhile
from operator import is_
from pathlib import Path
from typing import TypeAlias

from dirge_py.context.instructions import (
    Instructions,
    ProjectFiles,
    TouchedFolders,
    format_project_files,
)
from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.prompts import PromptBook, prompt_section
from dirge_py.context.tokens import estimate_text
from dirge_py.files.workspace import Workspace
from dirge_py.git.repository import read_head
from dirge_py.lib.lazy import late_pattern
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Section, SectionChange
from dirge_py.types.llm import (
    LlmContext,
    StreamEvent,
    StreamFn,
    StreamOptions,
    SystemText,
    ToolSpec,
)
from dirge_py.types.messages import Message

_BETWEEN = "\n\n"
_MOST_TEXTS_KNOWN = 8

PromptEdit: TypeAlias = Callable[[Sequence[Section]], Sequence[Section]]
"""Gets all sections in order and returns those to send: the `before_prompt_build` point."""


def standard_sections(
    *,
    tool_names: Sequence[str],
    environment: str,
    project_files: str = "",
    replacement: str | None = None,
    named: str = "",
    addition: str = "",
) -> list[Section]:
    """Return dirge's own sections; `replacement` stands for identity and way of working."""
    own = {"identity": (0, prompt_text("identity")), "working": (10, prompt_text("working"))}
    texts = {
        **(own if replacement is None else {"custom": (0, replacement)}),
        "tools": (20, tool_guidance(tool_names)),
        "environment": (30, environment),
        "project files": (40, project_files),
        "prompt": (45, named),
        "addition": (50, addition),
    }
    return [
        Section(name=name, priority=priority, text=text, moves=name == "environment")
        for name, (priority, text) in texts.items()
    ]


def change_sections(changes: Sequence[SectionChange]) -> PromptEdit:
    """Return an edit that makes these changes, in the order of their priorities.

    The edit raises UsageError if there is no section of such a name.
    """
    ordered = sorted(changes, key=lambda change: change.priority)

    def edit(sections: Sequence[Section]) -> Sequence[Section]:
        for change in ordered:
            check_section_name(change.section, sections)
        return [part for section in sections for part in _changed(section, ordered)]

    return edit


def check_section_name(name: str, sections: Sequence[Section]) -> None:
    """Raise UsageError, with the names that there are, if no section has this name."""
    names = [section.name for section in sections]
    if name not in names:
        hint = f"There are: {', '.join(dict.fromkeys(names))}."
        raise UsageError(f"the system prompt has no section `{name}`.", hint=hint)


def _changed(section: Section, changes: Sequence[SectionChange]) -> Iterator[Section]:
    """Yield what is in the place of `section` after `changes` (by priority)."""
    ours = [change for change in changes if change.section == section.name]
    instead = next((change for change in ours if change.how in ("replace", "remove")), None)

    def inserted(how: str) -> Iterator[Section]:
        for change in ours:
            if change.how == how:
                name = change.name or section.name
                yield replace(section, name=name, text=change.text, moves=False)

    yield from inserted("before")
    if instead is None:
        yield section
    elif instead.how == "replace":
        yield replace(section, text=instead.text, moves=False)
    yield from inserted("after")


def edit_sections(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> list[Section]:
    """Return the sections to send, in order: `edits` applied in turn, empty sections left out."""
    current = sorted(sections, key=lambda section: section.priority)
    for edit in edits:
        current = list(edit(current))
    return [section for section in current if section.text.strip()]


def join_sections(sections: Sequence[Section]) -> SystemText:
    """Return the text of the sections in order; it is stable up to the first volatile one."""
    texts = [section.text.strip() + _BETWEEN for section in sections]
    stable = takewhile(lambda section: not section.moves, sections)
    chars = sum(len(text) for text, _ in zip(texts, stable, strict=False))
    whole = "".join(texts).removesuffix(_BETWEEN)
    return SystemText(whole, min(chars, len(whole)))


def tool_guidance(tool_names: Sequence[str]) -> str:
    """Return advice for these tools only: models call every tool that the prompt mentions."""
    if not tool_names:
        return ""
    lines = []
    for line in prompt_text("tools").splitlines():
        needed, _, advice = line.partition(": ")
        if needed == "*" or not set(needed.split()).isdisjoint(tool_names):
            lines.append(f"- {advice}")
    return "\n".join(["# Tools", "", *lines])


_BRANCH = late_pattern(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\\\[]{1,200})\n?")
_COMMIT = late_pattern(r"([0-9a-f]{12})[0-9a-f]{28,52}\n?")


def describe_environment(cwd: Path, *, today: datetime.date) -> str:
    """Return lines about this machine and folder that stay true for a run."""
    system = os.uname()
    lines = [
        f"Working directory: {cwd}",
        f"System: {system.sysname} {system.release} ({system.machine})",
        f"Date: {today.isoformat()}",
        f"Git: {git_state(cwd) or 'not a repository'}",
    ]
    return "# Environment\n\n" + "\n".join(lines)


def git_state(folder: Path) -> str | None:
    """Return `branch main`, `detached at 1a2b3c4d5e6f`, `a repository`; None outside of one.

    Read from `.git/HEAD`, because git could run programs that the folder's configuration names
    before the user trusts the folder.
    """
    head = read_head(folder)
    if head is None:
        return None
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    if branch and branch[1].isprintable():
        return f"branch {branch[1]}"
    return f"detached at {commit[1]}" if commit else "a repository"


class SystemPrompt:
    """The system prompt of a conversation, built anew for every run."""

    def __init__(
        self,
        cwd: Path,
        *,
        prompts: PromptBook,
        instructions: Instructions,
        replacement: str | None = None,
        addition: str = "",
        edits: Sequence[PromptEdit] = (),
        sections: Callable[[], Sequence[Section]] = tuple,
    ) -> None:
        """`replacement` replaces identity and way of working, `addition` comes last."""
        self.prompts = prompts
        self.instructions = instructions
        self._replacement = replacement
        self._addition = addition
        self._edits = edits
        self._cwd = cwd
        self._more_sections = sections
        self._sent: dict[str, Mapping[str, str]] = {}
        self.watch = CachePrefixMonitor(lambda text: self._sent.get(text, {}))
        """Compares the beginning of each request with the one before."""

    @property
    def project_files(self) -> ProjectFiles:
        """The instruction files that are sent."""
        return self.instructions.files

    def touched_folders(
        self, notify: Callable[[str], None], workspace: Workspace
    ) -> Callable[[], TouchedFolders]:
        """Return a factory of `TouchedFolders`, one for each conversation."""
        return lambda: TouchedFolders(self.instructions, notify, lambda: workspace.roots)

    def at(self, cwd: Path) -> "SystemPrompt":
        """Return the same prompt for another folder, such as a copy of this one."""
        moved = copy(self)
        moved._cwd = cwd
        return moved

    def text(self, tool_names: Sequence[str]) -> str:
        """Return the text that is sent; the same for all turns of a run."""
        sections = self._sections(tool_names)
        text = join_sections(sections)
        self._sent[text] = {section.name: section.text for section in sections}
        while len(self._sent) > _MOST_TEXTS_KNOWN:
            self._sent.pop(next(iter(self._sent)))
        return text

    def reread(self, tool_names: Sequence[str]) -> str:
        """Return the text with the instruction files as they are now."""
        self.instructions.reread()
        return self.text(tool_names)

    def parts(self, tool_names: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Name and estimated tokens of each section that is sent, in order."""
        sections = self._sections(tool_names)
        return [(section.name, estimate_text(section.text)) for section in sections]

    def _sections(self, tool_names: Sequence[str]) -> list[Section]:
        prompt = self.prompts.current
        allowed = prompt.allow_tools if prompt is not None else None
        standard = standard_sections(
            tool_names=[t for t in tool_names if allowed is None or t.lower() in allowed],
            environment=describe_environment(self._cwd, today=datetime.date.today()),
            project_files=format_project_files(self.project_files.files),
            replacement=self._replacement,
            named=prompt_section(prompt),
            addition=self._addition,
        )
        return edit_sections([*standard, *self._more_sections()], self._edits)


class CachePrefixMonitor:
    """Compares each request of one conversation with the one before, even if that failed.

    Services cache the prefix of a request: tools, system prompt, then message by message.
    `sections_of` returns the sections of a system prompt by name; empty if they are unknown.
    """

    def __init__(self, sections_of: Callable[[str], Mapping[str, str]]) -> None:
        self._sections_of = sections_of
        self._last: tuple[LlmContext, StreamOptions] | None = None
        self._changes: dict[str, None] | None = None

    def around(self, stream_fn: StreamFn) -> StreamFn:
        """Return `stream_fn` with each request compared."""

        def stream(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            last, self._last = self._last, (context, options)
            if last is not None:
                changes = self._between(*last, context, options)
                self._changes = {**(self._changes or {}), **dict.fromkeys(changes)}
            return stream_fn(context, options, signal)

        return stream

    def pop_changes(self) -> tuple[str, ...] | None:
        """Return the changes since the last call; None if there was nothing to compare with."""
        changes, self._changes = self._changes, None
        return None if changes is None else tuple(changes)

    def _between(
        self, before: LlmContext, was: StreamOptions, now: LlmContext, options: StreamOptions
    ) -> Iterator[str]:
        if was.model != options.model:
            yield f"another model, {options.model}"
        if was.thinking_level != options.thinking_level:
            yield f"thinking went from {was.thinking_level} to {options.thinking_level}"
        if was.tool_choice != options.tool_choice:
            yield "which tool must be called changed"
        if was.response_schema != options.response_schema:
            yield "the schema of the answer changed"
        yield from _tool_changes(before.tools, now.tools)
        if before.system_prompt != now.system_prompt:
            old, new = map(self._sections_of, (before.system_prompt, now.system_prompt))
            names = dict.fromkeys((*old, *new)) if old and new else {}
            changed = [name for name in names if old.get(name) != new.get(name)]
            yield f"the system prompt changed{': ' if changed else ''}{', '.join(changed)}"
        yield from _message_changes(before.messages, now.messages)


def _tool_changes(before: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> Iterator[str]:
    if before == now:
        return
    old, new = ({tool.name: tool for tool in tools} for tools in (before, now))
    changes = [f"+{name}" for name in new if name not in old]
    changes += [f"-{name}" for name in old if name not in new]
    changes += [f"{n} is described differently" for n in new if new[n] != old.get(n, new[n])]
    yield f"the tools changed: {', '.join(changes) or 'their order'}"


def _message_changes(before: Sequence[Message], now: Sequence[Message]) -> Iterator[str]:
    at = min(len(before), len(now))
    if not all(map(is_, before, now)):
        pairs = enumerate(zip(before, now, strict=False))
        at = next((at for at, (a, b) in pairs if a is not b and a != b), at)
    if at == len(before):
        return
    if at == len(now):
        yield f"the messages from {at + 1} of {len(before)} on were left out"
    else:
        yield f"message {at + 1} of {len(before)} changed"
