"""Runs that repeat calls without progress are stopped; similar ordinary runs are not."""

import asyncio
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import Hooks, LoopConfig, ToolOverride, TurnInfo, compose
from dirge_py.guards.repetition import MOST_POLLS, SLOW_S, StormBreaker
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import Claim, LoopToolResult, ShellCommand, ToolCall, text_result
from tests.security.sizes import size
from tests.support.loop_runs import LoopRun, Tool, run_loop

Call = tuple[str, Any]
Answer = list[Call]
MOST_ANSWERS = 70


@dataclass
class Project:
    """Files, and tools that work on them like those of dirge."""

    files: dict[str, str] = field(default_factory=dict)
    now_s: float = 0.0
    outputs: Iterator[tuple[str, LoopToolResult]] | None = None

    def tools(self) -> list[Any]:
        return [
            ClaimingTool("read", self._read, op="read"),
            ClaimingTool("edit", self._edit, op="edit", execution_mode="sequential"),
            ClaimingTool("write", self._write, op="edit", execution_mode="sequential"),
            ClaimingTool("bash", self._bash, op="execute", execution_mode="sequential"),
            ClaimingTool("issues", self._issues, op="mcp"),
            ClaimingTool("grep", self._grep, op="read"),
        ]

    async def _read(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        if (text := self.files.get(given["path"])) is None:
            return failed(f"{given['path']} does not exist.")
        lines = text.splitlines()
        start = given.get("offset", 1)
        if start > len(lines):
            return failed(f"It has {len(lines)} lines; offset {start} is past its end.")
        return text_result("\n".join(lines[start - 1 :][: given.get("limit", 2000)]))

    async def _edit(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        text = self.files.get(given["path"], "")
        if given["old"] not in text:
            return failed(f"{given['old']!r} is not in {given['path']}.")
        self.files[given["path"]] = text.replace(given["old"], given["new"], 1)
        return text_result("Edited.")

    async def _write(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        self.files[given["path"]] = given["content"]
        return text_result("Written.")

    async def _grep(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        return text_result("No matches.")

    async def _issues(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        return text_result("No more issues.")

    async def _bash(self, _id: str, given: Any, *_: Any) -> LoopToolResult:
        words = given["command"].split()
        match words[0]:
            case "sleep" | "slow":
                self.now_s += float(words[1].rstrip(";"))
                return text_result("pending" if len(words) > 2 else "(no output)")
            case "pytest":
                return text_result("1 failed\nExit code: 1", outcome="failed_command")
            case "hangs":
                return text_result("timed out", outcome="timeout", is_error=True)
            case "next":
                assert self.outputs is not None
                return next(self.outputs)[1]
        return text_result("(no output)")


@dataclass
class ClaimingTool(Tool):
    op: str = "other"

    def claims(self, arguments: Any) -> Sequence[Any]:
        if self.op == "execute":
            return [Claim("execute", ShellCommand(arguments["command"], "/w"))]
        return [Claim(self.op, f"/w/{arguments.get('path', '')}")]


def failed(text: str) -> LoopToolResult:
    return text_result(text, outcome="error", is_error=True)


def read(path: str, **more: Any) -> Call:
    return "read", {"path": path, **more}


def edit(path: str, old: str, new: str = "x") -> Call:
    return "edit", {"path": path, "old": old, "new": new}


def bash(command: str) -> Call:
    return "bash", {"command": command}


def one_by_one(*makers: Callable[[int], Call]) -> Callable[[], Iterator[Answer]]:
    """Answers of one call each, round after round; each gets the number of its round."""
    return lambda: ([make(n)] for n in itertools.count() for make in makers)


def always(*calls: Call) -> Callable[[], Iterator[Answer]]:
    return one_by_one(*(lambda _n, call=call: call for call in calls))


def together(*makers: Callable[[int], Call]) -> Callable[[], Iterator[Answer]]:
    return lambda: ([make(n) for make in makers] for n in itertools.count())


async def run_of(
    answers: Iterator[Answer], project: Project | None = None, *further: Hooks
) -> tuple[LoopRun, int]:
    """A run of a model that makes these calls and then says done, and how many answers it gave."""
    project = project or Project({name: f"{name} 1\nold\nmore" for name in "abcdefgh"})
    breaker = StormBreaker(failures=3, clock=lambda: project.now_s)
    model, made = ScriptedModel(), 0

    def answer(_context: Any) -> Reply:
        nonlocal made
        calls = next(answers, None) if made < MOST_ANSWERS else None
        made += 1
        return Reply(text="" if calls else "done", calls=calls or [])

    for _ in range(MOST_ANSWERS + 1):
        model.will(answer)
    config = compose(
        breaker.bundle(), *further, config=LoopConfig(interceptors=[breaker.time_call])
    )
    run = await run_loop(model, "go", tools=project.tools(), config=config)
    assert_balanced(run.new)
    return run, made


def is_intervention(message: Message) -> bool:
    """Whether this message is dirge's help to leave a loop."""
    if isinstance(message, UserMessage | AssistantMessage):
        return message.origin == "harness"
    if not isinstance(message, ToolResultMessage):
        return False
    return bool(message.details.get("storm")) or "The result was the same" in message.text


def calls_until_noticed(run: LoopRun) -> int:
    """How many calls ran before dirge's first message about the loop."""
    count = 0
    for message in run.new:
        if is_intervention(message):
            return count + ("The result was the same" in getattr(message, "text", ""))
        count += isinstance(message, ToolResultMessage)
    return MOST_ANSWERS


def denying(call_number_allowed: int = 10**6) -> Hooks:
    numbers = itertools.count(1)

    def deny(_info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        is_denied = call.name == "bash" and next(numbers) < call_number_allowed
        return ToolOverride("Permission denied.") if is_denied else None

    return Hooks(name="permission", before_tool_call=deny)


LOOPS: dict[str, tuple[int, Callable[[], Iterator[Answer]]]] = {
    "the same read": (1, always(read("a"))),
    "a read and an edit that fails with other text": (
        2,
        one_by_one(lambda n: read("a"), lambda n: edit("a", f"no {n}")),
    ),
    "both in one answer": (2, together(lambda n: edit("a", f"no {n}"), lambda n: read("a"))),
    "reads of different parts of a file and edits that fail": (
        0,
        one_by_one(
            lambda n: read("a", offset=1 + n % 3, limit=1 + n), lambda n: edit("a", f"no {n}")
        ),
    ),
    "a write that is truncated at a different place each time": (
        0,
        one_by_one(lambda n: ("write", '{"path": "a", "content": ' + f'"{"x" * n}')),
    ),
    "failing calls with different arguments": (0, one_by_one(lambda n: read(f"missing {n}"))),
    "tools that do not exist": (0, one_by_one(lambda n: (f"tool_{n}", {}))),
    "the same tool that does not exist": (1, always(("nope", {"n": 1}))),
    "calls that are denied": (0, one_by_one(lambda n: bash(f"denied {n}"))),
    "two alternating reads": (2, always(read("a"), read("b"))),
    "four alternating reads": (4, always(*map(read, "abcd"))),
    "five alternating reads": (5, always(*map(read, "abcde"))),
    "six alternating reads": (6, always(*map(read, "abcdef"))),
    "four reads and an edit that fails": (
        5,
        one_by_one(
            *(lambda n, name=name: read(name) for name in "abcd"),
            lambda n: edit("a", f"no {n}"),
        ),
    ),
    "one command with different spaces": (
        1,
        one_by_one(lambda n: bash(f"{' ' * (n % 4)}ls{' ' * (n % 5 + 1)}-l{' ' * (n % 2)}")),
    ),
    "edits that undo each other": (
        2,
        always(edit("a", "old", "new"), edit("a", "new", "old")),
    ),
    "edits that undo each other, with tests": (
        4,
        always(
            edit("a", "old", "new"), bash("pytest"), edit("a", "new", "old"), bash("pytest")
        ),
    ),
    "increasing offsets with the same result": (
        1,
        one_by_one(lambda n: ("issues", {"path": "a", "page": n + 1})),
    ),
    "offsets past the end of a file": (
        1,
        one_by_one(lambda n: read("a", offset=100 * (n + 1))),
    ),
    "a command that times out": (1, always(bash("hangs"))),
    "different commands that time out": (0, one_by_one(lambda n: bash(f"hangs {n}"))),
    "a slow command with the same result": (1, always(bash("slow 5 x"))),
    "polling without an end": (1, always(bash("sleep 5; gh run view"))),
    "polling without an end in two calls": (2, always(bash("sleep 60"), bash("gh run view"))),
}  # fmt: skip

WAITING = {
    "a slow command with the same result",
    "polling without an end",
    "polling without an end in two calls",
}


def hooks_of(kind: str) -> list[Hooks]:
    return [denying()] if kind == "calls that are denied" else []


@pytest.mark.parametrize("kind", LOOPS)
async def test_loop_is_noticed_within_six_calls_and_ends_the_run(kind: str) -> None:
    first_round, answers = LOOPS[kind]
    run, made = await run_of(answers(), None, *hooks_of(kind))

    assert calls_until_noticed(run) - first_round <= 6
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == "storm"
    assert made <= (2 * MOST_POLLS + 4 if kind in WAITING else 22)
    closing = run.new[-1]
    assert isinstance(closing, AssistantMessage) and closing.origin == "harness"
    assert "I stopped" in closing.text and closing.text.endswith("?")


async def test_median_loop_is_noticed_after_three_calls() -> None:
    noticed = []
    for kind, (first_round, answers) in LOOPS.items():
        run, _ = await run_of(answers(), None, *hooks_of(kind))
        noticed.append(calls_until_noticed(run) - first_round)
    assert statistics.median(noticed) <= 3


def reading_on() -> tuple[Project, list[Answer]]:
    text = "\n".join(f"line {n}" for n in range(300))
    return Project({"a": text}), [[read("a", offset=1 + 10 * n, limit=10)] for n in range(30)]


def several(*outputs: LoopToolResult) -> Project:
    return Project({"a": "old"}, outputs=iter([("", output) for output in outputs]))


def red_and_edits() -> tuple[Project, list[Answer]]:
    answers = []
    for n in range(12):
        answers += [[bash("pytest")], [edit("a", f"version {n}.", f"version {n + 1}.")]]
    return Project({"a": "version 0."}), answers


def first_the_test() -> tuple[Project, list[Answer]]:
    answers = []
    for n in range(8):
        answers += [[("write", {"path": f"test_{n}", "content": "assert"})], [bash("pytest")]]
        answers += [[read("a")], [edit("a", f"v{n}.", f"v{n + 1}.")], [bash("next")]]
    return Project({"a": "v0."}, outputs=itertools.repeat(("", text_result("1 passed")))), answers


def polling() -> tuple[Project, list[Answer]]:
    return Project(), [[bash("sleep 5; gh run view")] for _ in range(MOST_POLLS)]


def polling_in_two_calls() -> tuple[Project, list[Answer]]:
    return Project(), [
        [call] for _ in range(15) for call in (bash("sleep 60"), bash("gh run view"))
    ]


def waiting_for_a_service() -> tuple[Project, list[Answer]]:
    return Project(), [[call] for _ in range(12) for call in (bash("sleep 60"), bash("pytest"))]


def slow_command() -> tuple[Project, list[Answer]]:
    return Project(), [[bash(f"slow {SLOW_S + 1} x")] for _ in range(10)]


def fruitless_searches() -> tuple[Project, list[Answer]]:
    return Project(), [[("grep", {"path": ".", "pattern": f"word{n}"})] for n in range(20)]


def same_contents() -> tuple[Project, list[Answer]]:
    return Project({f"{n}": "same" for n in range(20)}), [[read(f"{n}")] for n in range(20)]


def silent_commands() -> tuple[Project, list[Answer]]:
    return Project(), [[bash(f"mkdir d{n}")] for n in range(20)]


def failures_and_finds() -> tuple[Project, list[Answer]]:
    project = Project({f"{n}": f"text {n}" for n in range(20)})
    missing = ([read(f"x{n}"), read(f"y{n}")] for n in range(20))
    return project, [answer for n, two in enumerate(missing) for answer in (two, [read(f"{n}")])]


def changing_output() -> tuple[Project, list[Answer]]:
    outputs = [text_result(f"{n} left") for n in range(12, 0, -1)]
    return several(*outputs), [[bash("next")] for _ in outputs]


def parts_after_a_cut() -> tuple[Project, list[Answer]]:
    answers: list[Answer] = []
    for n in range(4):
        answers += [[("write", '{"path": "a", "content": ' + f'"{"x" * n}')]]
        answers += [[("write", {"path": f"part {m}", "content": f"{n}"})] for m in range(2)]
    return Project(), answers


def reading_after_each_edit() -> tuple[Project, list[Answer]]:
    answers = []
    for n in range(10):
        answers += [[edit("a", f"{n}.", f"{n + 1}.")], [read("b")]]
    return Project({"a": "0.", "b": "other"}), answers


def an_edit_and_the_read_in_one_answer() -> tuple[Project, list[Answer]]:
    first: list[Answer] = [[read("a")], [read("a")]]
    return Project({"a": "0."}), [
        *first,
        *([edit("a", f"{n}.", f"{n + 1}."), read("a")] for n in range(6)),
    ]


ORDINARY = {
    "tests fail, edit, tests fail": red_and_edits,
    "test-driven development": first_the_test,
    "reading a long file part by part": reading_on,
    "polling with a sleep": polling,
    "polling in two calls": polling_in_two_calls,
    "waiting until a service is up": waiting_for_a_service,
    "a slow command": slow_command,
    "searches that find nothing": fruitless_searches,
    "files with the same text": same_contents,
    "commands without output": silent_commands,
    "failures with successful searches between them": failures_and_finds,
    "a command whose output changes": changing_output,
    "a long text in parts after truncation": parts_after_a_cut,
    "reading the same after each edit": reading_after_each_edit,
    "an edit and the read in one answer": an_edit_and_the_read_in_one_answer,
}


@pytest.mark.parametrize("kind", ORDINARY)
async def test_ordinary_run_that_resembles_a_loop_is_not_stopped(kind: str) -> None:
    project, answers = ORDINARY[kind]()
    run, _ = await run_of(iter(answers), project)

    assert "suppressed" not in run.outcomes
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == ""
    assert run.new[-1].text == "done"
    assert len(run.results) == sum(map(len, answers))


async def test_denied_call_can_be_repeated_after_it_was_allowed() -> None:
    answers = [[bash("deploy")], [bash("deploy")], [read("a")], [bash("build")], [bash("deploy")]]
    run, _ = await run_of(iter(answers), None, denying(call_number_allowed=2))
    assert run.outcomes == ["denied", "ok", "ok", "ok", "ok"]


async def test_polling_gets_a_wait_hint_at_the_third_call_and_is_suppressed_at_the_21st() -> None:
    run, _ = await run_of(always(bash("sleep 5; gh run view"))())

    hinted = [n for n, each in enumerate(run.results) if "The result was the same" in each.text]
    assert hinted == [2]
    assert "`for i in $(seq 30); do CHECK && break; sleep 10; done`" in run.results[2].text
    assert run.outcomes == ["ok"] * MOST_POLLS + ["suppressed"] * 2


async def test_sleep_after_quoted_substitution_counts_as_polling() -> None:
    run, _ = await run_of(always(bash('gh run view "$(cat id)" && sleep 5'))())
    assert run.outcomes == ["ok"] * MOST_POLLS + ["suppressed"] * 2


async def test_quoted_sleep_does_not_count_as_polling() -> None:
    run, _ = await run_of(always(bash("echo 'then; sleep 5'"))())
    assert run.outcomes == ["ok", "ok", "suppressed", "suppressed"]


async def test_commands_that_differ_only_in_quoted_spaces_are_different() -> None:
    answers = [[bash(f"printf 'a{' ' * n}b'")] for n in range(6)]
    run, _ = await run_of(iter(answers))
    assert run.outcomes == ["ok"] * 6


async def test_closing_message_names_the_failed_calls() -> None:
    run, _ = await run_of(one_by_one(lambda n: read(f"missing {n}"))())
    assert "My last 9 attempts failed" in run.new[-1].text
    assert "- read: missing 8 does not exist." in run.new[-1].text
    warned = [m.text for m in run.new if isinstance(m, UserMessage) and m.origin == "harness"]
    assert ["the run ends" in text for text in warned] == [False, True]


async def test_second_truncated_call_in_a_row_ends_the_run_with_a_message() -> None:
    _, answers = LOOPS["a write that is truncated at a different place each time"]
    run, made = await run_of(answers())
    assert (made, run.outcomes) == (2, ["invalid", "invalid"])
    assert "2 calls in a row (`write`) arrived incomplete" in run.new[-1].text


async def test_cycle_message_names_the_calls_of_the_cycle() -> None:
    calls = [("nope", {}), read("b"), ("nope", {"n": 1}), read("c")]
    run, _ = await run_of(always(*calls)())
    suppressed = next(each for each in run.results if each.details.get("storm"))
    assert "you repeat the same 4 calls in turn (`nope` and `read`)" in suppressed.text


ELEMENTS: dict[str, Callable[[int], Call]] = {
    "read": lambda n: read("a"),
    "another read": lambda n: read("b"),
    "read of a missing file": lambda n: read(f"missing {n}"),
    "failing edit": lambda n: edit("a", f"no {n}"),
    "same failing edit": lambda n: edit("b", "no"),
    "edit and undo": lambda n: edit("c", *(("old", "new") if n % 2 else ("new", "old"))),
    "same write": lambda n: ("write", {"path": "d", "content": "same"}),
    "unknown tool": lambda n: (f"tool_{n}", {}),
    "tests": lambda n: bash("pytest"),
    "command": lambda n: bash(f"{' ' * (n % 4)}ls"),
    "page": lambda n: ("issues", {"path": "e", "page": n}),
}


@settings(max_examples=size(40, 200), deadline=None)
@given(st.lists(st.sampled_from(list(ELEMENTS)), min_size=1, max_size=6), st.booleans())
def test_every_cycle_without_progress_ends_the_run(kinds: list[str], is_batch: bool) -> None:
    make = together if is_batch else one_by_one
    run, _ = asyncio.run(run_of(make(*(ELEMENTS[kind] for kind in kinds))()))
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == "storm"
