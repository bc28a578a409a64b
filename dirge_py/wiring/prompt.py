"""The system prompt of a conversation: read once, put together anew for every run."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.context.environment import describe_environment
from dirge_py.context.project_files import ProjectFiles, as_prompt, find_project_files
from dirge_py.context.system_prompt import PromptEdit, Section, build, describe, standard_sections
from dirge_py.wiring.options import BuildOptions


class SystemPrompt:
    """Its sections, from the settings, the flags and the project's own files."""

    def __init__(
        self, config: Config, options: BuildOptions, cwd: Path, edits: Sequence[PromptEdit] = ()
    ) -> None:
        """`edits` come before those of `options`."""
        self._options = options
        self._edits = (*edits, *options.prompt_edits)
        self._cwd = cwd
        self.project_files = _project_files(config, cwd)

    def text(self, tool_names: Sequence[str]) -> str:
        """What is sent. The same from one call to the next on the same day and branch."""
        return build(self._sections(tool_names), self._edits)

    def parts(self, tool_names: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Name and estimated tokens of each section that is sent."""
        return describe(self._sections(tool_names), self._edits)

    def _sections(self, tool_names: Sequence[str]) -> list[Section]:
        return standard_sections(
            tool_names=tool_names,
            environment=describe_environment(self._cwd, today=datetime.date.today()),
            project_files=as_prompt(self.project_files.files),
            replacement=self._options.system_prompt,
            addition=self._options.append_system_prompt or "",
        )


def _project_files(config: Config, cwd: Path) -> ProjectFiles:
    if not config.context.project_files:
        return ProjectFiles()
    return find_project_files(
        cwd,
        config_dir=config_dir(config.origin.environment),
        max_bytes=config.context.project_file_max_bytes,
    )
