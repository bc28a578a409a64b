import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import LoopTool, LoopToolResult, Preview


class ToolDriver:
    """The built-in tools in a folder, called as the agent loop calls them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signal = AbortSignal()
        self.workspace = Workspace([folder], folder)
        services = ToolServices(files=self.workspace, processes=Runner(EnvironmentPolicy()))
        self.toolbox = Toolbox(discover_tools(), services, str(folder))

    def tool(self, name: str) -> LoopTool:
        return next(tool for tool in self.toolbox.loop_tools if tool.name == name)

    async def call(self, name: str, **arguments: Any) -> LoopToolResult:
        tool = self.tool(name)
        valid = self.toolbox.validate(tool, tool.prepare_arguments(arguments))
        return await tool.execute("call", valid, self.signal, lambda partial: None)

    async def text(self, name: str, **arguments: Any) -> str:
        """The text of a call that must succeed."""
        result = await self.call(name, **arguments)
        assert not result.is_error, result.text
        return result.text

    async def refusal(self, name: str, **arguments: Any) -> str:
        """The text of a call that must fail."""
        result = await self.call(name, **arguments)
        assert result.is_error, result.text
        return result.text

    def preview(self, name: str, **arguments: Any) -> Preview | None:
        return self.tool(name).preview(arguments)  # type: ignore[attr-defined]

    def put(self, path: str, content: bytes | str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[ToolDriver]:
    folder = tmp_path / "project"
    folder.mkdir()
    tools = ToolDriver(folder)
    with contextlib.closing(tools.workspace):
        yield tools
