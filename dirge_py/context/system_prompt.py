"""The system prompt of a conversation: read once, put together anew for every run."""

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Protocol

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.context.cache_prefix import CachePrefixMonitor
from dirge_py.context.instructions import Instructions, TouchedFolders
from dirge_py.context.project_files import ProjectFiles, format_project_files
from dirge_py.context.prompt_sections import (
    PromptEdit,
    Section,
    describe_environment,
    describe_sections,
    edit_sections,
    join_sections,
    memory_section,
    standard_sections,
)
from dirge_py.context.prompts import (
    NamedPrompt,
    PromptBook,
    PromptFile,
    prompt_files,
    prompt_section,
    prompts_in_bytes,
)
from dirge_py.extensions.memory.base import MemoryProvider, Remembered
from dirge_py.extensions.memory.providers import open_memory
from dirge_py.files.workspace import Workspace
from dirge_py.sdk.options import BuildOptions
from dirge_py.tools.registry import names
from dirge_py.types.errors import DirgeError

_MOST_TEXTS_KNOWN = 8

_logger = logging.getLogger(__name__)


class SystemPrompt:
    """Its sections, from the settings, the flags, the project's own files and memory."""

    def __init__(
        self,
        config: Config,
        options: BuildOptions,
        cwd: Path,
        edits: Sequence[PromptEdit] = (),
        *,
        memory: MemoryProvider | None = None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`edits` come before those of `options`. Without `memory` it is what the settings say.

        `notify` hears what is wrong with memory, each thing once.

        Raises:
            UsageError: `options` name a prompt that does not exist.
            ConfigError: its file is not as it should be.
        """
        self._options = options
        self.prompts = open_prompts(config, options)
        self.instructions = Instructions(config, options, cwd)
        self._edits = (*edits, *options.prompt_edits)
        self._cwd = cwd
        self._memory = memory or open_memory(config, cwd)
        self._notify = notify
        self._told: set[str] = set()
        self._remembered: Remembered | None = None
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
        return standard_sections(
            tool_names=tool_names,
            environment=describe_environment(self._cwd, today=datetime.date.today()),
            project_files=format_project_files(self.project_files.files),
            memory=memory_section(remembered.project, remembered.user),
            replacement=self._options.system_prompt,
            named=prompt_section(self.prompts.current),
            addition=self._options.append_system_prompt or "",
        )

    def _recalled(self) -> Remembered:
        """What was remembered when the run began; a provider that fails costs no run."""
        if self._memory is None:
            return Remembered()
        remembered = self._remembered
        if remembered is None:
            try:
                remembered = self._memory.prefetch()
            except Exception as error:
                _logger.exception("memory could not be read")
                remembered = Remembered(notices=(f"Memory was not read: {error!r}.",))
            self._remembered = remembered
            for notice in remembered.notices:
                if notice not in self._told:
                    self._told.add(notice)
                    self._notify(notice)
        return remembered


def open_prompts(config: Config, options: BuildOptions) -> PromptBook:
    """The prompts of the user and, where trusted, of the project; that of `options` is in use.

    Of two with one name the user's counts: a project cannot put another in its place.

    Raises:
        UsageError: `options` name a prompt that does not exist.
        ConfigError: its file is not as it should be.
    """
    book = PromptBook(
        [
            *prompt_files(config_dir(config.origin.environment) / "prompts"),
            *_brought(options),
        ],
        known_tools=names(),
    )
    if options.prompt is not None:
        book.choose(options.prompt)
    return book


class DeniesTools(Protocol):
    """A gate, as far as a prompt needs it: tool to who denies it."""

    denied_tools: Mapping[str, str]


def follow_prompt(
    book: PromptBook,
    gate: DeniesTools,
    *,
    stored: object = None,
    note: Callable[[str], None] = lambda name: None,
) -> None:
    """Have `gate` deny what the prompt in use denies, now and after each choice.

    `stored` is the name that the session was left with; a flag goes before it. `note` keeps the
    name of each choice, "" for none. A prompt that is gone is told in the book's notices.
    """
    if book.current is None and isinstance(stored, str) and stored:
        try:
            book.choose(stored)
        except DirgeError as error:
            book.notices.append(f"The session's prompt is not used: {error.message}")
    elif book.current is not None and book.current.name != stored:
        note(book.current.name)

    def changed(prompt: NamedPrompt | None) -> None:
        gate.denied_tools = book.denied_tools
        note(prompt.name if prompt is not None else "")

    gate.denied_tools = book.denied_tools
    book.on_change.append(changed)


def _brought(options: BuildOptions) -> list[PromptFile]:
    if options.project is None:
        return []
    files = options.project.trusted("prompt")
    return prompts_in_bytes(
        {str(options.project.root / path): content for path, content in files.items()}
    )
