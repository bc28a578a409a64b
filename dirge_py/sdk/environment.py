"""Where a conversation works: its folders, its commands and their sandbox, and its tools."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import EventForwarder
from dirge_py.extensions.web.extension import search_key_variables
from dirge_py.files.safe_read import read_regular
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.paths import is_below
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.temporary_folder import TemporaryFolder
from dirge_py.permission.settings import key_variables
from dirge_py.processes.environment import EnvironmentPolicy, block_inspection
from dirge_py.processes.runner import Runner, Shells, ended_notice
from dirge_py.processes.sandbox.mount_plan import is_git_directory, repository_of, toolchains
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox, SandboxProfile
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.sdk.options import BuildOptions
from dirge_py.tools.base import Tool
from dirge_py.tools.toolbox import discover_tools, tool_names
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import SystemNotice


class ExecutionEnvironment:
    """The workspace, commands and sandbox of a conversation."""

    def __init__(
        self,
        config: Config,
        options: BuildOptions,
        resources: ExitStack,
        *,
        cwd: Path,
        redactor: Redactor,
        relay: EventForwarder,
    ) -> None:
        """`resources` closes the folders and the sandbox, after `close`.

        Raises ConfigError: a sandbox is required, and none works.
        """
        self.notices: list[str] = []
        self._relay = relay
        self._home = _home(config)
        journals = state_dir(config.origin.environment) / "patches"
        self.workspace = Workspace([cwd, *options.add_dirs], cwd, journals=journals)
        self.notices += self.workspace.notices
        resources.callback(self.workspace.close)
        self.sandbox = open_sandbox(config, self.workspace, self.notices)
        if self.sandbox is not None:
            resources.callback(self.sandbox.close)
        withheld = [*key_variables(config), *search_key_variables(config)]
        # A command that runs as root can read our environment in /proc.
        for secret in secret_values(config.origin.environment, withheld):
            redactor.add(secret)
        passed_on = EnvironmentPolicy(config.tools.environment, withheld=withheld)
        self.notices += [
            f"[tools] environment: {name} is never passed to commands."
            for name in passed_on.refused
        ]
        self._environment = passed_on
        self.workplace = self.make_workplace(self.workspace, self.sandbox)
        self.runner, self.shells = self.workplace.runner, self.workplace.shells
        resources.callback(self.workplace.read_only.close)
        if self.sandbox is None:
            # In a sandbox commands don't see our processes, and the sandbox has to inspect us.
            block_inspection()

    def make_workplace(self, workspace: Workspace, sandbox: Sandbox | None) -> "Workplace":
        """Make what runs commands in `workspace`. Shut all of it down at the end."""

        def roots() -> Sequence[str]:
            return tuple(dict.fromkeys((*workspace.roots, *self.workspace.roots)))

        profile = sandbox.profile if sandbox is not None else None
        read_only = ReadOnlyProfile(roots, self._home, sandbox=profile)
        launcher = sandbox.launcher if sandbox is not None else None
        runner = Runner(self._environment, launcher, read_only=read_only)
        return Workplace(
            workspace=workspace, runner=runner, shells=Shells(runner), read_only=read_only
        )

    async def close(self) -> None:
        """End every command."""
        if words := ended_notice(await self.shells.shutdown()):
            self._relay(SystemNotice(words))
        await self.runner.shutdown()


def open_sandbox(config: Config, workspace: Workspace, notices: list[str]) -> Sandbox | None:
    """Open the sandbox that the settings ask for; None: commands run without one. Close it.

    If none works, `preferred` means `off`, with a notice. Limits of the sandbox are noted, too.
    Raises ConfigError: it is required, and none works.
    """
    mode = config.sandbox.mode
    if mode == "off":
        return None
    from dirge_py.processes.sandbox.probe import find_sandbox
    from dirge_py.processes.sandbox.proxy import HostList

    try:
        HostList(config.sandbox.hosts)  # wrong hosts must not count as a system without a sandbox
    except ValueError as error:
        raise ConfigError(
            f"`hosts` under `[sandbox]`: {str(error)!r} is not a host.",
            hint="Write `host`, `host:port` or `*.host`.",
        ) from None
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


def would_be_sandboxed(config: Config) -> bool:
    """Check whether commands would run in a sandbox, without leaving anything on disk."""
    if config.sandbox.mode == "off":
        return False
    from dirge_py.processes.sandbox.probe import find_sandbox

    found = find_sandbox(SandboxProfile(roots=(), home=_home(config)))
    if isinstance(found, NoSandbox):
        return False
    found.close()
    return True


def sandbox_profile_of(config: Config, workspace: Workspace) -> SandboxProfile:
    """Return what commands may read and change. Relative paths are below the first root."""
    environment = config.origin.environment or os.environ
    home, first = _home(config), workspace.roots[0]

    def placed(paths: list[str]) -> tuple[str, ...]:
        return tuple(os.path.join(first, re.sub("^~(?=/|$)", lambda _: home, p)) for p in paths)

    return SandboxProfile(
        roots=tuple(workspace.roots),
        home=home,
        writable=placed(config.sandbox.writable),
        readable=placed(config.sandbox.readable),
        hidden=(str(config_dir(environment)), str(state_dir(environment))),
        network=config.sandbox.network,
        hosts=tuple(config.sandbox.hosts),
    )


def _home(config: Config) -> str:
    environment = config.origin.environment or os.environ
    return environment.get("HOME") or os.path.expanduser("~")


_SMALL_BYTES = 64 * 1024


def open_fork_sandbox(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str] = ()
) -> Sandbox | NoSandbox:
    """Open a sandbox without a network that can change only `writable` and temporary folders.

    The roots of `workspace`, `project` and what the settings name are readable. If the parent's
    commands run in a sandbox, those of a fork always do. Blocks. Close it at the end. Raises
    ConfigError: a sandbox is required, and none works.
    """
    mode = config.sandbox.mode
    if config.plan.sandbox == "off" and mode == "off":
        return NoSandbox(reason='`[plan] sandbox` is "off"', fix="")
    from dirge_py.processes.sandbox.probe import find_sandbox

    found = find_sandbox(_fork_profile(config, workspace, project=project, writable=writable))
    if not isinstance(found, NoSandbox):
        return found
    if mode == "required":
        raise ConfigError(f"No sandbox works here: {found.reason}.", hint=found.fix)
    return NoSandbox(reason="no sandbox works here", fix="")


def _fork_profile(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str]
) -> SandboxProfile:
    usual, roots = sandbox_profile_of(config, workspace), workspace.roots
    home = os.path.realpath(usual.home)
    path = (config.origin.environment or os.environ).get("PATH", os.defpath)
    seen = [*roots, project, *usual.readable, *usual.writable]
    seen += toolchains(path, home, roots=[*roots, project])
    # If the parent's commands run in a sandbox, they don't see the objects of other repositories.
    shares = config.sandbox.mode == "off"
    for folder in (*roots, project):
        shown = _repository_folders(folder, with_shared_objects=shares)
        seen += [path for path in shown if not is_below(home, path)]
    readable = tuple(dict.fromkeys(seen))
    return replace(
        usual, roots=(), writable=tuple(writable), readable=readable, network=False, hosts=()
    )


def _repository_folders(folder: str, *, with_shared_objects: bool) -> Iterator[str]:
    """The repository around a folder, which git needs to see, and the objects it borrows."""
    repository = repository_of(folder)
    if repository is None:
        return
    yield from (repository.top, *repository.places)
    for place in repository.places if with_shared_objects else ():
        try:
            named = read_regular(Path(place, "objects/info/alternates"), _SMALL_BYTES)
        except OSError:
            continue
        for line in named.splitlines():
            objects = os.path.realpath(os.path.join(place, "objects", os.fsdecode(line)))
            # The file may name any folder; only objects of a repository count.
            above, name = os.path.split(objects)
            if name == "objects" and is_git_directory(above):
                yield objects


def chosen_tools(config: Config, others: Collection[str] = ()) -> list[Tool[Any]]:
    """Return the built-in tools that `[tools]` and the flags enable; `others` may be named, too.

    Raises ConfigError: `[tools]` or a flag names a tool that does not exist.
    """
    known = [*tool_names(), *others]
    tools = config.tools
    for name in (*(tools.enabled or ()), *tools.disabled, *tools.most_calls):
        if name not in known:
            near = nearest(name, known)
            hint = f"Did you mean `{near}`?" if near else f"The tools are: {', '.join(known)}."
            raise ConfigError(f"there is no tool `{name}`.", hint=hint)
    if config.tools.enabled == []:
        return []
    return enabled_tools(config, discover_tools())


def enabled_tools(config: Config, tools: Iterable[Tool[Any]]) -> list[Tool[Any]]:
    """Return the tools that `[tools]` and the flags enable."""
    enabled, disabled = config.tools.enabled, config.tools.disabled
    wanted = [tool for tool in tools if enabled is None or tool.name in enabled]
    return [tool for tool in wanted if tool.name not in disabled]


def temporary_folder(resources: ExitStack) -> Path:
    """Make the folder for what a conversation without a journal stores; `resources` removes it."""
    folder = TemporaryFolder("session")
    resources.callback(folder.remove)
    return Path(folder.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The folders and commands that tools work with."""

    workspace: Workspace
    """The files."""
    runner: Runner
    """Runs commands in the foreground."""
    shells: Shells
    """Runs commands in the background."""
    read_only: ReadOnlyProfile
    """Keeps commands that run unasked read-only."""
