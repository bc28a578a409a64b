"""Where a conversation works: its folders, its commands and their sandbox, and its tools."""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import EventForwarder
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
from dirge_py.permission.settings import key_variables
from dirge_py.processes.environment import EnvironmentPolicy, block_inspection
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox, SandboxProfile
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.processes.shells import Shells, ended_notice
from dirge_py.sdk.options import BuildOptions
from dirge_py.tools.base import Redact, Tool, ToolLimits, ToolServices
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox, discover_tools, tool_names
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
        if words := ended_notice(await self.shells.shutdown()):
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
        environment: Workplace,
        asker: Asker,
        extensions: ExtensionSet,
        redact: Redact,
    ) -> None:
        self._config = config
        self._cwd = cwd
        self._environment = environment
        self._asker = asker
        self._extensions = extensions
        self._redact = redact

    def elsewhere(self, environment: Workplace, *, cwd: Path) -> "ToolFactory":
        """Makes the same tools for another place."""
        return ToolFactory(
            self._config,
            cwd=cwd,
            environment=environment,
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
            files=self._environment.workspace,
            processes=self._environment.runner,
            shells=self._environment.shells,
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
