"""What one start asks for besides its settings: which session, which folders, which rules."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dirge_py.context.system_prompt import PromptEdit
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.recovery import Continuation

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.permission.project_trust import ProjectTrust
    from dirge_py.permission.rules import Rule
    from dirge_py.providers.recording import HttpRecording


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoice:
    """Which session to work in. `named` opens or creates; `none` keeps nothing; `view` only shows.

    With `continuation` it is opened only if it still stands where that one left it.
    """

    kind: Literal["new", "newest", "resume", "named", "view", "none"] = "new"
    id: str = ""
    fork: bool = False
    continuation: Continuation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The flags that are no settings. Rules are `op:pattern`, the last two in Claude's spelling.

    `prompt` names one of the prompts that are kept in files. `project` is what the folder brings
    along, as far as it is trusted; None: it is not looked at. `notices` are shown before anything
    else. `prompt_edits` (`before_prompt_build`) see the sections of the system prompt, one after
    the other, and may prepend, append or replace. `record` takes what is said to model services
    and by them.
    """

    session: SessionChoice = SessionChoice()
    add_dirs: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    system_prompt: str | None = None
    prompt: str | None = None
    append_system_prompt: str | None = None
    project: "ProjectTrust | None" = None
    log: bool = False
    notices: tuple[str, ...] = ()
    prompt_edits: tuple[PromptEdit, ...] = ()
    record: "HttpRecording | None" = None

    @property
    def project_rules(self) -> "tuple[Rule, ...]":
        """The rules of a trusted project, which ask or deny. Raises ConfigError."""
        return self.project.rules if self.project is not None else ()


def with_project(
    config: "Config", options: BuildOptions, project: "ProjectTrust"
) -> "tuple[Config, BuildOptions]":
    """Settings and options of a start in this project.

    Raises:
        ConfigError: its trusted settings hold something that a project may not set.
    """
    settings = project.settings
    if settings is not None:
        changed: dict[str, object] = {"reminder": [*config.reminder, *settings.reminder]}
        if settings.ui.theme:
            changed["ui"] = config.ui.model_copy(update={"theme": settings.ui.theme})
        config = config.model_copy(update=changed)
    notices = (*options.notices, *project.notices)
    return config, replace(options, project=project, notices=notices)
