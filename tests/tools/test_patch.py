import os
import stat

import pytest

from dirge_py.types.tools import Claim, InvalidArguments


async def patch(tools, *lines):
    return await tools.text("apply_patch", patch="\n".join(lines))


async def refused(tools, *lines):
    return await tools.refusal("apply_patch", patch="\n".join(lines))


async def put_and_read(tools, **files):
    for name, content in files.items():
        tools.put(name, content)
        await tools.text("read", path=name)


def contents(tools):
    """The content of every file by its path, also through links."""
    return {
        str(file.relative_to(tools.folder)): file.read_bytes()
        for file in sorted(tools.folder.rglob("*"))
        if file.is_file()
    }


async def test_d27_failing_operation_leaves_all_files_unchanged_and_lists_all_states(tools):
    await put_and_read(tools, b="one\ntwo\n", c="bye\n")
    before = contents(tools)

    result = await tools.call(
        "apply_patch",
        operations=[
            {"action": "create", "path": "a", "content": "new\n"},
            {"action": "update", "path": "b", "old_text": "three", "new_text": "3"},
            {"action": "delete", "path": "c"},
        ],
    )

    assert result.is_error
    assert "Nothing was changed: 1 of 3 operations cannot be done." in result.text
    assert "1. create a: could be done" in result.text
    assert "2. update b: FAILED: old_text was not found" in result.text
    assert "3. delete c: could be done" in result.text
    assert contents(tools) == before


async def test_all_operations_are_applied_with_one_line_each(tools):
    await put_and_read(tools, b="one\ntwo\n", c="bye\n", d="stay\n")

    result = await tools.call(
        "apply_patch",
        operations=[
            {"action": "create", "path": "new/a", "content": "x\ny\n"},
            {"action": "update", "path": "b", "old_text": "two", "new_text": "2"},
            {"action": "delete", "path": "c"},
            {"action": "rename", "path": "d", "new_path": "e"},
        ],
    )

    assert result.text.startswith(
        "Created new/a (2 lines)\nUpdated b (+1 -1 lines)\nDeleted c\nRenamed d to e\n\n"
    )
    assert contents(tools) == {"new/a": b"x\ny\n", "b": b"one\n2\n", "e": b"stay\n"}
    assert "-two" in result.text
    assert ("-bye" in result.text, "-bye" in result.details["diff"]) == (False, True)
    assert result.details["paths"] == tuple(
        f"{tools.folder}/{name}" for name in ("new/a", "b", "c", "d", "e")
    )


async def test_d29_ambiguous_old_text_is_refused_with_count(tools):
    await put_and_read(tools, a="x\ny\nx\n")

    text = await tools.refusal(
        "apply_patch",
        operations=[{"action": "update", "path": "a", "old_text": "x", "new_text": "z"}],
    )

    assert "occurs 2 times in a" in text
    assert "lines 1, 3" in text


async def test_d31_rename_creates_folders_and_keeps_mode(tools):
    file = tools.put("run.sh", "echo\n")
    file.chmod(0o755)
    await tools.text("read", path="run.sh")

    text = await tools.text(
        "apply_patch",
        operations=[{"action": "rename", "path": "run.sh", "new_path": "bin/deep/run.sh"}],
    )

    moved = tools.folder / "bin/deep/run.sh"
    assert text.startswith("Renamed run.sh to bin/deep/run.sh")
    assert "rename from run.sh" in text
    assert moved.read_text() == "echo\n"
    assert stat.S_IMODE(moved.stat().st_mode) == 0o755
    assert not file.exists()


async def test_every_path_is_claimed_and_one_unapproved_path_stops_all(tools):
    outside = tools.folder.parent / "outside"
    operations = [
        {"action": "create", "path": "a", "content": "a\n"},
        {"action": "create", "path": "b", "content": "b\n"},
        {"action": "create", "path": "../outside", "content": "c\n"},
        {"action": "rename", "path": "a", "new_path": "d"},
    ]

    claims = tools.toolbox.claims("apply_patch", {"operations": operations})
    text = await tools.refusal("apply_patch", operations=operations)

    assert claims == [
        *(Claim("edit", f"{tools.folder}/{name}") for name in ("a", "b", "../outside")),
        Claim("read", f"{tools.folder}/a"),
        Claim("edit", f"{tools.folder}/a", removes=True),
        Claim("edit", f"{tools.folder}/d"),
    ]
    assert "may not open" in text
    assert (contents(tools), outside.exists()) == ({}, False)

    tools.workspace.approve("call", [str(tools.folder), str(outside)])
    await tools.text("apply_patch", operations=operations)
    assert (contents(tools), outside.read_text()) == ({"b": b"b\n", "d": b"a\n"}, "c\n")


async def test_patch_text_applies_all_operations(tools):
    await put_and_read(
        tools, old="def f():\n    return 1\n\n\ndef g():\n    return 1\n", gone="x\n"
    )

    text = await patch(
        tools,
        "*** Begin Patch",
        "*** Add File: new",
        "+hello",
        "*** Update File: old",
        "*** Move to: moved",
        "@@ def g():",
        "-    return 1",
        "+    return 2",
        "*** Delete File: gone",
        "*** End Patch",
    )

    assert "Updated old (+1 -1 lines), renamed old to moved" in text
    assert contents(tools) == {
        "new": b"hello\n",
        "moved": b"def f():\n    return 1\n\n\ndef g():\n    return 2\n",
    }


async def test_context_lines_keep_their_bytes_and_new_lines_get_local_line_end(tools):
    await put_and_read(tools, a=b"one  \r\ntwo\nthree\t\r\nfour\r\n")

    text = await patch(
        tools, "*** Update File: a", " one", "-two", "+2", " three", "+3.5", "-four", "+4"
    )

    assert "trailing spaces ignored" in text
    assert contents(tools)["a"] == b"one  \r\n2\nthree\t\r\n3.5\r\n4\r\n"


@pytest.mark.parametrize(
    ("hunk", "expected"),
    [
        (["@@ class B", " def f", "-x", "+y"], "class A\ndef f\nx\nclass B\ndef f\ny\n"),
        (["@@ class B", "@@ def f", "-x", "+y"], "class A\ndef f\nx\nclass B\ndef f\ny\n"),
        (["@@ -3,1 +3,1 @@", "-x", "+y"], "class A\ndef f\ny\nclass B\ndef f\nx\n"),
        (["-x", "+y", "*** End of File"], "class A\ndef f\nx\nclass B\ndef f\ny\n"),
        (["@@ class B", "+new"], "class A\ndef f\nx\nclass B\nnew\ndef f\nx\n"),
        (["+new", "*** End of File"], "class A\ndef f\nx\nclass B\ndef f\nx\nnew\n"),
        (["@@ not there", "-class A"], "def f\nx\nclass B\ndef f\nx\n"),
        (["class A", "-def f", "+def g"], "class A\ndef g\nx\nclass B\ndef f\nx\n"),
        (["-class A", "-def f", "-x", "-class B"], "def f\nx\n"),
    ],
)
async def test_hunk_is_applied_where_context_matches(tools, hunk, expected):
    await put_and_read(tools, a="class A\ndef f\nx\nclass B\ndef f\nx\n")

    await patch(tools, "*** Update File: a", *hunk)

    assert contents(tools)["a"].decode() == expected


async def test_hunks_are_searched_in_order(tools):
    await put_and_read(tools, a="x\na\nx\nb\nx\n")

    await patch(tools, "*** Update File: a", " a", "-x", "+1", "@@", "-x", "+2")

    assert contents(tools)["a"] == b"x\na\n1\nb\n2\n"


@pytest.mark.parametrize(
    ("hunk", "words"),
    [
        (["-x", "+y"], "fits 2 places: lines 2, 4"),
        (["@@ nowhere", "-x", "+y"], "fits 2 places"),
        (["+y"], "no lines that show its place"),
        ([" b", "-z", "+y"], "The nearest lines are:\n3: b"),
    ],
)
async def test_hunk_without_unique_place_is_refused(tools, hunk, words):
    await put_and_read(tools, a="a\nx\nb\nx\n")

    assert words in await refused(tools, "*** Update File: a", *hunk)
    assert contents(tools) == {"a": b"a\nx\nb\nx\n"}


async def test_operations_see_results_of_earlier_operations(tools):
    await put_and_read(tools, b="one\n")

    await tools.text(
        "apply_patch",
        operations=[
            {"action": "create", "path": "a", "content": "x\n"},
            {"action": "update", "path": "a", "old_text": "x", "new_text": "y"},
            {"action": "rename", "path": "b", "new_path": "c"},
            {"action": "update", "path": "c", "old_text": "one", "new_text": "1"},
            {"action": "create", "path": "b", "content": "another\n"},
            {"action": "create", "path": "d", "content": ""},
            {"action": "delete", "path": "d"},
        ],
    )

    assert contents(tools) == {"a": b"y\n", "b": b"another\n", "c": b"1\n"}


async def test_operations_after_failure_on_same_file_are_not_tried(tools):
    text = await tools.refusal(
        "apply_patch",
        operations=[
            {"action": "update", "path": "a", "old_text": "x", "new_text": "y"},
            {"action": "create", "path": "b", "content": ""},
        ],
    )

    assert "1. update a: FAILED: a does not exist." in text
    assert "2. create b: could be done" in text


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"action": "create", "path": "there", "content": ""}, "exists already"),
        ({"action": "rename", "path": "known", "new_path": "there"}, "exists already"),
        ({"action": "delete", "path": "missing"}, "does not exist"),
        ({"action": "delete", "path": "folder"}, "is a folder"),
        ({"action": "delete", "path": "link"}, "is a link to"),
        ({"action": "update", "path": "other", "content": "x"}, "`read`"),
        ({"action": "delete", "path": "other"}, "Use `read` on it first"),
        ({"action": "rename", "path": "other", "new_path": "new"}, "Use `read` on it first"),
        ({"action": "update", "path": "there", "content": "there\n"}, "changes nothing"),
    ],
)
async def test_impossible_operation_is_refused(tools, operation, words):
    await put_and_read(tools, there="there\n")
    tools.put("other", "other\n")
    await put_and_read(tools, known="known\n")
    (tools.folder / "folder").mkdir()
    (tools.folder / "link").symlink_to("there")

    assert words in await tools.refusal("apply_patch", operations=[operation])
    assert contents(tools) == {
        "there": b"there\n", "other": b"other\n", "known": b"known\n", "link": b"there\n",
    }  # fmt: skip


async def test_file_changed_since_read_is_neither_patched_nor_deleted(tools):
    await put_and_read(tools, a="one\ntwo\n", b="one\n")
    tools.put("a", "one\nTWO\n")
    tools.put("b", "1\n")

    text = await tools.refusal(
        "apply_patch",
        operations=[
            {"action": "update", "path": "a", "old_text": "one", "new_text": "1"},
            {"action": "delete", "path": "b"},
        ],
    )

    assert "1: one\n2: TWO" in text
    assert "b has changed since" in text
    assert contents(tools) == {"a": b"one\nTWO\n", "b": b"1\n"}

    await tools.text(
        "apply_patch",
        operations=[{"action": "update", "path": "a", "old_text": "one", "new_text": "1"}],
    )


async def test_binary_file_can_be_deleted_or_moved_after_refused_read(tools):
    tools.put("a.png", b"\x89PNG\0\xff")
    tools.put("b.png", b"\x89PNG\0\xff")
    for name in ("a.png", "b.png"):
        assert "is a binary file" in await tools.refusal("read", path=name)

    text = await tools.text(
        "apply_patch",
        operations=[
            {"action": "delete", "path": "a.png"},
            {"action": "rename", "path": "b.png", "new_path": "c.png"},
        ],
    )

    assert text.startswith("Deleted a.png\nRenamed b.png to c.png")
    assert contents(tools) == {"c.png": b"\x89PNG\0\xff"}


async def test_patch_preview_shows_all_files_before_and_after(tools):
    await put_and_read(tools, a="one\n", b="stay\n")

    preview = tools.preview(
        "apply_patch",
        patch="*** Update File: a\n-one\n+1\n*** Add File: n\n+x\n"
        "*** Update File: b\n*** Move to: c",
    )

    assert preview.text == (
        "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-one\n+1\n"
        "--- /dev/null\n+++ n\n@@ -0,0 +1,1 @@\n+x\nrename from b\nrename to c"
    )
    assert [(os.path.basename(each.path), each.before, each.after) for each in preview.changes] == [
        ("a", "one\n", "1\n"),
        ("n", None, "x\n"),
        ("b", "stay\n", None),
        ("c", None, "stay\n"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"patch": "nonsense"},
        {"patch": "*** Add File: a\n+x", "operations": [{"action": "delete", "path": "b"}]},
        {"operations": [{"action": "create", "path": "a"}]},
        {"operations": [{"action": "rename", "path": "a"}]},
        {"operations": [{"action": "update", "path": "a", "old_text": "x"}]},
        {"patch": "*** Delete File: a\0b"},
        {"patch": "*** Delete File: \ud83d"},
    ],
)
async def test_invalid_arguments_are_rejected_before_permission(tools, arguments):
    with pytest.raises(InvalidArguments, match="apply_patch"):
        await tools.call("apply_patch", **arguments)


async def test_argument_names_of_other_agents_are_accepted(tools):
    await tools.text("apply_patch", input="*** Begin Patch\n*** Add File: a\n+x\n*** End Patch")
    await tools.text(
        "apply_patch",
        operations=[{"type": "edit", "path": "a", "old_string": "x", "new_string": "y"}],
    )

    assert contents(tools) == {"a": b"y\n"}


async def test_file_named_failed_is_not_reported_as_failure(tools):
    text = await tools.refusal(
        "apply_patch",
        operations=[
            {"action": "create", "path": "FAILED.md", "content": "x"},
            {"action": "delete", "path": "gone"},
        ],
    )
    assert "1. create FAILED.md: could be done\n2. delete gone: FAILED: " in text
