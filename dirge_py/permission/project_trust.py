"""The trust gate: what a project brings along is neither parsed nor run before a person agreed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.lib.clean import visible
from dirge_py.lib.late import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.project_files import Refused, read_acting
from dirge_py.permission.rules import Rule, make_rule
from dirge_py.permission.trust import (
    FOLDER,
    SETTINGS,
    Brought,
    TrustRecord,
    digest_of,
    is_answered,
    judged,
    kind_of,
    why_never,
)
from dirge_py.permission.trust_store import TrustDamaged, TrustFile
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.errors import ConfigError, DirgeError, FileError
from dirge_py.types.questions import ActingFile, TrustOffer

if TYPE_CHECKING:
    from dirge_py.config.project import ProjectConfig, read_project_config
else:
    read_project_config = late("dirge_py.config.project", "read_project_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder and what it brings along, as it was when it was looked at.

    `state`: `none`, nothing would act; `trusted`, all of it was agreed to; `restricted`, something
    was not, and is not loaded. Files that were trusted before and are unchanged are loaded in
    either case. `files` are all that would act, with a state each; `refused` is never loaded.
    `offer` is what a person should be asked now: None if there is nothing to ask, because all is
    trusted, because they said no to just this, or because it cannot be trusted (`obstacle`).
    `digest` stands for all of `files`.
    """

    root: Path
    state: Literal["none", "restricted", "trusted"] = "none"
    files: tuple[ActingFile, ...] = ()
    refused: tuple[Refused, ...] = ()
    digest: str = ""
    offer: TrustOffer | None = None
    obstacle: str = ""
    device: int = 0
    inode: int = 0
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> "ProjectConfig | None":
        """What its `config.toml` sets, if that is there and trusted.

        Raises:
            ConfigError: it holds something that a project may not set.
        """
        content = self.trusted("settings").get(SETTINGS)
        if content is None:
            return None
        return read_project_config(content, visible(str(self.root / SETTINGS)))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules, which ask or deny. Raises ConfigError."""
        settings = self.settings
        source = visible(str(self.root / SETTINGS))
        return tuple(
            make_rule(rule.op, rule.match, rule.effect, source=source, error=ConfigError)
            for rule in (settings.permission.rule if settings else ())
        )

    @property
    def theme(self) -> str:
        """The theme that its settings name; "" if none. Raises ConfigError."""
        settings = self.settings
        return (settings.ui.theme or "") if settings else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know before they begin: at most one line for each thing wrong."""
        if self.state == "none":
            return ()
        told = [
            f"{visible(refused.path)} of this project is never loaded: {refused.reason}."
            for refused in self.refused[:_MOST_TOLD]
        ]
        if self.obstacle:
            return (*told, f"{FOLDER} of this project is not loaded: {self.obstacle}.")
        waiting = sum(file.state != "trusted" for file in self.files)
        if waiting:
            count = f"{waiting} file{'s' if waiting > 1 else ''} in {FOLDER}"
            verb = "are" if waiting > 1 else "is"
            told.append(
                f"{count} of this project {verb} not trusted and not loaded; "
                "`dirge trust --show` lists what is there."
            )
        if not self._are_plugins_whole and any(file.kind == "plugin" for file in self.files):
            told.append("None of its plugins is loaded: one could use what is not trusted.")
        return tuple(told)

    @property
    def _are_plugins_whole(self) -> bool:
        """Whether all that a plugin may find beside it was agreed to, and is as it was then."""
        found = [file.state == "trusted" for file in self.files if file.kind == "plugin"]
        return all(found) and not any(kind_of(each.path) == "plugin" for each in self.refused)

    def trusted(self, kind: str) -> Mapping[str, bytes]:
        """The bytes of its trusted files of this kind, by path; the very bytes that were hashed.

        Of plugins all or none.
        """
        if kind == "plugin" and not self._are_plugins_whole:
            return {}
        return {
            file.path: self.contents[file.path]
            for file in self.files
            if file.state == "trusted" and file.kind == kind
        }


_MOST_TOLD = 5


def project_root(start: Path, home: Path) -> Path:
    """The folder whose `.dirge` counts: the nearest upwards with `.git`, else `start` itself.

    Whether there is a `.git` is all that is asked; nothing in it is read. A repository at the home
    folder or above it holds somebody's settings and is no project.
    """
    real = Path(os.path.realpath(start))
    for folder in (real, *real.parents):
        if why_never(folder, home):
            break
        if os.path.lexists(folder / ".git"):
            return folder
    return real


def look_at_project(cwd: Path, environment: Mapping[str, str] = os.environ) -> Project:
    """The project around `cwd`: its acting files read and hashed, none of them parsed or run."""
    home = _home(environment)
    root = project_root(cwd, home)
    try:
        luggage = read_acting(root)
    except OSError as error:
        # A folder that cannot be opened has nothing to load; working in it fails soon enough.
        return Project(root=root, obstacle=error.strerror or "it cannot be opened")
    if not (luggage.files or luggage.refused or luggage.too_much):
        return Project(root=root)
    obstacle = luggage.too_much or why_never(root, home)
    record = None
    if not obstacle:
        try:
            record = TrustFile(state_dir(environment)).record(root)
        except TrustDamaged as error:
            obstacle = error.message.removesuffix(".")
    whole = Project(
        root=root,
        obstacle=obstacle,
        refused=luggage.refused,
        device=luggage.device,
        inode=luggage.inode,
        contents={file.path: file.content for file in luggage.files},
        environment=environment,
    )
    return _judged(whole, luggage.files, record)


def accept(project: Project) -> Project:
    """Trust exactly what was looked at; returns the project as it is from now on.

    Raises:
        DirgeError: it cannot be trusted, or that cannot be kept.
        ConfigError: its settings hold something that a project may not set. Nothing is kept then.
    """
    if project.obstacle:
        raise DirgeError(f"{project.root} cannot be trusted: {project.obstacle}.")
    record = TrustRecord(
        device=project.device,
        inode=project.inode,
        accepted={file.path: file.sha256 for file in project.files},
    )
    trusted = _judged(project, _brought(project), record)
    # Judged by what it says before it is kept: a start that fails should not fail again unasked.
    _ = trusted.rules
    TrustFile(state_dir(project.environment)).put(project.root, record)
    return trusted


def decline(project: Project) -> Project:
    """Remember a no to what is offered now, until one of its files changes."""
    record = TrustRecord(
        device=project.device,
        inode=project.inode,
        accepted={file.path: file.sha256 for file in project.files if file.state == "trusted"},
        declined={file.path: file.sha256 for file in project.files if file.state != "trusted"},
    )
    # Where that cannot be kept, the next start asks again: no reason not to begin this one.
    with suppress(FileError):
        TrustFile(state_dir(project.environment)).put(project.root, record)
    return replace(project, offer=None)


def forget(project: Project) -> None:
    """Take back all that was said about this folder."""
    TrustFile(state_dir(project.environment)).put(project.root, None)


def with_project(
    config: Config, options: BuildOptions, project: Project
) -> tuple[Config, BuildOptions]:
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


class ProjectDoor:
    """The project of one process: looked at once, asked about once."""

    def __init__(self, cwd: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._cwd = cwd
        self._environment = environment
        self._project: Project | None = None

    @property
    def project(self) -> Project:
        if self._project is None:
            self._project = look_at_project(self._cwd, self._environment)
        return self._project

    @property
    def offer(self) -> TrustOffer | None:
        """What a person should be asked before anything is opened; None: nothing."""
        return self.project.offer

    @property
    def theme(self) -> str:
        return self.project.theme

    def answer(self, *, is_trusted: bool) -> None:
        """Take a person's answer. Raises as `accept`; until then nothing is trusted."""
        project = self.project
        self._project = replace(project, offer=None)
        self._project = accept(project) if is_trusted else decline(project)


def _judged(project: Project, brought: Sequence[Brought], record: TrustRecord | None) -> Project:
    at = {"device": project.device, "inode": project.inode}
    files = judged(brought, record, **at)
    waiting = tuple(file for file in files if file.state != "trusted")
    is_open = bool(waiting) and not is_answered(waiting, record, **at) and not project.obstacle
    is_trusted = bool(files) and not waiting and not project.obstacle
    offer = TrustOffer(
        project=str(project.root),
        files=waiting,
        digest=digest_of((file.path, file.sha256) for file in waiting),
    )
    return replace(
        project,
        state="trusted" if is_trusted else "restricted",
        files=files,
        digest=digest_of((file.path, file.sha256) for file in files),
        offer=offer if is_open else None,
    )


def _brought(project: Project) -> tuple[Brought, ...]:
    return tuple(
        Brought(path=file.path, content=project.contents[file.path], sha256=file.sha256)
        for file in project.files
    )


def _home(environment: Mapping[str, str]) -> Path:
    return Path(os.path.realpath(environment.get("HOME") or os.path.expanduser("~")))
