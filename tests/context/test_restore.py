"""Files that were worked on are shown again behind a summary."""

from collections.abc import Sequence
from typing import Any

from dirge_py.context.summary import files_of, restore_files
from dirge_py.types.messages import Message, TextBlock, ToolResultMessage, user_text
from tests.context.kit import Summaries, at, single_prompt_run, step, view


def opened(path: str, *, tool: str = "read", **more: Any) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=path, tool_name=tool, content=(TextBlock("…"),), details={"path": path}, **more
    )


async def text_of(path: str) -> str | None:
    if "gone" in path:
        raise OSError(path)
    return None if "large" in path else f"content of {path}"


async def paths(folded: Sequence[Message], kept: Sequence[Message] = (), most: int = 5) -> Any:
    files = await restore_files(folded, kept, read=text_of, most=most, room=10_000)
    return [file.path for file in files]


def test_files_are_those_that_tools_opened_newest_first():
    messages = [
        opened("/a"),
        opened("/b", tool="edit"),
        opened("/c", is_error=True),
        opened("/d", tool="bash"),
        opened("/a"),
    ]
    assert files_of(messages) == ["/a", "/b"]


async def test_unreadable_and_large_files_and_those_still_shown_are_passed_over():
    folded = [opened(path) for path in ("/1", "/2", "/3", "/gone", "/large", "/shown")]
    assert await paths(folded, [opened("/shown")], most=2) == ["/3", "/2"]


async def test_a_long_file_keeps_both_ends():
    async def long(path: str) -> str:
        return "begin" + "x" * 90_000 + "end"

    (file,) = await restore_files([opened("/a")], [], read=long, most=5, room=50_000)
    assert len(file.text) <= 20_000
    assert file.text.startswith("begin")
    assert file.text.endswith("end")


async def test_restored_files_stand_behind_the_summary_and_in_the_record():
    messages = (user_text("go"), *step(0)[:1], opened("c0"), *single_prompt_run(200)[1:])
    one = view(
        Summaries(),
        read_file=text_of,
        redact=lambda text: text.replace("content", "[redacted]"),
        set={"strategies": ["summarize"]},
    )
    prepared = await at(one, messages, 0.79, window_tokens=40_000)

    summary, files = prepared.messages[:2]
    assert summary.text.startswith("[Summary")
    assert '<file path="c0">\n[redacted] of c0\n</file>' in files.text
    assert prepared.compaction.record["restored"] == [{"path": "c0", "text": "[redacted] of c0"}]
