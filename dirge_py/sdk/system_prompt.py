"""The system prompt of a start, made from its settings and flags."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.context.instructions import Instructions
from dirge_py.context.prompts import PromptBook, open_prompts
from dirge_py.context.system_prompt import PromptEdit, SystemPrompt
from dirge_py.extensions.memory.extension import Memory
from dirge_py.extensions.memory.store import open_memory
from dirge_py.files.workspace import Workspace
from dirge_py.permission.protected import comparable_name
from dirge_py.permission.settings import open_engine
from dirge_py.sdk.options import BuildOptions
from dirge_py.tools.toolbox import tool_names
from dirge_py.types.extensions import Section

_NEVER_READ = frozenset((".git", ".dirge"))
"""Folders of a repository that hold settings; nothing in them is opened before it is trusted."""


def make_system_prompt(
    config: Config,
    options: BuildOptions,
    cwd: Path,
    *,
    edits: Sequence[PromptEdit] = (),
    sections: Callable[[], Sequence[Section]] | None = None,
    plugin_tools: Sequence[str] = (),
) -> SystemPrompt:
    """The system prompt for work in `cwd`. `edits` come before those of `options`.

    `sections` returns those of extensions; without it there is memory, as the settings say.
    `plugin_tools` are tools that prompts may name besides the built-in ones. Raises UsageError:
    `options` name a prompt that does not exist; ConfigError: its file is invalid.
    """
    if sections is None:
        memory = open_memory(config, cwd)
        sections = Memory(memory).prompt_sections if memory else tuple
    return SystemPrompt(
        cwd,
        prompts=make_prompt_book(config, options, plugin_tools),
        instructions=Instructions(
            cwd,
            config_dir=config_dir(config.origin.environment),
            guard=partial(_guard_reads, config, options),
            home=Path((config.origin.environment or os.environ).get("HOME") or Path.home()),
            is_on=config.context.project_files,
            is_declined=options.project is not None and options.project.state == "restricted",
            max_bytes=config.context.project_file_max_bytes,
        ),
        replacement=options.system_prompt,
        addition=options.append_system_prompt or "",
        edits=(*edits, *options.prompt_edits),
        sections=sections,
    )


def make_prompt_book(
    config: Config, options: BuildOptions, plugin_tools: Sequence[str] = ()
) -> PromptBook:
    """The prompts of the person and, if trusted, of the project; that of `options` is selected.

    They may name built-in tools and `plugin_tools`.
    Raises UsageError: the selected one does not exist; ConfigError: its file is invalid.
    """
    project = options.project
    brought = project.trusted("prompt") if project is not None else {}
    root = project.root if project is not None else Path()
    return open_prompts(
        config_dir(config.origin.environment) / "prompts",
        of_project={str(root / path): content for path, content in brought.items()},
        known_tools=[*tool_names(), *plugin_tools],
        chosen=options.prompt,
    )


@contextlib.contextmanager
def _guard_reads(
    config: Config, options: BuildOptions, root: Path
) -> Iterator[Callable[[str], bool]]:
    """Yield a check whether a physical path must not be read without a question.

    It uses an engine of its own, with the whole repository and the person's settings folder as the
    workspace, which is made for the first path that needs it.
    """
    own = Path(os.path.realpath(config_dir(config.origin.environment)))
    with contextlib.ExitStack() as stack:

        @cache
        def judge() -> Callable[[str], bool]:
            roots = [root, own] if own.is_dir() else [root]
            workspace = Workspace(roots, root)
            stack.callback(workspace.close)
            gate = open_engine(config, options, workspace, None)
            gate.mode = "standard"
            return gate.withholds

        def withholds(real: str) -> bool:
            parts = os.path.relpath(real, root).split("/")
            is_closed = not _NEVER_READ.isdisjoint(map(comparable_name, parts))
            return is_closed or judge()(real)

        yield withholds
