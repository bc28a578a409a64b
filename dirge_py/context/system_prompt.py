"""The system prompt of a conversation: read once, put together anew for every run."""

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Protocol

from dirge_py.context.cache_prefix import CachePrefixMonitor
from dirge_py.context.instructions import Instructions, TouchedFolders
from dirge_py.context.project_files import ProjectFiles, format_project_files
from dirge_py.context.prompt_sections import (
    PromptEdit,
    describe_environment,
    describe_sections,
    edit_sections,
    join_sections,
    memory_section,
    standard_sections,
)
from dirge_py.context.prompts import PromptBook, prompt_section
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.extensions import Section

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
