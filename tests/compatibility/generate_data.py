"""Generates the data of these tests by running another version of dirge.

    python tests/compatibility/generate_data.py CHECKOUT

CHECKOUT is a work tree with a `.venv` in it. Its version runs in a separate folder with the
scripted model defined here. The files it creates are stored in `data/`, with placeholders for
local values: `@BASE@` for paths, `@ID@` for the digits of a project id, `@SERVICE@` for the
address of the model service.
"""

import contextlib
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.compatibility.model_service import Service, says  # noqa: E402
from tests.compatibility.program_forks import ProcessResult  # noqa: E402
from tests.compatibility.public_surface import (  # noqa: E402
    documented,
    flags,
    outputs,
    slash_commands,
    subcommands,
)

DATA = HERE / "data"
PAUSE = threading.Event()
MOVING = [
    (re.compile(r',"crc":"[0-9a-f]{8}"}$', re.MULTILINE), ',"crc":"@CRC@"}'),
    (re.compile(r'(?<="device": )\d+'), "@DEVICE@"),
    (re.compile(r'(?<="inode": )\d+'), "@INODE@"),
    (re.compile(r"(?<=trash/)\d{8}"), "@TODAY@"),
]
"""What holds on this machine and this day only."""
CHECK = "python3 check.py"
PLAN = f"""## Name

The total

## Steps

1. Write 42 into `total.txt`.
2. Verify: `{CHECK}`
"""
SUMMARY = """## Goal
Keep the notes in order.

## Done
alpha.txt was written and changed.

## Next
Go on with beta.txt.
"""
NO_REMINDERS = "[loop.gates]\ntodo = 0\nresume = 0\n"
NO_SNAPSHOTS = "[session]\nsnapshots = false\n"
CHECK_FILE = "assert open('total.txt').read() == '42\\n'\n"


class World:
    """A home, a project under git, and the other version."""

    def __init__(self, checkout: Path, base: Path, service: Service) -> None:
        self.base, self.service = base, service
        self.python = checkout / ".venv" / "bin" / "python"
        for name in ("home", "project", "config", "state"):
            (base / name).mkdir(parents=True)
        self.project, self.config, self.state = base / "project", base / "config", base / "state"
        self.git("init", "-q", "-b", "main")
        self.settings()

    def settings(self, more: str = "") -> None:
        (self.config / "config.toml").write_text(
            f'[providers.fake]\ntype = "openai"\nmodel = "gpt-4o"\nbase_url = '
            f'"{self.service.url}/v1"\napi_key_env = "FAKE_KEY"\n{more}'
        )

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=self.project, check=True)

    def files(self) -> list[Path]:
        """The files that dirge stores."""
        return [path for path in self.state.rglob("*") if path.is_file()]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base / "home"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "DIRGE_CONFIG_DIR": str(self.config),
            "DIRGE_STATE_DIR": str(self.state),
            "DIRGE_LOCAL_SERVERS": "",
            "FAKE_KEY": "sk-fake-0123456789",
        }

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.python, "-m", "dirge_py", *words],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *words: str, code: int = 0, given: str = "") -> str:
        process = self.start(*words, stdin=subprocess.PIPE)
        told, _ = process.communicate(given, timeout=60)
        assert process.returncode == code, (words, process.returncode, told)
        return told

    def try_to_run(self, *words: str, stdin: str = "") -> ProcessResult:
        process = self.start(*words, stdin=subprocess.PIPE)
        told, _ = process.communicate(stdin, timeout=60)
        return ProcessResult(process.returncode, told, "")

    def ask(self, *words: str, code: int = 0) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(
            self.run("-p", "--output-format", "json", *words, code=code)
        )
        return result


def verdict(word: str, status: str, missing: str = "") -> dict[str, Any]:
    item = {"requirement": "the total is 42", "status": status, "evidence": [CHECK]}
    block = json.dumps({"verdict": word, "checklist": [item], "missing": missing})
    return says(f"I ran it.\n\n```json\n{block}\n```")


def writes_total(content: str) -> dict[str, Any]:
    return says("I write it.", ("write", {"path": "total.txt", "content": f"{content}\n"}))


FINDINGS = says("`check.py:1` reads `total.txt`.")
PLANNED = says(PLAN)
RUNS = says("I check.", ("bash", {"command": CHECK}))


# -- what is made


def plain(world: World) -> None:
    """Settings that name a model, and nothing else."""
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    (world.base / "shown.txt").write_text(world.run("config", "show"))


def surface(world: World) -> None:
    """The public surface, in a separate file."""
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    (world.project / "here.txt").write_text("here\n")
    public = "import json, dirge_py; print(json.dumps(dirge_py.__all__))"
    listed = subprocess.run([world.python, "-c", public], capture_output=True, check=True)
    seen = {
        "library": json.loads(listed.stdout),
        "flags": flags(world.try_to_run),
        "subcommands": subcommands(world.try_to_run),
        "slash_commands": slash_commands(world.try_to_run),
        "outputs": outputs(world.try_to_run, world.service),
        "documented": documented(world.python.parents[2] / "docs"),
    }
    (DATA / "surface.json").write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")


def sessions(world: World) -> None:
    """Sessions with tool calls and snapshots, branches, a fork, a compaction, segments."""
    world.settings(NO_REMINDERS)
    (world.project / "AGENTS.md").write_text("Keep the notes in order.\n")
    (world.project / "alpha.txt").write_text("one\n")
    world.git("add", ".")
    world.git("commit", "-qm", "Begin")
    model = world.service
    model.will(
        says(
            "Let me see.",
            ("read", {"path": "alpha.txt"}),
            ("grep", {"pattern": "one", "path": "."}),
            thinking="Look first.",
        ),
        says("Written.", ("edit", {"path": "alpha.txt", "old_text": "one", "new_text": "two"})),
        says(
            "Now the list.",
            ("todo", {"items": [{"id": "1", "text": "order beta", "status": "pending"}]}),
            ("memory", {"action": "add", "store": "memory", "content": "Notes are in alpha.txt."}),
        ),
        says("alpha.txt says two."),
    )
    world.ask("--yolo", "--session", "tools", "Change alpha to two.")
    model.will(
        says("A command.", ("bash", {"command": "echo beta > beta.txt"})),
        says("beta.txt is there."),
    )
    world.ask("--yolo", "--session", "tools", "Make beta.")
    model.will(says("Three.", ("write", {"path": "alpha.txt", "content": "three\n"})), says("3."))
    world.ask("--yolo", "--session", "tools", "Change alpha to three.")
    model.will(says("It was forked."))
    world.ask("--resume", "tools", "--fork-session", "Go on elsewhere.")

    model.will(says("First answer."), says("Second answer."), says("Another second answer."))
    lines = "First question.\nSecond question.\n/fork\n1\n/rename Branches of a talk\n"
    world.run("--line", "--session", "branches", given=lines)
    (world.base / "tree.txt").write_text(world.run("-p", "--resume", "branches", "/tree"))
    world.ask("--resume", "branches", "Another second question.")

    model.will(*[says(f"Answer {number}. " + "Words fill it. " * 60) for number in range(4)])
    for number in range(4):
        world.ask("--session", "compacted", f"Question {number}.")
    model.will(says(SUMMARY))
    world.run("-p", "--resume", "compacted", "/compact the files")
    model.will(says("After the summary."))
    world.ask("--resume", "compacted", "What is next?")

    world.settings(NO_REMINDERS + NO_SNAPSHOTS + "segment_records = 12\n")
    (world.project / "long.txt").write_text("".join(f"line {n} of it\n" for n in range(1600)))
    model.will(says("I read.", ("read", {"path": "long.txt"})), says("It is long."))
    world.ask("--session", "segments", "Read the long file.")
    model.will(says("Still long."))
    world.ask("--session", "segments", "And now?")
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    (world.config / "prompts").mkdir()
    careful = "---\ndescription: Look only.\ndeny_tools: [write]\n---\n\nBe careful with notes.\n"
    (world.config / "prompts" / "careful.md").write_text(careful)
    model.will(says("I am careful."))
    lines = "/mode plan\n/effort off\nLook.\n"
    world.run("--line", "--session", "prompted", "--prompt", "careful", given=lines)
    model.will(says("Asking.", ("bash", {"command": "touch granted.txt"})), says("Granted."))
    world.run("--line", "--session", "granted", given="Touch it.\na\n")
    model.will(says("Soon gone."))
    world.ask("--session", "trashed", "A prompt in the bin.")
    world.run("sessions", "delete", "trashed", "--yes")
    (world.config / "USER.md").write_text("- I like short answers.\n")
    world.run("signal", "tools", "deployed", '{"to": "staging"}')
    world.settings(NO_REMINDERS)
    for kind in ("json", "md"):
        exported = world.run("sessions", "export", "tools", "--format", kind)
        (world.base / f"exported.{kind}").write_text(exported)
    listed = json.loads(world.run("sessions", "list", "--json"))
    (world.base / "listed.json").write_text(json.dumps(listed, indent=1) + "\n")


def crashed(world: World) -> None:
    """A session killed during a command, with queued input."""
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    world.service.will(
        says(
            "Both.",
            ("read", {"path": "here.txt"}),
            ("bash", {"command": "touch begun; while :; do sleep 0.1; done"}),
        )
    )
    (world.project / "here.txt").write_text("here\n")
    process = world.start("-p", "--yolo", "--session", "crashed", "Do both.", process_group=0)
    wait_until(lambda: (world.project / "begun").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kill_left(world.base)


def typed(world: World) -> None:
    """A terminal UI killed with text in the input and queued messages."""
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    world.service.will(says("Hello."))
    world.ask("--session", "typed", "A beginning.")
    world.service.will({"hang": True})
    with on_screen(world, "--resume", "typed", "Take your time.") as (keys, process):
        asked = len(world.service.requests)
        world.service.wait_for(asked + 1)
        for words, key in (("waiting words", "\r"), ("half a thought", "")):
            keys(words + key)
            wait_until(lambda words=words: any(words in read(path) for path in world.files()))
        process.kill()


def plan_done(world: World) -> None:
    begin_plan(world)
    world.service.will(
        FINDINGS, PLANNED, writes_total("42"), says("It is written."), RUNS,
        verdict("DONE", "verified"),
    )  # fmt: skip
    world.ask("--yolo", "--plan", "--session", "planned", "Make the total 42.")


def plan_waiting(world: World) -> None:
    begin_plan(world, "[plan]\nauto_accept = false\n")
    world.service.will(FINDINGS, PLANNED)
    world.ask("--yolo", "--plan", "--session", "waiting", "Make the total 42.", code=11)


def plan_half(world: World) -> None:
    begin_plan(world)
    world.service.will(FINDINGS, PLANNED, writes_total("41"))
    words = ("--max-turns", "1", "--session", "half", "Make the total 42.")
    world.ask("--yolo", "--plan", *words, code=53)


def deferred(world: World) -> None:
    """Sessions with calls that wait for a decision."""
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    calls = [
        ("read", {"path": "here.txt"}),
        ("bash", {"command": "touch deployed.txt"}),
        ("write", {"path": "after.txt", "content": "after\n"}),
    ]
    (world.project / "here.txt").write_text("here\n")
    for name in ("confirm", "reject"):
        world.service.will(says("I deploy.", *calls))
        world.ask("--on-ask", "defer", "--session", name, f"Deploy and {name}.", code=11)
    world.service.will(says("I feed it.", ("bash", {"input": "fed", "command": "cat > fed.txt"})))
    world.ask("--on-ask", "defer", "--session", "fed", "Feed it.", code=11)
    (world.project / "deploy.sh").write_text("touch by_script.txt\n")
    world.service.will(says("I run it.", ("bash", {"command": "sh deploy.sh"})))
    world.ask("--on-ask", "defer", "--session", "script", "Run the script.", code=11)
    world.service.will(says("I ring.", ("bash", {"command": "touch rung.txt"})))
    world.ask("--on-ask", "defer", "--session", "left", "Ring, but nobody says yes.", code=11)


def library(world: World) -> None:
    """A thread of a program in a journal, with a call that waits for a decision."""
    subprocess.run(
        [world.python, DATA / "scripts" / "thread.py.txt", "begin"],
        cwd=world.project,
        env=world.environment,
        check=True,
    )


def recording(world: World) -> None:
    world.settings(NO_REMINDERS + NO_SNAPSHOTS)
    (world.project / "here.txt").write_text("here\n")
    world.service.will(says("I look.", ("read", {"path": "here.txt"})), says("It says here."))
    result = world.ask("--no-session", "--record", str(world.base / "run.jsonl"), "What is there?")
    assert result["result"] == "It says here."


def trusted(world: World) -> None:
    """A trusted project with settings, a plugin and a prompt."""
    folder = world.project / ".dirge"
    for name in ("plugins", "prompts"):
        (folder / name).mkdir(parents=True)
    (folder / "config.toml").write_text('[plugins.greeting]\nword = "aye"\n')
    (folder / "plugins" / "greeting.py").write_text(
        "def register(dirge):\n"
        '    @dirge.command("greet", help="say a word", headless=True)\n'
        "    def greet(args, conversation, front):\n"
        "        return f\"{dirge.settings['word']} {args}\"\n"
    )
    (folder / "prompts" / "local.md").write_text("Words of the project.\n")
    shown = json.loads(world.run("trust", "--show", "--json"))
    world.run("trust", "--accept", shown["digest"])


def settings(world: World) -> None:
    """All settings, and how the version parsed them."""
    example = (world.python.parents[2] / "config.example.toml").read_text()
    (world.config / "config.toml").write_text(example)
    (world.config / "keys").mkdir()
    (world.config / "keys" / "other").write_text("sk-other\n")
    (world.config / "keys" / "other").chmod(0o600)
    (world.base / "shown.txt").write_text(world.run("config", "show"))


def begin_plan(world: World, more: str = "") -> None:
    world.settings(NO_REMINDERS + more)
    (world.project / "check.py").write_text(CHECK_FILE)
    world.git("add", ".")
    world.git("commit", "-qm", "Begin")


# -- how it is kept


def keep(world: World, name: str) -> None:
    """The stored files as text without paths of this machine."""
    target, digested = DATA / "homes" / name, []
    shutil.rmtree(target, ignore_errors=True)
    stand_ins = {
        **{project_id(folder): f"{folder.name}-@ID@" for folder in (world.project, world.state)},
        str(world.base): "@BASE@",
        world.service.url: "@SERVICE@",
    }
    for path in sorted(world.base.rglob("*")):
        place = path.relative_to(world.base)
        if not path.is_file() or left_out(place):
            continue
        text, kept = path.read_text(encoding="utf-8"), str(place)
        if place.suffix == ".jsonl":
            text = tell_digests(text, digested)
        for word, stand_in in stand_ins.items():
            text, kept = text.replace(word, stand_in), kept.replace(word, stand_in)
        for pattern, stand_in in MOVING:
            text, kept = pattern.sub(stand_in, text), pattern.sub(stand_in, kept)
        if place.suffix == ".py":  # no tool of ours should take it for ours
            kept += ".txt"
        (target / kept).parent.mkdir(parents=True, exist_ok=True)
        (target / kept).write_text(text, encoding="utf-8")
    if digested:
        text = json.dumps(digested, indent=1).replace(str(world.base), "@BASE@")
        (target / "digested.json").write_text(f"{text}\n")
    for store in world.state.glob("snapshots/*.git"):
        export = ["git", f"--git-dir={store}", "fast-export", "--all"]
        streamed = subprocess.run(export, capture_output=True, check=True, text=True).stdout
        dated = re.sub(r"(?<=localhost> )\d+", "@NOW@", streamed)
        kept = f"{store.stem}.fast-export".replace(project_id(world.project), "project-@ID@")
        (target / "state" / "snapshots" / kept).write_text(dated)


def tell_digests(journal: str, digested: list[str]) -> str:
    """The journal with numbers for the digests of waiting calls; `digested` maps them back."""
    calls: dict[str, Any] = {}
    for record in map(json.loads, journal.splitlines()):
        data = record.get("data", {})
        for block in data.get("content", ()) if data.get("role") == "assistant" else ():
            calls[block.get("id")] = block.get("arguments")
        if record.get("type") == "decision" and data["effect"] == "defer":
            cwd = data["tried"][0][2]
            claim = [*data["claims"][0].split(":", 1), cwd]  # what follows from it is left out
            of = json.dumps([data["tool"], [claim], calls[data["call_id"]]], sort_keys=True)
            assert hashlib.sha256(of.encode()).hexdigest() == data["digest"], (of, data)
            journal = journal.replace(data["digest"], f"@DIGEST {len(digested)}@")
            digested.append(of)
    return journal


def project_id(folder: Path) -> str:
    """The folder name of a project's sessions."""
    return f"{folder.name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def left_out(place: Path) -> bool:
    """Lock files, caches, and git's own files."""
    return (
        bool({".git", "home", "__pycache__", "objects", "refs"} & set(place.parts))
        or place.name.endswith((".lock", ".sum", ".sqlite"))
        or place.name == "index"
    )


def read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8")
    return ""


def wait_until(holds: Callable[[], bool], patience_s: float = 30) -> None:
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it did not come"
        PAUSE.wait(0.02)


def kill_left(base: Path) -> None:
    """Kill the processes that a killed program left in this folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(base):
                os.kill(int(process.name), signal.SIGKILL)


@contextlib.contextmanager
def on_screen(
    world: World, *words: str
) -> Iterator[tuple[Callable[[str], None], "subprocess.Popen[bytes]"]]:
    """The terminal UI on a terminal whose output is discarded."""
    screen, terminal = pty.openpty()
    command = [world.python, "-m", "dirge_py", *words]
    process = subprocess.Popen(
        command,
        cwd=world.project,
        env=world.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)

    def drain() -> None:
        with contextlib.suppress(OSError):
            while os.read(screen, 65536):
                pass

    threading.Thread(target=drain, daemon=True).start()
    try:
        yield lambda text: (os.write(screen, text.encode()), None)[1], process
    finally:
        process.kill()
        process.wait()


HOMES = (
    plain, sessions, crashed, typed, plan_done, plan_waiting, plan_half, deferred, library,
    recording, trusted, settings, surface,
)  # fmt: skip


def main(checkout: Path, *names: str) -> None:
    for make in HOMES:
        if names and make.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, Service() as service:
            world = World(checkout, Path(folder).resolve(), service)
            make(world)
            if make is not surface:
                keep(world, make.__name__)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
