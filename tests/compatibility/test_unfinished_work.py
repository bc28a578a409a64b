"""Unfinished work of an earlier version continues: crashes, waiting calls, plans, drafts."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.compatibility.model_service import says
from tests.compatibility.old_homes import DATA, OldHome

Homes = Callable[[str], OldHome]
CHECK = "python3 check.py"
THREAD = DATA / "scripts" / "thread.py.txt"


def test_killed_run_continues_without_running_a_call_twice(home: Homes) -> None:
    crashed = home("crashed")
    (crashed.project / "begun").unlink()
    crashed.service.will(says("I look."))
    crashed.run("resume", "--session", "crashed")
    read, command = (m["content"] for m in crashed.sent if m["role"] == "tool")
    assert read == "here.txt: lines 1-1 of 1\n\n1: here"
    assert "outcome is unknown" in command
    assert not (crashed.project / "begun").exists()


def test_person_says_how_a_killed_call_ended(home: Homes) -> None:
    crashed = home("crashed")
    crashed.service.will(says("Good."))
    crashed.run("resume", "--session", "crashed", "--interrupted", "done")
    assert "unknown" not in crashed.sent_texts[-1]


def test_a_killed_session_takes_another_prompt(home: Homes) -> None:
    crashed = home("crashed")
    crashed.service.will(says("Something else, then."))
    crashed.ask("--continue", "Leave that.")
    assert [message["role"] for message in crashed.sent[1:]] == [
        *("user", "assistant", "tool", "tool", "user")
    ]


def test_waiting_call_can_be_confirmed(home: Homes) -> None:
    deferred = home("deferred")
    deferred.service.will(says("Deployed."))
    deferred.run("resume", deferred.continuation("confirm"), "--confirm")
    assert (deferred.project / "deployed.txt").exists()
    assert (deferred.project / "after.txt").read_text() == "after\n"


def test_waiting_command_with_input_keeps_its_former_title(home: Homes) -> None:
    deferred = home("deferred")
    deferred.service.will(says("Fed."))
    deferred.run("resume", deferred.continuation("fed"), "--confirm")
    assert (deferred.project / "fed.txt").read_text() == "fed"


def test_waiting_script_can_be_confirmed(home: Homes) -> None:
    deferred = home("deferred")
    deferred.service.will(says("Deployed."))
    deferred.run("resume", deferred.continuation("script"), "--confirm")
    assert (deferred.project / "by_script.txt").exists()


def test_waiting_call_can_be_rejected(home: Homes) -> None:
    deferred = home("deferred")
    deferred.service.will(says("Not deployed."))
    deferred.run("resume", deferred.continuation("reject"), "--reject", "not on a Friday")
    assert any("Rejected: not on a Friday" in text for text in deferred.sent_texts)
    assert not (deferred.project / "deployed.txt").exists()


def test_changed_continuation_file_is_refused(home: Homes) -> None:
    deferred = home("deferred")
    path = Path(deferred.continuation("confirm"))
    path.write_text(path.read_text().replace("touch deployed.txt", "touch other.txt"))
    deferred.run("resume", str(path), "--confirm", code=1)
    assert not (deferred.project / "deployed.txt").exists()


def test_session_with_a_waiting_call_continues_without_it(home: Homes) -> None:
    deferred = home("deferred")
    deferred.service.will(says("Leave it."))
    deferred.ask("--resume", "left", "Leave it.")
    assert any("waited for a decision that never came" in text for text in deferred.sent_texts)


def test_sdk_thread_continues_after_the_decision(home: Homes) -> None:
    library = home("library")
    decided = library.run("yes", script=THREAD)
    assert "toolResult deployed to staging\nassistant Decided.\n" in decided
    assert "assistant Decided.\nuser Anything else?\n" in library.run("say", script=THREAD)


def test_waiting_call_of_an_sdk_program_can_be_rejected(home: Homes) -> None:
    assert "Rejected: not on a Friday" in home("library").run("no", script=THREAD)


def test_interrupted_plan_continues_to_a_verified_end(home: Homes) -> None:
    half = home("plan_half")
    half.service.will(writes_total(), says("It is written."), *REVIEWED)
    result = half.ask("--yolo", "--resume", "half", "/plan resume")
    assert (result["exit_code"], result["is_error"]) == (0, False)
    assert "Verified: 1 requirement." in result["result"]
    assert (half.project / "total.txt").read_text() == "42\n"


def test_waiting_plan_can_be_approved_and_implemented(home: Homes) -> None:
    waiting = home("plan_waiting")
    waiting.service.will(writes_total(), says("It is written."), *REVIEWED)
    result = waiting.ask("--yolo", "--resume", "waiting", "/plan accept")
    assert "Verified: 1 requirement." in result["result"]
    assert (waiting.project / "total.txt").read_text() == "42\n"


def test_finished_plan_can_still_be_read(home: Homes) -> None:
    done = home("plan_done")
    result = done.run("-p", "--resume", "planned", "/plan status")
    assert "It is done, and verified." in result
    assert f"2. Verify: `{CHECK}`" in result
    done.service.will(says("Nothing more."))
    done.ask("--resume", "planned", "Is there more?")
    assert sum("Verified: 1 requirement." in text for text in done.sent_texts) == 1


def test_queued_messages_of_an_old_session_are_delivered(home: Homes) -> None:
    typed = home("typed")
    typed.service.will(says("Heard."))
    typed.ask("--resume", "typed", "Go on.")
    assert typed.sent_texts[-2] == "Go on."
    assert "waiting words" in typed.sent_texts[-1]


def test_tui_restores_an_old_session_and_its_draft(home: Homes) -> None:
    shown = on_screen(
        home("typed"), "--resume", "typed", until=(b"A beginning.", b"half a thought")
    )
    assert b"Hello." in shown


def writes_total() -> dict[str, Any]:
    return says("I write it.", ("write", {"path": "total.txt", "content": "42\n"}))


_ITEM = {"requirement": "the total is 42", "status": "verified", "evidence": [CHECK]}
_VERDICT = json.dumps({"verdict": "DONE", "checklist": [_ITEM], "missing": ""})
REVIEWED = (
    says("I check.", ("bash", {"command": CHECK})),
    says(f"I ran it.\n\n```json\n{_VERDICT}\n```"),
)


def on_screen(
    home: OldHome, *words: str, until: tuple[bytes, ...], patience_s: float = 30
) -> bytes:
    """The output of the terminal UI up to the point where it contains all of `until`."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dirge_py", *words],
        cwd=home.project,
        env={**home.environment, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    shown, end = b"", time.monotonic() + patience_s
    try:
        while not all(words in shown for words in until):
            assert time.monotonic() < end, shown[-2000:]
            if select.select([screen], [], [], 0.1)[0]:
                shown += os.read(screen, 65536)
    finally:
        process.terminate()
        process.wait()
        os.close(screen)
    return shown
