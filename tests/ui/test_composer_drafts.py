"""Typed text survives the end of a turn, a switch, a question, and a kill."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.rules import Mode
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.questions import Asker
from tests.support.app_driver import WAITING_COMMAND, running_app
from tests.support.fake_service import FakeService, ModelReply
from tests.support.project import ScriptedProject
from tests.support.terminal import Terminal, until

TWELVE = "\n".join(f"line {n}" for n in range(12))


class HistoryProject(ScriptedProject):
    """A project whose conversations store prompts and drafts outside the journal."""

    def build(self, asker: Asker, session: SessionChoice, **options: Any) -> Conversation:
        conversation = super().build(asker, session, **options)
        conversation.unsent.set_folder(self.state_dir / "typed" / "p", lambda text: text)
        return conversation


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryProject:
    project = HistoryProject(home)
    monkeypatch.chdir(project.folder)
    return project


async def test_prompts_of_earlier_start_are_recalled_in_full(project: HistoryProject):
    """Peers' failures 16 and 20: placeholders and attachments mean the same after a restart."""
    (project.folder / "a.py").write_text("x = 1")
    async with running_app(project) as driver:
        await driver.type("look at @a.py ")
        await driver.paste(TWELVE)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        await driver.idle()
    async with running_app(project) as driver:
        await driver.pilot.press("up")
        await driver.until(lambda: driver.app.composer.text == f"look at @a.py {TWELVE}")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent[0].startswith(f"look at @a.py {TWELVE}")
        assert "x = 1" in driver.sent[0]


async def test_resumed_session_lists_its_own_prompts_last(project: HistoryProject):
    async with running_app(project) as driver:
        for prompt in ("one", "two"):
            await driver.send(prompt)
            await driver.idle()
        first = driver.conversation.session_id or ""
    async with running_app(project) as driver:
        await driver.send("of another")
        await driver.idle()
    async with running_app(project, resumes=first) as driver:
        assert list(driver.app.composer.prompts.prompts) == ["of another", "one", "two"]


@pytest.mark.parametrize("mode", ["yolo", "standard"])
async def test_draft_survives_question_end_and_interrupt_of_run(
    project: HistoryProject, mode: Mode
):
    """Peers' failure 17."""
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("Done.")
    async with running_app(project, mode=mode) as driver:
        await driver.send("build it")
        if mode == "standard":
            await driver.asked()
            driver.app.composer.put("my draft")
            await driver.pilot.press("y", "enter")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        driver.app.composer.put("my draft")
        if mode == "yolo":
            await driver.pilot.press("escape")
        driver.release_command()
        await driver.idle()
        assert driver.app.composer.text == "my draft"


async def test_draft_stays_with_its_session(project: HistoryProject):
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.idle()
        first = driver.conversation.session_id or ""
        await driver.type("put aside")
        await driver.pilot.press("ctrl+s")
        await driver.type("half a thought")
        await driver.app.session_opener.switch_to(None)
        assert (driver.app.composer.text, driver.app.composer.stashed) == ("", [])
        await driver.app.session_opener.switch_to(first)
        assert driver.app.composer.text == "half a thought"


async def test_draft_of_empty_session_moves_to_next_session(
    project: HistoryProject,
):
    async with running_app(project) as driver:
        await driver.type("half a thought")
        await driver.app.session_opener.switch_to(None)
        assert driver.app.composer.text == "half a thought"
        driver.app.leave(0)
    async with running_app(project) as driver:
        assert driver.app.composer.text == "half a thought"


async def test_draft_and_stash_of_empty_session_survive_restart(project: HistoryProject):
    async with running_app(project) as driver:
        await driver.type("put aside")
        await driver.pilot.press("ctrl+s")
        await driver.paste(TWELVE)
        driver.app.leave(0)
    async with running_app(project) as driver:
        assert (driver.app.composer.text, driver.app.composer.stashed) == (TWELVE, ["put aside"])


async def test_private_shell_commands_are_never_stored(project: HistoryProject):
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.idle()
        await driver.send("!! echo hush")
        await driver.until(lambda: driver.text.count("hush") > 1)
        await driver.type("!!hush")
        await driver.pilot.press("ctrl+s")
        await driver.type("!!hush")
        driver.app.leave(0)
    kept = [file for file in project.state_dir.rglob("*") if file.is_file()]
    assert any(b"hello" in file.read_bytes() for file in kept)
    assert [file for file in kept if b"hush" in file.read_bytes()] == []


async def test_draft_too_long_for_journal_is_stored_in_separate_file(project: HistoryProject):
    long = "a long line of words\n" * 10_000
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.idle()
        first = driver.conversation.session_id or ""
        await driver.paste(long)
        await driver.app.session_opener.switch_to(None)
        assert len(project.journal.read_bytes()) < len(long)
        await driver.app.session_opener.switch_to(first)
        assert driver.app.composer.pastes.expand(driver.app.composer.text) == long


def test_draft_survives_kill(tmp_path: Path):
    """Peers' failure 17, with keys as the kitty protocol sends them (failure 18)."""
    state = Path(os.environ["DIRGE_STATE_DIR"])
    with FakeService([ModelReply(text="Hello there.")]) as service:
        terminal = Terminal(cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        terminal.read_until("ready")
        terminal.press("hi\r")
        terminal.read_until("Hello there.")
        terminal.press("half\x1b[32ua\x1b[32uth\x1b[228;2;196uught\x1b[64u")
        until(
            lambda: any(
                "half a thÄught@" in f.read_text() for f in state.glob("sessions/*/*.jsonl")
            )
        )
        terminal.child.send_signal(signal.SIGKILL)
        terminal.finish()

        again = Terminal(("-m", "dirge_py", "-c"), cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        again.read_until("half a thÄught@")
        again.child.send_signal(signal.SIGTERM)
        assert again.finish() == 128 + signal.SIGTERM


def test_text_typed_at_question_goes_to_input(tmp_path: Path):
    replies = [ModelReply(calls=[("bash", {"command": "make"})]), ModelReply(text="Done.")]
    with FakeService(replies) as service:
        terminal = Terminal(
            ["-m", "dirge_py", "go"], cwd=tmp_path, OPENAI_BASE_URL=service.openai_url
        )
        terminal.read_until("select, then")
        terminal.press("n" + "gniy[" * 3)
        terminal.read_until("ngniy[gniy[gniy[")
        assert terminal.vanish() < 2
