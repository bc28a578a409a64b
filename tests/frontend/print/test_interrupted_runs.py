"""A run killed during calls and resumed: no call runs again by itself."""

import shutil
import signal
from collections.abc import Callable, Iterator

import pytest

from dirge_py.session.journal import read_journal
from tests.support.fake_service import ModelReply
from tests.support.product import HeldReply, ProcessResult, Product, Service, finish
from tests.support.terminal import until

DEPLOY = "echo ran >> ran.txt; until test -e go; do sleep 0.01; done; echo deployed"
"""Counts itself at once, and ends when there is a file `go`."""

READ = ("read", {"path": "note.txt"})
LIST = ("list_dir", {"path": "."})

SLOW_READS = '''
import asyncio
from pathlib import Path


def register(dirge):
    @dirge.tool(op="read", mode="parallel")
    async def peek(name: str) -> str:
        """Look at something that takes its time."""
        with open("peeks.txt", "a") as file:
            file.write(name + "\\n")
        while name.startswith("slow") and not Path("go").exists():
            await asyncio.sleep(0.01)
        return f"{name}: seen"
'''


def kill_while(product: Product, holds: Callable[[], object], *words: str) -> None:
    """Start `dirge`, and kill it when a condition becomes true."""
    process = product.start(*words)
    until(holds)
    process.send_signal(signal.SIGKILL)
    finish(process)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A run killed during a command, between two reads; `then` is a copy of its state."""
    base = tmp_path_factory.mktemp("scene")
    with Service() as service:
        product = Product(base, service)
        product.file("note.txt", "remember\n")
        product.will(ModelReply(calls=[READ, ("bash", {"command": DEPLOY}), LIST]))
        kill_while(
            product, lambda: lines(product, "ran.txt"), "-p", "--session", "s", "--yolo", "go"
        )
        product.file("go")
        for name in ("state", "project"):
            shutil.copytree(base / name, base / "then" / name)
        yield product


@pytest.fixture
def killed(scene: Product) -> Product:
    """Restores the same session and folder for each test."""
    for name in ("state", "project"):
        shutil.rmtree(scene.base / name)
        shutil.copytree(scene.base / "then" / name, scene.base / name)
    return scene


def lines(product: Product, name: str) -> list[str]:
    path = product.project / name
    return path.read_text().split() if path.exists() else []


def carry_on(product: Product, *words: str) -> ProcessResult:
    return product.run("resume", "--session", "s", "--yolo", "--output-format", "json", *words)


def results(product: Product) -> dict[str, str]:
    """The results by call id as the service got them, in order."""
    return {m["tool_call_id"]: m["content"] for m in product.sent() if m["role"] == "tool"}


def test_a79_interrupted_command_is_reported_and_not_rerun(killed: Product) -> None:
    killed.will(ModelReply(text="looked"))

    ended = carry_on(killed)

    assert (ended.exit_code, ended.json["result"]) == (0, "looked")
    assert lines(killed, "ran.txt") == ["ran"]
    read, deployed, listed = results(killed).values()
    assert "remember" in read
    assert deployed == (
        "Interrupted: dirge ended while this call ran; its outcome is unknown. "
        "Look before repeating it."
    )
    assert "note.txt" in listed
    started = [
        record.data["name"]
        for record in read_journal(killed.journals[0]).records
        if record.type == "tool_started"
    ]
    assert started == ["read", "bash", "list_dir"]


@pytest.mark.parametrize(
    ("choice", "runs", "words"), [("again", 2, "deployed"), ("done", 1, "The user says")]
)
def test_interrupted_option_reruns_command_or_marks_it_done(
    killed: Product, choice: str, runs: int, words: str
) -> None:
    killed.will(ModelReply(text="fine"))

    ended = carry_on(killed, "--interrupted", choice)

    assert (ended.exit_code, ended.json["result"]) == (0, "fine")
    assert lines(killed, "ran.txt") == ["ran"] * runs
    assert words in results(killed)["call_1"]
    assert carry_on(killed, "--interrupted", "again").exit_code == 1
    assert lines(killed, "ran.txt") == ["ran"] * runs


def test_rerun_of_interrupted_call_respects_deny_rule(killed: Product) -> None:
    killed.will(ModelReply(text="fine"))

    ended = carry_on(killed, "--interrupted", "again", "--deny", "execute:echo *")

    assert ended.exit_code == 0
    assert lines(killed, "ran.txt") == ["ran"]
    assert "denied bash" in ended.stderr


def test_rerun_option_approves_interrupted_call(killed: Product) -> None:
    killed.will(ModelReply(text="fine"))

    ended = killed.run("resume", "--session", "s", "--interrupted", "again")

    assert (ended.exit_code, ended.stdout) == (0, "fine\n")
    assert lines(killed, "ran.txt") == ["ran", "ran"]


def test_a79_interrupted_reads_rerun_and_finished_reads_do_not(product: Product) -> None:
    plugins = product.config_dir / "plugins"
    plugins.mkdir()
    (plugins / "peeking.py").write_text(SLOW_READS)
    peeks = [("peek", {"name": name}) for name in ("slow1", "quick", "slow2")]
    product.will(ModelReply(calls=peeks))

    def is_kept() -> bool:
        journals = product.journals
        return bool(journals) and b'"type":"tool_finished"' in journals[0].read_bytes()

    kill_while(product, is_kept, "-p", "--session", "s", "go")
    product.file("go")
    product.will(ModelReply(text="all seen"))
    ended = carry_on(product)

    assert (ended.exit_code, ended.json["result"]) == (0, "all seen")
    assert sorted(lines(product, "peeks.txt")) == ["quick", "slow1", "slow1", "slow2", "slow2"]
    assert list(results(product).values()) == ["slow1: seen", "quick: seen", "slow2: seen"]
    assert list(results(product)) == ["call_0", "call_1", "call_2"]


def test_second_kill_during_rerun_is_handled_like_first(killed: Product) -> None:
    (killed.project / "go").unlink()
    again = ("resume", "--session", "s", "--yolo", "--interrupted", "again")
    kill_while(killed, lambda: lines(killed, "ran.txt") == ["ran", "ran"], *again)
    killed.file("go")
    killed.will(ModelReply(text="looked"))

    ended = carry_on(killed)

    assert (ended.exit_code, ended.json["result"]) == (0, "looked")
    assert lines(killed, "ran.txt") == ["ran", "ran"]
    assert "outcome is unknown" in results(killed)["call_1"]


def test_run_killed_during_answer_continues_from_its_prompt(product: Product) -> None:
    held = HeldReply(reply=ModelReply(text="never heard"))
    product.will(held)
    process = product.start("-p", "--session", "s", "what is it?")
    product.service.wait_for(1)
    process.send_signal(signal.SIGKILL)
    finish(process)
    held.gate.set()
    product.will(ModelReply(text="it is a test"))

    ended = carry_on(product)

    assert (ended.exit_code, ended.json["result"]) == (0, "it is a test")
    assert [m["content"] for m in product.sent() if m["role"] == "user"] == ["what is it?"]


def test_turn_without_prompt_continues_interrupted_turn(killed: Product) -> None:
    killed.will(ModelReply(text="looked"))

    first, second = (
        killed.run("turn", "--session", "s", "--yolo", "--output-format", "json") for _ in range(2)
    )

    assert (first.exit_code, first.json["outcome"], first.json["turn"]) == (10, "NeedsMoreTurns", 1)
    assert (second.exit_code, second.json["result"]) == (0, "looked")
    assert lines(killed, "ran.txt") == ["ran"]


def test_resume_of_complete_session_fails_and_writes_nothing(product: Product) -> None:
    product.will(ModelReply(text="done"))
    assert product.ask("--session", "s", "go").exit_code == 0
    before = product.journals[0].read_bytes()

    ended = carry_on(product)

    assert ended.exit_code == ended.json["exit_code"] == 1
    assert "Session s has nothing to continue" in ended.json["error"]["message"]
    assert product.journals[0].read_bytes() == before
    assert len(product.service.requests) == 1
    assert "no session 'gone'" in product.run("resume", "--session", "gone").stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--session", "s", "file"),
        ("--session", "s", "--confirm"),
        ("--session", "s", "--tool-call-id", "x"),
        ("--session", "s", "--interrupted", "twice"),
        ("file", "--confirm", "--interrupted", "done"),
        ("--interrupted", "done"),
    ],
)
def test_incompatible_resume_options_are_usage_errors(
    product: Product, words: tuple[str, ...]
) -> None:
    product.file("file", "{}")

    ended = product.run("resume", *words)

    assert (ended.exit_code, ended.stdout) == (2, "")


def test_fork_of_interrupted_run_does_not_rerun_call(killed: Product) -> None:
    killed.will(ModelReply(text="on my own"))

    ended = killed.run("-p", "-c", "--fork-session", "--yolo", "and you?")

    assert ended.stdout == "on my own\n"
    assert lines(killed, "ran.txt") == ["ran"]
    assert "outcome is unknown" in killed.sent_text()
