"""Calls of one answer run in parallel if all are read-only, otherwise one after the other."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.conversation.conversation import Conversation
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.types.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from tests.support.project import ScriptedProject

Call = tuple[str, Mapping[str, Any]]


def bash(command: str, **more: Any) -> Call:
    return "bash", {"command": command, **more}


async def results_of(
    conversation: Conversation, model: ScriptedModel, calls: Sequence[Call]
) -> list[str]:
    model.will_call_all(*calls).will_say("done")
    await conversation.send("go")
    return [each.text for each in conversation.messages if isinstance(each, ToolResultMessage)]


def ran_together(recorder: EventRecorder) -> bool:
    """Whether every call started before the first one ended."""
    kinds = [
        type(each)
        for each in recorder.events
        if isinstance(each, ToolExecutionStart | ToolExecutionEnd)
    ]
    half = len(kinds) // 2
    assert kinds in (
        [ToolExecutionStart] * half + [ToolExecutionEnd] * half,
        [ToolExecutionStart, ToolExecutionEnd] * half,
    )
    return kinds[1] is ToolExecutionStart


async def feed_when_all_are_read(pipes: Sequence[Path]) -> None:
    """Write into each pipe its name, once every one of them is being read."""
    writers = [await opened_for_writing(pipe) for pipe in pipes]
    for writer, pipe in zip(writers, pipes, strict=True):
        os.write(writer, f"{pipe.name}\n".encode())
        os.close(writer)


async def test_read_only_commands_run_in_parallel(project: ScriptedProject) -> None:
    pipes = [project.folder / f"pipe{number}" for number in range(8)]
    for pipe in pipes:
        os.mkfifo(pipe)

    async with project.open() as conversation:
        feeding = asyncio.create_task(feed_when_all_are_read(pipes))
        calls = [bash(f"sleep 0.01; cat {pipe.name}") for pipe in pipes]
        texts = await results_of(conversation, project.model, calls)
        await feeding

    assert [text.strip() for text in texts] == [pipe.name for pipe in pipes]
    assert project.user.asked == []


LOOKS = [
    bash("cat f; sleep 0"),
    bash("cd sub && ls"),
    bash("git --version"),
    ("read", {"path": "f"}),
    ("grep", {"pattern": "x"}),
    ("list_dir", {"path": "."}),
]


@pytest.mark.parametrize(
    ("changing", "together"),
    [
        (bash("cat f | wc -l"), True),
        (bash("pwd", workdir="sub"), True),
        (bash("cd sub"), True),  # every command starts in the same folder
        (bash("touch g"), False),
        (bash("cat f > g"), False),
        (bash("cat f; touch g"), False),
        (bash("cat $NAME"), False),
        (bash("cat f", background=True), False),
        (bash("cat", input="x"), False),
        (("write", {"path": "g", "content": "x"}), False),
        (("edit", {"path": "f", "old_text": "x", "new_text": "y"}), False),
        (("todo", {"items": []}), False),
        (("no_such_tool", {}), True),
        (("write", {"path": 3}), True),  # it cannot run
    ],
)
async def test_batch_with_a_changing_call_runs_sequentially(
    project: ScriptedProject, changing: Call, together: bool
) -> None:
    (project.folder / "sub").mkdir()
    (project.folder / "f").write_text("x\n")
    project.user.answer = PermissionAnswer(effect="allow")
    looks = [each for each in LOOKS if each != bash("git --version")]
    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        await results_of(conversation, project.model, [*looks, changing])

    assert ran_together(recorder) is together


async def test_cd_in_a_parallel_batch_does_not_affect_other_commands(
    project: ScriptedProject,
) -> None:
    (project.folder / "sub").mkdir()
    async with project.open() as conversation:
        texts = await results_of(
            conversation, project.model, [bash("cd sub"), bash("pwd"), bash("cd sub && pwd")]
        )

    assert texts[1:] == [str(project.folder), f"{project.folder}/sub"]


class OneAtATime:
    """Answers questions, and fails if one is asked while another is open."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_open = False

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        assert not self.is_open
        self.is_open = True
        await asyncio.sleep(0)
        self.asked += [request.call_id for request in requests]
        self.is_open = False
        return [PermissionAnswer(effect="deny") for _ in requests]


async def test_parallel_batch_asks_in_order_before_any_call_runs(
    project: ScriptedProject, tmp_path: Path
) -> None:
    outside = [tmp_path / f"outside{number}" for number in range(3)]
    for path in outside:
        path.write_text("secret\n")
    (project.folder / "f").write_text("x\n")
    user = OneAtATime()
    project.user = user  # type: ignore[assignment]
    calls: list[Call] = [bash("cat f"), *(bash(f"cat {path}") for path in outside)]
    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        texts = await results_of(conversation, project.model, calls)
        ids = [each.tool_call_id for each in recorder.of(ToolExecutionStart)]

    assert user.asked == ids[1:]
    assert texts[0] == "x"
    assert all("denied" in text for text in texts[1:])
    [ended] = [each for each in recorder.of(ToolExecutionEnd) if each.tool_call_id == ids[0]]
    assert "permission_answered" not in recorder.types[recorder.events.index(ended) :]


async def test_outputs_of_parallel_commands_are_not_mixed(project: ScriptedProject) -> None:
    pipes = [project.folder / name for name in ("left", "right")]
    for pipe in pipes:
        os.mkfifo(pipe)
    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        feeding = asyncio.create_task(feed_when_all_are_read(pipes))
        calls = [bash(f"echo before {pipe.name}; cat {pipe.name}") for pipe in pipes]
        await results_of(conversation, project.model, calls)
        await feeding

    for start in recorder.of(ToolExecutionStart):
        name = "left" if "left" in str(start.args) else "right"
        other = "right" if name == "left" else "left"
        shown = "".join(
            str(each.partial_result.text)
            for each in recorder.of(ToolExecutionUpdate)
            if each.tool_call_id == start.tool_call_id
        )
        assert other not in shown


async def test_abort_ends_all_commands_of_a_parallel_batch(project: ScriptedProject) -> None:
    pipes = [project.folder / f"pipe{number}" for number in range(3)]
    for pipe in pipes:
        os.mkfifo(pipe)
    async with project.open() as conversation:
        project.model.will_call_all(*(bash(f"cat {pipe.name}") for pipe in pipes))
        run = conversation.send("go")
        writers = [await opened_for_writing(pipe) for pipe in pipes]
        run.abort()
        await run
        for writer in writers:
            os.close(writer)

    outcomes = [
        each.details["outcome"]
        for each in conversation.messages
        if isinstance(each, ToolResultMessage)
    ]
    assert outcomes == ["aborted"] * 3


async def opened_for_writing(pipe: Path) -> int:
    """Open a pipe as soon as it is being read. Raises TimeoutError."""
    async with asyncio.timeout(20):
        while True:
            with suppress(OSError):
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            await asyncio.sleep(0)


CALLS = st.sampled_from(
    [
        *(bash(text) for text in ("cat f", "cat g", "ls", "cd sub && pwd", "cd sub", "pwd")),
        *(bash(text) for text in ("wc -l f g", "cat f | sort", "sleep 0; cat g", "cat missing")),
        *(bash(text) for text in ("echo x >> f", "cp f g", "mv g h", "rm -f h", "touch sub/new")),
        bash("ls", workdir="sub"),
        bash("cat", input="typed\n"),
        ("read", {"path": "f"}),
        ("read", {"path": "g"}),
        ("list_dir", {"path": "sub"}),
        ("grep", {"pattern": "x"}),
        ("glob", {"pattern": "**/n*"}),
        ("write", {"path": "f", "content": "new\n"}),
        ("write", {"path": "sub/made", "content": "made\n"}),
        ("edit", {"path": "f", "old_text": "one", "new_text": "two"}),
        ("todo", {"items": [{"id": "a", "text": "do it"}]}),
        ("todo", {"items": [{"id": "a", "status": "completed"}], "merge": True}),
        ("no_such_tool", {}),
        ("read", {}),
    ]
)


@given(batches=st.lists(st.lists(CALLS, min_size=2, max_size=6), min_size=1, max_size=2))
async def test_parallel_batch_has_the_same_effects_as_a_sequential_batch(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Call]]
) -> None:
    there = os.getcwd()
    try:
        together = await after(tmp_path_factory.mktemp("run"), batches, "parallel")
        one_by_one = await after(tmp_path_factory.mktemp("run"), batches, "sequential")
    finally:
        os.chdir(there)

    assert together == one_by_one


async def after(base: Path, batches: list[list[Call]], execution: str) -> Any:
    """The results of these batches, and the files afterwards."""
    project = ScriptedProject(base)
    project.configure(f'[tools]\nexecution = "{execution}"\n[loop.storm]\nenabled = false\n')
    (project.folder / "sub").mkdir()
    for name in "fg":
        (project.folder / name).write_text(f"{name} one\nx\n")
    os.chdir(project.folder)
    project.user.answer = PermissionAnswer(effect="allow")
    for batch in batches:
        project.model.will_call_all(*batch)
    project.model.will_say("done").will_say("done").will_say("done").will_say("done")
    async with project.open() as conversation:
        await conversation.send("go")
        results = [
            re.sub(r"\d+ (days|hours|minutes|seconds) ago|\d\d:\d\d", "", each.text)
            for each in conversation.messages
            if isinstance(each, ToolResultMessage)
        ]
    files = {
        str(path.relative_to(base)): path.read_text()
        for path in sorted(project.folder.rglob("*"))
        if path.is_file()
    }
    return [text.replace(str(base), "") for text in results], files
