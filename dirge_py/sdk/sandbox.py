"""What commands are shut into, from the settings: `[sandbox]` and `--sandbox`."""

import os
from typing import TYPE_CHECKING

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.files.workspace import Workspace
from dirge_py.lib.late import late
from dirge_py.processes.sandbox.room import NoSandbox, Sandbox, SandboxRoom
from dirge_py.types.errors import ConfigError

if TYPE_CHECKING:
    from dirge_py.processes.sandbox.choose import find_sandbox
    from dirge_py.processes.sandbox.hosts import HostList
else:
    HostList = late("dirge_py.processes.sandbox.hosts", "HostList")
    find_sandbox = late("dirge_py.processes.sandbox.choose", "find_sandbox")


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
    found = find_sandbox(room_of(config, workspace))
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
    found = find_sandbox(SandboxRoom(roots=(), home=home))
    if isinstance(found, NoSandbox):
        return False
    found.close()
    return True


def room_of(config: Config, workspace: Workspace) -> SandboxRoom:
    """What commands may see and change. Relative paths of the settings are in the first root."""
    environment = config.origin.environment or os.environ
    home = environment.get("HOME") or os.path.expanduser("~")
    first = workspace.roots[0]

    def placed(paths: list[str]) -> tuple[str, ...]:
        return tuple(os.path.join(first, _from_home(path, home)) for path in paths)

    return SandboxRoom(
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
