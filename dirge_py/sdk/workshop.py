"""The tools of a conversation, and what they work with."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.config.schema import Config
from dirge_py.extensions.memory.base import MemoryProvider
from dirge_py.extensions.plugins.loading import Plugins, plugin_tools
from dirge_py.extensions.web.access import WebAccess
from dirge_py.files.assets import AssetStore
from dirge_py.files.workspace import Workspace
from dirge_py.lib.late import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.outputs import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.processes.shells import Shells
from dirge_py.sdk.toolset import chosen_tools
from dirge_py.tools.base import Redact, Services, Tool
from dirge_py.tools.planning.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.questions import AnswersForms, Asker
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.tools.syntax.syntax import check_syntax
else:
    check_syntax = late("dirge_py.tools.syntax.syntax", "check_syntax")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where a conversation keeps what is not in its journal. `session_id` is "" if nothing is."""

    assets: Path
    output: Path
    session_id: str = ""

    @classmethod
    def of_session(cls, folder: Path, session_id: str) -> "Folders":
        own = folder / session_id
        return cls(assets=own / "assets", output=own / "output", session_id=session_id)


def temporary_folders(undo: ExitStack) -> tuple[Folders, Callable[[], None]]:
    """Folders for a conversation that is not kept, and what removes them; `undo` does it, too."""
    folder = Path(tempfile.mkdtemp(prefix="dirge-"))

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    undo.callback(remove)
    return Folders(assets=folder / "assets", output=folder / "output"), remove


class Workplace(Protocol):
    """Where tools work: folders, commands, the way to the web."""

    @property
    def workspace(self) -> Workspace: ...
    @property
    def runner(self) -> Runner: ...
    @property
    def shells(self) -> Shells: ...
    @property
    def web(self) -> WebAccess: ...


class Workshop:
    """Makes tools ready for the loop: the built-in ones, those of plugins, and any that come."""

    def __init__(
        self,
        config: Config,
        *,
        cwd: Path,
        machine: Workplace,
        asker: Asker,
        plugins: Plugins,
        redact: Redact,
        memory: MemoryProvider | None = None,
    ) -> None:
        self._config = config
        self._cwd = cwd
        self._machine = machine
        self._asker = asker
        self._plugins = plugins
        self._redact = redact
        self._memory = memory

    def moved(self, machine: Workplace, *, cwd: Path) -> "Workshop":
        """One that makes the same tools for another place."""
        return Workshop(
            self._config,
            cwd=cwd,
            machine=machine,
            asker=self._asker,
            plugins=self._plugins,
            redact=self._redact,
            memory=self._memory,
        )

    def toolbox(self, folders: Folders, todo: TodoList) -> Toolbox:
        """The tools that settings, flags and plugins leave."""
        known = [tool.name for tool in self._plugins.tools]
        others = plugin_tools(self._config, self._plugins)
        tools = [*chosen_tools(self._config, known), *others]
        return Toolbox(tools, self.services(folders, todo), str(self._cwd))

    def bound(
        self, folders: Folders, todo: TodoList, tools: Sequence[Tool[Any]]
    ) -> Sequence[LoopTool]:
        """These tools, with the same services."""
        return Toolbox(tools, self.services(folders, todo), str(self._cwd)).loop_tools

    def services(self, folders: Folders, todo: TodoList) -> Services:
        config, asker = self._config, self._asker
        return Services(
            files=self._machine.workspace,
            processes=self._machine.runner,
            shells=self._machine.shells,
            web=self._machine.web,
            outputs=OutputStore(folders.output),
            assets=AssetStore(folders.assets),
            todo=todo,
            syntax=check_syntax,
            redact=self._redact,
            memory=self._memory,
            ask=asker.question if isinstance(asker, AnswersForms) else None,
            command_timeout_s=config.timeouts.bash_s,
            quiet_s=config.timeouts.quiet_s,
            session_id=folders.session_id,
            budget_chars=config.tools.result_budget_chars,
        )
