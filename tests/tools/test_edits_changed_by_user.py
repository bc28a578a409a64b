import contextlib
from dataclasses import replace

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.syntax_check import check_syntax
from dirge_py.tools.toolbox import Toolbox, discover_tools

PARTLY = "The user did not accept all of it. This is what was written."
CHANGED = "The user changed this edit before accepting it. This is what was written."


@pytest.fixture
def checking_tools(tools):
    """The tools with the syntax check."""
    workspace = Workspace([tools.folder], tools.folder)
    tools.workspace.close()
    tools.workspace = workspace
    services = ToolServices(files=workspace, syntax=check_syntax)
    tools.toolbox = Toolbox(discover_tools(), services, str(tools.folder))
    with contextlib.closing(workspace):
        yield tools


async def call_with_choice(tools, name, chosen_after=None, **arguments):
    """Call as if a user had seen the preview; `chosen_after` is their version."""
    shown = tools.preview(name, **arguments).changes
    chosen = [
        replace(each, after=chosen_after[each.path.rpartition("/")[2]])
        for each in shown
        if chosen_after is not None and each.path.rpartition("/")[2] in chosen_after
    ]
    tools.workspace.hold_to("call", shown, chosen if chosen_after is not None else None)
    return await tools.call(name, **arguments)


async def test_edit_accepted_as_shown_has_plain_result(tools):
    tools.put("a", "one\n")
    await tools.text("read", path="a")

    result = await call_with_choice(tools, "edit", path="a", old_text="one", new_text="two")

    assert result.text.startswith("Applied edit to a")


@pytest.mark.parametrize(
    ("after", "note"), [("1\ntwo\nthree\n", PARTLY), ("1\nzwei\n3\n", CHANGED)]
)
async def test_edit_changed_by_user_is_written_and_reported(tools, after, note):
    file = tools.put("a", "one\ntwo\nthree\n")
    await tools.text("read", path="a")

    result = await call_with_choice(
        tools,
        "edit",
        {"a": after},
        path="a",
        edits=[{"old_text": "one", "new_text": "1"}, {"old_text": "three", "new_text": "3"}],
    )

    assert file.read_text() == after
    assert result.text.startswith(f"{note}\nChanged a.\n\n--- a\n+++ a\n")
    assert "+1" in result.details["diff"]
    assert ("+zwei" in result.text) == (note == CHANGED)


async def test_edit_changed_by_user_counts_as_read(tools):
    file = tools.put("a", "one\n")
    await tools.text("read", path="a")
    await call_with_choice(tools, "edit", {"a": "1\n"}, path="a", old_text="one", new_text="two")

    await tools.text("edit", path="a", old_text="1", new_text="2")

    assert file.read_text() == "2\n"


@pytest.mark.parametrize("name", ["write", "apply_patch"])
async def test_file_rejected_by_user_is_not_created(tools, name):
    arguments = {
        "write": {"path": "a", "content": "x\n"},
        "apply_patch": {"patch": "*** Add File: a\n+x\n*** Add File: b\n+y"},
    }[name]

    result = await call_with_choice(tools, name, {"a": None}, **arguments)

    assert not (tools.folder / "a").exists()
    assert (tools.folder / "b").exists() == (name == "apply_patch")
    assert result.text.startswith(PARTLY)


async def test_user_may_change_content_of_new_file(tools):
    result = await call_with_choice(tools, "write", {"a": "mine\n"}, path="a", content="theirs\n")

    assert (tools.folder / "a").read_text() == "mine\n"
    assert result.text.startswith(f"{CHANGED}\nCreated a: 5 bytes (1 lines).")
    assert "+mine" in result.text


async def test_file_whose_move_is_rejected_stays(tools):
    file = tools.put("a", "x\n")
    await tools.text("read", path="a")

    await call_with_choice(
        tools, "apply_patch", {"b": None}, patch="*** Update File: a\n*** Move to: b"
    )

    assert file.read_text() == "x\n"
    assert not (tools.folder / "b").exists()


async def test_user_may_accept_part_of_update_with_move(tools):
    tools.put("a", "one\ntwo\nthree\nfour\nfive\n")
    await tools.text("read", path="a")

    result = await call_with_choice(
        tools,
        "apply_patch",
        {"b": "1\ntwo\nthree\nfour\nfive\n"},
        patch="*** Update File: a\n*** Move to: b\n@@\n-one\n+1\n two\n@@\n four\n-five\n+5",
    )

    assert (tools.folder / "b").read_text() == "1\ntwo\nthree\nfour\nfive\n"
    assert not (tools.folder / "a").exists()
    assert result.text.startswith(PARTLY)
    assert result.details["diff"].startswith("--- a\n+++ b\n@@ -1,4 +1,4 @@\n-one\n+1\n")


@pytest.mark.parametrize("after", ["x\n", None])
async def test_rejected_deletion_keeps_file(tools, after):
    file = tools.put("a", "x\n")
    await tools.text("read", path="a")

    await call_with_choice(
        tools, "apply_patch", {"a": after}, patch="*** Delete File: a\n*** Add File: b\n+y"
    )

    assert file.read_text() == "x\n"
    assert (tools.folder / "b").read_text() == "y\n"


@pytest.mark.parametrize("happening", ["changed", "gone", "appeared"])
async def test_file_changed_since_preview_is_not_written(tools, happening):
    file = tools.put("a", "one\n")
    await tools.text("read", path="a")
    if happening == "appeared":
        file.unlink()
    arguments = {"path": "a", "content": "two\n"}
    tools.workspace.hold_to("call", tools.preview("write", **arguments).changes, None)
    file.write_text("theirs\n")
    if happening == "gone":
        file.unlink()

    text = await tools.refusal("write", **arguments)

    assert "changed since it was shown" in text
    assert [each.read_text() for each in tools.folder.iterdir()] == (
        [] if happening == "gone" else ["theirs\n"]
    )


async def test_bytes_that_are_not_utf8_survive_preview(tools):
    file = tools.put("a", b"caf\xe9\n")
    await tools.text("read", path="a")
    change = tools.preview("write", path="a", content="x").changes[0]

    tools.workspace.hold_to("call", [change], [replace(change, after=change.before + "+")])
    await tools.text("write", path="a", content="x")

    assert file.read_bytes() == b"caf\xe9\n+"


async def test_d21_unclosed_bracket_is_not_written_and_is_named(checking_tools):
    file = checking_tools.put("a.py", "x = (1, 2)\n")
    await checking_tools.text("read", path="a.py")

    result = await checking_tools.call("write", path="a.py", content="x = (1, 2\n\ny = 3\n")

    assert result.is_error
    assert "line 1, column 5" in result.text
    assert "`(`" in result.text
    assert result.details["syntax_error"] == str(file)
    assert file.read_text() == "x = (1, 2)\n"


async def test_every_changing_tool_checks_syntax(checking_tools):
    file = checking_tools.put("a.py", "x = (1, 2)\n")
    await checking_tools.text("read", path="a.py")

    by_edit = await checking_tools.refusal("edit", path="a.py", old_text="2)", new_text="2")
    by_patch = await checking_tools.refusal(
        "apply_patch", patch="*** Add File: b.py\n+ok = 1\n*** Add File: c.py\n+f(["
    )

    assert "a.py: line 1, column 5" in by_edit
    assert "c.py: line 1" in by_patch
    assert [each.name for each in checking_tools.folder.iterdir()] == ["a.py"]
    assert file.read_text() == "x = (1, 2)\n"


async def test_broken_file_may_be_fixed_step_by_step_and_moved(checking_tools):
    checking_tools.put("a.py", "f((\ng([\n")
    await checking_tools.text("read", path="a.py")

    await checking_tools.text("edit", path="a.py", old_text="f((", new_text="f(())")
    await checking_tools.text("apply_patch", patch="*** Update File: a.py\n*** Move to: b.py")

    assert (checking_tools.folder / "b.py").read_text() == "f(())\ng([\n"


async def test_repeated_call_overrides_syntax_check(checking_tools):
    content = "x = (1, 2\n"

    await checking_tools.refusal("write", path="a.py", content=content)
    await checking_tools.refusal("write", path="a.py", content=content + "# another\n")
    text = await checking_tools.text("write", path="a.py", content=content + "# another\n")

    assert "Written as you insist" in text
    assert (checking_tools.folder / "a.py").read_text() == content + "# another\n"
