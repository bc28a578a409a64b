"""The system prompt: sections in a fixed order, the same bytes for the whole of a run.

Providers cache what begins alike, so nothing here may change between turns: the date is a day, git
is asked for its branch only, and whoever builds it does so once per run.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeAlias

from dirge_py.context.counter import estimate_text
from dirge_py.context.prompt_text import prompt_text
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import SystemText

_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the prompt. Lower `priority` stands first; what changes least should.

    `moves`: it is another one on another day, or in another folder.
    """

    name: str
    priority: int
    text: str
    moves: bool = False


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

    `named` is the prompt in use, `named_prompts.as_section`.

    `environment`, `project_files` and `memory` come from `environment.describe_environment`,
    `project_files.as_prompt` and `memory_section.as_section`.
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


def build(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> SystemText:
    """The prompt to send: `edits` applied in turn, empty sections left out."""
    return joined(edited(sections, edits))


def joined(sections: Sequence[Section]) -> SystemText:
    """The text of sections that `edited` put in order; stable as far as none of them moves."""
    texts = [section.text.strip() + _BETWEEN for section in sections]
    stable = takewhile(lambda section: not section.moves, sections)
    chars = sum(len(text) for text, _ in zip(texts, stable, strict=False))
    whole = "".join(texts).removesuffix(_BETWEEN)
    return SystemText(whole, min(chars, len(whole)))


def edited(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> list[Section]:
    """The sections that `build` joins, in order."""
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


def describe(
    sections: Sequence[Section], edits: Sequence[PromptEdit] = ()
) -> list[tuple[str, int]]:
    """Name and estimated tokens of each section that is sent, in order."""
    return [(section.name, estimate_text(section.text)) for section in edited(sections, edits)]


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
