"""The machine as one conversation may use it: its folders, its processes, its way to the web."""

from contextlib import ExitStack
from pathlib import Path

from dirge_py.config.schema import Config
from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.shells import Shells
from dirge_py.secrets.redactor import Redactor
from dirge_py.wiring.options import BuildOptions
from dirge_py.wiring.rules import key_variables
from dirge_py.wiring.sandbox import open_sandbox
from dirge_py.wiring.web import open_web, search_key_variables


class Machine:
    """What tools touch. `undo` lets go of all of it; so does `close`, commands first."""

    def __init__(
        self,
        config: Config,
        options: BuildOptions,
        *,
        cwd: Path,
        redactor: Redactor,
        undo: ExitStack,
    ) -> None:
        """
        Raises:
            ConfigError: a sandbox is required and none works, or `[web]` does not hold.
        """
        self.notices: list[str] = []
        self.workspace = Workspace([cwd, *options.add_dirs], cwd)
        undo.callback(self.workspace.close)
        self._sandbox = open_sandbox(config, self.workspace, self.notices)
        if self._sandbox is not None:
            undo.callback(self._sandbox.close)
        withheld = [*key_variables(config), *search_key_variables(config)]
        self.runner = Runner(
            EnvironmentPolicy(config.tools.environment, withheld=withheld),
            self._sandbox.launcher if self._sandbox is not None else None,
        )
        self.shells = Shells(self.runner)
        self.web = open_web(config, redactor.add)

    @property
    def is_sandboxed(self) -> bool:
        return self._sandbox is not None

    async def close(self) -> None:
        """End every command, and let go of the folders."""
        await self.shells.shutdown()
        await self.runner.shutdown()
        if self._sandbox is not None:
            self._sandbox.close()
        self.workspace.close()
