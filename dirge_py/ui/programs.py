"""Runs short programs for the screen, such as git and tmux, without a terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.programs import find_program, project_folders
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.processes.runner import Runner
else:
    Runner = late("dirge_py.processes.runner", "Runner")


_TIMEOUT_S = 5.0


class ScreenPrograms:
    """Runs programs, and returns their output; `aclose` ends running ones."""

    def __init__(self) -> None:
        self._runner: Runner | None = None

    async def ask(
        self, program: str, *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None
    ) -> str | None:
        """Return the program's output; None if it is missing, fails or takes too long.

        A program inside `cwd` or its repository isn't started, as it may be malicious. `variables`
        are added to the environment that all commands get.
        """
        path = find_program(program, outside=[str(cwd), *project_folders(str(cwd))])
        if not path:
            return None
        if self._runner is None:
            self._runner = Runner(EnvironmentPolicy())
        try:
            finished = await self._runner.run(
                [path, *arguments], cwd=str(cwd), timeout_s=_TIMEOUT_S, extra_env=variables
            )
        except ProcessError:
            return None
        if finished.exit_code != 0:
            return None
        return (finished.output.head + finished.output.tail).decode("utf-8", "replace")

    async def ask_shell(self, command: str, *, cwd: Path, stdin_text: str) -> str:
        """Return the output of the person's own command line. Raises ProcessError: it failed."""
        if self._runner is None:
            self._runner = Runner(EnvironmentPolicy())
        finished = await self._runner.run(
            command, cwd=str(cwd), timeout_s=_TIMEOUT_S, stdin_text=stdin_text
        )
        if finished.exit_code != 0:
            how = f"exit {finished.exit_code}"
            raise ProcessError(
                f"it took longer than {_TIMEOUT_S:g} s" if finished.timed_out else how
            )
        return (finished.output.head + finished.output.tail).decode("utf-8", "replace")

    async def aclose(self) -> None:
        if self._runner is not None:
            await self._runner.shutdown()
