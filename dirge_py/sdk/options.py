"""The options of a start besides its settings, and notices about the model it uses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dirge_py.config.access import has_access, naming_variable
from dirge_py.config.models import main_model
from dirge_py.config.schema import Config, entry_of
from dirge_py.config.services import SERVICE_OF, SERVICES
from dirge_py.context.system_prompt import PromptEdit
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ConfigError
from dirge_py.types.sampling import Sampling

if TYPE_CHECKING:
    from dirge_py.permission.project_trust import ProjectTrust
    from dirge_py.permission.rules import Rule
    from dirge_py.providers.recording import HttpRecording
    from dirge_py.session.recovery import Continuation


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoice:
    """The session to work in."""

    kind: Literal["new", "newest", "resume", "named", "view", "none"] = "new"
    """`named` opens or creates it, `view` only shows it, `none` stores nothing."""
    id: str = ""
    """Its id or name, for `resume`, `named` and `view`."""
    fork: bool = False
    """Whether to continue in a copy of it."""
    continuation: "Continuation | None" = None
    """Open it only if it is still as this continuation left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The flags that are not settings."""

    session: SessionChoice = SessionChoice()
    """The session to work in."""
    add_dirs: tuple[str, ...] = ()
    """Further folders of the workspace."""
    allow: tuple[str, ...] = ()
    """Rules of calls that need no question, as `op:pattern`."""
    deny: tuple[str, ...] = ()
    """Rules of calls that never run, as `op:pattern`."""
    allowed_tools: tuple[str, ...] = ()
    """Rules that allow, in the notation of Claude Code."""
    disallowed_tools: tuple[str, ...] = ()
    """Rules that deny, in the notation of Claude Code."""
    system_prompt: str | None = None
    """Replaces the parts of the system prompt about identity and way of working."""
    prompt: str | None = None
    """The name of a prompt that is stored in a file."""
    append_system_prompt: str | None = None
    """Text after the system prompt."""
    project: "ProjectTrust | None" = None
    """The trusted part of the project's own settings and plugins; None: they are not read."""
    log: bool = False
    """Whether to write a log file."""
    notices: tuple[str, ...] = ()
    """Messages for the person, before all others."""
    prompt_edits: tuple[PromptEdit, ...] = ()
    """Edits of the system prompt's sections, one after the other (`before_prompt_build`)."""
    sampling: Sampling = Sampling()
    """How the models choose their words; replaces what the settings say."""
    record: "HttpRecording | None" = None
    """Records or replays the requests to model services."""

    @property
    def project_rules(self) -> "tuple[Rule, ...]":
        """The rules of a trusted project, which ask or deny. Raises ConfigError."""
        return self.project.rules if self.project is not None else ()


def with_project(
    config: Config, options: BuildOptions, project: "ProjectTrust"
) -> tuple[Config, BuildOptions]:
    """Settings and options of a start in this project.

    Raises ConfigError: its trusted settings hold something that a project may not set.
    """
    settings = project.settings
    if settings is not None:
        changed: dict[str, Any] = {"reminder": [*config.reminder, *settings.reminder]}
        if settings.ui.theme:
            changed["ui"] = replace(config.ui, theme=settings.ui.theme)
        config = replace(config, **changed)
    notices = (*options.notices, *project.notices)
    return config, replace(options, project=project, notices=notices)


_MOST_NAMED = 3


def choice_notices(config: Config, session: SessionChoice) -> Sequence[str]:
    """Return notices about a model that no setting names; none for a session that has a model."""
    if session.kind in ("newest", "resume", "view"):
        return ()
    try:
        choice = main_model(config)
    except ConfigError:
        return ()
    notices = []
    entry = entry_of(config, choice.alias)
    found = (config.origin.found or {}).get(entry.type)
    if found is not None and entry.base_url is None:
        is_only = not config.providers and not config.origin.chosen.source
        why = ", because nothing is configured and no API key is set" if is_only else ""
        label = SERVICE_OF[found.type].label
        notices.append(
            f"Using {choice.id} from {label} at {found.base_url}{why}. "
            "`dirge config init` sets up another model."
        )
    if choice.because and choice.alias not in config.providers:
        # Several services may have keys, and no setting chooses one.
        chosen = naming_variable(config, SERVICE_OF[choice.alias])
        usable = (service for service in SERVICES if has_access(config, service.type))
        names = dict.fromkeys(naming_variable(config, service) for service in usable)
        others = [name for name in names if name not in ("", chosen)]
        if chosen and others:
            named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
            verb = "is" if len(others) == 1 else "are"
            notices.append(
                f"Using {choice.name}, because {chosen} is set; so {verb} {named}. "
                "`-m`, or `provider` in the settings, chooses another."
            )
    return notices
