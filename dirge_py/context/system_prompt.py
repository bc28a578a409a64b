"""The system prompt of a conversation: read once, put together anew for every run.

The sections of the system prompt, in a fixed order: the same bytes for the whole of a run.

Providers cache what begins alike, so nothing here may change between turns: the date is a day, git
is asked for its branch only, and the prompt is built once per run.
"""

import datetime
import logging
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import takewhile
from pathlib import Path
from typing import Protocol, TypeAlias

from dirge_py.context.cache_prefix import CachePrefixMonitor
from dirge_py.context.instructions import (
    Instructions,
    ProjectFiles,
    TouchedFolders,
    format_project_files,
)
from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.context.prompts import PromptBook, prompt_section
from dirge_py.context.tokens import estimate_text
from dirge_py.files.safe_read import read_regular
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.extensions import Section
from dirge_py.types.llm import SystemText

_BETWEEN = "\n\n"


PromptEdit: TypeAlias = Callable[[Sequence[Section]], Sequence[Section]]
"""Sees all sections in order and returns those to send: the `before_prompt_build` point."""


def standard_sections(
    *,
    tool_names: Sequence[str],
    environment: str,
    project_files: str = "",
    memory: str = "",
    replacement: str | None = None,
    named: str = "",
    addition: str = "",
) -> list[Section]:
    """The usual prompt. `replacement` stands for identity and way of working; `addition` is last.

    `named` is the prompt in use, `prompts.prompt_section`.

    `environment`, `project_files` and `memory` come from `describe_environment`,
    `format_project_files` and `memory_section`.
    """
    if replacement is None:
        own = [
            Section(name="identity", priority=0, text=prompt_text("identity")),
            Section(name="working", priority=10, text=prompt_text("working")),
        ]
    else:
        own = [Section(name="custom", priority=0, text=replacement)]
    return [
        *own,
        Section(name="tools", priority=20, text=tool_guidance(tool_names)),
        Section(name="environment", priority=30, text=environment, moves=True),
        Section(name="project files", priority=40, text=project_files),
        Section(name="memory", priority=42, text=memory),
        Section(name="prompt", priority=45, text=named),
        Section(name="addition", priority=50, text=addition),
    ]


def build_prompt(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> SystemText:
    """The prompt to send: `edits` applied in turn, empty sections left out."""
    return join_sections(edit_sections(sections, edits))


def join_sections(sections: Sequence[Section]) -> SystemText:
    """The text of sections in the order of `edit_sections`; stable up to the first that moves."""
    texts = [section.text.strip() + _BETWEEN for section in sections]
    stable = takewhile(lambda section: not section.moves, sections)
    chars = sum(len(text) for text, _ in zip(texts, stable, strict=False))
    whole = "".join(texts).removesuffix(_BETWEEN)
    return SystemText(whole, min(chars, len(whole)))


def edit_sections(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> list[Section]:
    """The sections that `build_prompt` joins, in order."""
    current = sorted(sections, key=lambda section: section.priority)
    for edit in edits:
        current = list(edit(current))
    return [section for section in current if section.text.strip()]


def prepend(name: str, text: str) -> PromptEdit:
    """An edit that puts a section before all others."""
    return lambda sections: [Section(name=name, priority=0, text=text), *sections]


def append(name: str, text: str) -> PromptEdit:
    """An edit that puts a section after all others."""
    return lambda sections: [*sections, Section(name=name, priority=100, text=text)]


def override(name: str, text: str) -> PromptEdit:
    """An edit that replaces the whole prompt."""
    return lambda _: [Section(name=name, priority=0, text=text)]


def describe_sections(
    sections: Sequence[Section], edits: Sequence[PromptEdit] = ()
) -> list[tuple[str, int]]:
    """Name and estimated tokens of each section that is sent, in order."""
    return [
        (section.name, estimate_text(section.text)) for section in edit_sections(sections, edits)
    ]


def tool_guidance(tool_names: Sequence[str]) -> str:
    """How to use the tools there are. Advice about a tool that is not there would be called."""
    if not tool_names:
        return ""
    lines = []
    for line in prompt_text("tools").splitlines():
        needed, _, advice = line.partition(": ")
        if needed == "*" or not set(needed.split()).isdisjoint(tool_names):
            lines.append(f"- {advice}")
    return "\n".join(["# Tools", "", *lines])


_MAX_BYTES = 4096
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\\\[]{1,200})\n?")
_COMMIT = re.compile(r"([0-9a-f]{12})[0-9a-f]{28,52}\n?")


def describe_environment(cwd: Path, *, today: datetime.date) -> str:
    """Lines about this machine and folder that stay true for a run."""
    git = git_state(cwd)
    lines = [
        f"Working directory: {cwd}",
        f"System: {platform.system()} {platform.release()} ({platform.machine()})",
        f"Date: {today.isoformat()}",
        f"Git: {git}" if git else "Git: not a repository",
    ]
    return "# Environment\n\n" + "\n".join(lines)


def git_state(folder: Path) -> str | None:
    """`branch main`, `detached at 1a2b3c4d5e6f`, `a repository`; None outside of one.

    Read from `.git/HEAD` by hand: running git in a folder runs what the folder's own configuration
    says, and nobody has trusted it yet.
    """
    git = next((path for path in _git_paths(folder) if os.path.lexists(path)), None)
    if git is None:
        return None
    head = _small_text(_git_folder(git) / "HEAD") or ""
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch[1]}" if branch[1].isprintable() else "a repository"
    if commit := _COMMIT.fullmatch(head):
        return f"detached at {commit[1]}"
    return "a repository"


def _git_paths(folder: Path) -> list[Path]:
    return [parent / ".git" for parent in (folder, *folder.parents)]


def _git_folder(git: Path) -> Path:
    """The folder that holds HEAD; in a worktree or submodule `.git` is a file that names it."""
    text = _small_text(git)
    if text is None or not text.startswith("gitdir: "):
        return git
    return git.parent / text.removeprefix("gitdir: ").strip()


def _small_text(path: Path) -> str | None:
    """The text of a small regular file, else None."""
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def memory_section(project: str, user: str) -> str:
    """The section for what both stores say; empty where neither says anything."""
    parts = [
        quote_text(title, text.strip())
        for title, text in (
            ("USER.md, about the person", user),
            ("MEMORY.md, about this project", project),
        )
        if text.strip()
    ]
    return "\n\n".join([prompt_text("memory"), *parts]) if parts else ""


_MOST_TEXTS_KNOWN = 8
_logger = logging.getLogger(__name__)


class RememberedTexts(Protocol):
    """What memory says to one run."""

    @property
    def project(self) -> str:
        """What is remembered of the project."""

    @property
    def user(self) -> str:
        """What is remembered of the person."""

    @property
    def notices(self) -> Sequence[str]:
        """What is wrong with memory, for the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NothingRemembered:
    project: str = ""
    user: str = ""
    notices: tuple[str, ...] = ()


class SystemPrompt:
    """The system prompt of a conversation: its sections, put together anew for every run."""

    def __init__(
        self,
        cwd: Path,
        *,
        prompts: PromptBook,
        instructions: Instructions,
        replacement: str | None = None,
        addition: str = "",
        edits: Sequence[PromptEdit] = (),
        recall: Callable[[], RememberedTexts] | None = None,
        sections: Callable[[], Sequence[Section]] = tuple,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`replacement` stands for identity and way of working, `addition` comes last.

        `recall` reads memory when a run begins; None: there is none. `sections` gives those of
        extensions, read with it. `notify` gets what is wrong
        with memory, each thing once.
        """
        self.prompts = prompts
        self.instructions = instructions
        self._replacement = replacement
        self._addition = addition
        self._edits = edits
        self._cwd = cwd
        self._recall = recall
        self._notify = notify
        self._more_sections = sections
        self._notified: set[str] = set()
        self._remembered: RememberedTexts | None = None
        self._sent: dict[str, Mapping[str, str]] = {}
        self.watch = CachePrefixMonitor(self.sections_of)
        """What changes at the beginning of the requests that are made with it."""

    @property
    def project_files(self) -> ProjectFiles:
        """Those that are sent."""
        return self.instructions.files

    def touched_folders(
        self, notify: Callable[[str], None], workspace: Workspace
    ) -> Callable[[], TouchedFolders]:
        """Makes what tells one conversation of the instruction files of folders it touches."""
        return lambda: TouchedFolders(self.instructions, notify, lambda: workspace.roots)

    def at(self, cwd: Path) -> "SystemPrompt":
        """The same for work in another folder, such as a copy of this one."""
        moved = copy(self)
        moved._cwd = cwd
        return moved

    def begin_run(self) -> None:
        """Let the text that is asked for next say what is remembered then, for the whole run."""
        self._remembered = None

    def text(self, tool_names: Sequence[str]) -> str:
        """What is sent. The same from one call to the next in a run, on the same day and branch."""
        sections = edit_sections(self._sections(tool_names), self._edits)
        text = join_sections(sections)
        self._sent[text] = {section.name: section.text for section in sections}
        while len(self._sent) > _MOST_TEXTS_KNOWN:
            self._sent.pop(next(iter(self._sent)))
        return text

    def sections_of(self, text: str) -> Mapping[str, str]:
        """The sections by name of a text that `text` returned not long ago; else none."""
        return self._sent.get(text, {})

    def reread(self, tool_names: Sequence[str]) -> str:
        """The text, with the project's files as they are now: they hold from here on.

        What is remembered stays as it was when the run began.
        """
        self.instructions.reread()
        return self.text(tool_names)

    def parts(self, tool_names: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Name and estimated tokens of each section that is sent."""
        return describe_sections(self._sections(tool_names), self._edits)

    def _sections(self, tool_names: Sequence[str]) -> list[Section]:
        remembered = self._recalled()
        standard = standard_sections(
            tool_names=tool_names,
            environment=describe_environment(self._cwd, today=datetime.date.today()),
            project_files=format_project_files(self.project_files.files),
            memory=memory_section(remembered.project, remembered.user),
            replacement=self._replacement,
            named=prompt_section(self.prompts.current),
            addition=self._addition,
        )
        return [*standard, *self._more_sections()]

    def _recalled(self) -> RememberedTexts:
        """What was remembered when the run began; memory that cannot be read costs no run."""
        if self._recall is None:
            return _NothingRemembered()
        remembered = self._remembered
        if remembered is None:
            try:
                remembered = self._recall()
            except Exception as error:
                _logger.exception("memory could not be read")
                remembered = _NothingRemembered(notices=(f"Memory was not read: {error!r}.",))
            self._remembered = remembered
            for notice in remembered.notices:
                if notice not in self._notified:
                    self._notified.add(notice)
                    self._notify(notice)
        return remembered
