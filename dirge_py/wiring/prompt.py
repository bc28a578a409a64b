"""The system prompt of a conversation: read once, put together anew for every run."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.context.environment import describe_environment
from dirge_py.context.named_prompts import (
    NamedPrompt,
    PromptBook,
    PromptFile,
    as_section,
    prompt_files,
    prompts_in_bytes,
)
from dirge_py.context.project_files import ProjectFiles, as_prompt, find_project_files
from dirge_py.context.system_prompt import PromptEdit, Section, build, describe, standard_sections
from dirge_py.errors import DirgeError
from dirge_py.tools.registry import names
from dirge_py.wiring.options import BuildOptions


class SystemPrompt:
    """Its sections, from the settings, the flags and the project's own files."""

    def __init__(
        self, config: Config, options: BuildOptions, cwd: Path, edits: Sequence[PromptEdit] = ()
    ) -> None:
        """`edits` come before those of `options`.

        Raises:
            UsageError: `options` name a prompt that does not exist.
            ConfigError: its file is not as it should be.
        """
        self._config = config
        self._options = options
        self.prompts = open_prompts(config, options)
        self._edits = (*edits, *options.prompt_edits)
        self._cwd = cwd
        self.project_files = _project_files(config, cwd)

    def text(self, tool_names: Sequence[str]) -> str:
        """What is sent. The same from one call to the next on the same day and branch."""
        return build(self._sections(tool_names), self._edits)

    def reread(self, tool_names: Sequence[str]) -> str:
        """The text, with the project's files as they are now: they hold from here on."""
        self.project_files = _project_files(self._config, self._cwd)
        return self.text(tool_names)

    def parts(self, tool_names: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Name and estimated tokens of each section that is sent."""
        return describe(self._sections(tool_names), self._edits)

    def _sections(self, tool_names: Sequence[str]) -> list[Section]:
        return standard_sections(
            tool_names=tool_names,
            environment=describe_environment(self._cwd, today=datetime.date.today()),
            project_files=as_prompt(self.project_files.files),
            replacement=self._options.system_prompt,
            named=as_section(self.prompts.current),
            addition=self._options.append_system_prompt or "",
        )


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


def _project_files(config: Config, cwd: Path) -> ProjectFiles:
    if not config.context.project_files:
        return ProjectFiles()
    return find_project_files(
        cwd,
        config_dir=config_dir(config.origin.environment),
        max_bytes=config.context.project_file_max_bytes,
    )
