"""The names that Claude Code gives to permission modes."""

import pytest

from dirge_py.cli.main import run
from dirge_py.config.schema import config_from
from dirge_py.types.modes import CLAUDE_MODES, MODES
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command


@pytest.mark.parametrize(("name", "mode"), CLAUDE_MODES.items())
async def test_mode_of_claude_code_is_accepted_by_name(
    project: ScriptedProject, name: str, mode: str
):
    assert mode in MODES
    assert config_from({"permission": {"mode": name}}).permission.mode == mode
    async with project.open() as conversation:
        await run_command(f"/mode {name}", conversation)
        assert conversation.settings.mode == mode


def test_flag_takes_modes_of_claude_code_and_refuses_others(capsys: pytest.CaptureFixture[str]):
    assert run(["why", "--permission-mode", "bypassPermissions", "bash", "make"]) == 0
    assert capsys.readouterr().out.startswith("allow:")
    assert run(["why", "--permission-mode", "bypass", "bash", "make"]) == 2
