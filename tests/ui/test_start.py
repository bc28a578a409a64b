"""Problems at the start are shown; long sessions start quickly."""

import signal
from pathlib import Path

import pytest
from textual.strip import Strip

from dirge_py.types.events import MessageEnd
from dirge_py.types.messages import AssistantMessage, TextBlock, user_text
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.prose import ProseBlock
from tests.support.app_driver import running_app
from tests.support.fake_service import FakeService, ModelReply
from tests.support.project import ScriptedProject
from tests.support.requirements import small_disk
from tests.support.terminal import Terminal
from tests.ui.test_terminal import left_on

HELLO = ModelReply(text="Hello there.")


def test_state_folder_that_cannot_be_created_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    terminal = Terminal(cwd=tmp_path, DIRGE_STATE_DIR=str(tmp_path / "file" / "state"))
    assert terminal.finish() == 1
    output = terminal.output[terminal.output.rfind(b"\x1b[?1049l") :]
    assert b"Not a directory" in output
    assert b"--no-session" in output
    assert left_on(terminal.output) == []


def test_read_only_disk_is_reported(tmp_path: Path):
    with small_disk(tmp_path / "disk", "ro") as disk:
        terminal = Terminal(cwd=tmp_path, DIRGE_STATE_DIR=str(disk / "state"))
        assert terminal.finish() == 1
        output = terminal.output[terminal.output.rfind(b"\x1b[?1049l") :]
        assert b"Read-only file system" in output
        assert left_on(terminal.output) == []


def test_full_disk_is_reported_and_answer_still_arrives(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=64k") as disk, FakeService([HELLO]) as service:
        (disk / "filler").write_bytes(b"x" * 65536)
        state = str(disk / "state")
        terminal = Terminal(cwd=tmp_path, DIRGE_STATE_DIR=state, OPENAI_BASE_URL=service.openai_url)
        terminal.read_until("ready")
        terminal.press("hi\r")
        terminal.read_until("Hello there.")
        terminal.read_until("memory")
        terminal.child.send_signal(signal.SIGTERM)
        assert terminal.finish() == 128 + signal.SIGTERM
        assert left_on(terminal.output) == []


async def test_resume_of_long_session_draws_only_visible_blocks(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
):
    async with project.open() as conversation:
        recorder = conversation.session.recorder
        assert recorder is not None
        for number in range(300):
            text = f"answer {number}\n\n" + "- a line of it\n" * 30
            recorder.sink(MessageEnd(user_text("go on")))
            recorder.sink(MessageEnd(AssistantMessage(content=(TextBlock(text),))))
        session = str(conversation.session_id)
    drawn: list[ProseBlock] = []
    paint = ProseBlock.paint

    def counted(block: ProseBlock, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        drawn.append(block)
        return paint(block, width, styles, expanded=expanded)

    monkeypatch.setattr(ProseBlock, "paint", counted)
    async with running_app(project, resumes=session) as driver:
        await driver.until(lambda: "Resumed this session" in driver.screen)
        await driver.idle()
        assert driver.app.transcript.layout_of_blocks.height > 9000
        assert 0 < len(drawn) < 20


ASKING = """
import asyncio, sys
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner

async def main():
    runner = Runner(EnvironmentPolicy())
    for command in ("read line </dev/tty", "cat"):
        finished = await runner.run(command, cwd=".", timeout_s=5)
        print("timed out" if finished.timed_out else "ended", flush=True)
    await runner.shutdown()
    print("all told", flush=True)

asyncio.run(main())
"""


def test_command_cannot_read_terminal_of_program(tmp_path: Path):
    terminal = Terminal(("-c", ASKING), cwd=tmp_path, owns_it=True)
    terminal.read_until("all told")
    assert terminal.finish() == 0
    assert terminal.output.count(b"ended") == 2
