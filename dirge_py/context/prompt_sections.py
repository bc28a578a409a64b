"""The sections of the system prompt, in a fixed order: the same bytes for the whole of a run.

Providers cache what begins alike, so nothing here may change between turns: the date is a day, git
is asked for its branch only, and the prompt is built once per run.
"""

import datetime
import os
import platform
import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from dirge_py.context.prompt_text import prompt_text, quote_text
from dirge_py.context.tokens import estimate_text
from dirge_py.files.safe_read import read_regular
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
