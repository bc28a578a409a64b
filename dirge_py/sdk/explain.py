"""Decisions about calls that don't run: `/why` and `dirge why` ask the real engine."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dirge_py.config.schema import Config
from dirge_py.context.prompts import follow_prompt
from dirge_py.extensions.memory.store import open_memory
from dirge_py.extensions.web.extension import web_access
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.decision import Decision
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.project_trust import inspect_project
from dirge_py.permission.settings import open_engine
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner, Shells
from dirge_py.sdk.environment import would_be_sandboxed
from dirge_py.sdk.options import BuildOptions, with_project
from dirge_py.sdk.system_prompt import make_prompt_book
from dirge_py.tools.base import ToolServices
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Asks the permission engine about calls without running them."""

    gate: PermissionEngine
    """The permission engine."""
    toolbox: Toolbox
    """Names the claims of calls."""
    workspace: Workspace
    """The files."""
    cwd: str
    """The working folder."""

    def decide(self, tool: str, given: str | Mapping[str, Any]) -> Decision:
        """The decision about a call. A string beginning with `{` is JSON, else the first argument.

        Raises UsageError: no such tool, or the input does not fit it.
        """
        if isinstance(given, str) and given.lstrip().startswith("{"):
            # `{ echo hi; }` begins like an object too, and is a command.
            with suppress(ValueError):
                given = json.loads(given)
        claims = self.toolbox.claims(tool, given)
        return self.gate.decide(claims, self.cwd, tool=tool)

    def close(self) -> None:
        self.workspace.close()


async def _nobody(questions: Sequence[Question]) -> None:
    """Fail: nothing is run, so nothing asks."""


def open_explainer(config: Config, options: BuildOptions, *, cwd: str) -> Explainer:
    """An explainer that needs no provider, key, network or session, and writes nothing."""
    folder = Path(os.path.abspath(cwd))
    workspace = Workspace([folder, *options.add_dirs], folder)
    config, options = with_project(config, options, inspect_project(folder))
    gate = open_engine(
        config,
        options,
        workspace,
        None,
        is_sandboxed=would_be_sandboxed(config),
    )
    follow_prompt(make_prompt_book(config, options), gate)
    runner = Runner(EnvironmentPolicy())
    services = ToolServices(
        files=workspace,
        processes=runner,
        shells=Shells(runner),
        todo=TodoList(),
        web=web_access(config, lambda key: None),
        ask=_nobody,
        memory=open_memory(config, folder),
    )
    toolbox = Toolbox(discover_tools(), services, str(folder))
    return Explainer(gate=gate, toolbox=toolbox, workspace=workspace, cwd=str(folder))
