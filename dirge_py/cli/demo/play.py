"""`dirge demo`: the real program fixes a copy of a bundled project; only the model is a script.

`Demo` fixes a bug, `PlanDemo` works through a plan whose review finds what was forgotten.
`play_printed` plays either as plain text. The model's answers are in `replies/`: which is the last
one, and which verdict the plan's reviewer gives, depends on the real test results.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from dirge_py.cli.flags import write_line
from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.print_mode import PolicyAsker
from dirge_py.lib.paths import own_command
from dirge_py.plan.approval import AutoApprove
from dirge_py.plan.evidence import EvidenceLedger
from dirge_py.plan.runner import start_plan
from dirge_py.plan.state import NAME, load_state
from dirge_py.providers.scripted import Reply, ReplyMaker, Script, load_script
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import (
    AgentEnd,
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PlanPhase,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
)
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Asker

PROMPT = "The tests of this project fail. Find out why, fix it, and show me that they pass."
TEST_COMMAND = "python3 -m unittest"
REQUEST = (
    "Add `top_words(text, n)` to textstats: the n most frequent words with their counts, the "
    "most frequent first, of equally frequent ones the first in the text. Case does not matter. "
    "Its tests are in test_top_words.py. Name it in the README, too."
)
QUICK_CHECK = f"{TEST_COMMAND} -k counts"
MOST_LINES = 14
LAST_LINES = 3
"""How many last lines of a long output are shown, too, because commands end with their result."""
_FOLDER = Path(__file__).parent


class Demo:
    """A copy of the sample repository, until `close`; changes into it."""

    scenario: ClassVar[str] = "mend"
    prompt: ClassVar[str] = PROMPT
    rule: ClassVar[str] = f"execute:{TEST_COMMAND}"
    asks: ClassVar[bool] = True
    """Whether the user is asked about the command, instead of a rule that allows it."""
    notices: ClassVar[tuple[str, ...]] = (
        "A demo: the model is a script; tools, permissions, the diff and the test run are real.",
        f"dirge works in a copy and starts with one rule: --allow '{rule}'",
    )
    notices_with_question: ClassVar[tuple[str, ...]] = (
        notices[0],
        "dirge works in a copy, where it may edit files. Before it runs the tests, it asks you.",
    )

    def __init__(self) -> None:
        command = own_command()
        self.next_step = (
            "This was the demo. To work on your own project, set up a model with "
            f"`{command} config init`, then run `{command}` in its folder."
        )
        """What to do after the demo."""
        self.no_more = (
            "I am the script of this demo, and I only know the one task above, so I cannot answer "
            f"other prompts. Leave with /quit and run `{command} config init`: it asks for the key "
            "of a service, or uses a model server on this machine. Then run "
            f"`{command}` in the folder of your project."
        )
        """The answer to a prompt after the demo."""
        self._folder = tempfile.TemporaryDirectory(prefix="dirge-demo-")
        base = Path(self._folder.name)
        self._before = Path.cwd()
        self._conversation: Conversation | None = None
        project = _copy_sample(base, self.scenario)
        script = base / "script.toml"
        script.write_text("replies = []\n", encoding="utf-8")
        (base / "config.toml").write_text(
            f'[providers.demo]\ntype = "scripted"\nmodel = "script"\nscript = "{script}"\n'
            "[models.script]\nprice_in = 0\nprice_out = 0\nprice_cache_read = 0\n",
            encoding="utf-8",
        )
        # `python3` is dirge's own interpreter, which always exists.
        python = os.path.dirname(sys.executable)
        os.environ["PATH"] = os.pathsep.join([python, os.environ.get("PATH", os.defpath)])
        environment = {**os.environ, "DIRGE_STATE_DIR": str(base / "state")}
        self._config = load(Overrides(provider="demo"), environment, base / "config.toml")
        os.chdir(project)

    def conversation(self, asker: Asker, *, paced: bool) -> Conversation:
        """A conversation at the beginning of the script; a `paced` one is for a person."""
        script = DemoScript(is_paced=paced, next_step=self.next_step, no_more=self.no_more)
        options = BuildOptions(allow=(self.rule,), notices=self.notices)
        if paced and self.asks:
            options = BuildOptions(notices=self.notices_with_question)
        conversation = build(self._config, asker, options, stream_fn=script.stream)
        conversation.subscribe(script.on_event)
        self._conversation = conversation
        return conversation

    @property
    def has_passed(self) -> bool:
        """Whether the last command of the run was the tests, and they really passed."""
        messages = self._conversation.messages if self._conversation is not None else ()
        return _last_details(messages).get("exit_code") == 0

    async def play(self, conversation: Conversation) -> bool:
        """Play the demo; returns whether it ended well."""
        return isinstance(await conversation.send(self.prompt), Done)

    def close(self) -> None:
        os.chdir(self._before)
        self._folder.cleanup()


def play_printed(demo: Demo) -> int:
    """Play the demo as text; 0 only if the real tests passed at its end."""

    async def play() -> bool:
        # The demo's rule covers every call of the script, so nothing is asked.
        conversation = demo.conversation(PolicyAsker(), paced=False)
        conversation.subscribe(DemoPrinter().on_event)
        try:
            return await demo.play(conversation) and demo.has_passed
        finally:
            await conversation.close()

    with closing(demo):
        write_line("\n".join(demo.notices))
        write_line(f"\n> {demo.prompt}")
        passed = asyncio.run(play())
    write_line("\nThe tests passed." if passed else "\nThe tests did not pass: the demo failed.")
    write_line(demo.next_step)
    return 0 if passed else 1


class DemoPrinter:
    """A sink that prints a run for people to read."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                for block in message.content:
                    if isinstance(block, ThinkingBlock):
                        write_line(f"  (thinking) {block.text}")
                if message.text:
                    write_line(f"\n{message.text}")
            case ToolExecutionStart():
                args = event.args if isinstance(event.args, dict) else {}
                names = [name for name in ("command", "pattern", "path") if name in args]
                self._running[event.tool_call_id] = str(args[names[0]]) if names else ""
            case ToolExecutionEnd(result=result):
                write_line(f"\n● {event.tool_name} {self._running.pop(event.tool_call_id, '')}")
                write_line(_indented(str(result.details.get("diff") or result.text)))
            case PlanPhase(state="started"):
                where = f"({event.shut_in}) " if event.shut_in else ""
                write_line(f"\n── {event.phase}, cycle {event.step} {where}──")
            case PlanPhase(summary=summary) if summary:
                write_line(f"\n   {event.phase} ended: {summary}")
            case EvidenceTaken():
                mark = "✓" if event.outcome == "passed" else "✗"
                write_line(f"  {mark} {event.id}: {event.outcome}")
            case ForkEvent(event=inner):
                self.on_event(inner)
            case SystemNotice(content=content):
                write_line(f"\n{content}")


def _indented(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if (left_out := len(lines) - MOST_LINES) > 0:
        lines[-LAST_LINES - left_out : -LAST_LINES] = [f"… {left_out} more lines"]
    return "\n".join(f"  │ {line}" for line in lines)


def _copy_sample(folder: Path, scenario: str) -> Path:
    """Return a fresh copy of a sample in `folder`, with a `.git` that only marks where it ends."""
    project = folder / "textstats"
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_FOLDER / "sample" / scenario, project, ignore=no_caches)
    (project / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git = project / ".git"
    for part in ("objects", "refs/heads"):
        (git / part).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    return project


class PlanDemo(Demo):
    """The demo of a plan, in its own copy of the sample."""

    scenario: ClassVar[str] = "plan"
    prompt: ClassVar[str] = f"/plan {REQUEST}"
    rule: ClassVar[str] = f"execute:{QUICK_CHECK}"
    asks: ClassVar[bool] = False
    notices: ClassVar[tuple[str, ...]] = (
        "A demo: the model is a script; phases, tools, permissions and test runs are real.",
        f"dirge works in a copy and starts with one rule: --allow '{rule}'",
        f"Accepting its plan adds the one for all tests: execute:{TEST_COMMAND}",
    )

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
        write_line(f"\n{result.report}")
        return isinstance(result.outcome, Done)


class DemoScript:
    """Plays the model: fixes the bug, or works on a plan, each phase of which has its replies."""

    def __init__(self, *, is_paced: bool, next_step: str, no_more: str) -> None:
        self._is_paced = is_paced
        self._next_step = next_step
        self._no_more = Reply(text=no_more, usage=Usage(input=3100, output=95))
        self._replies: list[Reply | ReplyMaker] = [*_replies("fix"), _last_words]

    def on_event(self, event: LoopEvent) -> None:
        if isinstance(event, AgentEnd):
            self._replies = []
        elif isinstance(event, PlanPhase) and event.state == "started":
            is_again = event.phase == "implement" and event.step > 1
            self._replies = [*_replies(f"{event.phase}{'_again' * is_again}")]
            if event.phase == "review":
                self._replies.append(_verdict)

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """The next reply of this phase."""
        reply = self._replies.pop(0) if self._replies else self._no_more
        if not isinstance(reply, Reply):
            is_last = reply is _last_words
            reply = reply(context)
            if is_last and self._is_paced:
                reply = replace(reply, text=f"{reply.text}\n\n{self._next_step}")
        if self._is_paced:
            reply = replace(reply, chunk_chars=3, pause_s=0.015)
        async for event in Script([reply]).stream(context, options, signal):
            yield event


def _replies(name: str) -> Sequence[Reply | ReplyMaker]:
    return load_script(str(_FOLDER / "replies" / f"{name}.toml")).replies


def _reply(name: str) -> Reply:
    [reply] = _replies(name)
    assert isinstance(reply, Reply)
    return reply


def _last_details(messages: Sequence[Message]) -> Mapping[str, object]:
    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    return results[-1].details if results else {}


def _tests_passed(context: LlmContext) -> bool:
    details = _last_details(context.messages)
    return details.get("command") == TEST_COMMAND and details.get("exit_code") == 0


def _last_words(context: LlmContext) -> Reply:
    return _reply("fixed" if _tests_passed(context) else "not_fixed")


def _verdict(context: LlmContext) -> Reply:
    """The verdict: DONE if the tests passed in this review, else NEEDS_FIX with the reason."""
    if _tests_passed(context):
        return _reply("verdict_done")
    could_run = isinstance(_last_details(context.messages).get("exit_code"), int)
    return _reply("verdict_needs_fix" if could_run else "verdict_unknown")
