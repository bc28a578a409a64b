"""Tool calls in the transcript: their signs and headers."""

from pathlib import Path
from typing import Any

import pytest

from dirge_py.types.events import MessageEnd, MessageUpdate, ToolExecutionEnd, ToolExecutionStart
from dirge_py.types.messages import AssistantMessage, ToolCallBlock
from dirge_py.types.tools import text_result
from dirge_py.ui.transcript.blocks import main_argument
from dirge_py.ui.transcript.tool_block import ToolBlock
from tests.ui.test_blocks import STYLES, RenderedEvents


def begin(name: str, call_id: str = "", **args: Any) -> ToolExecutionStart:
    return ToolExecutionStart(tool_call_id=call_id or name, tool_name=name, args=args)


def end(name: str, text: str, call_id: str = "", *, is_error: bool = False) -> ToolExecutionEnd:
    return ToolExecutionEnd(
        tool_call_id=call_id or name,
        tool_name=name,
        result=text_result(text, outcome="error" if is_error else "ok"),
        is_error=is_error,
        duration_ms=1,
    )


def head(block: ToolBlock) -> tuple[str, Any]:
    """The sign at the head of a call, and its colour."""
    first = next(iter(block.paint(60, STYLES, expanded=False)[0]))
    assert first.style
    return first.text.strip(), first.style.color


def test_running_done_and_failed_calls_differ_by_sign_and_by_color():
    running, done, failed = (ToolBlock("c", "bash", {"command": "x"}) for _ in range(3))
    done.finish("", {}, is_error=False, took_ms=0)
    failed.finish("", {}, is_error=True, took_ms=0)
    heads = [head(block) for block in (running, done, failed)]

    assert [sign for sign, _ in heads] == ["●", "✓", "✗"]
    assert len({color for _, color in heads}) == 3


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"pattern": "x", "path": "src/"}, '"x" in src/'),
        ({"pattern": "x", "path": "."}, '"x"'),
        ({"pattern": "**/*.py"}, '"**/*.py"'),
        ({"path": "a.py", "old_text": "x"}, "a.py"),
        (
            {"patch": "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n"},
            "a.py and 1 more",
        ),
        ({"operations": [{"action": "delete", "path": "a.py"}]}, "a.py"),
    ],
)
def test_header_names_what_the_call_is_about(args: dict[str, Any], expected: str):
    assert main_argument(args) == expected


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("# build it\n\n  # all\nmake", "make"),
        ("# build it\nmake\nls", "make…"),
        ("make # now", "make # now"),
        ("#!/bin/sh\n# nothing", "#!/bin/sh…"),
    ],
)
def test_title_of_command_is_its_first_line_that_runs_something(command: str, title: str):
    block = ToolBlock("c", "bash", {"command": command})

    closed, opened = (
        ["".join(s.text for s in strip).strip() for strip in block.paint(60, STYLES, expanded=how)]
        for how in (False, True)
    )
    assert closed == [f"● bash {title}"]
    assert (
        "\n".join(line.removeprefix("● bash ") for line in opened if line).split()
        == command.split()
    )
    assert block.text == f"bash {command}"
    assert block.subject == title.rstrip("…")


def test_calls_that_wait_for_others_of_their_answer_show_their_arguments():
    drawn = RenderedEvents()
    for call in ("a", "b"):
        drawn.draw(
            MessageUpdate(phase="toolcall_start", index=0, tool_call_id=call, tool_name="bash")
        )
    calls = [ToolCallBlock(id=call, name="bash", arguments={"command": call}) for call in "ab"]
    drawn.draw(MessageEnd(message=AssistantMessage(content=tuple(calls))))

    assert drawn.draw(begin("bash", "a", command="a")) == "● bash a\n\n○ bash b"


def looked(
    drawn: RenderedEvents, name: str, call_id: str, output: str = "1\n2", **args: Any
) -> str:
    drawn.draw(begin(name, call_id, **args))
    return drawn.draw(end(name, output, call_id))


def test_call_that_only_looks_is_one_line_until_it_is_opened():
    drawn = RenderedEvents()

    assert looked(drawn, "read", "a", path="a.py") == "✓ read a.py  2 lines"
    assert "  1\n  2" in drawn.expanded_text


def test_call_by_another_name_of_a_tool_that_only_looks_is_one_line():
    drawn = RenderedEvents()
    drawn.draw(MessageUpdate(phase="toolcall_start", index=0, tool_call_id="a", tool_name="ls"))

    assert looked(drawn, "list_dir", "a", path="src") == "✓ list_dir src  2 lines"


def test_part_of_a_file_is_named_with_its_lines():
    drawn = RenderedEvents()
    text = "a.py: lines 10-20 of 300\n\n10: x"

    assert looked(drawn, "read", "a", text, path="a.py") == "✓ read a.py  lines 10-20 of 300"


def test_calls_in_a_row_that_only_look_are_grouped():
    drawn = RenderedEvents()
    looked(drawn, "read", "a", path="a.py")
    looked(drawn, "read", "b", path="b.py")
    looked(drawn, "grep", "c", pattern="x", path="src")
    grouped = looked(drawn, "read", "d", path="a.py")
    drawn.draw(begin("bash", command="ls"))
    apart = looked(drawn, "read", "e", path="c.py")

    assert grouped == '✓ Read 2 files, searched 1 pattern  a.py, b.py, "x" in src'
    assert apart == f"{grouped}\n\n● bash ls\n\n✓ read c.py  2 lines"


def test_opened_group_shows_its_calls_and_opened_call_shows_its_output():
    drawn = RenderedEvents()
    looked(drawn, "read", "a", path="a.py")
    looked(drawn, "read", "b", path="b.py")
    group, first, _ = drawn.page.blocks
    group.is_open = True
    drawn.page.refold(group)
    listed = drawn.seen
    first.is_open = True
    drawn.page.refold(first)

    assert listed == "✓ Read 2 files\n│ ✓ read a.py  2 lines\n│ ✓ read b.py  2 lines"
    assert "│   1\n│   2\n│ ✓ read b.py" in drawn.seen


def test_failed_lookup_stays_visible_beside_its_group():
    drawn = RenderedEvents()
    looked(drawn, "read", "a", path="a.py")
    drawn.draw(begin("read", "b", path="b.py"), end("read", "No such file.", "b", is_error=True))
    text = looked(drawn, "read", "c", path="c.py")

    assert text == "✓ Read 2 files  a.py, c.py\n\n✗ read b.py\n  No such file."


def finished_command(output: str, *, code: int = 0, **details: Any) -> RenderedEvents:
    outcome = "failed_command" if code else "ok"
    result = text_result(output, outcome=outcome, exit_code=code, **details)
    call = {"tool_call_id": "c", "tool_name": "bash"}
    ended = ToolExecutionEnd(result=result, is_error=False, duration_ms=1, **call)
    return RenderedEvents(begin("bash", "c", command="run"), ended)


def test_fold_count_includes_lines_that_are_only_in_a_file(tmp_path: Path):
    (tmp_path / "output").write_text("".join(f"{n}\n" for n in range(1, 3001)))
    ends = [*range(1, 51)], [*range(2951, 3001)]
    first, last = ("\n".join(map(str, end)) for end in ends)
    note = "[2,900 lines (13,900 bytes) are left out. The full output is in a file.]"
    path = str(tmp_path / "output")
    drawn = finished_command(f"{first}\n\n{note}\n\n{last}", output_path=path)

    assert drawn.seen == "✓ bash run\n  … 2,996 earlier lines\n  2997\n  2998\n  2999\n  3000"
    assert "1500" in drawn.page.blocks[0].text
    assert "\n  1499\n  1500\n" in drawn.expanded_text
    assert "left out" not in drawn.expanded_text


def test_stored_output_that_is_gone_leaves_the_part_that_was_sent(tmp_path: Path):
    text = "1\n[9 lines (20 bytes) are left out. It was in a file.]\n11"
    drawn = finished_command(text, output_path=str(tmp_path / "gone"))

    assert "9 lines (20 bytes) are left out" in drawn.expanded_text


def test_failed_command_shows_its_last_lines_and_the_failing_assertion():
    lines = [f"setup {n}" for n in range(30)]
    lines += [">       assert total == 4", "E       assert 3 == 4"]
    lines += [f"line {n}" for n in range(20)] + ["FAILED test_x.py::test_total", "1 failed"]
    seen = finished_command("\n".join([*lines, "Exit code: 1"]), code=1).seen

    assert seen.startswith("✗ bash run  exit 1\n  … 43 earlier lines\n  E       assert 3 == 4\n")
    assert seen.endswith("  line 19\n  FAILED test_x.py::test_total\n  1 failed")


def test_arguments_of_a_call_are_found_and_shown_when_it_is_opened():
    drawn = RenderedEvents(begin("webfetch", url="https://a.org", prompt="needle"))

    assert "needle" in drawn.page.blocks[0].text
    assert "  prompt: needle" in drawn.expanded_text
