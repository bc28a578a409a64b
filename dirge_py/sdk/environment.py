"""The machine as one conversation may use it: its folders, its processes, its way to the web.

What commands are shut into, from the settings: `[sandbox]` and `--sandbox`.

Which of the built-in tools a conversation offers.

The tools of a conversation, and what they work with.

What one conversation has of its own: its session, folders, gate, todo list and tools.
"""

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.context.prompts import follow_prompt
from dirge_py.context.system_prompt import SystemPrompt
from dirge_py.conversation.deps import EventForwarder
from dirge_py.conversation.durable import DurableContext, Engine, open_durable
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.memory.extension import Memory
from dirge_py.extensions.plugins.extension import wanted_tools
from dirge_py.extensions.web.extension import Web, search_key_variables
from dirge_py.files.assets import AssetStore
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode
from dirge_py.permission.settings import key_variables, open_engine
from dirge_py.processes.environment import EnvironmentPolicy, block_inspection
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox, SandboxProfile
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.processes.shells import Shells, farewell
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.sdk.sessions import open_journal, viewed
from dirge_py.session.history import LoadedSession
from dirge_py.session.metadata import SessionMetadata
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.tools.base import Redact, Tool, ToolLimits, ToolServices
from dirge_py.tools.registry import discover_tools, tool_names
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import SystemNotice
from dirge_py.types.questions import Asker, SupportsForms
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.processes.sandbox.probe import find_sandbox
    from dirge_py.processes.sandbox.proxy import HostList
    from dirge_py.tools.syntax_check import check_syntax
else:
    HostList = late("dirge_py.processes.sandbox.proxy", "HostList")
    find_sandbox = late("dirge_py.processes.sandbox.probe", "find_sandbox")
    check_syntax = late("dirge_py.tools.syntax_check", "check_syntax")


class ExecutionEnvironment:
    """What tools touch. `undo` lets go of all of it; so does `close`, commands first."""

    def __init__(
        self,
        config: Config,
        options: BuildOptions,
        *,
        cwd: Path,
        redactor: Redactor,
        relay: EventForwarder,
        undo: ExitStack,
    ) -> None:
        """
        Raises:
            ConfigError: a sandbox is required and none works, or `[web]` does not hold.
        """
        self.notices: list[str] = []
        self._relay = relay
        environment = config.origin.environment or os.environ
        self._home = environment.get("HOME") or os.path.expanduser("~")
        journals = state_dir(config.origin.environment) / "patches"
        self.workspace = Workspace([cwd, *options.add_dirs], cwd, journals=journals)
        self.notices += self.workspace.notices
        undo.callback(self.workspace.close)
        self._sandbox = open_sandbox(config, self.workspace, self.notices)
        if self._sandbox is not None:
            undo.callback(self._sandbox.close)
        withheld = [*key_variables(config), *search_key_variables(config)]
        # A command that runs as root reads our environment in /proc.
        for secret in secret_values(config.origin.environment, withheld):
            redactor.add(secret)
        passed_on = EnvironmentPolicy(config.tools.environment, withheld=withheld)
        self.notices += [
            f"[tools] environment: {name} is never passed to commands."
            for name in passed_on.refused
        ]
        launcher = self._sandbox.launcher if self._sandbox is not None else None
        self.environment = passed_on
        self.read_only = self.read_only_profile(self.workspace, self._sandbox)
        undo.callback(self.read_only.close)
        self.runner = Runner(passed_on, launcher, read_only=self.read_only)
        if launcher is None:
            # A sandbox shows commands no process of ours, and must itself be handed things by us.
            block_inspection()
        self.shells = Shells(self.runner)

    def read_only_profile(self, workspace: Workspace, sandbox: Sandbox | None) -> ReadOnlyProfile:
        """What commands that only look are held to in `workspace`. Close it at the end."""

        def roots() -> Sequence[str]:
            return tuple(dict.fromkeys((*workspace.roots, *self.workspace.roots)))

        profile = sandbox.profile if sandbox is not None else None
        return ReadOnlyProfile(roots, self._home, sandbox=profile)

    @property
    def sandbox(self) -> str:
        """The kind of sandbox that commands run in; "" for none."""
        return self._sandbox.kind if self._sandbox is not None else ""

    async def close(self) -> None:
        """End every command, and let go of the folders."""
        if words := farewell(await self.shells.shutdown()):
            self._relay(SystemNotice(words))
        await self.runner.shutdown()
        if self._sandbox is not None:
            self._sandbox.close()
        self.read_only.close()
        self.workspace.close()


def open_sandbox(config: Config, workspace: Workspace, notices: list[str]) -> Sandbox | None:
    """The sandbox that is asked for; None: commands run as ever. Close it at the end.

    Without one that works, `preferred` is as `off`, with a notice; so is what one cannot do.

    Raises:
        ConfigError: it is required, and none works.
    """
    mode = config.sandbox.mode
    if mode == "off":
        return None
    _check_hosts(config)
    found = find_sandbox(sandbox_profile_of(config, workspace))
    if isinstance(found, NoSandbox):
        if mode == "required":
            raise ConfigError(
                f"No sandbox works here: {found.reason}.",
                hint=f"{found.fix} Or start with `--sandbox off`.",
            )
        notices.append(f"Commands run without a sandbox: {found.reason}. {found.fix}")
        return None
    if found.limits:
        notices.append(f"Commands run in a sandbox made with {found.kind}. {found.limits}")
    return found


def _check_hosts(config: Config) -> None:
    """A typing error must not pass for a machine without a sandbox, and be gone on with."""
    try:
        HostList(config.sandbox.hosts)
    except ValueError as error:
        raise ConfigError(
            f"`hosts` under `[sandbox]`: {str(error)!r} is no host.",
            hint="Write `host`, `host:port` or `*.host`.",
        ) from None


def would_be_sandboxed(config: Config) -> bool:
    """Whether commands would run in a sandbox. Unlike opening one, it leaves no trace on disk."""
    if config.sandbox.mode == "off":
        return False
    environment = config.origin.environment or os.environ
    home = environment.get("HOME") or os.path.expanduser("~")
    found = find_sandbox(SandboxProfile(roots=(), home=home))
    if isinstance(found, NoSandbox):
        return False
    found.close()
    return True


def sandbox_profile_of(config: Config, workspace: Workspace) -> SandboxProfile:
    """What commands may see and change. Relative paths of the settings are in the first root."""
    environment = config.origin.environment or os.environ
    home = environment.get("HOME") or os.path.expanduser("~")
    first = workspace.roots[0]

    def placed(paths: list[str]) -> tuple[str, ...]:
        return tuple(os.path.join(first, _from_home(path, home)) for path in paths)

    return SandboxProfile(
        roots=tuple(workspace.roots),
        home=home,
        writable=placed(config.sandbox.writable),
        readable=placed(config.sandbox.readable),
        hidden=(str(config_dir(environment)), str(state_dir(environment))),
        network=config.sandbox.network,
        hosts=tuple(config.sandbox.hosts),
    )


def _from_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def chosen_tools(config: Config, others: Collection[str] = ()) -> list[Tool[Any]]:
    """The built-in tools that `[tools]` and the flags leave; `others` may be named there, too.

    Raises:
        ConfigError: a name is that of no tool.
    """
    known = [*tool_names(), *others]
    for name in (*(config.tools.enabled or ()), *config.tools.disabled):
        if name not in known:
            near = nearest(name, known)
            hint = f"Did you mean `{near}`?" if near else f"There are: {', '.join(known)}."
            raise ConfigError(f"there is no tool `{name}`.", hint=hint)
    if config.tools.enabled == []:
        return []
    return [
        tool
        for tool in discover_tools()
        if (config.tools.enabled is None or tool.name in config.tools.enabled)
        and tool.name not in config.tools.disabled
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFolders:
    """Where a conversation keeps what is not in its journal. `session_id` is "" if nothing is."""

    assets: Path
    output: Path
    session_id: str = ""

    @classmethod
    def of_session(cls, folder: Path, session_id: str) -> "SessionFolders":
        own = folder / session_id
        return cls(assets=own / "assets", output=own / "output", session_id=session_id)


def temporary_folders(undo: ExitStack) -> tuple[SessionFolders, Callable[[], None]]:
    """Folders for a conversation that is not kept, and what removes them; `undo` does it, too."""
    folder = Path(tempfile.mkdtemp(prefix="dirge-"))

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    undo.callback(remove)
    return SessionFolders(assets=folder / "assets", output=folder / "output"), remove


class Workplace(Protocol):
    """Where tools work: folders and commands."""

    @property
    def workspace(self) -> Workspace: ...
    @property
    def runner(self) -> Runner: ...
    @property
    def shells(self) -> Shells: ...


class ToolFactory:
    """Makes tools ready for the loop: the built-in ones, those of plugins, and any that come."""

    def __init__(
        self,
        config: Config,
        *,
        cwd: Path,
        machine: Workplace,
        asker: Asker,
        extensions: ExtensionSet,
        redact: Redact,
    ) -> None:
        self._config = config
        self._cwd = cwd
        self._machine = machine
        self._asker = asker
        self._extensions = extensions
        self._redact = redact

    def moved(self, machine: Workplace, *, cwd: Path) -> "ToolFactory":
        """One that makes the same tools for another place."""
        return ToolFactory(
            self._config,
            cwd=cwd,
            machine=machine,
            asker=self._asker,
            extensions=self._extensions,
            redact=self._redact,
        )

    def toolbox(self, folders: SessionFolders, todo: TodoList) -> Toolbox:
        """The tools that settings and flags leave."""
        added = self._extensions.tools()
        known = [tool.name for tool in added]
        others = wanted_tools(self._config, added)
        tools = [*chosen_tools(self._config, known), *others]
        return Toolbox(tools, self.services(folders, todo), str(self._cwd))

    def bound(
        self, folders: SessionFolders, todo: TodoList, tools: Sequence[Tool[Any]]
    ) -> Sequence[LoopTool]:
        """These tools, with the same services."""
        return Toolbox(tools, self.services(folders, todo), str(self._cwd)).loop_tools

    def services(self, folders: SessionFolders, todo: TodoList) -> ToolServices:
        config, asker = self._config, self._asker
        web, memory = self._extensions.find(Web), self._extensions.find(Memory)
        return ToolServices(
            files=self._machine.workspace,
            processes=self._machine.runner,
            shells=self._machine.shells,
            web=web.service if web is not None else None,
            outputs=OutputStore(folders.output),
            assets=AssetStore(folders.assets),
            todo=todo,
            syntax=check_syntax,
            redact=self._redact,
            memory=memory.provider if memory is not None else None,
            ask=asker.question if isinstance(asker, SupportsForms) else None,
            limits=ToolLimits(
                command_timeout_s=config.timeouts.bash_s,
                quiet_s=config.timeouts.quiet_s,
                budget_chars=config.tools.result_budget_chars,
            ),
            session_id=folders.session_id,
        )


_STRICTEST_FIRST: Sequence[Mode] = ("plan", "restrictive", "standard", "accept", "yolo")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What a room is opened from. `undo` is for when building fails, `on_close` for the end."""

    config: Config
    cwd: Path
    options: BuildOptions
    machine: ExecutionEnvironment
    workshop: ToolFactory
    prompt: SystemPrompt
    store: Store
    redactor: Redactor
    late_notices: list[str]
    undo: ExitStack
    on_close: list[Callable[[], Awaitable[None]]]
    todo: TodoList
    recorder: Recorder | None
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResources:
    """`notices` are about the session that was opened; without a `recorder` nothing is kept."""

    recorder: Recorder | None
    loaded: LoadedSession
    folders: SessionFolders
    gate: PermissionEngine
    todo: TodoList
    toolbox: Toolbox
    durable: DurableContext
    kept: SessionMetadata
    notices: Sequence[str]


def open_room(site: BuildContext) -> SessionResources:
    """
    Raises:
        SessionError: the session asked for cannot be opened.
        ConfigError: a rule does not hold.
    """
    recorder = site.recorder
    loaded = recorder.load() if recorder is not None else viewed(site.store, site.options.session)
    folders = _folders(site, recorder)
    gate = _gate(site, folders, loaded, recorder)
    follow_prompt(
        site.prompt.prompts,
        gate,
        stored=loaded.choices.settings.get("prompt"),
        note=partial(recorder.note_setting, "prompt") if recorder else lambda name: None,
    )
    todo = site.todo
    todo.load(loaded.choices.settings.get("todo"))
    if recorder is not None:
        todo.on_change = lambda items: recorder.note_setting("todo", items)
    return SessionResources(
        recorder=recorder,
        loaded=loaded,
        folders=folders,
        gate=gate,
        todo=todo,
        toolbox=site.workshop.toolbox(folders, todo),
        durable=open_durable(site.store, recorder, site.engine),
        kept=SessionMetadata(loaded.choices.settings, recorder.note_setting, recorder.begin)
        if recorder
        else SessionMetadata(),
        notices=[
            *_mode_again(site.config, gate, loaded, recorder),
            *_grants_left_behind(loaded, recorder),
        ],
    )


def open_recorder(
    config: Config,
    store: Store,
    choice: SessionChoice,
    *,
    redactor: Redactor,
    notify: Callable[[str], None],
    undo: ExitStack,
) -> tuple[Recorder | None, Sequence[str]]:
    """Writes the session that was asked for, and what to tell of it; None: nothing is stored.

    Raises:
        SessionError: it cannot be opened.
    """
    if not config.session.save:
        return None, ()
    journal, notices = open_journal(store, choice)
    if journal is None:
        return None, notices
    recorder = Recorder(journal, redact=redactor.redact_known, on_notice=notify)
    undo.callback(recorder.close)
    return recorder, notices


def _folders(site: BuildContext, recorder: Recorder | None) -> SessionFolders:
    if recorder is not None:
        return SessionFolders.of_session(site.store.folder, recorder.session_id)
    folders, remove = temporary_folders(site.undo)

    async def remove_at_close() -> None:
        remove()

    site.on_close.append(remove_at_close)
    return folders


def _gate(
    site: BuildContext, folders: SessionFolders, loaded: LoadedSession, recorder: Recorder | None
) -> PermissionEngine:
    gate = open_engine(
        site.config,
        site.options,
        site.machine.workspace,
        folders.output,
        is_sandboxed=bool(site.machine.sandbox),
        project_rules=site.options.project_rules,
    )
    gate.history.redact = site.redactor.redact
    gate.history.restore(loaded.choices.decisions)
    if recorder is not None:
        gate.history.on_record = recorder.note_decision
    return gate


def _mode_again(
    config: Config, gate: PermissionEngine, loaded: LoadedSession, recorder: Recorder | None
) -> Sequence[str]:
    """Go on in the session's mode, unless a flag names one.

    One that lets more pass than this start would ended with the program, as grants do; that is told
    once.
    """
    is_flag = config.provenance.get("permission.mode") == "--permission-mode"
    left = next((mode for mode in _STRICTEST_FIRST if mode == loaded.choices.mode), None)
    if recorder is None or is_flag or left is None:
        return ()
    if _STRICTEST_FIRST.index(left) <= _STRICTEST_FIRST.index(gate.mode):
        gate.mode = left
        return ()
    recorder.note_mode(gate.mode)
    return [f"the mode is {gate.mode} again: {loaded.choices.mode} ended with the program before."]


def _grants_left_behind(loaded: LoadedSession, recorder: Recorder | None) -> Sequence[str]:
    """Tell, once, what was allowed for a session that ended: that holds for nobody else."""
    grants = loaded.grants
    if recorder is None or not grants:
        return ()
    for rule in grants:
        recorder.note_grant_removed(rule)
    is_one = len(grants) == 1
    rules = "1 rule" if is_one else f"{len(grants)} rules"
    verb = "is" if is_one else "are"
    shown = ", ".join(grants)
    return [f"{rules} you allowed for the session {verb} not carried over: {shown}."]
