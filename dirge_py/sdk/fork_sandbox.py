"""What the commands of a fork in a room of its own are shut into, whatever `[sandbox]` says."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.files.regular_file import read_regular
from dirge_py.files.workspace import Workspace
from dirge_py.lib.late import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.sandbox.paths import is_below
from dirge_py.processes.sandbox.repository import is_git_directory, repository_of
from dirge_py.processes.sandbox.room import NoSandbox, Sandbox, SandboxRoom
from dirge_py.processes.sandbox.toolchains import toolchains
from dirge_py.sdk.sandbox import room_of
from dirge_py.types.errors import ConfigError

if TYPE_CHECKING:
    from dirge_py.processes.sandbox.choose import find_sandbox
else:
    find_sandbox = late("dirge_py.processes.sandbox.choose", "find_sandbox")

_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Unconfined:
    """Why commands are not shut in, for a person."""

    reason: str


def open_fork_sandbox(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str] = ()
) -> Sandbox | Unconfined:
    """A sandbox without a network in which only `writable` and temporary folders can be changed.

    The roots of `workspace` and `project` are seen, and all that the settings show to commands.
    Where the parent's commands are shut in, those of a fork always are. Blocks. Close it at the
    end.

    Raises:
        ConfigError: a sandbox is required, and none works.
    """
    mode = config.sandbox.mode
    if config.plan.sandbox == "off" and mode == "off":
        return Unconfined('`[plan] sandbox` is "off"')
    found = find_sandbox(_room(config, workspace, project=project, writable=writable))
    if not isinstance(found, NoSandbox):
        return found
    if mode == "required":
        raise ConfigError(f"No sandbox works here: {found.reason}.", hint=found.fix)
    return Unconfined("no sandbox works here")


def _room(
    config: Config, workspace: Workspace, *, project: str, writable: Sequence[str]
) -> SandboxRoom:
    usual, roots = room_of(config, workspace), workspace.roots
    home = os.path.realpath(usual.home)
    environment = config.origin.environment or os.environ
    path = environment.get("PATH", os.defpath)
    seen = [*roots, project, *usual.readable, *usual.writable]
    seen += toolchains(path, home, roots=[*roots, project])
    # Where the parent's commands are shut in, they do not see the objects of other repositories.
    of_git = _of_git if config.sandbox.mode == "off" else _of_repository
    for folder in (*roots, project):
        seen += [each for each in of_git(folder) if not is_below(home, each)]
    return SandboxRoom(
        roots=(),
        home=usual.home,
        writable=tuple(writable),
        readable=tuple(dict.fromkeys(seen)),
        hidden=(str(config_dir(environment)), str(state_dir(environment))),
    )


def _of_repository(folder: str) -> Iterator[str]:
    """The repository around a folder, which git needs to see."""
    repository = repository_of(folder)
    if repository is not None:
        yield repository.top
        yield from repository.places


def _of_git(folder: str) -> Iterator[str]:
    """The same, and the places of objects that it shares with other repositories."""
    yield from _of_repository(folder)
    repository = repository_of(folder)
    for place in repository.places if repository is not None else ():
        try:
            named = read_regular(Path(place, "objects/info/alternates"), _SMALL_BYTES)
        except OSError:
            continue
        for line in named.splitlines():
            objects = os.path.realpath(os.path.join(place, "objects", os.fsdecode(line)))
            # It may name any place; only what holds objects of a repository is one.
            above, name = os.path.split(objects)
            if name == "objects" and is_git_directory(above):
                yield objects
