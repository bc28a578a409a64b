"""The machine as one conversation may use it: its folders, its processes, its way to the web."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import Relay
from dirge_py.extensions.web.access import search_key_variables, web_access
from dirge_py.files.workspace import Workspace
from dirge_py.lib.redactor import Redactor
from dirge_py.lib.secret_environment import secret_values
from dirge_py.permission.settings import key_variables
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.privacy import close_to_others
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.processes.sandbox.room import Sandbox
from dirge_py.processes.shells import Shells, farewell
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.sandbox import open_sandbox
from dirge_py.types.events import SystemNotice


class Machine:
    """What tools touch. `undo` lets go of all of it; so does `close`, commands first."""

    def __init__(
        self,
        config: Config,
        options: BuildOptions,
        *,
        cwd: Path,
        redactor: Redactor,
        relay: Relay,
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
            close_to_others()
        self.shells = Shells(self.runner)
        self.web = web_access(config, redactor.add)

    def read_only_profile(self, workspace: Workspace, sandbox: Sandbox | None) -> ReadOnlyProfile:
        """What commands that only look are held to in `workspace`. Close it at the end."""

        def roots() -> Sequence[str]:
            return tuple(dict.fromkeys((*workspace.roots, *self.workspace.roots)))

        room = sandbox.room if sandbox is not None else None
        return ReadOnlyProfile(roots, self._home, room=room)

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
