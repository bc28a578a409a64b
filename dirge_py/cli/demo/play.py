"""`dirge demo`: the real program mends a copy of a bundled project; only the model is a script.

`Demo` mends a bug, `PlanDemo` works through a plan whose review finds what was forgotten.
`play_printed` plays either as plain text.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dirge_py.cli.demo.script import (
    PROMPT,
    QUICK_CHECK,
    REQUEST,
    TEST_COMMAND,
    PlanScript,
    demo_script,
)
from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.text import clean
from dirge_py.plan.approval import AutoApprove
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.runner import start_plan
from dirge_py.plan.state import NAME, load_state
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.events import (
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PlanPhase,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import AssistantMessage, ThinkingBlock, ToolResultMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest

_SCRIPTED = "A demo: the model is a script; tools, permissions, the diff and the test run are real."
MOST_LINES = 14
LAST_LINES = 3
"""Of a long output these are shown as well: there commands say how they ended."""
SAMPLE = Path(__file__).parent / "sample"


class Demo:
    """A copy of the sample repository and all it needs, until `close`; changes into it."""

    scenario: ClassVar[str] = "mend"
    prompt: ClassVar[str] = PROMPT
    rule: ClassVar[str] = f"execute:{TEST_COMMAND}"
    notices: ClassVar[tuple[str, ...]] = (
        _SCRIPTED,
        f"It works in a copy and starts with one rule: --allow '{rule}'",
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dirge-demo-")
        base = Path(self._folder.name)
        self._before = Path.cwd()
        self._conversation: Conversation | None = None
        self.project = copy_sample(base, self.scenario)
        script = base / "script.toml"
        script.write_text("replies = []\n", encoding="utf-8")
        (base / "config.toml").write_text(
            f'[providers.demo]\ntype = "scripted"\nmodel = "script"\nscript = "{script}"\n',
            encoding="utf-8",
        )
        # Its python is the one that is sure to be there.
        python = os.path.dirname(sys.executable)
        os.environ["PATH"] = os.pathsep.join([python, os.environ.get("PATH", os.defpath)])
        environment = {**os.environ, "DIRGE_STATE_DIR": str(base / "state")}
        self._config = load(Overrides(provider="demo"), environment, base / "config.toml")
        os.chdir(self.project)

    def conversation(self, asker: Asker, *, paced: bool) -> Conversation:
        """A conversation that begins where the script does."""
        return self._built(asker, demo_script(is_paced=paced).stream)

    @property
    def has_passed(self) -> bool:
        """Whether the last command of the run was the tests, and they really passed."""
        if self._conversation is None:
            return False
        results = [m for m in self._conversation.messages if isinstance(m, ToolResultMessage)]
        return bool(results) and results[-1].details.get("exit_code") == 0

    async def play(self, conversation: Conversation) -> bool:
        """Play it to its end; whether it ended well."""
        return isinstance(await conversation.send(self.prompt), Done)

    def close(self) -> None:
        os.chdir(self._before)
        self._folder.cleanup()

    def _built(self, asker: Asker, stream_fn: StreamFn) -> Conversation:
        options = BuildOptions(allow=(self.rule,), notices=self.notices)
        self._conversation = build(self._config, asker, options, stream_fn=stream_fn)
        return self._conversation


class _Refuser:
    """Nobody is there to answer; the script asks for nothing that its rule does not cover."""

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [PermissionAnswer(effect="deny") for _ in requests]


def play_printed(demo: Demo) -> int:
    """Play the demo as text; 0 only if the real tests passed at its end."""
    return asyncio.run(_play_printed(demo))


async def _play_printed(demo: Demo) -> int:
    try:
        say("\n".join(demo.notices))
        say(f"\n> {demo.prompt}")
        conversation = demo.conversation(_Refuser(), paced=False)
        conversation.subscribe(DemoPrinter().sink)
        try:
            passed = await demo.play(conversation) and demo.has_passed
        finally:
            await conversation.close()
    finally:
        demo.close()
    say("\nThe tests passed." if passed else "\nThe tests did not pass: the demo failed.")
    return 0 if passed else 1


class DemoPrinter:
    """A sink that prints a run for people to read."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}

    def sink(self, event: LoopEvent) -> None:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                for block in message.content:
                    if isinstance(block, ThinkingBlock):
                        say(f"  (thinking) {block.text}")
                if message.text:
                    say(f"\n{message.text}")
            case ToolExecutionStart():
                self._running[event.tool_call_id] = _main_argument(event.args)
            case ToolExecutionEnd(result=result):
                say(f"\n● {event.tool_name} {self._running.pop(event.tool_call_id, '')}")
                say(_indented(str(result.details.get("diff") or result.text)))
            case PlanPhase(state="started"):
                say(f"\n── {event.phase}, cycle {event.step} {_in_brackets(event.shut_in)}──")
            case PlanPhase(summary=summary) if summary:
                say(f"\n   {event.phase} ended: {summary}")
            case EvidenceTaken():
                say(f"  {'✓' if event.outcome == 'passed' else '✗'} {event.id}: {event.outcome}")
            case ForkEvent(event=inner):
                self.sink(inner)
            case SystemNotice(content=content):
                say(f"\n{content}")


def say(text: str) -> None:
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def _main_argument(args: object) -> str:
    if not isinstance(args, dict):
        return str(args)
    for name in ("command", "pattern", "path"):
        if name in args:
            return str(args[name])
    return ""


def _in_brackets(words: str) -> str:
    return f"({words}) " if words else ""


def _indented(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = lines
    if len(lines) > MOST_LINES:
        left_out = len(lines) - MOST_LINES
        shown = [*lines[: -LAST_LINES - left_out], f"… {left_out} more lines", *lines[-LAST_LINES:]]
    return "\n".join(f"  │ {line}" for line in shown)


def copy_sample(folder: Path, scenario: str) -> Path:
    """A fresh copy of a sample repository inside `folder`, with a `.git` of its own.

    The `.git` is written by hand: it only has to mark where the project ends.
    """
    project = folder / "textstats"
    shutil.copytree(SAMPLE / scenario, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git = project / ".git"
    for part in ("objects", "refs/heads"):
        (git / part).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    return project


class PlanDemo(Demo):
    """The same for a plan."""

    scenario: ClassVar[str] = "plan"
    prompt: ClassVar[str] = f"/plan {REQUEST}"
    rule: ClassVar[str] = f"execute:{QUICK_CHECK}"
    notices: ClassVar[tuple[str, ...]] = (
        "A demo: the model is a script; phases, tools, permissions and test runs are real.",
        f"It works in a copy and starts with one rule: --allow '{rule}'",
        f"Accepting its plan adds the one for all tests: execute:{TEST_COMMAND}",
    )

    def conversation(self, asker: Asker, *, paced: bool) -> Conversation:
        script = PlanScript(is_paced=paced)
        conversation = self._built(asker, script.stream)
        conversation.subscribe(script.sink)
        return conversation

    @property
    def has_passed(self) -> bool:
        """Whether the plan ended verified, by tests that really passed in its last review."""
        if self._conversation is None:
            return False
        state = load_state(self._conversation.session.metadata.get(NAME))
        if state is None or state.status != "verified":
            return False
        ledger = EvidenceLedger.load(state.evidence)
        tests = [e for e in ledger.of("review", state.cycle.step) if e.command == TEST_COMMAND]
        return bool(tests) and tests[-1].has_passed

    async def play(self, conversation: Conversation) -> bool:
        result = await start_plan(REQUEST, conversation, AutoApprove())
        say(f"\n{result.report}")
        return isinstance(result.outcome, Done)
