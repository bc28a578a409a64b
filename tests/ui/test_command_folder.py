"""The working folder of a command on the screen."""

from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.support.project import ScriptedProject
from tests.ui.test_view import open_view


async def test_command_is_shown_with_its_working_folder(project: ScriptedProject):
    async with open_view(project, lines=1) as s:
        tool = ToolBlock("c", "bash", {"command": "make all", "workdir": "pkg"})
        here = ToolBlock("d", "bash", {"command": "make here", "workdir": "/w"})
        s.view.add(tool)
        s.view.add(here)
        await s.settled()
        asked = s.d.screen
        tool.finish("ok", {"exit_code": 0, "workdir": "/w/pkg"}, is_error=False, took_ms=0)
        here.finish("ok", {"exit_code": 0}, is_error=False, took_ms=0)
        s.view.touch(tool)
        s.view.touch(here)
        await s.settled()

        assert "bash make all  in pkg" in asked
        assert "bash make all  in /w/pkg" in s.d.screen
        assert "bash make here  in" not in s.d.screen
